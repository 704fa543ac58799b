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
import numpy.typing as npt
from scipy import special

from vtax.stats.checks import Array

FEWEST_LENDERS = 4  # contrasts: the variance of three variances is anybody's guess
FEWEST_BLOCKS = 3
MINIMUM_BLOCKS = 5  # of a verdict from a contrast's own variance: with fewer, t is at the mercy of the noise's shape
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
    others = _others(variances, df)
    lent = _alike(variances, df, shared)[..., None]
    maximum = df * np.minimum(MOST_LENT, (lenders / (1 + (lenders - 1) * shared) - 1)[..., None])
    lent = np.minimum(lent, maximum)
    ratio = variances / others
    lent = np.where(ratio > 1, lent / ratio, lent)
    is_unlike = (ratio > special.fdtri(df, df, NOISIER)) | (ratio < special.fdtri(df, df, QUIETER))
    lent = np.where(is_unlike, 0.0, lent)
    return (lent * others + df * variances) / (lent + df), df + lent


def _others(variances: Array, df: Array) -> Array:
    """The median of the others' variances, unbiased under normal noise."""
    own = variances * df / special.chdtri(df, 0.5)
    medians = [np.median(np.delete(own, k, axis=-1), axis=-1) for k in range(own.shape[-1])]
    return np.stack(medians, axis=-1)


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


def moderated_families(logs: Array, groups: Sequence[str]) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """(variances, degrees of freedom, whether fewer than MINIMUM_BLOCKS may judge), each (families, contrasts).

    logs: shape (families, contrasts, blocks), NaN only at the end of a row. What borrows nothing keeps its own
    variance; of fewer than MINIMUM_BLOCKS it counts at least as much as the median of all the others', which is what
    makes such few blocks safe to judge: three that happen to be alike are no proof of quiet.
    """
    counts = (~np.isnan(logs)).sum(axis=-1)
    df = counts - 1.0
    variances = np.full(counts.shape, np.nan)
    judges = np.zeros(counts.shape, dtype=bool)
    fewest = counts.min(axis=0)
    enough = np.flatnonzero(fewest >= FEWEST_BLOCKS)
    variances[:, enough] = np.nanvar(logs[:, enough], axis=-1, ddof=1)
    if enough.size < FEWEST_LENDERS:
        return variances, df, judges
    given = variances.copy()
    judges[:, enough] = given[:, enough] > 0
    least = _others(given[:, enough], df[:, enough])
    is_few = counts[:, enough] < MINIMUM_BLOCKS
    variances[:, enough] = np.where(is_few, np.maximum(given[:, enough], least), given[:, enough])
    for members in lending_groups(groups, fewest.tolist()):
        shared = shared_noise(logs[:, members, : int(counts[:, members].min())])
        found, lent = moderated(given[:, members], df[:, members], shared)
        variances[:, members] = np.where(lent > df[:, members], found, variances[:, members])
        df[:, members] = lent
    return variances, df, judges


def moderate_family(family: Sequence[Array], groups: Sequence[str]) -> list[tuple[float, float, bool]]:
    """`moderated_families` of one. family: log-ratios in the order of the blocks, without NaN; at least two each."""
    logs = np.full((1, len(family), max((row.size for row in family), default=0)), np.nan)
    for row, values in zip(logs[0], family, strict=True):
        row[: values.size] = values
    variances, df, judges = moderated_families(logs, groups)
    own = [float(row.var(ddof=1)) for row in family]
    known = [v if np.isfinite(v) else o for v, o in zip(variances[0].tolist(), own, strict=True)]
    return list(zip(known, df[0].tolist(), judges[0].tolist(), strict=True))
