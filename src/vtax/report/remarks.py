"""Every warning about a run, gathered from wherever it arose, each text once with the places where it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vtax.store.query import RunData
from vtax.store.records import CellRecord, PlatformRecord
from vtax.study.units import format_levels

CLOCK_ALLOWANCE_S = 2.0  # a guest that reads its time from a real-time clock knows it to a second
_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(r"((?:(?<![\w.])[-+])?(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d))")  # of no name
_Given = tuple[str, str, str, int, bool]  # code, text, place, times, whether about more than a secondary metric


class _Row(Protocol):
    @property
    def platform(self) -> PlatformRecord: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Remark:
    """A warning. code: its kind. texts: what was said; more than one when they differ in their numbers alone.

    places: where it holds, empty for the whole run. times: how often it was given. is_primary: false when it is about
    metrics that tables do not show first.
    """

    code: str
    texts: tuple[str, ...]
    places: tuple[str, ...]
    times: int
    is_primary: bool = True

    @property
    def text(self) -> str:
        """All texts as one: `1.20 to 1.90` where their numbers differ.

        The first, and how many others like it there are, when they differ in what is no number (eth0, eth1).
        """
        if len(self.texts) == 1:
            return self.texts[0]
        split = [_WHOLE_NUMBER.split(text) for text in self.texts]
        if len({tuple(parts[::2]) for parts in split}) > 1:
            return f"{self.texts[0]} (and {len(self.texts) - 1} like it with other numbers)"
        return "".join(_range(each) if place % 2 else each[0] for place, each in enumerate(zip(*split, strict=True)))

    @property
    def where(self) -> str:
        """The places on one line: the first two, and how many more."""
        more = len(self.places) - 2
        return "; ".join(self.places[:2]) + (f"; and {more} more" if more > 0 else "")


@dataclass
class _Gathered:
    texts: dict[str, None] = field(default_factory=dict)
    places: dict[str, None] = field(default_factory=dict)
    times: int = 0


def remarks_of(data: RunData, rows: Iterable[tuple[str, str, _Row, bool]]) -> tuple[Remark, ...]:
    """All remarks: an emulated host, failed trials, lost guests, limits not given, the run's own, statistics.

    rows: (section name, point name, row, whether its metric is a primary one).
    """
    found: dict[tuple[str, str, bool], _Gathered] = {}
    everything = (*_of_host(data), *_of_trials(data), *_of_guests(data), *_of_store(data), *_of_rows(rows))
    for code, said, place, times, is_primary in everything:
        text = "; ".join(line.strip() for line in said.splitlines() if line.strip())
        gathered = found.setdefault((code, _NUMBER.sub("#", text), is_primary), _Gathered())
        gathered.texts[text] = None
        gathered.times += times
        if place:
            gathered.places[place] = None
    return tuple(
        Remark(code, tuple(g.texts), tuple(g.places), g.times, is_primary)
        for (code, _, is_primary), g in found.items()
    )


def _of_host(data: RunData) -> Iterator[_Given]:
    if data.run.host.get("cpu_emulated"):
        text = "this host's own processor is emulated: figures, native ones too, say little about real processors"
        yield "emulated-host", text, "", 1, True


def _of_trials(data: RunData) -> Iterator[_Given]:
    for failure in data.failures:
        code = "failed-warmup" if failure.is_warmup else "failed-trial"
        place = f"{place_of(data.run.cells[failure.cell])}, block {failure.block + 1}"
        yield code, failure.error or "the trial failed", place, 1, True


def _of_guests(data: RunData) -> Iterator[_Given]:
    for guest in data.guests:
        if guest.error:
            when = f"block {guest.block + 1}" if guest.block >= 0 else "before the first block"
            yield "lost-guest", guest.error, f"{guest.platform}, {when}", 1, True
        if guest.clock_offset_s is not None and abs(guest.clock_offset_s) > CLOCK_ALLOWANCE_S:
            off = f"{guest.clock_offset_s:+.1f} s off the host's"
            text = f"the guest's wall clock was {off}, by which durations are judged"
            yield "clock", text, guest.platform, 1, True
        for note in guest.notes:
            yield "guest", note, guest.platform, 1, True


def _of_store(data: RunData) -> Iterator[_Given]:
    for warning in data.warnings:
        place = "" if warning.cell is None else place_of(data.run.cells[warning.cell])
        yield warning.code, warning.text, place, warning.times, True


def _of_rows(rows: Iterable[tuple[str, str, _Row, bool]]) -> Iterator[_Given]:
    for name, point, row, is_primary in rows:
        for text in row.warnings:
            yield "statistics", text, ", ".join(filter(None, [row.platform.name, name, point])), 1, is_primary


def _range(numbers: Sequence[str]) -> str:
    """`1.20 to 1.90`; a single number when all are equal."""
    least, most = min(numbers, key=float), max(numbers, key=float)
    return least if least == most else f"{least} to {most}"


def place_of(cell: CellRecord) -> str:
    """`docker, iperf3, direction=send`: a cell as people name it."""
    levels = format_levels(cell.levels)
    return ", ".join(filter(None, [cell.platform, cell.label, levels]))
