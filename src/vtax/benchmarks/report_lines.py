"""Numbers in the lines of a tool's report."""

from __future__ import annotations

import re

from vtax.errors import BenchmarkError


def number_in(tool: str, pattern: str, report: str, *, is_indented: bool = False) -> float:
    """The first group of the first whole line that matches; spaces around it are allowed where lines are indented.
    Raises BenchmarkError, with the end of the report, where no line does."""
    around = r"[ \t]*" if is_indented else ""
    match = re.search(rf"^{around}{pattern}{around}$", report, re.MULTILINE)
    if not match:
        raise BenchmarkError(f"{tool}'s report has no line like {pattern.partition(':')[0]!r}", where=report[-200:])
    return float(match[1])
