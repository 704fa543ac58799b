"""Two uses of moderated variances that vtax does not make, and why: widths that decide on blocks, families of three.

    python bench/statistics/lending.py [--studies 1500]

1. Rules `precision` and `budget` of several platforms against one baseline, each comparison left out once its
   interval is narrow: own variances → moderated ones, in the decision and in the result alike.
2. A fixed number of blocks, families of three contrasts, of which each may borrow.
"""

from __future__ import annotations

import argparse
import warnings
from unittest.mock import patch

import hard
import numpy as np
import numpy.typing as npt
from methods import holm_passes
from noise import Array
from scipy import special

from vtax.stats.moderation import moderated_families
from vtax.stats.stopping import width_share

LAST, BUDGET = 40, 10
THREE = {
    "three alike": (1.0, 1.0, 1.0),
    "one of three 3 times noisier": (1.0, 1.0, 3.0),
    "one of three 10 times noisier": (1.0, 1.0, 10.0),
    "two of three 3 times noisier": (1.0, 3.0, 3.0),
    "three from 1 to 10 times": (1.0, 3.2, 10.0),
}
Counts = npt.NDArray[np.int64]


def noise(shape: str, sds: Array, studies: int, rng: np.random.Generator) -> Array:
    """Log-ratios to one baseline, of shape (studies, contrasts, LAST)."""

    def draw(size: tuple[int, ...]) -> Array:
        if shape == "t, 3 df":
            return np.asarray(rng.standard_t(3, size) / np.sqrt(3))
        return rng.standard_exponential(size) - 1 if shape == "exponential" else rng.standard_normal(size)

    return np.asarray(draw((studies, sds.size, LAST)) * sds[:, None] - draw((studies, 1, LAST)))


def judged(logs: Array, made: Counts, alpha: float, *, moderated: bool) -> tuple[Array, Array, Array]:
    """(mean, half-width, p-value of a ratio of 1) of every contrast after its own number of blocks."""
    cut = np.where(np.arange(LAST) < made[..., None], logs, np.nan)[..., : int(made.max())]
    mean, variance, df = np.nanmean(cut, axis=-1), np.nanvar(cut, axis=-1, ddof=1), made - 1.0
    if moderated:
        variance, df, _ = moderated_families(cut, [""] * logs.shape[1])
    se = np.sqrt(variance / made)
    return mean, special.stdtrit(df, 1 - alpha / 2) * se, 2 * special.stdtr(df, -np.abs(mean) / se)


def result(logs: Array, made: Counts, alpha: float, *, moderated: bool) -> tuple[float, float]:
    """(coverage of the worst contrast, any false alarm)."""
    mean, half, p = judged(logs, made, alpha, moderated=moderated)
    return float((np.abs(mean) <= half).mean(axis=0).min()), float(holm_passes(p, alpha).any(axis=1).mean())


def precision(logs: Array, target: float, first: int, *, moderated: bool) -> tuple[float, float, float]:
    """(coverage, alarms, mean blocks of a contrast)."""
    alpha, made = 0.05 * width_share(first), np.full(logs.shape[:2], first)
    for _ in range(first, LAST):
        wide = (judged(logs, made, alpha, moderated=moderated)[1] > target) & (made < LAST)
        made += wide
    return (*result(logs, made, alpha, moderated=moderated), float(made.mean()))


def budget(logs: Array, first: int, *, moderated: bool) -> tuple[float, float, float]:
    """(coverage, alarms, median of the widest interval)."""
    contrasts, rows = logs.shape[1], np.arange(len(logs))[:, None]
    alpha, made, chosen = 0.05 * width_share(first), np.full(logs.shape[:2], first), (contrasts + 1) // 2
    for _ in range((BUDGET - first) * (contrasts + 1) // (chosen + 1)):
        widest = np.argsort(-judged(logs, made, alpha, moderated=moderated)[1], axis=1)[:, :chosen]
        made[rows, widest] = np.minimum(made[rows, widest] + 1, LAST)
    half = judged(logs, made, alpha, moderated=moderated)[1]
    return (*result(logs, made, alpha, moderated=moderated), float(np.median(half.max(axis=1))))


def row(shape: str, name: str, first: int, studies: int) -> list[str]:
    sds = np.array(hard.SPREADS[name])
    logs = noise(shape, sds, studies, hard.generator("lending", shape, name, first))
    found = [shape, name, str(first)]
    for target in (0.7, 1.0, 1.6):
        own, lent = (precision(logs, target * float(np.median(sds)), first, moderated=m) for m in (False, True))
        found.append(f"{hard.percent(lent[0])}, {hard.percent(lent[1])}, {own[2]:.1f} → {lent[2]:.1f}")
    own, lent = (budget(logs, first, moderated=m) for m in (False, True))
    return [*found, f"{hard.percent(lent[0])}, {hard.percent(lent[1])}, {lent[2] / own[2]:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=1500)
    studies = parser.parse_args().studies
    warnings.simplefilter("ignore")
    with patch("vtax.stats.moderation.FEWEST_LENDERS", 3), patch.dict(hard.SPREADS, THREE):
        print("families of three: own → moderated; 3, 5, 10 blocks: covers, any alarm, width")
        for name in THREE:
            print(" | ".join(hard.moderation(name, 10 * studies)), flush=True)
    print("noise | platforms | from | precision: covers, any alarm, blocks own → moderated | budget: the same, width")
    for shape in ("normal", "exponential", "t, 3 df"):
        for name in ("alike", "one of six 3 times noisier", "six from 1 to 10 times"):
            for first in (3, 5):
                print(" | ".join(row(shape, name, first, studies)), flush=True)


if __name__ == "__main__":
    main()
