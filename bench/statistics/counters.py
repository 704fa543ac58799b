"""How often `vtax explain` says that a counter moved where none did, by simulation.

A platform is slower than the baseline; its counters per unit of work are those of the baseline in truth. Every
counter has noise of its own kind: that of counting alone, of blocks, of trials, of rare events, of steps of 10 ms.
The family error is the share of simulated tables in which at least one counter is said to have moved; the promise is
at most 5 %. Then one counter of every kind truly grows, and the share that is found is shown.

    .venv/bin/python bench/statistics/counters.py [--runs 2000] [--blocks 5 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from vtax.counters import table
from vtax.report.analysis.result import analyse_data
from vtax.report.answers.explain.compute import explained
from vtax.store.annotations import Annotations
from vtax.store.query import BlockCounters, Measurements, RunData, Trials
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord, SessionRecord

TRIALS, TRIAL_S, RATE, SLOWDOWN = 2, 2.0, 1e4, 3.0
COPIES = 20  # counters of every kind
KINDS = {
    "events, each by itself": table.STAT["ctxt"],
    "blocks differ by 10 %": table.STAT["intr"],
    "trials differ by 30 %": table.VMSTAT["pgfault"],
    "rare, one in two trials": table.VMSTAT["pgmajfault"],
    "CPU time in steps of 10 ms": table.CPU_TIMES[5],
}


def counts(kind: str, work: float, block_noise: float, random: np.random.Generator) -> float:
    """What one counter of a kind counts in a trial of so much work; the expectation is the same per unit of work."""
    if kind == "rare, one in two trials":
        return float(random.poisson(0.5 * work / (RATE * TRIAL_S)))
    if kind == "CPU time in steps of 10 ms":
        return (
            math.floor(0.05 * work / (RATE * TRIAL_S) * float(np.exp(random.normal(0, 0.2))) * 100)
            / 100
        )
    expected = work * 0.5
    if kind == "blocks differ by 10 %":
        expected *= float(np.exp(0.1 * block_noise))
    if kind == "trials differ by 30 %":
        expected *= float(np.exp(random.normal(0, 0.3)))
    return float(random.poisson(expected))


def simulated(
    blocks: int, random: np.random.Generator, growth: float
) -> tuple[RunData, BlockCounters]:
    """A run of two platforms. growth: of the first counter of every kind on the slower one."""
    platforms = (
        PlatformRecord("native", {}, True, is_baseline=True),
        PlatformRecord("slow", {}, True),
    )
    cells = [CellRecord(f"c-{p.name}", "c", p.name, "tool", "tool") for p in platforms]
    order = [(b, c, n) for b in range(blocks) for c in range(2) for n in range(TRIALS)]
    block, cell, number = (np.array(column) for column in zip(*order, strict=True))
    shared = random.normal(0, 0.02, blocks)
    rates = np.array(
        [
            RATE / (SLOWDOWN if c else 1) * np.exp(shared[b] + random.normal(0, 0.02))
            for b, c, _ in order
        ]
    )
    each = np.arange(len(order))
    seconds, ok = np.full(len(order), TRIAL_S), np.ones(len(order), np.bool_)
    run: Any = SimpleNamespace(
        name="simulated-1",
        study="simulated",
        status="finished",
        stopped_because="",
        seed=1,
        vtax_version="0",
        image_key="",
        host={},
        plugins=(),
        untested=(),
        started_at=0.0,
        ended_at=1.0,
        duration_s=1.0,
        sessions=(SessionRecord(1, "", {}, 0.0),),
        identity="",
        provenance={},
        annotations=Annotations(),
        platforms=platforms,
        cells=cells,
        metrics=[MetricRecord("tool", "rate", "rate", "events/s", "higher", True)],
        declared={"design": {"blocks": blocks}},
    )
    data = RunData(
        run,
        Trials(
            each,
            cell,
            block,
            number,
            each,
            ~ok,
            ok,
            each * 2.0,
            seconds,
            seconds,
            np.ones_like(each),
        ),
        Measurements(each, np.zeros(each.size, np.int64), rates),
        (),
        (),
        (),
    )
    counted: dict[tuple[int, str, str], tuple[Any, Any, float]] = {}
    for kind, counter in KINDS.items():
        for copy in range(COPIES):
            of_blocks = random.normal(0, 1, (blocks, 2))
            grown = growth if copy == 0 else 1.0
            values = [
                counts(kind, rate * TRIAL_S * (grown if c else 1.0), of_blocks[b, c], random)
                for (b, c, _), rate in zip(order, rates, strict=True)
            ]
            for c in range(2):
                means = np.array(values).reshape(blocks, 2, TRIALS)[:, c].mean(1)
                counted[c, f"place {copy}", counter.name] = np.arange(blocks), means, float(TRIALS)
    return data, counted


def measure(runs: int, blocks: int, growth: float, seed: int) -> dict[str, Any]:
    """Share of tables with a counter that is said to have moved in vain, and of grown counters that were found."""
    random = np.random.default_rng(seed)
    false, found = 0, dict.fromkeys(KINDS, 0)
    names = {counter.name: kind for kind, counter in KINDS.items()}
    for _ in range(runs):
        data, counted = simulated(blocks, random, growth)
        [contrast] = explained(data, analyse_data(data).sections, counted, 0.95)
        moved = [counter for counter in contrast.comparisons if counter.moved]
        false += any(growth == 1 or each.place != "place 0" for each in moved)
        for each in moved:
            if each.place == "place 0":
                found[names[each.name]] += 1
    error = false / runs
    return {
        "blocks": blocks,
        "growth": growth,
        "runs": runs,
        "counters": len(KINDS) * COPIES,
        "family_error": error,
        "standard_error": math.sqrt(error * (1 - error) / runs),
        "found": {kind: number / runs for kind, number in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="family error of vtax explain")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--blocks", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [
        measure(arguments.runs, blocks, growth, arguments.seed)
        for blocks in arguments.blocks
        for growth in (1.0, 3.0)
    ]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        error = f"{row['family_error']:.1%} ± {1.96 * row['standard_error']:.1%}"
        print(
            f"{row['blocks']} blocks, {row['counters']} counters, one of each kind times {row['growth']:g}: "
            f"in vain in {error} of {row['runs']} tables"
        )
        for kind, share in row["found"].items():
            print(f"    {kind:<28} said to have moved: {share:6.1%}")


if __name__ == "__main__":
    main()
