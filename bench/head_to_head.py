"""Six ways to compare two platforms, on a pair that is alike and on one that loses 5 %, in the same minutes.

Two programs, one bound to the CPU and one to memory, do a count of work. `native` runs them, `again` is native a second
time, and `planted` does a twentieth more. In every period each way has the same time, in a random order:

- means: three runs in a row of each side, means with their standard deviations, as the five publications have them.
  A difference: the bars of one standard deviation do not overlap.
- phoronix: three runs, more until their standard deviation is at most 3.5 % of the mean (15 runs at most); means.
  A difference: the bars of one standard error do not overlap.
- hyperfine: ten runs, after one that does not count; ratio of means, whose error is propagated from the standard
  deviations. A difference: 1 lies outside.
- benchstat: ten runs of each; medians; a difference: Mann and Whitney's test at 5 %.
- replicates: three replicates of three passes each, sides in turn; medians, an interval from a bootstrap of
  replicates and then passes, and Mann and Whitney's test on medians of replicates; a difference: both say so. The
  method of hpc-sandbox-benchmarks.
- vtax: many short trials on fresh guests in randomized blocks, with its verdict.

The first five run plain processes one after another, as their users do.

    sudo .venv/bin/python bench/head_to_head.py [--periods 8] [--seconds 40] [--json]

For each way: in how many comparisons a like pair differs and how many losses of 5 % are found, and the median of the
half-widths of what it prints in percent, an interval of 95 % only for replicates and vtax.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import planted
from scipy import stats

PROGRAM = """
import sys, time
work, count = sys.argv[1], int(sys.argv[2])
if "NoNewPrivs:\\t1" in open("/proc/self/status").read():
    count = count * 21 // 20
block = bytes(32 << 20) if work == "memory" else b""
begun = time.perf_counter()
if work == "memory":
    for number in range(count):
        bytearray(block)
else:
    for number in range(count * 40_000):
        number * number
print(f"seconds: {time.perf_counter() - begun:.6f}")
"""
STUDY = """
name = "head-to-head"
title = "Is a pair alike?"
baseline = "native"
platforms = ["native", "again", "planted"]

[guest]
memory = "512MiB"

[design]
stop = "budget"
budget = "1min"

[[platform]]
name = "again"
driver = "native"

[[platform]]
name = "planted"
driver = "sandbox"
no_new_privileges = true
"""
WORKS = ("cpu", "memory")
SIDES = ("native", "again", "planted")
SHORT = 0.1
"""Seconds of a trial of vtax."""
NOISY = 0.035
"""Phoronix Test Suite's default: more runs while the standard deviation is above this share of the mean."""
MOST_RUNS = 15
DRAWS = 2000


@dataclass(frozen=True)
class Said:
    """What a way says of a side against native: whether they differ, and the half-width of its ratio."""

    differs: bool
    half_width: float


Way = Callable[["Host", str, float], dict[str, Said]]


class Host:
    """Runs the program as a plain process of this host."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.rates = {work: self._rate(work) for work in WORKS}

    def _rate(self, work: str) -> float:
        """Count of work in a second."""
        count = 1
        while (seconds := self._seconds(work, "native", count)) < 2 * SHORT:
            count *= 2
        return count / seconds

    def _seconds(self, work: str, side: str, count: int) -> float:
        words = [sys.executable, str(self.program), work, str(count)]
        if side == "planted":
            words = ["setpriv", "--no-new-privs", *words]
        printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return float(printed.removeprefix("seconds: "))

    def count(self, work: str, seconds: float) -> int:
        """Return the count of work that takes so long."""
        return max(1, round(self.rates[work] * seconds))

    def run(self, work: str, side: str, seconds: float) -> float:
        """Run as much work as takes native so long, and return the seconds that it took."""
        return self._seconds(work, side, self.count(work, seconds))


def means(host: Host, work: str, seconds: float) -> dict[str, Said]:
    """Three runs in a row."""
    of_a_run = seconds / (3 * len(SIDES))
    runs = {side: [host.run(work, side, of_a_run) for _ in range(3)] for side in SIDES}
    return {side: bars(runs["native"], runs[side], 1) for side in SIDES[1:]}


def phoronix(host: Host, work: str, seconds: float) -> dict[str, Said]:
    """Three runs, or more while they are noisy."""
    of_a_run = seconds / (3 * len(SIDES))
    runs: dict[str, list[float]] = {}
    for side in SIDES:
        own = [host.run(work, side, of_a_run) for _ in range(3)]
        while statistics.stdev(own) > NOISY * statistics.mean(own) and len(own) < MOST_RUNS:
            own.append(host.run(work, side, of_a_run))
        runs[side] = own
    return {side: bars(runs["native"], runs[side], len(runs[side]) ** -0.5) for side in SIDES[1:]}


def bars(ground: Sequence[float], other: Sequence[float], share: float) -> Said:
    """Whether bars of a share of the standard deviation leave a gap."""
    gap = abs(statistics.mean(other) - statistics.mean(ground))
    bar = share * (statistics.stdev(other) + statistics.stdev(ground))
    return Said(gap > bar, bar / statistics.mean(ground))


def hyperfine(host: Host, work: str, seconds: float) -> dict[str, Said]:
    """Ten runs after a first one."""
    runs = ten(host, work, seconds)
    said = {}
    for side in SIDES[1:]:
        ground, other = runs["native"], runs[side]
        ratio = statistics.mean(other) / statistics.mean(ground)
        shares = [statistics.stdev(each) / statistics.mean(each) for each in (ground, other)]
        error = ratio * math.hypot(*shares)
        said[side] = Said(abs(ratio - 1) > error, error)
    return said


def benchstat(host: Host, work: str, seconds: float) -> dict[str, Said]:
    """Ten runs, tested."""
    runs = ten(host, work, seconds)
    said = {}
    for side in SIDES[1:]:
        low, high = stats.t.interval(0.95, 9, statistics.mean(runs[side]), stats.sem(runs[side]))
        half = (high - low) / 2 / statistics.mean(runs["native"])
        said[side] = Said(is_shifted(runs["native"], runs[side]), half)
    return said


def ten(host: Host, work: str, seconds: float) -> dict[str, list[float]]:
    """Return ten runs in a row of each side, after one that does not count."""
    of_a_run = seconds / (11 * len(SIDES))
    return {side: [host.run(work, side, of_a_run) for _ in range(11)][1:] for side in SIDES}


def replicates(host: Host, work: str, seconds: float) -> dict[str, Said]:
    """Three replicates of three passes."""
    of_a_run = seconds / (9 * len(SIDES))
    runs: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(3):
        for side in SIDES:
            runs[side].append([host.run(work, side, of_a_run) for _ in range(3)])
    draw = np.random.default_rng(1)
    drawn = {side: medians(np.array(runs[side]), draw) for side in SIDES}
    said = {}
    for side in SIDES[1:]:
        low, high = np.quantile(drawn[side] / drawn["native"], [0.025, 0.975])
        middles = {name: [statistics.median(each) for each in runs[name]] for name in runs}
        tested = is_shifted(middles["native"], middles[side])
        said[side] = Said(tested and not low <= 1 <= high, float(high - low) / 2)
    return said


def is_shifted(ground: Sequence[float], other: Sequence[float]) -> bool:
    """Whether Mann and Whitney's test at 5 % tells two samples apart."""
    return bool(stats.mannwhitneyu(np.array(ground), np.array(other)).pvalue < 0.05)


def medians(values: npt.NDArray[np.float64], draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return medians of a bootstrap of replicates, then of passes. values: (replicates, passes)."""
    drawn = []
    for _ in range(DRAWS):
        rows = values[draw.integers(0, len(values), len(values))]
        columns = draw.integers(0, rows.shape[1], rows.shape)
        drawn.append(np.median(np.take_along_axis(rows, columns, 1)))
    return np.array(drawn)


WAYS: dict[str, Way] = {
    "means": means,
    "phoronix": phoronix,
    "hyperfine": hyperfine,
    "benchstat": benchstat,
    "replicates": replicates,
}


def vtax(study: Path, seconds: float) -> dict[tuple[str, str], Said]:
    """Run the study for so long, and return by work and side what its table says."""
    shown = planted.measured(study, f"{seconds:.0f}s")
    said = {}
    for result in shown["results"]:
        if result["metric"] != "time":
            continue
        for point in result["points"]:
            for row in point["rows"]:
                if row["platform"] in SIDES[1:]:
                    ratio = row["ratio"]
                    differs = row["verdict"]["kind"] in ("slower", "faster")
                    half = (ratio["high"] - ratio["low"]) / 2
                    said[result["benchmark"], row["platform"]] = Said(differs, half)
    return said


def main() -> None:
    """Measure, and print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--periods", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=40, help="of each way in a period")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    said: dict[str, dict[str, list[Said]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "program.py")
        program.write_text(PROGRAM)
        host = Host(program)
        study = Path(directory, "head-to-head.toml")
        tables = [planted.table(work, work, str(host.count(work, SHORT))) for work in WORKS]
        study.write_text(STUDY + "".join(tables))
        for period in range(given.periods):
            for name in random.sample([*WAYS, "vtax"], len(WAYS) + 1):
                begun = time.monotonic()
                if name == "vtax":
                    both = list(vtax(study, given.seconds).items())
                else:
                    both = [
                        ((work, side), each)
                        for work in WORKS
                        for side, each in WAYS[name](host, work, given.seconds / 2).items()
                    ]
                for (_, side), each in both:
                    said[name][side].append(each)
                taken = time.monotonic() - begun
                print(f"period {period + 1}: {name}, {taken:.0f} s", file=sys.stderr, flush=True)
    rows = [row(name, said[name]) for name in [*WAYS, "vtax"]]
    if given.json:
        print(json.dumps(rows))
        return
    print("| way | like pairs called different | losses of 5 % found | half-width, percent |")
    print("|---|---|---|---|")
    for counts in rows:
        print(
            f"| {counts['way']} | {counts['false']} of {counts['like']} | {counts['found']} of"
            f" {counts['planted']} | {counts['half_width']:.1f} |"
        )


def row(name: str, said: dict[str, list[Said]]) -> dict[str, str | int | float]:
    """Return the counts of a way."""
    halves = [each.half_width for side in SIDES[1:] for each in said[side]]
    return {
        "way": name,
        "false": sum(each.differs for each in said["again"]),
        "like": len(said["again"]),
        "found": sum(each.differs for each in said["planted"]),
        "planted": len(said["planted"]),
        "half_width": 100 * statistics.median(halves),
    }


if __name__ == "__main__":
    main()
