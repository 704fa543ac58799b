"""Noise that breaks what Student's t assumes, and what the analysis makes of it.

    python bench/statistics/hard.py                # prints all tables
    python bench/statistics/hard.py --studies 300 --only assumptions

Every study is judged by `vtax.stats.judge.analyse` itself. Values are logarithms, one per block; a platform has
noise of 1 %, and so has a block.
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
from noise import Array
from scipy import special

from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.outlook import Outlook
from vtax.stats.rules import RULES, FixedRule, Rule
from vtax.stats.sequential import decide_studies
from vtax.stats.steadiness import find_drift

FAMILY = 6
MARGIN = 0.02


def generator(*key: object) -> np.random.Generator:
    """A stream of random numbers of its own for every point."""
    return np.random.default_rng([2004, zlib.crc32(repr(key).encode())])


@dataclass(frozen=True)
class Hard:
    """shape: of the noise beside the 1 % that all have. on: "both", "treatments" (all six), "one" (the last) or
    "baseline". follow: lag-1 correlation of blocks, of every platform on its own. own: standard deviation of the
    noise that all have."""

    name: str
    shape: str = "none"
    on: str = "both"
    follow: float = 0.0
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
            own[..., k] = (
                noise.follow * own[..., k - 1] + np.sqrt(1 - noise.follow**2) * own[..., k]
            )
    on = {
        "both": slice(None),
        "treatments": slice(1, None),
        "one": slice(FAMILY, None),
        "baseline": slice(0, 1),
    }
    part = own[:, on[noise.on]]
    own[:, on[noise.on]] = part + extra(noise.shape, part.shape, rng)
    own[:, 1:] += truth
    return np.asarray(own + 0.01 * rng.standard_normal((studies, 1, blocks)))


def judged(rule: Rule, logs: Array, members: int) -> list[Comparison]:
    """What vtax makes of one study, the last `members` platforms against the baseline."""
    contrasts = {
        str(k): Contrast(logs[k] - logs[0], "lower", unequal_noise(logs[k], logs[0]))
        for k in range(FAMILY, FAMILY - members, -1)
    }
    return [c for c in analyse(rule, contrasts).values() if isinstance(c, Comparison)]


@patch("vtax.stats.verdict.outlook", lambda *_: Outlook(None, None))  # it takes most of the time
def assumptions(noise: Hard, studies: int) -> list[str]:
    """Coverage of the worst contrast at 10 and 20 blocks; any false alarm, of one contrast too, and those
    without a warning; false `equivalent` at the margin.

    Columns of the rule `verdict` are of a quarter of the studies, since each is judged after every block.
    """
    row = [f"{noise.name}"]
    for blocks in (10, 20):
        logs = values(noise, studies, blocks, 0.0, generator("cover", noise, blocks))
        rule = FixedRule(blocks=blocks)
        covered = np.array(
            [[c.ratio.low <= 1 <= c.ratio.high for c in judged(rule, x, FAMILY)] for x in logs]
        )
        row.append(percent(float(covered.mean(axis=0).min())))
    for stop, blocks, share in (("fixed", 10, 1), ("verdict", 30, 4)):
        logs = values(noise, studies // share, blocks, 0.0, generator("alarm", noise, stop))
        for members in (FAMILY, 1):
            wrong, unwarned = _any(stop, logs, members, ("slower", "faster"))
            row.append(f"{wrong} ({unwarned})")
    for stop, blocks, share in (("fixed", 10, 1), ("verdict", 30, 4)):
        rates = []
        for end in (-np.log1p(MARGIN), np.log1p(MARGIN)):
            logs = values(
                noise, studies // share, blocks, end, generator("equal", noise, stop, end)
            )
            rates.append(_any(stop, logs, 1, ("equivalent",)))
        wrong, unwarned = max(rates, key=lambda each: float(each[0]))
        row.append(f"{wrong} ({unwarned})")
    return row


def _any(stop: str, logs: Array, members: int, kinds: tuple[str, ...]) -> tuple[str, str]:
    """Share of studies with any of these verdicts, and with any without a warning, under a rule that stops when vtax
    would."""
    wrong, unwarned, last = 0, 0, logs.shape[-1]
    rule = RULES[stop](blocks=last, max_blocks=last)
    for study in logs:
        made = _stopped(rule, study, members) if rule.looks else last
        found = [
            c.verdict for c in judged(rule, study[:, :made], members) if c.verdict.kind in kinds
        ]
        wrong += bool(found)
        unwarned += any(not verdict.warnings for verdict in found)
    return percent(wrong / len(logs)), percent(unwarned / len(logs))


def _stopped(rule: Rule, study: Array, members: int) -> int:
    """Blocks after which the run would have ended: when every contrast has its verdict."""
    rows = study[FAMILY : FAMILY - members : -1] - study[0]
    fewest, last = _looked(rule, rows), study.shape[-1]
    return next(
        (n for n in range(fewest, last) if _are_decided(judged(rule, study[:, :n], members))), last
    )


def _are_decided(comparisons: list[Comparison]) -> bool:
    return all(comparison.verdict.kind != "undecided" for comparison in comparisons)


def _looked(rule: Rule, rows: Array) -> int:
    """Blocks after which the boundaries have decided every contrast."""
    _, at = decide_studies(rows[None], rule.margin, rule.alpha, [rule.looks] * len(rows))
    return int(min(at.max(), rows.shape[-1]))


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def following(correlation: float, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Standard normal values, each with that correlation to the one before it."""
    noise = rng.standard_normal(size)
    for k in range(1, size[-1]):
        noise[..., k] = (
            correlation * noise[..., k - 1] + np.sqrt(1 - correlation**2) * noise[..., k]
        )
    return np.asarray(noise)


def steadiness(correlation: float, studies: int) -> list[str]:
    """Drift over 20 blocks: found where none is, and where one is."""
    rng = generator("steadiness", correlation)
    found = np.zeros(2)
    for _ in range(studies):
        blocks = following(correlation, (70,), rng)[50:]
        drifting = blocks + np.linspace(0, 3, 20)
        found += [
            find_drift(100 + blocks).p_value <= 0.05,
            find_drift(100 + drifting).p_value <= 0.05,
        ]
    return [f"{correlation:g}", *(percent(each / studies) for each in found)]


def failures(blocks: int, studies: int) -> list[str]:
    """Equal platforms, CV 5 %; of one the slowest 30 % of trials fail: coverage and verdicts."""
    rng = generator("failures", blocks)
    covers, wrong = 0, 0
    for _ in range(studies):
        logs = 0.05 * rng.standard_normal((2, blocks))
        lost = logs[0] > 0.05 * special.ndtri(0.7)
        logs[0, lost] = np.nan
        if lost.sum() > blocks - 5:
            continue
        contrast = Contrast(
            logs[0] - logs[1], "lower", failed=(int(lost.sum()), 0), tried=(blocks, blocks)
        )
        (answer,) = analyse(FixedRule(), {"a": contrast}).values()
        assert isinstance(answer, Comparison)
        covers += answer.ratio.low <= 1 <= answer.ratio.high
        wrong += answer.verdict.kind in ("faster", "slower")
    return [str(blocks), percent(covers / studies), percent(wrong / studies)]


UNTUNED = (
    "one block in 12 20 % slower, on the platform",
    "states of 3 blocks slow the baseline by 5 %, the platform by 7.5 %",
    "both alternate by 6 % from block to block",
    "three levels 2 % apart, of both",
    "Cauchy of 2 %, of both",
)


def untuned_noise(name: str, blocks: int, rng: np.random.Generator) -> Array:
    """(baseline, platform) x blocks in logarithms of times; a mean log-ratio of 0, of Cauchy's a median."""
    sides = 0.01 * rng.standard_normal((2, blocks))
    if name == UNTUNED[0]:
        sides[1] += 0.2 * ((rng.random(blocks) < 1 / 12) - 1 / 12)
    elif name == UNTUNED[1]:
        is_slow = (rng.random() < 0.5) ^ (np.cumsum(rng.random(blocks) < 1 / 3) % 2 == 1)
        sides += np.log([[1.05], [1.075]]) * is_slow
        sides[1] -= np.log(1.075 / 1.05) / 2
    elif name == UNTUNED[2]:
        sides += 0.03 * (-1.0) ** (np.arange(blocks) + rng.integers(0, 2, (2, 1)))
    elif name == UNTUNED[3]:
        sides += 0.02 * rng.integers(-1, 2, (2, blocks))
    else:
        sides += 0.02 * rng.standard_cauchy((2, blocks))
    return np.asarray(sides)


@patch("vtax.stats.verdict.outlook", lambda *_: Outlook(None, None))
def untuned(name: str, studies: int) -> list[str]:
    """One comparison at a fixed number of blocks, of noises that no threshold was chosen by."""
    row = [name]
    for blocks in (5, 10, 20):
        rng, rule = generator("untuned", name, blocks), FixedRule(blocks=blocks)
        covers, words = 0, np.zeros((2, 2))
        for _ in range(studies):
            baseline, platform = untuned_noise(name, blocks, rng)
            for k, (end, kinds) in enumerate(
                ((0.0, ("slower", "faster")), (np.log1p(MARGIN), ("equivalent",)))
            ):
                logs = platform + end - baseline
                contrast = Contrast(logs, "lower", unequal_noise(platform, baseline))
                (answer,) = analyse(rule, {"a": contrast}).values()
                assert isinstance(answer, Comparison)
                covers += k == 0 and answer.ratio.low <= 1 <= answer.ratio.high
                is_false = answer.verdict.kind in kinds
                words[k] += (
                    is_false,
                    is_false and not answer.verdict.warnings and not answer.ratio.warnings,
                )
        row.append(percent(covers / studies))
        row += [
            f"{percent(wrong / studies)} ({percent(unwarned / studies)})"
            for wrong, unwarned in words
        ]
    return row


HEADS = {
    "untuned": [
        "noise (without a warning)",
        *(
            f"{n} blocks: {what}"
            for n in (5, 10, 20)
            for what in ("covers", "alarm", "`equivalent` at the margin")
        ),
    ],
    "assumptions": [
        "noise (without a warning)",
        "10 blocks: covers",
        "20 blocks: covers",
        "any alarm of six, fixed 10",
        "of one",
        "any alarm of six, verdict",
        "of one",
        "`equivalent` at the margin, fixed 10",
        "the same, verdict",
    ],
    "steadiness": ["correlation of neighbours", "none there", "3 SD over the run"],
    "failures": ["blocks", "covers", "`faster` or `slower`"],
}
PLANS: dict[
    str, tuple[Callable[..., list[str]], tuple[object, ...], float]
] = {  # the number: share of the studies
    "untuned": (untuned, UNTUNED, 1),
    "assumptions": (assumptions, NOISES, 1),
    "steadiness": (steadiness, (0.0, 0.3, 0.6, 0.9), 0.25),
    "failures": (failures, (10, 20, 40), 1),
}


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
