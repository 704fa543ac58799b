"""What blocks of like guests say: how much two of them differ, in which design, and what a longer trial buys."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scipy import special

from vtax.stats.ratio import ratio_of_logs

TIMES = 3  # as many trials, or one as long
LONGER = " longer"
TOUR_CELLS = 5  # of a guest, which share its start


@dataclass(frozen=True)
class Trial:
    """A trial that succeeded: logarithm of its primary metric, monotonic time of its start, seconds of it all."""

    log: float
    at: float
    seconds: float


@dataclass(frozen=True)
class Block:
    """A block of a design: trials of like guests by benchmark, in the order they ran. starts: seconds of guests."""

    trials: Mapping[str, Sequence[Trial]]
    seconds: float
    starts: Sequence[float] = ()
    alone: Mapping[str, float] = field(
        default_factory=dict
    )  # benchmark -> log(with frozen neighbours / without)


class Found(NamedTuple):
    """A figure and its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


Pair = tuple[Block, Block]
"""One in turn, one alive."""


def spread(blocks: Sequence[Sequence[float]]) -> float:
    """SD of the difference of two like guests in a block; NaN where there are no two. blocks: logarithms."""
    squares = sum(statistics.variance(each) * (len(each) - 1) for each in blocks if len(each) > 1)
    freedom = sum(len(each) - 1 for each in blocks if each)
    return math.sqrt(2 * squares / freedom) if freedom else math.nan


def neighbours(blocks: Sequence[Sequence[float]]) -> float:
    """SD of the difference of two like guests that ran one after the other."""
    squares = [(b - a) ** 2 for each in blocks for a, b in itertools.pairwise(each)]
    return math.sqrt(statistics.fmean(squares)) if squares else math.nan


def typical(blocks: Sequence[Sequence[float]]) -> float:
    """Median of the differences of two like guests in a block: what other programs do at times moves it little."""
    return statistics.median(
        abs(a - b) for each in blocks for a, b in itertools.combinations(each, 2)
    )


def jackknifed(statistic: Callable[[Sequence[Any]], float], blocks: Sequence[Any]) -> Found:
    """A positive statistic of blocks with the interval of its logarithm, by leaving out each block in turn."""
    whole = math.log(statistic(blocks))
    if (n := len(blocks)) < 3:
        return Found(math.exp(whole), 0.0, math.inf)
    parts = [math.log(statistic([*blocks[:i], *blocks[i + 1 :]])) for i in range(n)]
    error = math.sqrt(statistics.pvariance(parts) * (n - 1))
    half = float(special.stdtrit(n - 1, 0.975)) * error
    return Found(math.exp(whole), math.exp(whole - half), math.exp(whole + half))


def logs_of(label: str, blocks: Sequence[Block]) -> list[list[float]]:
    return [[trial.log for trial in block.trials[label]] for block in blocks]


def apart_s(label: str, blocks: Sequence[Block]) -> float:
    """Median of the seconds from the start of a trial to the next guest's."""
    times = [[trial.at for trial in block.trials[label]] for block in blocks]
    return statistics.median(
        after - before for each in times for before, after in itertools.pairwise(each)
    )


def near_row(label: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    """A benchmark: SD in turn and alive, their ratio, and what frozen neighbours move."""

    def narrower(some: Sequence[Pair]) -> float:
        return spread(logs_of(label, [alive for _, alive in some])) / spread(
            logs_of(label, [one for one, _ in some])
        )

    in_turn, alive = [one for one, _ in pairs], [other for _, other in pairs]
    moved = [block.alone[label] for block in alive if label in block.alone]
    ratio = ratio_of_logs(moved, 0.95) if len(moved) > 1 else None
    return {
        "benchmark": label,
        "sd_in_turn": spread(logs_of(label, in_turn)),
        "sd_alive": spread(logs_of(label, alive)),
        "sd_alive_neighbours": neighbours(logs_of(label, alive)),
        "typical_in_turn": typical(logs_of(label, in_turn)),
        "typical_alive": typical(logs_of(label, alive)),
        "ratio": jackknifed(narrower, pairs),
        "apart_in_turn_s": apart_s(label, in_turn),
        "apart_alive_s": apart_s(label, alive),
        "moved": Found(ratio.estimate, ratio.low, ratio.high) if ratio else None,
    }


def plans_of(label: str, block: Block) -> dict[str, list[float]]:
    """Logarithms that each plan would have of each guest of a block; guests with a failed trial are left out."""
    short, long = ([trial.log for trial in block.trials[name]] for name in (label, label + LONGER))
    guests = [(short[i * TIMES : (i + 1) * TIMES], long[i]) for i in range(len(long))]
    whole = [each for each in guests if math.isfinite(sum(each[0]) + each[1])]
    found = {
        f"trials: {n}": [statistics.fmean(some[:n]) for some, _ in whole]
        for n in range(1, TIMES + 1)
    }
    return {**found, f"a trial {TIMES} times as long": [one for _, one in whole]}


def length_rows(label: str, blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Plans of a benchmark: SD, seconds a guest, and variance x seconds as a share of one trial's: below 1 a minute
    buys more than by further blocks of one trial."""
    start_s = statistics.fmean(each for block in blocks for each in block.starts) / TOUR_CELLS
    seconds = {}
    for name in (label, label + LONGER):
        seconds[name] = statistics.fmean(
            t.seconds for b in blocks for t in b.trials[name] if math.isfinite(t.log)
        )
    per_block = [plans_of(label, block) for block in blocks]
    names = list(per_block[0])
    cost = {name: start_s + seconds[label] * (number + 1) for number, name in enumerate(names[:-1])}
    cost[names[-1]] = start_s + seconds[label + LONGER]

    def of(name: str) -> Callable[[Sequence[Mapping[str, list[float]]]], float]:
        def price(some: Sequence[Mapping[str, list[float]]]) -> float:
            return spread([each[name] for each in some]) ** 2 * cost[name]

        return lambda some: (
            price(some) / (spread([each[names[0]] for each in some]) ** 2 * cost[names[0]])
        )

    return [
        {
            "benchmark": label,
            "plan": name,
            "sd": spread([each[name] for each in per_block]),
            "seconds": cost[name],
            "variance_seconds": jackknifed(of(name), per_block),
        }
        for name in names
    ]
