"""The one JSON document in what a tool printed, whatever words it printed around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from vtax.benchmarks.words import lines_of, message_of, own_message, shortened
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_BEGIN = re.compile(r"^\{", re.MULTILINE)
_MOST_BEGINNINGS = 20  # of what may be a report: a tool prints one, and few words that begin so
_NEAR = 40  # characters of a report that an error repeats
_NO_NUMBER = re.compile(r"[-+]?(?:nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class JsonReport:
    """A report and the lines that the tool printed around it, in their order."""

    content: dict[str, Any]
    words: tuple[str, ...]


def read_report(tool: str, result: CommandResult, key: str) -> JsonReport:
    """Return the report in a program's output, which begins at the beginning of a line.

    key: every report has it. Raises BenchmarkError that says what is wrong with the output: there is no report, two,
    one that is cut off, or one with what JSON does not have, such as `-nan`.
    """
    text = result.stdout
    reports: list[dict[str, Any]] = []
    gaps: list[str] = []
    problem = ""
    end = 0
    tries = 0
    for match in _BEGIN.finditer(text):
        start = match.start()
        if start < end:
            continue
        tries += 1
        if tries > _MOST_BEGINNINGS:
            break
        try:
            content, after = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            problem = problem or _problem(text, start, error)
        except RecursionError:
            problem = problem or "it is nested too deep"
        else:
            if key in content or "error" in content:
                reports.append(content)
                gaps.append(text[end:start])
                end = after
                reports_beside, end = _read_adjoining(text, end, key)
                reports += reports_beside
            else:
                problem = problem or f"it has no {key!r}"
    words: list[str] = []
    for gap in (*gaps, text[end:]):
        words += lines_of(gap)
    if len(reports) > 1:
        raise BenchmarkError(f"{tool} printed {len(reports)} reports where one was requested")
    if not reports:
        raise BenchmarkError(_no_report(tool, result, problem))
    return JsonReport(reports[0], tuple(words))


def _read_adjoining(text: str, position: int, key: str) -> tuple[list[dict[str, Any]], int]:
    """Return the reports that begin on the line on which one has ended, and the position where the last one ends.

    text: the output.
    position: where the first report ended.
    key: every report has it.
    """
    reports: list[dict[str, Any]] = []
    while len(reports) < _MOST_BEGINNINGS and text[position : position + 1] == "{":
        try:
            content, position = _DECODER.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError):
            break
        if key in content:
            reports.append(content)
    return reports, position


def _problem(text: str, start: int, error: json.JSONDecodeError) -> str:
    """Return what is wrong with a report, in words; empty for what never looked like one.

    text: the output.
    start: where the report begins.
    error: why it is no JSON.
    """
    if error.pos >= len(text.rstrip()):
        return f"it is cut off after {len(text) - start} characters"
    excerpt = shortened(text[max(error.pos - _NEAR, start) : error.pos + _NEAR])
    word = _NO_NUMBER.match(text, error.pos)
    if word:
        return f"it holds {word[0]}, which is no number: {excerpt}"
    has_begun = text[start + 1 : start + 20].lstrip().startswith('"')
    return f"it is no JSON: {excerpt}" if has_begun else ""


def _no_report(tool: str, result: CommandResult, problem: str) -> str:
    message = message_of(result.stderr) or message_of(result.stdout)
    if result.truncated:
        problem = "vtax kept its beginning alone, it is so long"
    why = "; ".join(filter(None, [problem, message])) or own_message(result) or "it printed nothing"
    return f"{tool} ended with {result.ended_with} and no report that vtax knows: {why}"


_DECODER = json.JSONDecoder()


def lines_of_errors(words: Iterable[str], tool: str) -> Iterator[str]:
    """Yield the lines in which a tool says that something failed."""
    pattern = re.compile(rf"{re.escape(tool)}: (?:.*\b)?(?:error|fail|unable|abort)", re.IGNORECASE)
    yield from (line for line in words if pattern.match(line))
