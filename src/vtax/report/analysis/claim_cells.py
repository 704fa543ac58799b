"""The cells that a claim selects, one logarithm for every block of what it compares, and what stands for a publication's
platforms and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from vtax.benchmarks.base import PACKET_BYTES
from vtax.errors import BadInput
from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM, Levels, unknown
from vtax.pairing import Logs, mean_logs
from vtax.question import HasLevels, Selection, by, group, rest
from vtax.report.analysis.compared import Cell, cells_of
from vtax.report.analysis.sessions import blocks_of, of_hosts
from vtax.report.analysis.values import Analysis, Row
from vtax.stats.ratio import BlockMeans
from vtax.study.claims import CheckTable, ClaimSide

Mapped = Mapping[str, str]
"""Platform or host of a publication -> the one of the run that stands for it."""


class Selectable(HasLevels, Protocol):
    """A cell in one of its metrics, planned or measured."""

    @property
    def is_primary(self) -> bool:
        """Whether its metric is a primary one."""


AnyCell = TypeVar("AnyCell", bound=Selectable)


@dataclass(frozen=True)
class ComparedCells(Generic[AnyCell]):
    """Cells of two sides that are compared, those of a side averaged.

    name: what they have in common, as it is written.
    keys: canonical levels that tell those of a side apart, and that both sides have.
    of, to: the cell of each on either side; in `to` none where there is one side.
    """

    name: tuple[tuple[str, str], ...]
    keys: Sequence[Levels]
    of: Sequence[AnyCell]
    to: Sequence[AnyCell]


def host_name(number: int) -> str:
    """`host-1`: a host in a mapping."""
    return f"{HOST}-{number}"


def host_here(number: int, mapped: Mapped) -> int:
    """Return the number of the host of the run that stands for one of the publication."""
    return int(mapped.get(host_name(number), host_name(number)).removeprefix(f"{HOST}-"))


def mapping_of(mapped: Mapped, names: Iterable[str], hosts: Iterable[int]) -> dict[str, str]:
    """Return what of a mapping is about these platforms, and hosts by their numbers."""
    keys = {*names, *map(host_name, hosts)}
    return {name: stand_in for name, stand_in in mapped.items() if name in keys}


def check_mapping(
    analysis: Analysis, mapped: Mapped, named: Sequence[str], numbers: Iterable[int], kind: str
) -> None:
    """Raise BadInput for a mapping of a platform or host that is not named, or to one that the run did not measure.

    numbers: of the hosts that are named. kind: of what names them, `claim` or `figure`.
    """
    platforms = {platform.name: platform for platform in analysis.platforms}
    hosts = set(map(host_name, numbers))
    for name, stand_in in mapped.items():
        option = f"--map {name}={stand_in}"
        if name in hosts:
            host_names = [host_name(n + 1) for n in range(len(of_hosts(analysis.sessions)))]
            if stand_in not in host_names:
                raise unknown("host", stand_in, host_names, option, analysis.name)
            continue
        if name not in named:
            sentence = f"no {kind} of {analysis.study} names the platform {name!r}"
            hint = f"{kind}s name {', '.join(named)}" if named else f"it has no {kind}s"
            raise BadInput(sentence, where=option, hint=hint)
        if name in platforms and platforms[name].available:
            sentence = f"{name} was measured itself, so nothing stands for it"
            raise BadInput(
                sentence, where=option, hint="map platforms that this run has no values of"
            )
        if stand_in not in platforms:
            raise unknown("platform", stand_in, list(platforms), option, analysis.name)
        if not platforms[stand_in].available:
            sentence = f"{analysis.name} did not measure {stand_in}: {platforms[stand_in].reason}"
            raise BadInput(sentence, where=option, hint=platforms[stand_in].hint)


def blocks_of_host(analysis: Analysis, number: int) -> set[int]:
    """Return the blocks of a host of the run, by its number."""
    return set(blocks_of([*of_hosts(analysis.sessions).values()][number - 1]))


def has_values_on(analysis: Analysis, entries: Iterable[Cell], platform: str, host: int) -> bool:
    """Return whether any of the entries is of a platform, with a value on a host."""
    blocks = blocks_of_host(analysis, host)
    return any(
        e.row.platform.name == platform and blocks & set(e.row.blocks.tolist()) for e in entries
    )


def mapped_side(side: ClaimSide, mapped: Mapped) -> ClaimSide:
    """Return a side as a platform and a host of the run."""
    host = {HOST: str(host_here(side.host, mapped))} if side.host else {}
    return replace(
        side,
        platform=mapped.get(side.platform, side.platform),
        levels=Levels({**side.levels, **host}),
    )


def entries_of(analysis: Analysis) -> list[Cell]:
    """Return every metric of every cell of a run that has values."""
    return [cell for cell in cells_of(analysis) if cell.row.summary is not None]


def selected(cells: Iterable[AnyCell], check: CheckTable, side: ClaimSide) -> list[AnyCell]:
    """Return the cells of a side of a check, on whatever host."""
    chosen_levels = {BENCHMARK: check.benchmarks, METRIC: check.metrics}
    of_check = Selection({name: levels for name, levels in chosen_levels.items() if levels})
    of_side = side.selection.without((HOST,))
    selection = of_check.and_also(of_side).and_also(check.selection)
    any_metric = METRIC in selection.choices
    selected_cells = [cell for cell in cells if selection.selects(cell.levels)]
    return [cell for cell in selected_cells if any_metric or cell.is_primary]


def compared(
    cells: Sequence[AnyCell], check: CheckTable, of: ClaimSide, to: ClaimSide | None
) -> Iterator[ComparedCells[AnyCell]]:
    """Yield what two sides of a check have at the same places; of one side, all that it has."""
    outside = {PLATFORM, *of.levels, *(to.levels if to else ())}
    inner = {*check.average_over, *([check.along] if check.along else [])}
    if check.over == "points":
        inner |= {factor for cell in cells for factor in cell.levels} - {BENCHMARK, METRIC}
    within, places = by(*inner - outside), rest(*outside, *inner)
    cells_to = group(selected(cells, check, to), places) if to else {}
    for place, of_place in group(selected(cells, check, of), places).items():
        if to and place not in cells_to:
            continue
        left = {within.of(cell.levels): cell for cell in of_place}
        right = {within.of(cell.levels): cell for cell in cells_to.get(place, ())}
        keys = [key for key in left if not to or key in right]
        yield ComparedCells(
            tuple(sorted(of_place[0].levels.only(place).texts)),
            keys,
            [left[key] for key in keys],
            [right[key] for key in keys] if to else [],
        )


def packets_apart(entries: Iterable[Cell], of: Sequence[Cell], to: Sequence[Cell]) -> float:
    """Return how many times as large the packets of one side are as those of the other, at most over the same points
    of two platforms; 1 where none were counted."""
    size = {
        _place(e): e.row.summary.mean
        for e in entries
        if e.levels[METRIC] == PACKET_BYTES.name and e.row.summary
    }
    pairs = [
        (size.get(_place(left)), size.get(_place(right)))
        for left, right in zip(of, to, strict=False)
        if left.row.cell.point == right.row.cell.point
    ]
    return max((max(a / b, b / a) for a, b in pairs if a and b), default=1.0)


def _place(entry: Cell) -> tuple[str, str]:
    return entry.row.platform.name, entry.row.cell.point


def means_of(entries: Iterable[Cell]) -> list[BlockMeans]:
    """Return the means of blocks of each entry."""
    return [entry.row.means_of_blocks for entry in entries]


def trial_logs(entries: Sequence[Cell], number: int) -> Logs:
    """Return the mean over entries of the logarithm of a trial, in the blocks in which every entry has it.

    number: of the trial in its block, from 0.
    """
    return mean_logs([_of_trials(entry.row, number) for entry in entries])


def _of_trials(row: Row, number: int) -> BlockMeans:
    """Return the value of the trial of this number in every block that has it."""
    order = np.argsort(row.trial_blocks, kind="stable")
    blocks, first, counts = np.unique(
        row.trial_blocks[order], return_index=True, return_counts=True
    )
    has_it = counts > number
    return BlockMeans(blocks[has_it], row.trial_values[order][first[has_it] + number])
