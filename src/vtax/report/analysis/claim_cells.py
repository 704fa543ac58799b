"""The cells that a claim selects, one logarithm for every block of what it compares, and what stands for a publication's
platforms and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtax.benchmarks.base import PACKET_BYTES
from vtax.errors import BadInput
from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM, Levels, unknown
from vtax.pairing import Logs, mean_logs
from vtax.question import Selection, by, group, rest
from vtax.report.analysis.compared import Cell, cells_of
from vtax.report.analysis.sessions import blocks_of, of_hosts
from vtax.report.analysis.values import Analysis, Row
from vtax.stats.ratio import BlockMeans
from vtax.study.claims import CheckTable, ClaimSide

Mapped = Mapping[str, str]
"""Platform or host of a publication -> the one of the run that stands for it."""


@dataclass(frozen=True)
class AveragedEntries:
    """Entries of one side that are averaged.

    name: what they have in common, as it is written.
    entries: canonical levels that tell them apart -> each of them.
    """

    name: tuple[tuple[str, str], ...]
    entries: Mapping[Levels, Cell]


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


def selected(
    entries: Iterable[Cell],
    check: CheckTable,
    side: ClaimSide,
    fixed: Iterable[str],
    inner: Iterable[str],
) -> dict[Levels, AveragedEntries]:
    """Return the entries of a side, in groups that are averaged, by the canonical levels that each has in common with
    the other side.

    fixed: factors that either side names, which are not compared. inner: those that a group holds several levels of.
    """
    chosen_levels = {BENCHMARK: check.benchmarks, METRIC: check.metrics}
    of_check = Selection({name: levels for name, levels in chosen_levels.items() if levels})
    selection = of_check.and_also(side.selection).and_also(check.selection)
    names_metric = METRIC in selection.choices
    cells = [
        entry
        for entry in entries
        if selection.selects(entry.levels) and (names_metric or entry.section.metric.is_primary)
    ]
    outside = {PLATFORM, *fixed}
    within = by(*{*inner} - outside)
    return {
        key: AveragedEntries(
            tuple(sorted(of_key[0].levels.only(key).texts)),
            {within.of(entry.levels): entry for entry in of_key},
        )
        for key, of_key in group(cells, rest(*outside, *within.factors)).items()
    }


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
