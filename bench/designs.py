"""Which design of a block decides most in the same time: long trials, short trials in turn, or guests alive in rounds.

Periods of equal length, of three designs in random order:

- long: guests one after another, each cell one trial of about a second, as studies of trials of seconds do.
- short: the same with trials of 0.1 to 0.2 s, as the tour has them.
- rounds: all guests of a block are alive, and each cell has rounds of short trials; every round visits all platforms
  once, in fresh random order. The mean over a block's rounds is its value.

    sudo .venv/bin/python bench/designs.py [--periods 8] [--minutes 5] [--rounds 3] [--json]

`again` is native a second time. A design's figure is the variance of the log-ratio of a platform to native within
blocks, times the seconds of a block: by how much it is larger, by so much more time the design needs for the same
precision. Platforms are pooled, since their true ratios differ but not, as far as noise is the host's, their variances.
Intervals (95 %) are Student's t over periods, which are paired by their number. Rounds are worth building where short /
rounds is above 1.3 beyond the CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import cleanup
from alike import Trial
from frozen import Bench

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.build import find
from vtax.platforms import registry
from vtax.runner.begin import begin
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell, make_plan
from vtax.runner.removals import Removals
from vtax.stats.intervals import t_quantile
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

PLATFORMS = ("native", "again", "podman", "docker", "nspawn")
DESIGNS = ("long", "short", "rounds")
LONG, SHORT = "-long", "-short"
CELLS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "cpu": ("sysbench-cpu", {"events": 1600}, {"events": 160}),
    "memory": ("stream", {"repetitions": 8}, {"repetitions": 2}),
    "disk": (
        "dd",
        {"file_size": 256 << 20, "cache": "direct"},
        {"file_size": 64 << 20, "cache": "direct"},
    ),
    "network": (
        "netperf",
        {"test": "tcp_stream", "count": 1_250_000_000},
        {"test": "tcp_stream", "count": 250_000_000},
    ),
}
"""Cell -> its tool, with parameters of a trial of about a second and of one or two tenths."""
Block = dict[str, dict[str, float]]
"""Cell -> platform -> logarithm of its value."""


def in_turn(bench: Bench, length: str) -> Block:
    """Return a block in which every guest ends before the next one starts."""
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for guest in bench.sessions():
        with bench.opened(guest, []) as opened:
            for cell in cells_of(guest, length):
                label = cell.point.label.removesuffix(length)
                values[label][guest.platform.name] = log_of(bench.trial(opened, cell))
    return dict(values)


def in_rounds(bench: Bench) -> Block:
    """Return a block whose guests are all alive: each cell in the rounds of the plan, as a run makes them."""
    lives = bench.sessions()
    seen: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        guests = [stack.enter_context(bench.opened(life, [])) for life in lives]
        for number, trial in bench.plan.rounds(lives):
            label = trial.cell.point.label
            if label.endswith(SHORT):
                log = log_of(bench.trial(guests[number], trial.cell))
                seen[label, trial.cell.platform.name].append(log)
                guests[number].rest()
    values: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for (label, name), logs in seen.items():
        mean = statistics.fmean(math.exp(log) for log in logs)
        values[label.removesuffix(SHORT)][name] = math.log(mean)
    return dict(values)


def log_of(found: Sequence[Trial]) -> float:
    """Return the logarithm of a trial's value; NaN when it failed."""
    return found[0].log if found else math.nan


def cells_of(guest: GuestLife, length: str) -> list[PlannedCell]:
    """Return the cells of one length, in the order of the guest."""
    return [cell for cell in guest.cells if cell.point.label.endswith(length)]


def plan_of(rounds: int) -> Plan:
    """Return the plan of both lengths, with so many rounds. Raises BadInput where a platform does not run here."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    declared = {
        "name": "designs",
        "baseline": PLATFORMS[0],
        "platforms": list(PLATFORMS),
        "platform": [{"name": "again", "driver": "native"}],
        "guest": {"vcpus": 1, "memory": "1GiB"},
        "design": {"trials": rounds},
        "benchmark": [
            {"name": tool, "label": cell + length, "parameters": dict(parameters)}
            for cell, (tool, *both) in CELLS.items()
            for length, parameters in zip((LONG, SHORT), both, strict=True)
        ],
    }
    study = LoadedStudy(validate(declared, __file__), __file__)
    probes = {}
    for name in PLATFORMS:
        probe = registry.get("native" if name == "again" else name).probe(image)
        if not probe.available:
            raise BadInput(f"{name} does not run here: {probe.reason}", hint=probe.hint)
        probes[name] = probe
    return make_plan(study, image=image, probes=probes)


def bench_of(plan: Plan, stack: ExitStack) -> Bench:
    """Return what runs trials of a plan, in a store that goes at the end."""
    journal = stack.enter_context(cleanup.journal())
    directory = stack.enter_context(cleanup.directory(journal))
    store = stack.enter_context(Store.open(f"sqlite:///{directory}/store.sqlite"))
    parsers = stack.enter_context(Parsers([(p.benchmark, p.parameters) for p in plan.points]))
    removals = stack.enter_context(Removals())
    run = begin(store, plan, vtax_version="bench")
    home = Home.from_environment().ensure()
    return Bench(plan, run, home, journal, parsers, removals)


def period(bench: Bench, design: str, seconds: float) -> dict[str, Any]:
    """Run blocks of a design as long as another one is likely to end in time.

    Returns its blocks and the seconds of one.
    """
    began = time.monotonic()
    blocks: list[Block] = []
    while len(blocks) < 2 or (time.monotonic() - began) * (1 + 1 / len(blocks)) < seconds:
        if design == "rounds":
            block = in_rounds(bench)
        else:
            block = in_turn(bench, f"-{design}")
        blocks.append(block)
    block_s = (time.monotonic() - began) / len(blocks)
    print(f"{design}: {len(blocks)} blocks of {block_s:.1f} s", file=sys.stderr, flush=True)
    return {"design": design, "blocks": blocks, "block_s": block_s}


def variance(blocks: Sequence[Block], cell: str) -> float:
    """Return the pooled variance of log-ratios to native over blocks."""
    variances = []
    for name in PLATFORMS[1:]:
        logs = [block[cell][name] - block[cell][PLATFORMS[0]] for block in blocks]
        known = [log for log in logs if not math.isnan(log)]
        if len(known) > 1:
            variances.append(statistics.variance(known))
    return statistics.fmean(variances) if variances else math.nan


def compared(periods: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each cell: SD and seconds of a block, and variance x seconds of two designs, one over the other."""
    rows = []
    for cell in CELLS:
        costs = {
            design: [
                math.log(variance(each["blocks"], cell) * each["block_s"])
                for each in periods
                if each["design"] == design
            ]
            for design in DESIGNS
        }
        row: dict[str, Any] = {"cell": cell}
        for design in DESIGNS:
            of_design = [each for each in periods if each["design"] == design]
            row[f"sd_{design}"] = math.sqrt(
                statistics.fmean(variance(each["blocks"], cell) for each in of_design)
            )
            row[f"block_s_{design}"] = statistics.fmean(each["block_s"] for each in of_design)
        row["long / short"] = ratio(costs["long"], costs["short"])
        row["short / rounds"] = ratio(costs["short"], costs["rounds"])
        rows.append(row)
    return rows


def ratio(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return a ratio with its interval from logarithms of paired periods; without an interval of fewer than two."""
    logs = [a - b for a, b in zip(above, below, strict=True)]
    mean = statistics.fmean(logs)
    if len(logs) < 2 or not math.isfinite(mean):  # a cell that failed has no variance
        return [math.exp(mean), math.nan, math.nan]
    half = t_quantile(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return [math.exp(mean), math.exp(mean - half), math.exp(mean + half)]


def main() -> None:
    """Measure, and print a row for each cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--periods", type=int, default=8, help="of each design")
    parser.add_argument("--minutes", type=float, default=5.0, help="of a period")
    parser.add_argument("--rounds", type=int, default=3, help="of a block of guests that are alive")
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds for another command to end"
    )
    parser.add_argument("--json", action="store_true", help="all values")
    arguments = parser.parse_args()
    with measuring_lock("bench/designs.py", wait_s=arguments.wait), ExitStack() as stack:
        bench = bench_of(plan_of(arguments.rounds), stack)
        periods = [
            period(bench, design, arguments.minutes * 60)
            for _ in range(arguments.periods)
            for design in random.sample(DESIGNS, len(DESIGNS))
        ]
    rows = compared(periods)
    if arguments.json:
        print(json.dumps({"rows": rows, "periods": periods, "errors": bench.errors}))
        return
    for row in rows:
        blocks = ", ".join(
            f"{design} {row[f'sd_{design}']:.2%} in {row[f'block_s_{design}']:.1f} s"
            for design in DESIGNS
        )
        print(f"{row['cell']:<8} SD of a block: {blocks}")
        for name in ("long / short", "short / rounds"):
            estimate, low, high = row[name]
            print(f"{'':<8} variance x seconds, {name}: {estimate:.2f} [{low:.2f}, {high:.2f}]")
    for error in dict.fromkeys(bench.errors):
        print(error)


if __name__ == "__main__":
    cleanup.run(main)
