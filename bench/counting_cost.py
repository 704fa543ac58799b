"""What counting around a trial costs: trials with counters and without them, interleaved on the same fresh guests.

A real run through the runner and the store. The benchmark computes for a fixed number of loops in the guest. Trials
come in threes, in random order: one with counters, and two that read no counters and no clocks. The ratio of the
program's time with counters to that of the first of these says whether counting changes a figure. The ratio of the
two without is the control: it shows what such a ratio is where nothing differs.

    sudo .venv/bin/python bench/counting_cost.py [--platform native ...] [--rounds 8] [--longer 1] [--json]

The promise (docs/promises.md): the ratio is 1 within its interval, which is at most 1 % wide on each side.
"""

from __future__ import annotations

import argparse
import json
import math
import random
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
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.image.build import find
from vtax.runner import ledger
from vtax.runner.begin import begin
from vtax.runner.counting import Counting
from vtax.runner.events import EndedTrial, Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.stats.ratio import Ratio, ratio_of_logs
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

_LOOPS = {"native": 4_000_000}
_ELSEWHERE = 400_000  # an emulated CPU is about ten times slower
_WITH, _WITHOUT, _CONTROL = _KINDS = ("with", "without", "control")


class Loop(TrueBenchmark):
    """A loop of fixed length in the guest's Python. loops: of the platform that runs now."""

    name = "true"
    loops = _ELSEWHERE

    def commands(self, parameters: Any, context: Context) -> Sequence[Command]:
        code = f"n={self.loops}\nwhile n: n-=1"
        return (Command("single", ("python3", "-I", "-S", "-c", code)),)

    def expected_s(self, parameters: Any, context: Context) -> float:
        return 0.5

    def parse(
        self, parameters: Any, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        return Outcome({"seconds": results["single"].outside_s})


class Watch(Observer):
    """Chooses what each trial is, and keeps times: platform -> kind -> seconds, in rounds."""

    def __init__(self, benchmark: Loop, longer: int) -> None:
        self._benchmark = benchmark
        self._longer = longer
        self._random = random.Random(1)
        self._waiting: dict[str, list[str]] = defaultdict(list)
        self._began = 0.0
        self.kind = _WITH
        self.tool: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.added: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.errors: list[str] = []

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        if not self._waiting[platform]:
            self._waiting[platform] = self._random.sample(_KINDS, len(_KINDS))
        self.kind = self._waiting[platform].pop()
        self._benchmark.loops = _LOOPS.get(platform, _ELSEWHERE) * self._longer
        self._began = time.monotonic()

    def trial_ended(self, trial: EndedTrial) -> None:
        wall_s = time.monotonic() - self._began
        if trial.error or trial.figure is None:
            self.errors.append(f"{trial.platform}: {trial.error}")
            return
        value, _ = trial.figure
        self.tool[trial.platform][self.kind].append(value)
        self.added[trial.platform][self.kind].append(wall_s - value)


def measure(platforms: list[str], rounds: int, blocks: int, longer: int) -> Watch:
    """Run the study and return what was seen."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    benchmark = Loop()
    registry.benchmarks()[benchmark.name] = benchmark  # type: ignore[index]
    watch = Watch(benchmark, longer)
    counted = Counting.around

    @contextmanager
    def around(self: Counting) -> Iterator[None]:
        if watch.kind != _WITH:
            yield
            return
        with counted(self):
            yield

    Counting.around = around  # type: ignore[method-assign]
    ledger.UNREAD_S = 0.0  # each trial is read and stored before the next
    declared = {
        "name": "counting-cost",
        "baseline": platforms[0],
        "platforms": platforms,
        "design": {"blocks": blocks, "trials": len(_KINDS) * rounds},
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
    """Ratios of the program's time to that without counters, and what is added to the wall time of a trial."""
    tool, added = watch.tool[platform], watch.added[platform]

    def ratio(kind: str) -> Ratio:
        return ratio_of_logs(
            [math.log(a / b) for a, b in zip(tool[kind], tool[_WITHOUT], strict=False)], 0.95
        )

    found, control = ratio(_WITH), ratio(_CONTROL)
    return {
        "rounds": found.n_blocks,
        "tool_s": statistics.median(tool[_WITHOUT]),
        "ratio": found.estimate,
        "low": found.low,
        "high": found.high,
        "control": control.estimate,
        "control_low": control.low,
        "control_high": control.high,
        "added_ms": statistics.median(added[_WITH]) * 1e3,
        "added_without_ms": statistics.median(added[_WITHOUT]) * 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="what counting around a trial costs")
    parser.add_argument(
        "--platform", action="append", help="repeat for several; default native and qemu-tcg"
    )
    parser.add_argument("--rounds", type=int, default=8, help="of three trials, per guest")
    parser.add_argument("--blocks", type=int, default=4, help="fresh guests per platform")
    parser.add_argument("--longer", type=int, default=1, help="times as many loops in a trial")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    platforms = arguments.platform or ["native", "qemu-tcg"]
    watch = measure(platforms, arguments.rounds, arguments.blocks, arguments.longer)
    rows = {platform: row(watch, platform) for platform in watch.tool}
    if arguments.json:
        print(json.dumps({"rows": rows, "errors": watch.errors}, indent=2))
        return
    for platform, r in rows.items():
        print(
            f"{platform:<12} program {r['tool_s']:.3f} s, {r['rounds']} rounds: with counters / without "
            f"{r['ratio']:.4f} [{r['low']:.4f}, {r['high']:.4f}], without / without {r['control']:.4f} "
            f"[{r['control_low']:.4f}, {r['control_high']:.4f}]; vtax adds {r['added_ms']:.1f} ms to a trial, "
            f"{r['added_without_ms']:.1f} ms without counters"
        )
    for error in watch.errors:
        print(error)


if __name__ == "__main__":
    cleanup.run(main)
