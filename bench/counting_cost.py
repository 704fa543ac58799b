"""What counting around a trial costs: trials with counters and without them, interleaved on the same fresh guests.

A real run through the runner and the store. The benchmark computes for about half a second in the guest; every
second trial reads no counters and no clocks. Pairs of neighbouring trials, the order of which alternates, give the
ratio of the program's time with counters to that without (does counting change a figure?), and the wall time that
counting adds to a trial.

    sudo .venv/bin/python bench/counting_cost.py [--platform native ...] [--pairs 8] [--blocks 4] [--json]

The promise (docs/promises.md): the ratio is 1 within its interval, which is at most 2 % wide on each side.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import cleanup
from trial_overhead import TrueBenchmark

from vtax.benchmarks import registry
from vtax.benchmarks.base import Command, Context, Outcome, Role
from vtax.errors import BadInput
from vtax.guest.guest import CommandResult
from vtax.host.home import Home
from vtax.image.build import find
from vtax.runner.counting import Counting
from vtax.runner.events import Figure, NullObserver, Progress
from vtax.runner.execute import begin, execute
from vtax.runner.plan import make_plan
from vtax.stats.ratio import Ratio, ratio_of_logs
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

_LOOPS = {"native": 4_000_000}
_ELSEWHERE = 400_000  # an emulated CPU is about ten times slower


class Loop(TrueBenchmark):
    """A loop of fixed length in the guest's Python. loops: of the platform that runs now."""

    name = "true"
    loops = _ELSEWHERE

    def commands(self, parameters: Any, context: Context) -> Sequence[Command]:
        code = f"n={self.loops}\nwhile n: n-=1"
        return (Command("single", ("python3", "-I", "-S", "-c", code)),)

    def expected_s(self, parameters: Any, context: Context) -> float:
        return 0.5

    def parse(self, parameters: Any, context: Context, results: Mapping[Role, CommandResult]) -> Outcome:
        self.last = results["single"]
        return Outcome({"seconds": self.last.outside_s})


class Watch(NullObserver):
    """Alternates counting from trial to trial, and keeps times: platform -> pairs of (with, without)."""

    def __init__(self, benchmark: Loop) -> None:
        self._benchmark = benchmark
        self._number: dict[str, int] = defaultdict(int)
        self._began = 0.0
        self.counts = True
        self.tool: dict[str, dict[bool, list[float]]] = defaultdict(lambda: {True: [], False: []})
        self.added: dict[str, dict[bool, list[float]]] = defaultdict(lambda: {True: [], False: []})
        self.errors: list[str] = []

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        number = self._number[platform]
        self._number[platform] += 1
        pair, second = divmod(number, 2)
        self.counts = bool(second) == bool(pair % 2)
        self._benchmark.loops = _LOOPS.get(platform, _ELSEWHERE)
        self._began = time.monotonic()

    def trial_ended(self, platform: str, label: str, figure: Figure | None, error: str, progress: Progress) -> None:
        wall_s = time.monotonic() - self._began
        result = self._benchmark.last
        if error or result is None:
            self.errors.append(f"{platform}: {error}")
            return
        self.tool[platform][self.counts].append(result.outside_s)
        self.added[platform][self.counts].append(wall_s - result.outside_s)


def measure(platforms: list[str], pairs: int, blocks: int) -> Watch:
    """Run the study and return what was seen."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    benchmark = Loop()
    registry.benchmarks()[benchmark.name] = benchmark  # type: ignore[index]
    watch = Watch(benchmark)
    counted = Counting.around

    @contextmanager
    def around(self: Counting) -> Iterator[None]:
        if not watch.counts:
            yield
            return
        with counted(self):
            yield

    Counting.around = around  # type: ignore[method-assign]
    declared = {
        "name": "counting-cost",
        "baseline": platforms[0],
        "platforms": platforms,
        "design": {"blocks": blocks, "trials": 2 * pairs},
        "benchmark": [{"name": benchmark.name}],
    }
    plan = make_plan(LoadedStudy(validate(declared, __file__), __file__), image=image)
    home = Home.from_environment().ensure()
    with (
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        Store.open(f"sqlite:///{directory}/store.sqlite") as store,
    ):
        execute(plan, begin(store, plan, vtax_version="bench"), home, watch)
    return watch


def row(watch: Watch, platform: str) -> dict[str, Any]:
    """Ratio of the program's time with counters to that without, and what counting adds to the wall time."""
    with_, without = watch.tool[platform][True], watch.tool[platform][False]
    found: Ratio = ratio_of_logs([math.log(a / b) for a, b in zip(with_, without, strict=False)], 0.95)
    added = {counts: statistics.median(watch.added[platform][counts]) * 1e3 for counts in (True, False)}
    return {
        "pairs": found.n_blocks, "tool_s": statistics.median(without), "ratio": found.estimate, "low": found.low,
        "high": found.high, "added_ms": added[True], "added_without_ms": added[False],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="what counting around a trial costs")
    parser.add_argument("--platform", action="append", help="repeat for several; default native and qemu-tcg")
    parser.add_argument("--pairs", type=int, default=8, help="of trials, per guest")
    parser.add_argument("--blocks", type=int, default=4, help="fresh guests per platform")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    watch = measure(arguments.platform or ["native", "qemu-tcg"], arguments.pairs, arguments.blocks)
    rows = {platform: row(watch, platform) for platform in watch.tool}
    if arguments.json:
        print(json.dumps({"rows": rows, "errors": watch.errors}, indent=2))
        return
    for platform, r in rows.items():
        print(f"{platform:<12} program {r['tool_s']:.3f} s; with counters / without {r['ratio']:.4f} "
              f"[{r['low']:.4f}, {r['high']:.4f}] of {r['pairs']} pairs; vtax adds {r['added_ms']:.1f} ms to a "
              f"trial, {r['added_without_ms']:.1f} ms without counters")  # fmt: skip
    for error in watch.errors:
        print(error)


if __name__ == "__main__":
    cleanup.run(main)
