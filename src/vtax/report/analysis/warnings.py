"""Every warning about a run, gathered from wherever it arose, each once with the places where it holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vtax.messages import Note, forms_of, quoted, severity_of
from vtax.messages.statistics import SENTENCES
from vtax.report import document as doc
from vtax.report.document import levels_of
from vtax.report.document.notes import TEXT, data_of
from vtax.store.query import RunData
from vtax.store.records import CellRecord, PlatformRecord

_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(
    r"((?:(?<![\w.])[-+])?(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d))"
)  # of no name
CLOCK_ALLOWANCE_S = 2.0  # a guest that reads its time from a real-time clock knows it to a second
STATISTICS = "statistics"  # the family of all that the statistics warn of
_NUMERIC = (doc.Count, doc.Number, doc.Offset, doc.PValue, doc.Share)


class _WarnedRow(Protocol):
    @property
    def platform(self) -> PlatformRecord: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Given:
    """A warning as it was given once, or `times` times alike. place: None for the whole run."""

    code: str
    data: Mapping[str, doc.Inline]
    place: doc.WarnedPlace | None = None
    times: int = 1
    is_primary: bool = True
    kind: str = ""


@dataclass
class _Gathered:
    first: Given
    cases: dict[str, Mapping[str, doc.Inline]] = field(default_factory=dict)
    places: dict[doc.WarnedPlace, None] = field(default_factory=dict)
    times: int = 0
    given: list[Given] = field(default_factory=list)


def warnings_of(
    data: RunData, rows: Iterable[tuple[doc.WarnedPlace, _WarnedRow, bool]]
) -> tuple[doc.Warning, ...]:
    """All warnings: an emulated host, failed trials, lost guests, limits not given, the run's own, statistics.

    rows: (where it is, row, whether its metric is a primary one).
    """
    return merged(
        [*_of_host(data), *_of_trials(data), *_of_guests(data), *_of_store(data), *_of_rows(rows)]
    )


def merged(warnings: Iterable[Given]) -> tuple[doc.Warning, ...]:
    """Warnings of one code that differ in numbers alone as one, in the order they first came."""
    groups: dict[tuple[Any, ...], _Gathered] = {}
    for warning in warnings:
        gathered = groups.setdefault(
            (warning.code, warning.is_primary, *_words(warning.data)), _Gathered(warning)
        )
        gathered.cases[repr(sorted(warning.data.items()))] = warning.data
        gathered.times += warning.times
        gathered.given.append(warning)
        if warning.place is not None:
            gathered.places[warning.place] = None
    return tuple(_warning(group) for group in groups.values())


def at_places(
    warnings: Iterable[doc.Warning], holds: Callable[[doc.WarnedPlace], bool]
) -> tuple[doc.Warning, ...]:
    """Warnings of the whole run, and what others say of some places: numbers, count and places of these alone."""
    result: list[doc.Warning] = []
    for warning in warnings:
        parts = [part for part in warning.given if part.place is not None and holds(part.place)]
        result += merged(parts) if warning.places else [warning]
    return tuple(result)


def noted(
    text: str, place: doc.WarnedPlace | None = None, times: int = 1, *, is_primary: bool = True
) -> Given:
    """Return a warning by its code and data."""
    note = quoted(text)
    kind = STATISTICS if note.code in SENTENCES else note.code
    return Given(note.code, data_of(note), place, times, is_primary, kind)


def carried(code: str, text: str, place: doc.WarnedPlace | None) -> Given:
    """Return a warning of a code whose words are those of another note, or of no note: why a trial failed."""
    return Given(code, {TEXT: text if isinstance(text, Note) else one_line(text)}, place, kind=code)


def _words(data: Mapping[str, doc.Inline]) -> Iterator[str]:
    """Yield what warnings must have in common to be one: all that is no number."""
    for name, value in data.items():
        if isinstance(value, Note):
            yield value.code
            yield from _words(data_of(value))
        elif name == TEXT and isinstance(value, str):
            yield shape_of(value)
        elif not isinstance(value, _NUMERIC):
            yield repr(value)


def _warning(group: _Gathered) -> doc.Warning:
    cases, first = tuple(group.cases.values()), group.first
    data = {name: _range(name, [case[name] for case in cases]) for name in first.data}
    return doc.Warning(
        first.code,
        severity_of(first.code),
        data,
        cases,
        tuple(group.places),
        group.times,
        first.is_primary,
        first.kind or first.code,
        tuple(group.given),
    )


def _range(name: str, values: list[doc.Inline]) -> doc.Inline:
    first = values[0]
    if isinstance(first, Note):
        one, many = forms_of(first.code)
        cases = [data_of(value) for value in values if isinstance(value, Note)]
        data = {inner: _range(inner, [case[inner] for case in cases]) for inner in cases[0]}
        return doc.Message(one, data, many, first.data.get("count", 1))
    if name == TEXT and isinstance(first, str):
        return merged_texts([str(value) for value in values])
    if isinstance(first, _NUMERIC) and any(value != first for value in values):
        numbers = [value for value in values if isinstance(value, _NUMERIC)]
        return doc.Range(min(numbers, key=_size), max(numbers, key=_size))
    return first


def _size(value: doc.Count | doc.Number | doc.Offset | doc.PValue | doc.Share) -> float:
    return value.seconds if isinstance(value, doc.Offset) else value.value


def _of_host(data: RunData) -> Iterator[Given]:
    if data.run.host.get("cpu_emulated"):
        yield Given("emulated-host", {})


def _of_trials(data: RunData) -> Iterator[Given]:
    for failure in data.failures:
        code = "failed-warmup" if failure.is_warmup else "failed-trial"
        place = place_of(data.run.cells[failure.cell], failure.block)
        if failure.error:
            yield carried(code, failure.error, place)
        else:
            yield Given("failed-without-message", {}, place, kind=code)


def _of_guests(data: RunData) -> Iterator[Given]:
    for guest in data.guests:
        if guest.error:
            yield carried(
                "lost-guest",
                guest.error,
                doc.WarnedPlace(guest.platform, block=max(guest.block, -1)),
            )
        if guest.clock_offset_s is not None and abs(guest.clock_offset_s) > CLOCK_ALLOWANCE_S:
            yield Given(
                "clock",
                {"offset": doc.Offset(guest.clock_offset_s, 1)},
                doc.WarnedPlace(guest.platform),
            )
        for note in guest.notes:
            yield noted(note, doc.WarnedPlace(guest.platform))


def _of_store(data: RunData) -> Iterator[Given]:
    for warning in data.warnings:
        place = None if warning.cell is None else place_of(data.run.cells[warning.cell])
        yield noted(warning.note, place, warning.times)


def _of_rows(rows: Iterable[tuple[doc.WarnedPlace, _WarnedRow, bool]]) -> Iterator[Given]:
    for place, row, is_primary in rows:
        for note in row.warnings:
            yield noted(note, place, is_primary=is_primary)


def place_of(cell: CellRecord, block: int | None = None) -> doc.WarnedPlace:
    """Return a cell as people name it."""
    return doc.WarnedPlace(cell.platform, cell.label, levels_of(cell.levels), block)


def one_line(text: str) -> str:
    """Return the lines of a text as one."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def shape_of(text: str) -> str:
    """Return what texts that differ in numbers alone have in common."""
    return _NUMBER.sub("#", text)


def merged_texts(texts: Sequence[str]) -> str:
    """Texts of one shape as one: `1.20 to 1.90` where their numbers differ.

    The first of them, when they differ in what is no number (eth0, eth1).
    """
    split = [_WHOLE_NUMBER.split(text) for text in texts]
    if not is_mergeable(texts):
        return texts[0]
    return "".join(
        _range_text(pieces) if place % 2 else pieces[0]
        for place, pieces in enumerate(zip(*split, strict=True))
    )


def is_mergeable(texts: Sequence[str]) -> bool:
    """Whether texts of one shape differ in whole numbers alone, so that ranges stand for all of them."""
    return len({tuple(_WHOLE_NUMBER.split(text)[::2]) for text in texts}) == 1


def _range_text(numbers: Sequence[str]) -> str:
    """`1.20 to 1.90`; a single number when all are equal."""
    minimum, maximum = min(numbers, key=float), max(numbers, key=float)
    return minimum if minimum == maximum else f"{minimum} to {maximum}"
