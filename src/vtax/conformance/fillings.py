"""Long outputs of few kinds of characters, on which a parser that is not linear in its input needs hours."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, pairwise


def fillings(size: int, report: str = "") -> Mapping[str, str]:
    """Outputs of so many characters, by name. report: a real output of the tool, which some of them repeat."""
    report = report or "name: 1.5 units\n"
    half = len(report) // 2
    field = max(pairwise([0, *islice(_ends(report), 100)]), key=lambda ends: ends[1] - ends[0])
    repeated = {
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
        "report": report,
        "lines": report[: report.find("\n") + 1] or report,
        "one-line": " ".join(report.split()),
    }
    filled = {name: _repeated(part, size) for name, part in repeated.items()}
    inside = {
        f"{name}-in-report": report[:half] + _repeated(part, size - len(report)) + report[half:]
        for name, part in (("line-breaks", "\n"), ("blanks", " "), ("digits", "1"))
    }
    start, end = field
    blown = report[:start] + _repeated(report[start:end], size - len(report)) + report[end:]
    return {**filled, **inside, "field-in-report": blown}


def _ends(report: str) -> list[int]:
    """Where the fields of a report end."""
    return [number for number, character in enumerate(report) if character in " ,:;=\n"]


def _repeated(part: str, size: int) -> str:
    return (part * (size // len(part) + 1))[:size]
