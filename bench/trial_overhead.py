"""What vtax adds to a trial: wall time around a whole trial of `true`, minus the time `true` itself took.

A real run of a real study through the real runner and store, on fresh guests in random order; only the benchmark is
the bench's own. The wall time of the trials of a guest is from just before the first request of the first to just
after their commit: counters, the agent's exchanges, the parser and the database are all in it, and it is shared among
them. The tool's own time is the agent's account of the program (`inside_s`).

    sudo .venv/bin/python bench/trial_overhead.py [--platform native ...] [--trials 10] [--blocks 5] [--json]

The promise (docs/promises.md): at most 5 ms median on native and containers, at most 15 ms on emulated machines.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cleanup

from vtax.benchmarks import registry
from vtax.benchmarks.base import Benchmark, Command, Context, Metric, Outcome, Parameters, Role
from vtax.errors import BadInput
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.image.build import find
from vtax.platforms import registry as platform_registry
from vtax.runner.begin import begin
from vtax.runner.events import EndedTrial, Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.store.query import Trials, load
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate


@dataclass(frozen=True)
class Sample:
    """One trial: its share of its guest's wall time, and the program's by both clocks, in seconds."""

    wall_s: float
    outside_s: float
    inside_s: float


class TrueBenchmark(Benchmark):
    """`true`, which does nothing: all the time around it is vtax's."""

    name = "true"
    title = "a program that does nothing"
    tool = "true"
    Parameters = Parameters
    work = None
    metrics = (Metric("seconds", "s", "lower", primary=True),)
    version_argv = ("true", "--version")

    def version_of(self, output: str) -> str:
        return output.split("\n")[0]

    def commands(self, parameters: Any, context: Context) -> Sequence[Command]:
        return (Command("single", ("true",)),)

    def expected_s(self, parameters: Any, context: Context) -> float:
        return 0.01

    def parse(
        self, parameters: Any, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        return Outcome({"seconds": results["single"].inside_s})


class Watch(Observer):
    """Times the trials of every guest together: from the start of its first to when all of them are stored."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._ended_at = 0.0
        self._ended: list[tuple[str, str]] = []
        self._guests: list[tuple[int, float]] = []
        self.samples: dict[str, list[Sample]] = defaultdict(list)
        self.errors: list[str] = []

    def guest_starting(self, platform: str, block: int) -> None:
        self._end_guest()

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        if self._began is None:
            self._began = time.monotonic()

    def trial_ended(self, trial: EndedTrial) -> None:
        self._ended.append((trial.platform, trial.error))
        self._ended_at = time.monotonic()

    def _end_guest(self) -> None:
        if self._began is not None:
            self._guests.append((len(self._ended), self._ended_at - self._began))
            self._began = None

    def read(self, trials: Trials) -> None:
        """Add the stored times of every trial, in the order of their ends."""
        self._end_guest()
        first = 0
        for last, guest_s in self._guests:
            wall_s = guest_s / max(
                last - first, 1
            )  # those of a guest that did not start are told later
            for number in range(first, last):
                platform, error = self._ended[number]
                if error:
                    self.errors.append(f"{platform}: {error}")
                    continue
                outside_s, inside_s = trials.outside_s[number], trials.inside_s[number]
                self.samples[platform].append(Sample(wall_s, float(outside_s), float(inside_s)))
            first = last


def measure(platforms: list[str], trials: int, blocks: int) -> Watch:
    """Run the study and return what was seen."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    benchmark = TrueBenchmark()
    registry.benchmarks()[benchmark.name] = benchmark  # type: ignore[index]
    declared = {
        "name": "trial-overhead",
        "baseline": platforms[0],
        "platforms": platforms,
        "design": {"blocks": blocks, "trials": trials},
        "benchmark": [{"name": benchmark.name}],
    }
    plan = make_plan(LoadedStudy(validate(declared, __file__), __file__), image=image)
    watch = Watch()
    home = Home.from_environment().ensure()
    with (
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        Store.open(f"sqlite:///{directory}/store.sqlite") as store,
    ):
        run = begin(store, plan, vtax_version="bench")
        execute(plan, run, home, watch)
        watch.read(load(store.engine, run).trials)
    for planned in plan.platforms:
        if not planned.probe.available:
            watch.errors.append(
                f"{planned.platform.name} does not run here: {planned.probe.reason}"
            )
    return watch


def row(samples: list[Sample]) -> dict[str, float]:
    """Medians in milliseconds of what is added, in all and by the agent's exchange alone."""
    added = sorted((s.wall_s - s.inside_s) * 1e3 for s in samples)
    return {
        "trials": len(samples),
        "wall_ms": statistics.median(s.wall_s for s in samples) * 1e3,
        "tool_ms": statistics.median(s.inside_s for s in samples) * 1e3,
        "added_ms": statistics.median(added),
        "added_p95_ms": added[int(0.95 * (len(added) - 1))],
        "exchange_ms": statistics.median((s.outside_s - s.inside_s) * 1e3 for s in samples),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="what vtax adds to a trial")
    parser.add_argument(
        "--platform", action="append", help="repeat for several; default all that run here"
    )
    parser.add_argument("--trials", type=int, default=10, help="per guest")
    parser.add_argument("--blocks", type=int, default=5, help="fresh guests per platform")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    watch = measure(
        arguments.platform or platform_registry.names(), arguments.trials, arguments.blocks
    )
    rows = {platform: row(samples) for platform, samples in watch.samples.items()}
    if arguments.json:
        print(json.dumps({"rows": rows, "errors": watch.errors}, indent=2))
        return
    print(
        f"{'platform':<16}{'trials':>8}{'wall ms':>10}{'tool ms':>10}{'added ms':>10}{'p95':>8}{'exchange':>10}"
    )
    for platform, r in rows.items():
        print(
            f"{platform:<16}{r['trials']:>8.0f}{r['wall_ms']:>10.2f}{r['tool_ms']:>10.2f}{r['added_ms']:>10.2f}"
            f"{r['added_p95_ms']:>8.2f}{r['exchange_ms']:>10.2f}"
        )
    for error in watch.errors:
        print(error)


if __name__ == "__main__":
    cleanup.run(main)
