"""Boundaries that keep the error rate of a t-test when it is looked at after every block.

Group-sequential tests with an error-spending function (Lan & DeMets 1983; family of Hwang, Shih & DeCani 1990): of
the error `alpha` only a share may be spent by each look. Boundaries are computed for Brownian motion by recursive
integration (Armitage, McPherson & Rowe 1969) and used as significance levels of Student's t-test (Jennison &
Turnbull, Group Sequential Methods, 2000, section 3.8). Successive t-values are a little less alike than Brownian
motion's, so a fixed share of alpha is held back. A decision once made stands, and over a family of contrasts the
error is kept by Holm's step-down on the boundaries (Maurer & Bretz 2013).

Confidence sequences for t-statistics (Lai 1976; Wang & Ramdas 2024) hold without a largest number of blocks, at the
price of more blocks for the same power; a run declares its largest number, so it need not pay that price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from vtax.stats.checks import Array, StatsError
from vtax.stats.margin import log_margin

Direction = Literal["above", "below", "equivalent", "undecided"]
DIRECTIONS: tuple[Direction, ...] = (
    "undecided",
    "above",
    "below",
    "equivalent",
)  # codes 0 to 3 of `decide_studies`
SHAPE = (
    1.0  # of the spending function: 1 is like Pocock's, early; -4 like O'Brien & Fleming's, late
)
HELD_BACK = 0.8  # share of alpha that is spent: with t instead of z up to 1.2 times it is used (bench/statistics)
GRID = 241  # points of the recursive integration: levels are within 1 % of those of 2001 points
NEVER = 2**31


@lru_cache(maxsize=1024)
def nominal_levels(
    alpha: float, first: int, last: int, ended: int | None = None, shape: float = SHAPE
) -> tuple[float, ...]:
    """Return one-sided significance levels of the looks after block first, first + 1, ..., last.

    ended: the last look that was made, because of a time and not of what was seen; it spends what error is left (Lan
    & DeMets 1983). A z-test that rejects at any look whose one-sided p-value is at most its level errs with
    probability alpha in all.
    """
    from scipy import optimize  # only the rule `verdict` needs it, and it is slow to import

    if not (0 < alpha < 0.5 and 1 <= first <= last):
        raise StatsError(f"no boundary for alpha {alpha} and looks from {first} to {last}")
    blocks = np.arange(first, (ended or last) + 1, dtype=np.float64)
    spent = alpha * np.expm1(-shape * blocks / last) / np.expm1(-shape)
    spent[-1] = alpha
    spend = np.diff(spent, prepend=0.0)
    levels, bound = [float(spend[0])], float(-special.ndtri(spend[0]))
    grid, weight = _nodes(bound, first)
    density = np.exp(-(grid**2) / (2 * first)) / np.sqrt(
        2 * np.pi * first
    )  # of the sum of steps, not yet rejected
    for n, share in zip(blocks[1:], spend[1:], strict=True):
        mass = density * weight

        def excess(
            z: float, mass: Array = mass, grid: Array = grid, n: float = n, share: float = share
        ) -> float:
            return float(mass @ special.ndtr(grid - z * np.sqrt(n))) - share

        bound = float(optimize.brentq(excess, -2.0, 9.0, xtol=1e-9))
        levels.append(float(special.ndtr(-bound)))
        step, weight = _nodes(bound, n)
        density = (np.exp(-((step[:, None] - grid[None, :]) ** 2) / 2) / np.sqrt(2 * np.pi)) @ mass
        grid = step
    return tuple(levels)


def _nodes(bound: float, n: float) -> tuple[Array, Array]:
    """Nodes and Simpson weights for sums of n steps between -7 standard deviations and the bound."""
    grid = np.linspace(-7.0, bound, GRID) * np.sqrt(n)
    weight = np.full(GRID, 2.0)
    weight[1::2], weight[[0, -1]] = 4.0, 1.0
    return grid, weight * (grid[1] - grid[0]) / 3


@dataclass(frozen=True)
class Looks:
    """The numbers of blocks of the first and the last look, and of the one at which a time ended them: None: none."""

    first: int
    last: int
    ended: int | None = None

    @property
    def final(self) -> int:
        """The last one that was made, or may be."""
        return self.last if self.ended is None else self.ended

    def levels(self, alpha: float) -> Array:
        """Return one-sided levels of t-tests, first to final: `nominal_levels` with a share of alpha held back."""
        return np.array(nominal_levels(alpha * HELD_BACK, self.first, self.last, self.ended))


@lru_cache(maxsize=1024)
def _t_bounds(alpha: float, looks: Looks) -> Array:
    """Student's t at those levels; a bound once per look is far cheaper than a p-value per contrast and look."""
    return np.asarray(
        -special.stdtrit(np.arange(looks.first, looks.final + 1) - 1.0, looks.levels(alpha))
    )


def sequential_verdicts(
    contrasts: Sequence[Array], margin: float, alpha: float, looks: Sequence[Looks]
) -> tuple[Direction, ...]:
    """Return the word that has been decided for each contrast, under looks after every block.

    Blocks beyond the final look are ignored, because no error is left to spend on them.

    contrasts: one log-ratio per block each, NaN where a block has none.
    margin: of equivalence.
    alpha: error rate of the family.
    looks: of each contrast.
    """
    if not contrasts:
        return ()
    known_values = [values[~np.isnan(values)] for values in contrasts]
    final = max(look.final for look in looks)
    longest = min(final, max(values.size for values in known_values))
    logs = np.full((1, len(contrasts), max(longest, min(look.first for look in looks))), np.nan)
    for row, values in enumerate(known_values):
        logs[0, row, : min(values.size, longest)] = values[:longest]
    codes, _ = decide_studies(logs, margin, alpha, looks)
    return tuple(DIRECTIONS[code] for code in codes[0])


def decide_studies(
    logs: Array, margin: float, alpha: float, looks: Sequence[Looks]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (codes into DIRECTIONS, blocks at which each was decided, in a family at the latest), for many studies.

    logs: shape (studies, contrasts, blocks), each study a family; NaN only at the end of a row.
    margin: of equivalence.
    alpha: error rate of a family.
    looks: of each contrast.
    """
    looks = [replace(look, first=max(look.first, 2)) for look in looks]
    first = min(look.first for look in looks)
    final = max(look.final for look in looks)
    difference, inside, mean = _t_values(logs[..., :final], margin, first)
    at_difference = _step_down(difference, alpha / 2, looks)
    at_inside = _step_down(inside, alpha, looks)
    at = np.minimum(at_difference, at_inside)
    look = np.clip(at - first, 0, mean.shape[-1] - 1)
    above = np.take_along_axis(mean, look[..., None], axis=-1)[..., 0] > 0
    codes = np.where(at == NEVER, 0, np.where(at_inside <= at_difference, 3, np.where(above, 1, 2)))
    return codes, at


def _t_values(logs: Array, margin: float, first: int) -> tuple[Array, Array, Array]:
    """Return Student's t of being different from 0 and of being inside the margin, and the mean, at every look."""
    n = np.arange(1, logs.shape[-1] + 1, dtype=np.float64)
    shift = logs[..., :1]  # sums of small differences keep their digits
    mean = np.cumsum(logs - shift, axis=-1) / n
    square = np.cumsum((logs - shift) ** 2, axis=-1) - n * mean**2
    n, mean, square = n[first - 1 :], mean[..., first - 1 :] + shift, square[..., first - 1 :]
    se = np.sqrt(np.maximum(square, 0.0) / (n - 1) / n)
    is_still = se <= 1e-13

    def t(distance: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            noisy = distance / se
        still = np.where(np.abs(distance) <= 1e-13, 0.0, np.copysign(np.inf, distance))
        return np.where(is_still, still, noisy)

    return t(np.abs(mean)), t(log_margin(margin) - np.abs(mean)), mean


def _at_least(members: int) -> int:
    """Return `members` up to 10, beyond that the next of 13, 17, 22, ...

    A family of hundreds then needs a dozen boundaries instead of hundreds, each a little stricter than Holm's.
    """
    if members <= 10:
        return members
    bound = 10
    while bound < members:
        bound = -(-bound * 5 // 4)
    return bound


def _step_down(t: Array, one_sided: float, looks: Sequence[Looks]) -> npt.NDArray[np.int64]:
    """Return the blocks after which each contrast crossed its boundary (NEVER: not yet), by Holm's step-down.

    t: Student's t of each study, contrast and look.
    one_sided: level of a family.
    looks: of each contrast.
    """
    first = min(look.first for look in looks)
    blocks = np.arange(first, first + t.shape[-1])
    blocks_decided = np.full(t.shape[:-1], NEVER, dtype=np.int64)
    todo = np.arange(t.shape[0])  # studies whose level has changed
    while todo.size:
        remaining = (blocks_decided[todo] == NEVER).sum(axis=1)
        changed = [todo[:0]]
        for r in np.unique(remaining[remaining > 0]):
            studies = todo[remaining == r]
            bounds = np.full(t.shape[1:], np.inf)
            for row, look in zip(bounds, looks, strict=True):
                start = look.first - first
                study_bounds = _t_bounds(one_sided / _at_least(int(r)), look)[: t.shape[-1] - start]
                row[start:][: study_bounds.size] = study_bounds
            crossed = t[studies] >= bounds
            blocks_crossed = np.where(crossed.any(-1), blocks[np.argmax(crossed, axis=-1)], NEVER)
            is_new = (blocks_decided[studies] == NEVER) & (blocks_crossed != NEVER)
            blocks_decided[studies] = np.where(is_new, blocks_crossed, blocks_decided[studies])
            changed.append(studies[is_new.any(axis=1)])
        todo = np.concatenate(changed)
    return blocks_decided
