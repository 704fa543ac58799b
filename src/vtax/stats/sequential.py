"""Boundaries that keep the error rate of a t-test when it is looked at after every block.

Group-sequential tests with an error-spending function (Lan & DeMets 1983; family of Hwang, Shih & DeCani 1990): of
the error `alpha` only a share may be spent by each look. Boundaries are computed for Brownian motion by recursive
integration (Armitage, McPherson & Rowe 1969) and used as significance levels of Student's t-test (Jennison &
Turnbull, Group Sequential Methods, 2000, section 3.8); bench/statistics shows how well they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from vtax.stats.checks import Array, StatsError

Direction = Literal["above", "below", "equivalent", "undecided"]
Crossing = Callable[["Path", float, int, int], int | None]

SHAPE = -2.0  # of the spending function: -4 is like O'Brien & Fleming, 1 like Pocock
GRID = 801


def spent(fraction: Array, alpha: float, shape: float = SHAPE) -> Array:
    """Error that may be spent when a fraction of the most blocks is measured (Hwang, Shih & DeCani 1990)."""
    return np.asarray(alpha * np.expm1(-shape * fraction) / np.expm1(-shape))


@lru_cache(maxsize=256)
def nominal_levels(alpha: float, first: int, last: int, shape: float = SHAPE) -> tuple[float, ...]:
    """One-sided significance levels of the looks after block first, first + 1, ..., last.

    A test that rejects at any look whose one-sided p-value is at most its level errs with probability alpha in all.
    """
    if not (0 < alpha < 0.5 and 1 <= first <= last):
        raise StatsError(f"no boundary for alpha {alpha} and looks from {first} to {last}")
    blocks = np.arange(first, last + 1, dtype=np.float64)
    spend = np.diff(spent(blocks / last, alpha, shape), prepend=0.0)
    levels, bounds = [float(spend[0])], -special.ndtri(spend[0])
    grid = np.linspace(-8.0, bounds, GRID) * np.sqrt(first)  # of the sum of `first` unit steps, not yet rejected
    density = np.exp(-(grid**2) / (2 * first)) / np.sqrt(2 * np.pi * first)
    for n, share in zip(blocks[1:], spend[1:], strict=True):
        weight = density * (grid[1] - grid[0])
        weight[[0, -1]] /= 2

        def excess(z: float, weight: Array = weight, grid: Array = grid, n: float = n, share: float = share) -> float:
            return float(weight @ special.ndtr(grid - z * np.sqrt(n))) - share

        z = float(optimize.brentq(excess, -2.0, 9.0, xtol=1e-10))
        levels.append(float(special.ndtr(-z)))
        step = np.linspace(-8.0, z, GRID) * np.sqrt(n)
        density = (np.exp(-((step[:, None] - grid[None, :]) ** 2) / 2) / np.sqrt(2 * np.pi)) @ weight
        grid = step
    return tuple(levels)


@dataclass(frozen=True)
class Path:
    """What a t-test saw after every block: one-sided p-values of being above 0, below 0, and inside the margin."""

    blocks: npt.NDArray[np.int64]
    p_above: Array
    p_below: Array
    p_inside: Array
    mean: Array


def path_of(logs: Array, margin: float, first: int) -> Path:
    """P-values from the first n log-ratios for every n from `first` on; NaN entries are no blocks."""
    present = logs[~np.isnan(logs)]
    n = np.arange(1, present.size + 1, dtype=np.float64)
    if present.size < first:
        empty = np.empty(0)
        return Path(np.empty(0, dtype=np.int64), empty, empty, empty, empty)
    shift = present[0]  # sums of differences keep their digits
    mean = np.cumsum(present - shift) / n
    square = np.maximum(np.cumsum((present - shift) ** 2) - n * mean**2, 0.0)
    n, mean, square = n[first - 1 :], mean[first - 1 :] + shift, square[first - 1 :]
    se = np.sqrt(square / (n - 1) / n)
    se = np.where(se <= 1e-13, 0.0, se)

    def tail(distance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            noisy = special.stdtr(n - 1, -distance / se)
        still = np.where(np.abs(distance) <= 1e-13, 0.5, (distance < 0).astype(np.float64))
        return np.where(se > 0, noisy, still)

    inside = np.maximum(tail(mean - np.log1p(-margin)), tail(np.log1p(margin) - mean))
    return Path(n.astype(np.int64), tail(mean), tail(-mean), inside, mean)


def sequential_verdicts(
    contrasts: Sequence[Array], margin: float, alpha: float, first: int, last: int
) -> tuple[Direction, ...]:
    """What each contrast has been decided to be, after all blocks given, under looks after every block.

    contrasts: one log-ratio per block each. A decision once made stands. Over the family the error is kept by Holm's
    step-down on the boundaries (Maurer & Bretz 2013): of m contrasts the first must cross at alpha / m, the next at
    alpha / (m - 1), ...; differences and equivalences each have alpha of their own.
    """
    first = max(first, 2)
    paths = [path_of(logs[: _nth_present(logs, last)], margin, first) for logs in contrasts]
    differs = _step_down(paths, alpha, first, last, _first_difference(margin))
    inside = _step_down(paths, alpha, first, last, _first_inside)
    result: list[Direction] = []
    for path, when_different, when_inside in zip(paths, differs, inside, strict=True):
        if when_different is not None and (when_inside is None or when_different <= when_inside):
            at = int(np.flatnonzero(path.blocks == when_different)[0])
            result.append("above" if path.mean[at] > 0 else "below")
        else:
            result.append("undecided" if when_inside is None else "equivalent")
    return tuple(result)


def _nth_present(logs: Array, last: int) -> int:
    seen = np.flatnonzero(np.cumsum(~np.isnan(logs)) == last)
    return int(seen[0]) + 1 if seen.size else logs.size


def _first_difference(margin: float) -> Crossing:
    def crossing(path: Path, alpha: float, first: int, last: int) -> int | None:
        levels = np.array(nominal_levels(alpha / 2, first, last))[: path.blocks.size]
        size = (path.mean < np.log1p(-margin)) | (path.mean > np.log1p(margin))
        at = np.flatnonzero((np.minimum(path.p_above, path.p_below) <= levels) & size)
        return int(path.blocks[at[0]]) if at.size else None

    return crossing


def _first_inside(path: Path, alpha: float, first: int, last: int) -> int | None:
    at = np.flatnonzero(path.p_inside <= np.array(nominal_levels(alpha, first, last))[: path.blocks.size])
    return int(path.blocks[at[0]]) if at.size else None


def _step_down(paths: Sequence[Path], alpha: float, first: int, last: int, crossing: Crossing) -> list[int | None]:
    found: list[int | None] = [None] * len(paths)
    for remaining in range(len(paths), 0, -1):
        open_ = [i for i, when in enumerate(found) if when is None]
        crossed = [
            (when, i) for i in open_ if (when := crossing(paths[i], alpha / remaining, first, last)) is not None
        ]
        if not crossed:
            break
        when, index = min(crossed)
        found[index] = when
    return found
