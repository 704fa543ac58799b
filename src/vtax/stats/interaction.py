"""Does a factor change the overhead? Platform x factor interaction from a linear mixed model on logarithms.

The model: log value ~ platform * factor + (1 | block) + (1 | block : platform), the last one being the guest. It is
fitted to block averages by REML: in closed form when every block holds every cell, else by statsmodels. Wald tests
of statsmodels take the noise as known and are too bold with few blocks; t and F with the degrees of freedom of the
stratum each term lives in (split-plot containment, Pinheiro & Bates, Mixed-Effects Models in S and S-PLUS, 2000,
section 2.4.2) are used instead.

The model gives all platforms one variance. Where one is noisier, as emulated ones are, its F-test is wrong in 7 to
19 % of runs, so `paired_interaction` tests without it: one paired t-test for each platform and level, Holm-adjusted.
"""

from __future__ import annotations

import math
import warnings as python_warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from vtax.stats.checks import Array, StatsError, Values, as_array, check_positive
from vtax.stats.intervals import t_quantile
from vtax.stats.notes import Note
from vtax.stats.ratio import exp, ratio_of_logs

Labels = Sequence[Hashable] | npt.NDArray[Any]


@dataclass(frozen=True)
class Term:
    """One row of the table: ratio to the reference cell's (first platform, first level), interval and p-value.

    For an interaction the ratio says how many times the platform's ratio to the first platform is larger at this
    level than at the first level.
    """

    platform: str
    level: str
    kind: str  # platform | factor | interaction
    ratio: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class Interaction:
    """p_value: of no platform's ratio changing with the factor. f, df: of the model's F-test. sd_*: relative.

    is_paired: p_value is the smallest of the paired tests, adjusted for their number, and not that of F.
    """

    table: tuple[Term, ...]
    f: float
    df: tuple[float, float]
    p_value: float
    sd_block: float
    sd_guest: float
    sd_residual: float
    confidence: float
    warnings: tuple[str, ...]
    is_paired: bool = False


def paired_interaction(
    values: Values, platforms: Labels, levels: Labels, blocks: Labels, confidence: float = 0.95
) -> Interaction:
    """`interaction` with every term and the test from differences within blocks, each with its own variance.

    Holds whatever the platforms' variances are; where they are equal it finds less than F does. Raises the same.
    """
    found = interaction(values, platforms, levels, blocks, confidence)
    logs: dict[tuple[str, str], dict[str, float]] = {}
    columns = (np.asarray(labels, dtype=str).tolist() for labels in (platforms, levels, blocks))
    for platform, level, block, value in zip(*columns, as_array(values).tolist(), strict=True):
        if not math.isnan(value):
            logs.setdefault((platform, level), {})[block] = math.log(value)
    first = next(iter(logs))
    table = tuple(_paired(term, first, logs, confidence) for term in found.table)
    tests = [term.p_value for term in table if term.kind == "interaction"]
    p_value = math.nan if any(map(math.isnan, tests)) else min(1.0, min(tests) * len(tests))
    return replace(found, table=table, p_value=p_value, is_paired=True)


def _paired(
    term: Term, first: tuple[str, str], logs: Mapping[tuple[str, str], Mapping[str, float]], confidence: float
) -> Term:
    """The term by Student's t over the blocks that hold all cells of it."""
    cells = {
        "platform": [((term.platform, first[1]), 1), (first, -1)],
        "factor": [((first[0], term.level), 1), (first, -1)],
        "interaction": [
            ((term.platform, term.level), 1), ((first[0], term.level), -1),
            ((term.platform, first[1]), -1), (first, 1),
        ],
    }[term.kind]  # fmt: skip
    shared = set.intersection(*(set(logs[cell]) for cell, _ in cells))
    if len(shared) < 2:
        return replace(term, low=0.0, high=math.inf, p_value=math.nan)
    ratio = ratio_of_logs([sum(sign * logs[cell][block] for cell, sign in cells) for block in shared], confidence)
    return replace(term, ratio=ratio.estimate, low=ratio.low, high=ratio.high, p_value=ratio.p_value)


def interaction(
    values: Values, platforms: Labels, levels: Labels, blocks: Labels, confidence: float = 0.95
) -> Interaction:
    """Table and test of the platform x factor interaction.

    values: positive block averages, one per platform, level and block; NaN and missing cells are left out with a
    warning. The first platform and the first level that appear are the references. Raises StatsError with fewer than
    two platforms, levels or complete blocks, an empty cell, or values that are not positive.
    """
    y = as_array(values)
    check_positive(y, "values")
    columns = [np.asarray(labels, dtype=str) for labels in (platforms, levels, blocks)]
    if any(column.shape != y.shape for column in columns):
        raise StatsError("platforms, levels and blocks must have one label for each value")
    keep = ~np.isnan(y)
    names = [list(dict.fromkeys(column.tolist())) for column in columns]
    codes = [np.array([known.index(x) for x in c[keep]]) for c, known in zip(columns, names, strict=True)]
    p, q, b = (len(known) for known in names)
    if min(p, q, b) < 2:
        raise StatsError(Note("interaction-needs-two"))
    if np.unique(codes[0] * q + codes[1]).size < p * q:
        raise StatsError(Note("missing-level"))
    notes: list[str] = []
    if codes[0].size != p * q * b:
        notes.append(Note("incomplete-design", there=codes[0].size, total=p * q * b))
    design, kinds = _design(codes[0], codes[1], p, q)
    logs = np.log(y[keep])
    if np.unique((codes[0] * q + codes[1]) * b + codes[2]).size == codes[0].size == p * q * b:
        beta, cov, sds = _solve(logs[np.lexsort(codes[::-1])].reshape(p, q, b), _design(*_cells(p, q), p, q)[0])
    else:
        beta, cov, sds, reason = _fit(logs, design, codes[0], codes[2])
        notes += reason
    missing = p * q * b - codes[0].size
    df = {"platform": float((p - 1) * (b - 1)), "factor": max(1.0, p * (b - 1.0) * (q - 1) - missing)}
    df["interaction"] = df["factor"]
    table = tuple(
        _term(names[0][i], names[1][j], kind, beta[k], math.sqrt(cov[k, k]), df[kind], confidence)
        for k, (kind, i, j) in enumerate(kinds)
        if kind != "reference"
    )
    pick = np.array([k for k, (kind, _, _) in enumerate(kinds) if kind == "interaction"])
    f = float(beta[pick] @ np.linalg.solve(cov[np.ix_(pick, pick)], beta[pick])) / pick.size
    return Interaction(
        table=table, f=f, df=(float(pick.size), df["interaction"]),
        p_value=float(special.fdtrc(pick.size, df["interaction"], f)),
        sd_block=sds[0], sd_guest=sds[1], sd_residual=sds[2], confidence=confidence, warnings=tuple(notes),
    )  # fmt: skip


def _cells(p: int, q: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(platform, level) of every cell, platform by platform."""
    return np.repeat(np.arange(p), q), np.tile(np.arange(q), p)


def _solve(y: Array, design: Array) -> tuple[Array, Array, tuple[float, float, float]]:
    """Fixed effects, their covariance and the standard deviations of a balanced design, y[platform, level, block].

    REML then has a closed form: variances of the strata (block, guest, residual) from their mean squares, adjacent
    ones pooled where a variance would be below zero (Thompson, The problem of negative estimates of variance
    components, Ann. Math. Statist. 1962). design: one row per cell.
    """
    p, q, b = y.shape
    cell, guest, block = y.mean(axis=2), y.mean(axis=1), y.mean(axis=(0, 1))
    guest = guest - guest.mean(axis=1, keepdims=True)
    block = block - block.mean()
    squares = [
        float(((y - cell[:, :, None] - guest[:, None, :]) ** 2).sum()),
        q * float(((guest - block) ** 2).sum()),
        p * q * float((block**2).sum()),
    ]
    df = [p * (q - 1) * (b - 1), (p - 1) * (b - 1), b - 1]
    if math.sqrt(sum(squares) / y.size) <= 1e-12:
        raise StatsError(Note("no-noise"))
    residual, of_guest, of_block = _ordered(squares, df)
    if residual <= 1e-24:
        raise StatsError(Note("no-noise-within-guests"))
    variances = (of_block - of_guest) / (p * q), (of_guest - residual) / q, residual
    same = np.kron(np.eye(p), np.ones((q, q)))
    of_cells = (variances[0] + variances[1] * same + variances[2] * np.eye(p * q)) / b
    inverse = np.linalg.inv(design)
    sds = (math.sqrt(variances[0]), math.sqrt(variances[1]), math.sqrt(variances[2]))
    return inverse @ cell.ravel(), inverse @ of_cells @ inverse.T, sds


def _ordered(squares: list[float], df: list[int]) -> list[float]:
    """Mean squares that do not fall from the first to the last; those that would are pooled with their neighbours."""
    pools: list[tuple[float, int, int]] = []  # sum of squares, degrees of freedom, strata
    for square, freedom in zip(squares, df, strict=True):
        pools.append((square, freedom, 1))
        while len(pools) > 1 and pools[-1][0] * pools[-2][1] <= pools[-2][0] * pools[-1][1]:
            last, before = pools.pop(), pools.pop()
            pools.append((last[0] + before[0], last[1] + before[1], last[2] + before[2]))
    return [square / freedom for square, freedom, strata in pools for _ in range(strata)]


def _design(platform: npt.NDArray[Any], level: npt.NDArray[Any], p: int, q: int) -> tuple[Array, list[Any]]:
    """Treatment coding, and for each column what it is: (kind, platform, level)."""
    columns, kinds = [np.ones(platform.size)], [("reference", 0, 0)]
    for i in range(1, p):
        columns.append((platform == i).astype(np.float64))
        kinds.append(("platform", i, 0))
    for j in range(1, q):
        columns.append((level == j).astype(np.float64))
        kinds.append(("factor", 0, j))
    for i in range(1, p):
        for j in range(1, q):
            columns.append(((platform == i) & (level == j)).astype(np.float64))
            kinds.append(("interaction", i, j))
    return np.column_stack(columns), kinds


def _fit(
    y: Array, design: Array, platform: npt.NDArray[Any], block: npt.NDArray[Any]
) -> tuple[Array, Array, tuple[float, float, float], list[str]]:
    """Fixed effects, their covariance, (block, guest, residual) standard deviations, and what went wrong."""
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    groups = [np.flatnonzero(block == k) for k in np.unique(block)]
    order = np.concatenate(groups)
    y, design, platform, block = y[order], design[order], platform[order], block[order]
    scale = float(np.std(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]))
    if scale <= 1e-12:
        raise StatsError(Note("no-noise"))
    guests = [np.eye(int(platform.max()) + 1)[platform[block == k]] for k in np.unique(block)]
    names = [[str(i) for i in range(g.shape[1])] for g in guests]
    spec = VCSpec(["guest"], [names], [guests])
    with python_warnings.catch_warnings(record=True) as caught:
        python_warnings.simplefilter("always")
        model = MixedLM(y / scale, design, groups=block, exog_re=np.ones((y.size, 1)), exog_vc=spec)
        fit = model.fit(reml=True)
    notes: list[str] = [] if fit.converged else [Note("model-not-converged")]
    if any("singular" in str(w.message) for w in caught):
        notes.append(Note("model-singular"))
    k = design.shape[1]
    cov = np.asarray(fit.cov_params())[:k, :k] * scale**2
    sds = [math.sqrt(max(float(v), 0.0)) * scale for v in (fit.cov_re[0, 0], fit.vcomp[0], fit.scale)]
    return np.asarray(fit.fe_params) * scale, cov, (sds[0], sds[1], sds[2]), notes


def _term(
    platform: str, level: str, kind: str, effect: float, se: float, df: float, confidence: float
) -> Term:  # fmt: skip
    half = t_quantile((1 + confidence) / 2, df) * se
    p = min(1.0, 2 * float(special.stdtr(df, -abs(effect) / se))) if se > 0 else math.nan
    return Term(platform, level, kind, exp(effect), exp(effect - half), exp(effect + half), p)
