"""Variances of contrasts that were measured side by side, each shrunk towards what the others show.

With few blocks a variance is known badly, and a family of contrasts pays for that many times over. The empirical
Bayes method of Smyth (Linear models and empirical Bayes methods for assessing differential expression, Stat. Appl.
Genet. Mol. Biol. 2004) estimates how alike the variances are and lends each contrast that many degrees of freedom. It
overstates what is known where few contrasts lend, where they share a baseline, and where one is far noisier than the
others, so here it is tempered: by simulation until no noise of docs/statistics.md covers less than 93.4 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from vtax.stats.checks import Array

FEWEST_LENDERS = 4  # contrasts: the variance of three variances is anybody's guess
FEWEST_BLOCKS = 3
MOST_LENT = 0.5  # degrees of freedom, as a share of a contrast's own
NOISIER, QUIETER = 0.8, 0.01  # quantiles of F beyond which a contrast is not like the others and borrows nothing
LEAST_SHARED = 0.25  # squared correlation of two contrasts with one baseline, were all platforms equally noisy
_GRID = np.geomspace(1e-3, 1e4, 4000)
_TRIGAMMA = special.polygamma(1, _GRID)


def moderated(variances: Array, df: Array, shared: Array) -> tuple[Array, Array]:
    """(variances, degrees of freedom) after borrowing; as they were where nothing can be borrowed.

    variances, df: shape (..., contrasts), of one family; df from 2 on. shared: shape (...), the mean squared
    correlation of the contrasts, which lowers what they tell beyond one another. The location that a contrast is
    shrunk to is the median of the others, made unbiased under normal noise: one noisy platform does not move it.
    """
    lenders = variances.shape[-1]
    if lenders < FEWEST_LENDERS or not (variances > 0).all():
        return variances, df
    shared = np.maximum(shared, LEAST_SHARED)
    own = variances * df / special.chdtri(df, 0.5)
    others = np.stack([np.median(np.delete(own, k, axis=-1), axis=-1) for k in range(lenders)], axis=-1)
    lent = _alike(variances, df, shared)[..., None]
    maximum = df * np.minimum(MOST_LENT, (lenders / (1 + (lenders - 1) * shared) - 1)[..., None])
    lent = np.minimum(lent, maximum)
    ratio = variances / others
    lent = np.where(ratio > 1, lent / ratio, lent)
    is_unlike = (ratio > special.fdtri(df, df, NOISIER)) | (ratio < special.fdtri(df, df, QUIETER))
    lent = np.where(is_unlike, 0.0, lent)
    return (lent * others + df * variances) / (lent + df), df + lent


def _alike(variances: Array, df: Array, shared: Array) -> Array:
    """Prior degrees of freedom, from the spread of log-variances at its upper standard error: fewer than Smyth's."""
    logs = np.log(variances) - special.digamma(df / 2) + np.log(df / 2)
    seen = logs.var(axis=-1, ddof=1) * (1 + np.sqrt(2 / (variances.shape[-1] - 1)))
    beyond = seen - special.polygamma(1, df / 2).mean(axis=-1) * (1 - shared)
    found = 2 * np.interp(-np.maximum(beyond, 1e-6), -_TRIGAMMA, _GRID)
    return np.asarray(np.where(beyond > 0, found, 2 * _GRID[-1]))


def shared_noise(logs: Array) -> Array:
    """Mean squared correlation of the contrasts, less what chance gives. logs: shape (..., contrasts, blocks)."""
    contrasts, blocks = logs.shape[-2:]
    centred = logs - logs.mean(axis=-1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    unit = centred / np.where(size > 0, size, 1.0)
    squares = (unit @ np.swapaxes(unit, -1, -2)) ** 2
    mean = (squares.sum(axis=(-1, -2)) - contrasts) / max(1, contrasts * (contrasts - 1))
    chance = 1 / (blocks - 1)
    return np.asarray(np.clip((mean - chance) / (1 - chance), 0.0, 0.95))


def lending_groups(groups: Sequence[str], counts: Sequence[int]) -> list[list[int]]:
    """Positions of the contrasts that may lend to one another: of one group, each of enough blocks.

    groups: what is unlike from the start, such as emulated machines beside containers, has a name of its own.
    """
    found: dict[str, list[int]] = {}
    for position, (group, count) in enumerate(zip(groups, counts, strict=True)):
        if count >= FEWEST_BLOCKS:
            found.setdefault(group, []).append(position)
    return [members for members in found.values() if len(members) >= FEWEST_LENDERS]


def moderate_family(family: Sequence[Array], groups: Sequence[str]) -> dict[int, tuple[float, float]]:
    """Position -> (variance of a log-ratio, degrees of freedom) of every contrast that borrowed.

    family: log-ratios of every contrast in the order of the blocks, without NaN.
    """
    result = {}
    for members in lending_groups(groups, [logs.size for logs in family]):
        shortest = min(family[k].size for k in members)
        df = np.array([family[k].size - 1.0 for k in members])
        variances = np.array([family[k].var(ddof=1) for k in members])
        shared = shared_noise(np.array([family[k][:shortest] for k in members]))
        found, lent = moderated(variances, df, shared)
        result.update(
            {k: (float(v), float(d)) for k, v, d, own in zip(members, found, lent, df, strict=True) if d > own}
        )
    return result
