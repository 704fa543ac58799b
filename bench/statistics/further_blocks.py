"""How many further blocks runs make: how often the range of an open verdict holds, and what a lost platform costs.

    python bench/statistics/further_blocks.py --studies 2000

Every verdict and every decision to stop is vtax's own.
"""

from __future__ import annotations

import argparse
from itertools import product
from unittest.mock import patch

import numpy as np
from hard import FAMILY, generator, percent

from vtax.stats import stopping
from vtax.stats.checks import Array
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.rules import RULES, PrecisionRule, Rule
from vtax.stats.terms import Stop
from vtax.stats.verdict import Verdict

OUTLOOK_HEADS = (
    "rule",
    "blocks made",
    "open",
    "with a range",
    "settled at its low end",
    "the same, of low ends above one block",
    "settled at its high end",
)
LOST_HEADS = ("noise / target", "none lost", "one lost", "one lost, and never left out")
LOST_AFTER = 2  # blocks
STOPS: tuple[Stop, ...] = ("fixed", "precision", "verdict")


def outlooks(stop: Stop, blocks: int, studies: int) -> list[str]:
    """Of open verdicts at the level of a family of ten: how often a range is printed, and settles at its ends.

    Settled is what has a verdict after that many more blocks, at the level that the rule asks for there.
    """
    rule = RULES[stop](blocks=blocks, confidence=0.995)
    rng = generator("outlooks", stop, blocks)
    open_, ends = 0, []
    for _ in range(studies):
        truth, sd = rng.uniform(-0.25, 0.25), rng.uniform(0.01, 0.1)
        logs = truth + sd * rng.standard_normal(blocks)
        found = alone(rule, logs)
        open_ += found.kind == "undecided"
        if found.kind == "undecided" and found.blocks_needed and found.blocks_needed_low:
            logs = np.append(logs, truth + sd * rng.standard_normal(found.blocks_needed))
            reached = (blocks + found.blocks_needed_low, blocks + found.blocks_needed)
            settled = [alone(rule, logs[:made]).kind != "undecided" for made in reached]
            ends.append((*settled, found.blocks_needed_low > 1))
    low, high, is_later = np.array(ends, np.bool_).reshape(-1, 3).T
    shares = (_share(low), f"{_share(low[is_later])} (of {is_later.sum()})", _share(high))
    return [f"`{stop}`", str(blocks), str(open_), str(len(ends)), *shares]


def _share(settled: Array) -> str:
    return percent(float(settled.mean())) if settled.size else ""


def alone(rule: Rule, logs: Array) -> Verdict:
    """The verdict of one contrast by its log-ratios, one a block."""
    (answer,) = analyse(rule, {"a": Contrast(logs, "higher")}).values()
    assert isinstance(answer, Comparison)
    return answer.verdict


def lost(noise: float, studies: int) -> list[str]:
    """Blocks of a run with the rule `precision` and six comparisons, whose noise is a multiple of the target: where
    none is lost, where one has no value after the second block, and where nothing takes that one for lost."""
    row = [f"{noise:g}"]
    for is_lost, most in ((False, stopping.MAX_LOST), (True, stopping.MAX_LOST), (True, 10**6)):
        rng = generator("lost", noise)
        with patch.object(stopping, "MAX_LOST", most):
            row.append(
                f"{np.mean([blocks_of_run(noise, rng, is_lost=is_lost) for _ in range(studies)]):.1f}"
            )
    return row


def blocks_of_run(noise: float, rng: np.random.Generator, *, is_lost: bool) -> int:
    """Blocks until the rule stops a run; a comparison whose interval is narrow is left out of further ones."""
    rule = PrecisionRule()
    logs = noise * rule.precision * rng.standard_normal((FAMILY, rule.max_blocks))
    if is_lost:
        logs[0, LOST_AFTER:] = np.nan
    made = dict.fromkeys(map(str, range(FAMILY)), 0)
    wanted = tuple(made)
    for blocks in range(1, rule.max_blocks + 1):
        made |= dict.fromkeys(wanted, blocks)
        decision = stopping.decide(
            rule, {name: logs[int(name), :n] for name, n in made.items()}, blocks
        )
        if decision.stop:
            return blocks
        wanted = decision.open
    return rule.max_blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    tables = (
        (OUTLOOK_HEADS, (outlooks(*at, studies) for at in product(STOPS, (5, 10, 20)))),
        (LOST_HEADS, (lost(noise, studies) for noise in (0.5, 0.75, 1.0, 2.0))),
    )
    for heads, rows in tables:
        print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
        for row in rows:
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
