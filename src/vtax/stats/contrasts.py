"""Values of a contrast, and contrasts other than platform against baseline in the same block.

Within one run every contrast is paired (`paired_ratio`): platform against platform, and level against level of a
factor, since a block holds every cell. Blocks of two runs have nothing in common, so their logarithms are compared as
two samples. A ratio of ratios (does the overhead differ between hosts?) is the same with log-ratios for values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtax.messages import Note
from vtax.stats.checks import Array, Better, Values, as_array, check_confidence, without_missing
from vtax.stats.ratio import (
    BlockMeans,
    Ratio,
    block_contrast,
    noise_ratio,
    of_one_block,
    ratio_of_mean,
    standard_error,
)
from vtax.stats.resolution import EXACT, Resolution, coarsest
from vtax.stats.sessions import Labels, Units


@dataclass(frozen=True)
class Contrast:
    """One log-ratio per block in the order of the blocks (NaN: none), and which way is better for its metric.

    noise: how many times noisier the treatment is than the baseline, see `assumptions.unequal_noise`. failed, tried:
    trials of the treatment and of the baseline. sessions: of each log-ratio the number of its session, or those of its host and
    session; None: all are of one.
    clock_is_wrong: the values are in the time of a guest's clock that is off by more than the margin. resolution: how
    finely they are known. zeros: blocks in which a side did nothing, of which there is no ratio. is_other_quantity: a trial of a
    side measured something else than was asked, or than the other side did.
    """

    logs: Array
    better: Better
    noise: float = 1.0
    failed: tuple[int, int] = (0, 0)
    tried: tuple[int, int] = (0, 0)
    sessions: Labels | None = None
    clock_is_wrong: bool = False
    resolution: Resolution = EXACT
    zeros: int = 0
    is_other_quantity: bool = False

    @property
    def lost(self) -> float:
        """Share of the treatment's trials that failed, less the baseline's: slow trials fail first."""
        (failed, failed_baseline), (tried, total) = self.failed, self.tried
        treatment = failed / tried if tried else 0.0
        baseline = failed_baseline / total if total else 0.0
        return treatment - baseline

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings of what the ratio leaves out: more trials of one side than of the other, blocks of zero."""
        notes = []
        if self.failures is not None:
            notes.append(self.failures)
        if self.zeros:
            notes.append(Note("zeros-left-out", count=self.zeros))
        return tuple(notes)

    @property
    def failures(self) -> Note | None:
        """The warning that one side lost more trials than the other; None where it did not."""
        if not self.lost:
            return None
        (failed, failed_baseline), (tried, total) = self.failed, self.tried
        return Note(
            "failures-differ", failed=failed, tried=tried, others=failed_baseline, total=total
        )


@dataclass(frozen=True)
class ContrastSide:
    """A cell in one metric. failed, tried: trials.

    clock_is_wrong: the values are in the time of a guest's clock that is off by more than the margin. resolution: how
    finely they are known. is_other_quantity: a trial measured something else than was asked. is_held_below: only the cache
    below a guest's disk held the files.
    """

    means: BlockMeans
    failed: int = 0
    tried: int = 0
    clock_is_wrong: bool = False
    resolution: Resolution = EXACT
    is_other_quantity: bool = False
    is_held_below: bool = False


def paired_contrast(
    treatment: ContrastSide,
    baseline: ContrastSide,
    better: Better,
    units: Units | None = None,
) -> Contrast:
    """Return the contrast of two cells of one run, as a run's stopping rule and its report judge it.

    units: hosts and sessions of blocks; None: all are of one. Raises StatsError for means that are too large, and
    where half of a side or more are not positive.
    """
    sides = treatment, baseline
    means = treatment.means, baseline.means
    sessions = None
    if units is not None and units.are_several:
        sessions = units.of(np.union1d(*(side.blocks for side in means)))
    return Contrast(
        block_contrast(*means),
        better,
        noise_ratio(*means),
        failed=(treatment.failed, baseline.failed),
        tried=(treatment.tried, baseline.tried),
        sessions=sessions,
        clock_is_wrong=any(side.clock_is_wrong for side in sides),
        resolution=coarsest([side.resolution for side in sides]),
        zeros=len(zeros_of(treatment.means) | zeros_of(baseline.means)),
        is_other_quantity=any(side.is_other_quantity for side in sides)
        or treatment.is_held_below != baseline.is_held_below,
    )


def zeros_of(means: BlockMeans) -> set[int]:
    """Return the blocks of a side that have no logarithm: it did nothing in them."""
    return set(means.blocks[np.asarray(means.means) <= 0].tolist())


def unpaired_ratio_of_logs(treatment: Values, baseline: Values, confidence: float = 0.95) -> Ratio:
    """Return the ratio treatment / baseline of two samples that share no blocks, with Welch's t-interval.

    It is that of the sessions that the blocks were measured in: their difference is in the ratio alone. NaN are left
    out with a warning. `n_blocks` is that of the smaller side.

    treatment, baseline: logarithms of values or ratios.
    confidence: of the interval.

    Raises StatsError when a side is empty.
    """
    check_confidence(confidence)
    a, warnings_a = without_missing(as_array(treatment, "logarithms"), "blocks of the treatment")
    b, warnings_b = without_missing(as_array(baseline, "logarithms"), "blocks of the baseline")
    mean, n = float(a.mean() - b.mean()), min(a.size, b.size)
    warnings = (*warnings_a, *warnings_b)
    if n == 1:
        return of_one_block(mean, confidence, warnings)
    var_a, var_b = standard_error(a) ** 2, standard_error(b) ** 2
    se = math.sqrt(var_a + var_b)
    df = float(a.size + b.size - 2)
    if se > 0:
        df = se**4 / (var_a**2 / (a.size - 1) + var_b**2 / (b.size - 1))  # Welch 1947
    else:
        warnings = (*warnings, Note("equal-blocks"))
    return ratio_of_mean(mean, se, df, confidence, n, warnings)
