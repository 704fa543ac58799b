"""Logarithms of what cells show, paired within blocks, sessions, hosts or nothing.

What a unit does to both sides alike cancels in its pair: a block its hour, a session its boot, a host its hardware. Two
sides that share no unit are two samples, and nothing cancels. Verdicts within blocks are made by `stats.judge`,
which knows what failed on either side; here is what is computed from values that are paired already, or never judged
alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vtax.stats.ratio import BlockMeans, log_ratios

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Within = Literal["block", "session", "host", "nothing"]
Units = Mapping[int, tuple[int, int]]
"""Block -> its host and its session; no two hosts have a session of one number."""
_LEVEL: Mapping[Within, int] = {"host": 0, "session": 1}


@dataclass(frozen=True)
class Logs:
    """A logarithm for every unit.

    units: numbers of blocks, ascending, or of what blocks were averaged over.
    values: NaN where a value has no logarithm.
    """

    units: Ints
    values: Floats

    def __sub__(self, other: Logs) -> Logs:
        """Return the difference in every unit that both have."""
        own, others = pair(self, other)
        return Logs(own.units, own.values - others.values)

    def __bool__(self) -> bool:
        return self.units.size > 0

    def only(self, units: Collection[int]) -> Logs:
        """Return those of some units."""
        wanted = np.unique(np.fromiter(units, np.int64, len(units)))
        place = np.searchsorted(self.units, wanted)
        place = place[place < self.units.size]
        place = place[self.units[place] == wanted[: place.size]]
        return Logs(self.units[place], self.values[place])

    def known(self) -> Logs:
        """Return those that are numbers."""
        return self._of(~np.isnan(self.values))

    def _of(self, kept: npt.NDArray[np.bool_]) -> Logs:
        return Logs(self.units[kept], self.values[kept])

    def averaged(self, within: Within, units: Units) -> Logs:
        """Return the mean of every session, or of every host the mean of its sessions."""
        if within not in _LEVEL:
            return self
        known = self.known()
        if not known:
            return known
        of = np.array([units[block] for block in known.units.tolist()], np.int64)
        sessions, first, session = np.unique(of[:, 1], return_index=True, return_inverse=True)
        means = np.bincount(session, known.values) / np.bincount(session)
        if within == "session":
            return Logs(sessions, means)
        host_of_session = of[first, 0]
        order = np.argsort(host_of_session, kind="stable")
        hosts, first = np.unique(host_of_session[order], return_index=True)
        of_hosts = np.split(means[order], first[1:])
        return Logs(hosts, np.array([of_host.mean() for of_host in of_hosts]))


def pair(
    treatment: Logs, baseline: Logs, within: Within = "block", units: Units | None = None
) -> tuple[Logs, Logs]:
    """Return both sides in the units that they share, one beside the other; within nothing, each as it is.

    units: of the blocks, where sides are paired within what blocks are nested in.
    """
    if within == "nothing":
        return treatment, baseline
    sides = [side.averaged(within, units or {}) for side in (treatment, baseline)]
    shared, left, right = np.intersect1d(sides[0].units, sides[1].units, return_indices=True)
    return Logs(shared, sides[0].values[left]), Logs(shared, sides[1].values[right])


def pair_rows(row: BlockMeans, base: BlockMeans, only: Collection[int] | None = None) -> Logs:
    """Return the log-ratio of two cells in every block that both have.

    only: blocks to take; None: all.
    Raises StatsError as `stats.ratio.log_ratios` does.
    """
    blocks, left, right = np.intersect1d(row.blocks, base.blocks, return_indices=True)
    if only is not None:
        here = np.isin(blocks, np.fromiter(only, np.int64, len(only)))
        blocks, left, right = blocks[here], left[here], right[here]
    return Logs(blocks, log_ratios(row.means[left], base.means[right]))


def align(rows: Sequence[BlockMeans]) -> tuple[Ints, Floats]:
    """(blocks, matrix of rows by blocks): logarithms; NaN where a block lacks a row or its mean is not positive."""
    blocks = np.unique(np.concatenate([row.blocks for row in rows])).astype(np.int64)
    means = np.full((len(rows), blocks.size), np.nan)
    for line, row in zip(means, rows, strict=True):
        line[np.searchsorted(blocks, row.blocks)] = row.means
    with np.errstate(invalid="ignore"):
        return blocks, np.log(np.where(means > 0, means, np.nan))


def mean_logs(rows: Sequence[BlockMeans]) -> Logs:
    """Return the mean of the logarithms of some cells, in the blocks that have all of them."""
    blocks, logs = align(rows)
    return Logs(blocks, logs.mean(axis=0)).known()
