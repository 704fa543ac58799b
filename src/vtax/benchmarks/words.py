"""Words of a tool besides its figures: for errors, and for warnings of a report that is whole.

A tool's own message names the cause, and whatever else it prints may be thousands of characters of figures. So the
figures are left out, and of a long message both ends are kept: the first line is often the cause, the last the end.
"""

from __future__ import annotations

import re

from vtax.foreign_text import one_line
from vtax.guest.results import CommandResult

LONGEST = 300
"""Characters of a message that an error repeats."""
_END = 16_384  # characters of an output that are looked at for words, at both ends
_LONGEST_LINE = 1000  # of a message; what is longer is data
_COMPLAINS = re.compile(
    r"\b(?:error|fail|warn|refus|unable|cannot|could not|unreach|reset|broken|time[d-]? ?out|lost|denied|no route)",
    re.IGNORECASE,
)
_FIGURES = re.compile(
    r'[{}\]"]|\[(?:\s*[\[{"0-9.,-]+)?\s*,?$|[-+0-9.eE]+,$'
)  # how lines of JSON begin


def message_of(text: str) -> str:
    """Return what an output says in words, on one line; empty where it has figures alone."""
    words = [line for line in lines_of(text) if not _is_data(line)]
    return shortened("; ".join(words))


def lines_of(text: str) -> list[str]:
    """Return the lines of an output that are not empty, of a long one those at both ends."""
    if len(text) > 2 * _END:
        text = f"{text[:_END]}\n{text[-_END:]}"
    return [line for line in map(str.strip, text.splitlines()) if line]


def own_message(result: CommandResult) -> str:
    """Return a program's own message: of its standard error, else the end of its output."""
    return message_of(result.stderr) or shortened("; ".join(lines_of(result.stdout)), last=True)


def complaint_of(result: CommandResult) -> str:
    """Return what a program that ended well says is wrong: on standard error, or in words for that in its output."""
    lines = [line for line in lines_of(result.stdout) if _COMPLAINS.search(line)]
    return message_of(result.stderr) or message_of("\n".join(lines))


def shortened(text: str, longest: int = LONGEST, *, last: bool = False) -> str:
    """Return a text on one line: all of it, or both its ends. last: its end alone."""
    if last:
        text = text[-longest:]
    if len(text) > longest:
        half = (longest - 5) // 2
        text = f"{text[:half].rstrip()} ... {text[-half:].lstrip()}"
    return one_line(text, longest)


def _is_data(line: str) -> bool:
    return len(line) > _LONGEST_LINE or _FIGURES.match(line) is not None
