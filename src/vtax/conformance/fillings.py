"""Long outputs of few kinds of characters, on which a parser that is not linear in its input needs hours."""

from __future__ import annotations

from itertools import islice, pairwise

NAMES = (
    "line-breaks",
    "blanks",
    "tabs",
    "digits",
    "letters",
    "keys",
    "commas",
    "signs",
    "controls",
    "brackets",
    "report",
    "lines",
    "one-line",
    "line-breaks-in-report",
    "blanks-in-report",
    "digits-in-report",
    "field-in-report",
)
_REPEATED = {
    "line-breaks": "\n",
    "blanks": " ",
    "tabs": "\t",
    "digits": "1",
    "letters": "a",
    "keys": "key: ",
    "commas": "1,",
    "signs": "-.",
    "controls": "\x00\x1b[\u2028\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}",
    "brackets": '[{"a":',
}


def filling(name: str, size: int, report: str = "") -> str:
    """Return the output of a name, of so many characters.

    report: a real output of the tool, which some names repeat.
    """
    report = report or "name: 1.5 units\n"
    if name == "field-in-report":
        start, end = max(
            pairwise([0, *islice(_ends(report), 100)]), key=lambda ends: ends[1] - ends[0]
        )
        return report[:start] + _repeated(report[start:end], size - len(report)) + report[end:]
    if name.endswith("-in-report"):
        middle, part = len(report) // 2, _REPEATED[name.removesuffix("-in-report")]
        return report[:middle] + _repeated(part, size - len(report)) + report[middle:]
    of_report = {
        "report": report,
        "lines": report[: report.find("\n") + 1] or report,
        "one-line": " ".join(report.split()),
    }
    return _repeated((_REPEATED | of_report)[name], size)


def _ends(report: str) -> list[int]:
    """Return where the fields of a report end."""
    return [number for number, character in enumerate(report) if character in " ,:;=\n"]


def _repeated(part: str, size: int) -> str:
    return (part * (size // len(part) + 1))[:size]
