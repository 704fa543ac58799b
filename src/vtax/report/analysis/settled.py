"""Blocks that a cell is not in because its comparison was settled before: nothing of these is missing."""

from __future__ import annotations

import numpy as np

from vtax.stats.ratio import BlockMeans
from vtax.stats.rules import Rule
from vtax.store.query import RunData


def settled(data: RunData, rule: Rule) -> dict[int, frozenset[int]]:
    """Index of a cell -> the blocks of others that its rule left it out of.

    Such a block holds neither a trial of the cell nor a guest of its platform that failed, and the last one before it
    that holds either went well: a platform that was lost is missing.
    """
    if not (rule.leaves_settled or rule.leaves_early):
        return {}
    trials = data.trials
    made = np.unique(trials.block[trials.block >= 0]).tolist()
    lost = {(guest.platform, guest.block) for guest in data.guests if guest.error}
    found: dict[int, frozenset[int]] = {}
    for index, cell in enumerate(data.run.cells):
        of_cell = (trials.cell == index) & ~trials.is_warmup
        tried, good = (
            set(trials.block[mask].tolist()) for mask in (of_cell, of_cell & trials.is_ok)
        )
        left, went_well = set[int](), False
        for block in made:
            if block in tried or (cell.platform, block) in lost:
                went_well = block in good
            elif went_well:
                left.add(block)
        found[index] = frozenset(left)
    return found


def without(means: BlockMeans, left: frozenset[int]) -> BlockMeans:
    """Return the means without those of blocks that the other side of a contrast was left out of."""
    if not left:
        return means
    kept = ~np.isin(means.blocks, list(left))
    return BlockMeans(means.blocks[kept], means.means[kept])
