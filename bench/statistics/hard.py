"""Noise that breaks what Student's t assumes, and what the two methods of analysis make of it.

    python bench/statistics/hard.py                # prints all tables
    python bench/statistics/hard.py --studies 300 --only assumptions

Every study is judged by `vtax.stats.analysis.analyse` itself. Values are logarithms, one per block; a platform has
noise of 1 %, and so has a block. "Lent" and "own" below are the moderated and the plain variance.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from unittest.mock import patch

import numpy as np
from methods import holm_passes, log_ratios
from noise import NOISES as ROW_NOISES
from noise import Array, Noise, randomized
from scipy import special

from vtax.stats.analysis import Comparison, Contrast, analyse
from vtax.stats.assumptions import spread_ratio, unequal_noise
from vtax.stats.interaction import interaction, paired_interaction
from vtax.stats.moderation import moderated_families
from vtax.stats.outlook import Outlook
from vtax.stats.sequential import decide_studies
from vtax.stats.steadiness import find_drift
from vtax.stats.stopping import Rule

FAMILY = 6
MARGIN = 0.02
METHODS = (1, 2)


def generator(*key: object) -> np.random.Generator:
    """A stream of random numbers of its own for every point."""
    return np.random.default_rng([2004, zlib.crc32(repr(key).encode())])


@dataclass(frozen=True)
class Hard:
    """shape: of the noise beside the 1 % that all have. on: "both", "treatments" (all six), "one" (the last) or
    "baseline". follow: lag-1 correlation of blocks, of every platform on its own. marked: the noisy platform is
    emulated, and known to be. own: standard deviation of the noise that all have."""

    name: str
    shape: str = "none"
    on: str = "both"
    follow: float = 0.0
    marked: bool = False
    own: float = 0.01


NOISES = (
    Hard("normal"),
    Hard("blocks follow one another (0.3)", follow=0.3),
    Hard("blocks follow one another (0.6)", follow=0.6),
    Hard("the same, of noise of 5 %", follow=0.6, own=0.05),
    Hard("log-normal of shape 0.5, CV 15 %, on the platforms", "0.5", "treatments"),
    Hard("log-normal of shape 0.5, CV 15 %, on the baseline", "0.5", "baseline"),
    Hard("log-normal of shape 1, CV 15 %, on the platforms", "1", "treatments"),
    Hard("log-normal of shape 1, CV 15 %, on the baseline", "1", "baseline"),
    Hard("log-normal of shape 1.5, CV 15 %, on the platforms", "1.5", "treatments"),
    Hard("the same, on one platform of six", "1.5", "one"),
    Hard("exponential tail of 15 % on the platforms", "exponential", "treatments"),
    Hard("normal, 15 % on the platforms", "normal", "treatments"),
    Hard("heavy-tailed (t, 2.1 df)", "t2.1"),
    Hard("one platform of six ten times noisier", "normal10", "one"),
    Hard("the same, marked as emulated", "normal10", "one", marked=True),
)


def _skewed(shape: float, z: Array) -> Array:
    """Logarithm of 1 + 15 % of a standardized log-normal: a time with a tail of slow trials."""
    sd = np.exp(shape**2 / 2) * np.sqrt(np.expm1(shape**2))
    return np.asarray(np.log1p(0.15 * (np.exp(shape * z) - np.exp(shape**2 / 2)) / sd))


@lru_cache
def _centre(shape: float) -> float:
    return float(_skewed(shape, np.random.default_rng(0).standard_normal(4_000_000)).mean())


def extra(shape: str, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Noise of mean 0 in logarithms of times."""
    if shape == "none":
        return np.zeros(size)
    if shape == "normal":
        return 0.15 * rng.standard_normal(size)
    if shape == "normal10":
        return 0.1 * rng.standard_normal(size)
    if shape == "t2.1":
        return 0.02 * rng.standard_t(2.1, size)
    if shape == "exponential":
        return 0.15 * (rng.standard_exponential(size) - 1)
    return _skewed(float(shape), rng.standard_normal(size)) - _centre(float(shape))


def values(noise: Hard, studies: int, blocks: int, truth: float, rng: np.random.Generator) -> Array:
    """Log-times of shape (studies, 1 + FAMILY, blocks), the baseline first; truth: log-ratio of all others to it."""
    size = (studies, 1 + FAMILY, blocks)
    own = noise.own * rng.standard_normal(size)
    if noise.follow:
        for k in range(1, blocks):
            own[..., k] = noise.follow * own[..., k - 1] + np.sqrt(1 - noise.follow**2) * own[..., k]
    on = {"both": slice(None), "treatments": slice(1, None), "one": slice(FAMILY, None), "baseline": slice(0, 1)}
    part = own[:, on[noise.on]]
    own[:, on[noise.on]] = part + extra(noise.shape, part.shape, rng)
    own[:, 1:] += truth
    return np.asarray(own + 0.01 * rng.standard_normal((studies, 1, blocks)))


def judged(rule: Rule, logs: Array, noise: Hard, members: int) -> list[Comparison]:
    """What vtax makes of one study, the last `members` platforms against the baseline."""
    contrasts = {
        str(k): Contrast(
            logs[k] - logs[0], "lower", unequal_noise(logs[k], logs[0]),
            "emulated" if noise.marked and k == FAMILY else "", observed_noise=spread_ratio(logs[k], logs[0]),
        )
        for k in range(FAMILY, FAMILY - members, -1)
    }  # fmt: skip
    return [c for c in analyse(rule, contrasts).values() if isinstance(c, Comparison)]


@patch("vtax.stats.verdict.outlook", lambda *_: Outlook(None, None))  # it takes most of the time
def assumptions(noise: Hard, studies: int) -> list[str]:
    """Coverage of the worst contrast at 10 and 20 blocks; any false alarm, of one contrast too, and by method 2
    without a warning; false `equivalent` at the margin.

    Columns of the rule `verdict` are of a quarter of the studies, since each is judged after every block.
    """
    row = [f"{noise.name}"]
    for blocks in (10, 20):
        logs = values(noise, studies, blocks, 0.0, generator("cover", noise, blocks))
        found = []
        for method in METHODS:
            rule = Rule("fixed", blocks=blocks, method=method)
            registered = np.array(
                [[c.ratio.low <= 1 <= c.ratio.high for c in judged(rule, x, noise, FAMILY)] for x in logs]
            )
            found.append(percent(float(registered.mean(axis=0).min())))
        row.append(" → ".join(found))
    for stop, blocks, share in (("fixed", 10, 1), ("verdict", 30, 4)):
        logs = values(noise, studies // share, blocks, 0.0, generator("alarm", noise, stop))
        for members in (FAMILY, 1):
            found = [_any(stop, logs, noise, members, method, ("slower", "faster")) for method in METHODS]
            row.append(f"{found[0][0]} → {found[1][0]} ({found[1][1]})")
    for stop, blocks, share in (("fixed", 10, 1), ("verdict", 30, 4)):
        worst = []
        for method in METHODS:
            rates = []
            for end in (np.log1p(-MARGIN), np.log1p(MARGIN)):
                logs = values(noise, studies // share, blocks, end, generator("equal", noise, stop, end))
                rates.append(float(_any(stop, logs, noise, 1, method, ("equivalent",))[0]))
            worst.append(f"{max(rates):.1f}")
        row.append(" → ".join(worst))
    return row


def _any(stop: str, logs: Array, noise: Hard, members: int, method: int, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Share of studies with any of these verdicts, and with any without a warning, under a rule that stops when vtax
    would."""
    wrong, unwarned, last = 0, 0, logs.shape[-1]
    rule = Rule(stop, blocks=last, max_blocks=last, method=method)  # type: ignore[arg-type]
    for study in logs:
        made = _stopped(rule, study, noise, members) if stop == "verdict" else last
        found = [c.verdict for c in judged(rule, study[:, :made], noise, members) if c.verdict.kind in kinds]
        wrong += bool(found)
        unwarned += any(not verdict.warnings for verdict in found)
    return percent(wrong / len(logs)), percent(unwarned / len(logs))


def _stopped(rule: Rule, study: Array, noise: Hard, members: int) -> int:
    """Blocks after which the run would have ended: when every contrast has its verdict."""
    rows = study[FAMILY : FAMILY - members : -1] - study[0]
    fewest, last = _looked(rule, rows, noise, members), study.shape[-1]
    if rule.method == 1:
        return fewest
    return next((n for n in range(fewest, last) if _are_decided(judged(rule, study[:, :n], noise, members))), last)


def _are_decided(comparisons: list[Comparison]) -> bool:
    return all(comparison.verdict.kind != "undecided" for comparison in comparisons)


def _looked(rule: Rule, rows: Array, noise: Hard, members: int) -> int:
    """Blocks after which the boundaries have decided every contrast."""
    groups = None
    if rule.is_moderated:
        groups = ["emulated" if noise.marked and k == 0 else "" for k in range(members)]
    _, at = decide_studies(rows[None], rule.margin, rule.alpha, *rule.looks, groups)
    return int(min(at.max(), rows.shape[-1]))


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


SPREADS = {
    "alike": (1.0,) * 6,
    "one of six 3 times noisier": (1.0,) * 5 + (3.0,),
    "half of six 3 times noisier": (1.0,) * 3 + (3.0,) * 3,
    "one of six 10 times noisier": (1.0,) * 5 + (10.0,),
    "six of twelve 10 times noisier": (1.0,) * 6 + (10.0,) * 6,
    "six from 1 to 10 times": tuple(np.geomspace(1, 10, 6)),
}


def moderation(name: str, studies: int) -> list[str]:
    """Own → moderated variances, one baseline: worst coverage, any false alarm, width of a family's interval."""
    row = [name]
    for blocks in (3, 5, 10):
        rng = generator("moderation", name, blocks)
        sds = np.array(SPREADS[name])
        logs = rng.standard_normal((studies, sds.size, blocks)) * sds[:, None] - rng.standard_normal(
            (studies, 1, blocks)
        )
        variances, df, _ = moderated_families(logs, [""] * sds.size)
        found = []
        for square, freedom in ((logs.var(axis=-1, ddof=1), np.full(df.shape, blocks - 1.0)), (variances, df)):
            t = np.abs(logs.mean(axis=-1)) / np.sqrt(square / blocks)
            covers = (t <= special.stdtrit(freedom, 0.975)).mean(axis=0).min()
            alarm = holm_passes(2 * special.stdtr(freedom, -t), 0.05).any(axis=1).mean()
            width = np.median(special.stdtrit(freedom, 1 - 0.025 / sds.size) * np.sqrt(square), axis=0)[0]
            found.append((covers, alarm, width))
        (covers, alarm, width), (covers2, alarm2, width2) = found
        row += [f"{percent(covers)} → {percent(covers2)}", f"{percent(alarm)} → {percent(alarm2)}"]
        row.append(f"{width2 / width:.2f}")
    return row


def interactions(name: str, studies: int) -> list[str]:
    """False alarms of the model's F-test and of paired differences, three designs of platforms, levels and blocks."""
    row = [name]
    for design in ((3, 2, 8), (6, 2, 5), (6, 3, 8)):
        rng = generator("interactions", name, design)
        sds = np.ones(design[0])
        if "baseline" in name:
            sds[0] = 3.0
        elif name != "alike":
            sds[-1] = float(name.split()[2])
        places = [x.ravel() for x in np.meshgrid(*map(range, design), indexing="ij")]
        wrong = np.zeros(2)
        for _ in range(studies):
            guests = rng.standard_normal((design[0], 1, design[2]))
            noise = sds[:, None, None] * (0.01 * guests + 0.02 * rng.standard_normal(design))
            logs = (noise + 0.03 * rng.standard_normal(design[2])).ravel()
            wrong += [test(np.exp(logs), *places).p_value <= 0.05 for test in (interaction, paired_interaction)]
        row.append(f"{percent(wrong[0] / studies)} → {percent(wrong[1] / studies)}")
    return row


def following(correlation: float, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Standard normal values, each with that correlation to the one before it."""
    noise = rng.standard_normal(size)
    for k in range(1, size[-1]):
        noise[..., k] = correlation * noise[..., k - 1] + np.sqrt(1 - correlation**2) * noise[..., k]
    return np.asarray(noise)


def steadiness(correlation: float, studies: int) -> list[str]:
    """Drift over 20 blocks: found where none is, and where one is."""
    rng = generator("steadiness", correlation)
    found = np.zeros(3)
    for _ in range(studies):
        blocks = following(correlation, (70,), rng)[50:]
        drifting = blocks + np.linspace(0, 3, 20)
        found += [
            find_drift(100 + blocks).p_value <= 0.05,
            find_drift(100 + blocks, is_dependent=True).p_value <= 0.05,
            find_drift(100 + drifting, is_dependent=True).p_value <= 0.05,
        ]
    return [f"{correlation:g}", *(percent(each / studies) for each in found)]


def from_three(noise: Noise, studies: int) -> list[str]:
    """Rule `verdict`, six platforms: from five blocks by own variances → from three by moderated ones."""
    rng = generator("from three", noise.name)
    equal = log_ratios(randomized(noise, 0.02, np.ones(FAMILY + 1), studies, 20, 3, rng))
    row = [noise.name]
    for shift, margin, codes in (
        (0.0, 1e-6, (1, 2)),
        (np.log1p(-MARGIN), MARGIN, (3,)),
        (np.log(0.95), MARGIN, None),
    ):
        found = []
        for first, groups in ((5, None), (3, [""] * FAMILY)):
            kinds, at = decide_studies(equal + shift, margin, 0.05, first, 20, groups)
            wrong = float(np.isin(kinds, codes or ()).any(axis=1).mean())
            found.append(percent(wrong) if codes else f"{np.minimum(at, 20).mean():.1f}")
        row.append(" → ".join(found))
    return row


def failures(blocks: int, studies: int) -> list[str]:
    """Equal platforms, CV 5 %; of one the slowest 30 % of trials fail: coverage and verdicts, method 1 → 2."""
    rng = generator("failures", blocks)
    covers, wrong = np.zeros(2), np.zeros(2)
    for _ in range(studies):
        logs = 0.05 * rng.standard_normal((2, blocks))
        lost = logs[0] > 0.05 * special.ndtri(0.7)
        logs[0, lost] = np.nan
        if lost.sum() > blocks - 5:
            continue
        contrast = Contrast(logs[0] - logs[1], "lower", failed=(int(lost.sum()), 0), tried=(blocks, blocks))
        for k, method in enumerate(METHODS):
            (answer,) = analyse(Rule("fixed", method=method), {"a": contrast}).values()
            assert isinstance(answer, Comparison)
            covers[k] += answer.ratio.low <= 1 <= answer.ratio.high
            wrong[k] += answer.verdict.kind in ("faster", "slower")
    return [str(blocks), *(" → ".join(percent(x / studies) for x in each) for each in (covers, wrong))]


HEADS = {
    "assumptions": [
        "noise (method 1 → method 2)", "10 blocks: covers", "20 blocks: covers", "any alarm of six, fixed 10",
        "of one", "any alarm of six, verdict", "of one", "`equivalent` at the margin, fixed 10", "the same, verdict",
    ],
    "moderation": [
        "noise of the platforms (own → moderated)",
        *(f"{n} blocks: {what}" for n in (3, 5, 10) for what in ("covers", "any alarm", "width")),
    ],
    "interactions": ["platforms (F → paired)", "3 platforms, 2 levels, 8 blocks", "6, 2, 5", "6, 3, 8"],
    "steadiness": [
        "correlation of neighbours", "drift: none there, method 1", "none there, method 2",
        "3 SD over the run, method 2",
    ],
    "from_three": [
        "noise", "any alarm, without a margin", "any `equivalent` at the margin", "blocks, true ratio 0.95",
    ],
    "failures": ["blocks", "covers", "`faster` or `slower`"],
}  # fmt: skip
PLATFORMS = ("alike", "one is 3 times noisier", "one is 10 times noisier", "the baseline is 3 times noisier")
PLANS: dict[str, tuple[Callable[..., list[str]], tuple[object, ...], float]] = {  # the number: share of the studies
    "assumptions": (assumptions, NOISES, 1),
    "moderation": (moderation, tuple(SPREADS), 10),
    "interactions": (interactions, PLATFORMS, 0.5),
    "steadiness": (steadiness, (0.0, 0.3, 0.6, 0.9), 0.25),
    "from_three": (from_three, ROW_NOISES, 0.75),
    "failures": (failures, (10, 20, 40), 1),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=PLANS)
    options = parser.parse_args()
    started_at = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        for name, (function, items, share) in PLANS.items():
            if options.only in (None, name):
                rows = pool.map(function, items, [int(options.studies * share)] * len(items))
                print(f"\n## {name}\n\n| {' | '.join(HEADS[name])} |\n|{'---|' * len(HEADS[name])}")
                for row in rows:
                    print(f"| {' | '.join(row)} |", flush=True)
    print(f"{options.studies} studies per point; {time.monotonic() - started_at:.0f} s")


if __name__ == "__main__":
    main()
