"""The cells that a claim selects, and one logarithm for every block of what it compares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtax.benchmarks.base import PACKET_BYTES
from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM, Levels
from vtax.question import Selection, by, group, rest
from vtax.report.analysis.compared import Cell, cells_of
from vtax.report.analysis.sessions import of_hosts
from vtax.report.analysis.values import Analysis, aligned
from vtax.store.query import Floats, Ints
from vtax.study.claims import CheckTable, ClaimSide

Mapped = Mapping[str, str]
"""Platform of a claim -> the platform of the run that stands for it."""


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


def blocks_of_host(analysis: Analysis, number: int) -> set[int]:
    """Return the blocks of a host of the run, by its number."""
    sessions = [*of_hosts(analysis.sessions).values()][number - 1]
    return {block for session in sessions for block in session.blocks}


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
    named = {BENCHMARK: check.benchmarks, METRIC: check.metrics}
    of_check = Selection({name: them for name, them in named.items() if them})
    wanted = of_check.and_also(side.selection).and_also(check.selection)
    names_metric = METRIC in wanted.choices
    cells = [
        entry
        for entry in entries
        if wanted.selects(entry.levels) and (names_metric or entry.section.metric.is_primary)
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


def logs_of(entries: Sequence[Cell]) -> tuple[Ints, Floats]:
    """(blocks, logarithms of the entries by blocks): NaN where a block lacks an entry or a mean is not positive."""
    blocks, values = aligned([entry.row for entry in entries])
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.log(np.where(values > 0, values, np.nan))
    return blocks, logs


def mean_logs(entries: Sequence[Cell]) -> dict[int, float]:
    """Block -> mean of the logarithms over entries, of blocks that have all of them."""
    blocks, logs = logs_of(entries)
    means = logs.mean(axis=0)
    return {
        block: mean
        for block, mean in zip(blocks.tolist(), means.tolist(), strict=True)
        if mean == mean
    }


def trial_logs(entries: Sequence[Cell], number: int) -> dict[int, float]:
    """Block -> mean over entries of the logarithm of its trial of this number, from 0. All entries have the block."""
    found: list[dict[int, float]] = []
    for entry in entries:
        logs: dict[int, list[float]] = {}
        for block, value in zip(
            entry.row.trial_blocks.tolist(), entry.row.trial_values.tolist(), strict=True
        ):
            logs.setdefault(block, []).append(math.log(value) if value > 0 else math.nan)
        found.append(
            {block: values[number] for block, values in logs.items() if len(values) > number}
        )
    blocks = set.intersection(*map(set, found))
    means = {block: sum(logs[block] for logs in found) / len(found) for block in blocks}
    return {block: mean for block, mean in means.items() if mean == mean}
