"""Every warning about a run, gathered from wherever it arose, each text once with the places where it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from vtax.store.query import RunData
from vtax.store.records import CellRecord, PlatformRecord


class _Row(Protocol):
    @property
    def platform(self) -> PlatformRecord: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Remark:
    """A warning. code: its kind. places: where it holds, empty for the whole run. times: how often it was given."""

    code: str
    text: str
    places: tuple[str, ...]
    times: int

    @property
    def where(self) -> str:
        """The places on one line: the first three, and how many more."""
        shown = "; ".join(self.places[:3])
        more = len(self.places) - 3
        return f"{shown}; and {more} more" if more > 0 else shown


def remarks_of(data: RunData, rows: Iterable[tuple[str, str, _Row]]) -> tuple[Remark, ...]:
    """All remarks: of the run and its trials, failed trials, guests' limits, and the statistics of each row.

    rows: (section title, point name, row).
    """
    found: dict[tuple[str, str], tuple[dict[str, None], int]] = {}

    def add(code: str, text: str, place: str, times: int = 1) -> None:
        places, before = found.get((code, text), ({}, 0))
        if place:
            places[place] = None
        found[code, text] = (places, before + times)

    cells = data.run.cells
    for failure in data.failures:
        kind = "failed-warmup" if failure.is_warmup else "failed-trial"
        add(kind, failure.error or "the trial failed", f"{place_of(cells[failure.cell])}, block {failure.block + 1}")
    for guest in data.guests:
        if guest.error:
            add("lost-guest", guest.error, f"{guest.platform}, block {guest.block + 1}")
        for note in guest.notes:
            add("guest", note, guest.platform)
    for warning in data.warnings:
        place = "" if warning.cell is None else place_of(cells[warning.cell])
        add(warning.code, warning.text, place, warning.times)
    for title, point, row in rows:
        for text in row.warnings:
            add("statistics", text, ", ".join(filter(None, [row.platform.name, title, point])))
    return tuple(Remark(code, text, tuple(places), times) for (code, text), (places, times) in found.items())


def place_of(cell: CellRecord) -> str:
    """`docker, iperf3, direction=send`: a cell as people name it."""
    levels = ", ".join(f"{factor}={level}" for factor, level in cell.levels.items())
    return ", ".join(filter(None, [cell.platform, cell.label, levels]))
