"""A platform and a benchmark that follow a script: guests are the real agent as a plain process, tools are a line of
shell. The runner's tests use them; no platform is shown to work by them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from vtax.benchmarks import registry as benchmark_registry
from vtax.benchmarks.base import Benchmark, Command, Context, Metric, Outcome, Parameters
from vtax.benchmarks.start import Start
from vtax.errors import BadInput, BenchmarkError, PlatformError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import Driver, GuestSpec, Probe, Resources, RunningGuest
from vtax.platforms.options import DriverOptions
from vtax.runner.begin import begin
from vtax.runner.events import EndedTrial, Observer
from vtax.runner.plan import Plan, make_plan
from vtax.runner.session import execute
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate


class ProcessGuest(RunningGuest):
    """The agent as a child of the test. mark: in the environment of what it runs, as VTAX_MARK."""

    def __init__(self, spec: GuestSpec, mark: str = "") -> None:
        argv = [sys.executable, *bootstrap.argv()[1:]]
        environment = {**os.environ, "VTAX_MARK": mark} if mark else None
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.channel = Channel(
            os.dup(self.process.stdout.fileno()), os.dup(self.process.stdin.fileno())
        )
        self.notes: tuple[str, ...] = ()

    def host_cpu_s(self) -> float | None:
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


class ScriptedOptions(DriverOptions):
    fails_to_start: bool = False
    available: bool = True
    mark: str = ""


class ScriptedDriver(Driver):
    name = "scripted"
    summary = "the agent as a plain process"
    Options = ScriptedOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "native": {},
        "other": {},
        "broken": {"fails_to_start": True},
        "absent": {"available": False},
    }

    tunings = ("default", "pinned", "hugepages")

    def __init__(self) -> None:
        self.started: list[ProcessGuest] = []
        self.given: list[Resources] = []
        self.others: dict[str, Driver] = {}
        self.benchmarks: dict[str, Benchmark] = {
            "script": ScriptBenchmark(),
            "wired": WiredBenchmark(),
            "start": Start(),
        }

    def probe(self, options: ScriptedOptions, image: Image | None) -> Probe:
        if options.available:
            return Probe(True)
        return Probe(False, "it is not installed", "install it")

    def start(self, options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if options.fails_to_start:
            raise PlatformError("it never starts")
        guest = ProcessGuest(spec, options.mark)
        self.started.append(guest)
        self.given.append(spec.resources)
        return guest


class ScriptParameters(Parameters):
    code: str = "echo 1.5"
    size: int = 1
    duration_s: float = 0.0


class ScriptBenchmark(Benchmark):
    """Runs a line of shell that prints its figure."""

    name = "script"
    title = "a line of shell"
    tool = "python3"
    Parameters = ScriptParameters
    metrics: Sequence[Metric] = (Metric("figure", "x/s", "higher", primary=True),)
    work = None
    version_argv = (sys.executable, "--version")

    def version_of(self, output: str) -> str:
        return output.split()[1]

    def commands(self, parameters: ScriptParameters, context: Context) -> list[Command]:
        if parameters.size > 100:
            raise BadInput("size is at most 100", hint="choose a smaller size")
        return [Command("single", ("/bin/sh", "-c", parameters.code))]

    def expected_s(self, parameters: ScriptParameters, context: Context) -> float:
        return 0.05

    def parse(
        self, parameters: ScriptParameters, context: Context, results: Mapping[Any, Any]
    ) -> Outcome:
        if results["single"].status != 0:
            raise BenchmarkError("the script failed")
        figures = [float(figure) for figure in results["single"].stdout.split()]
        return Outcome(
            {"figure": figures[-1]}, samples={"figure": figures} if len(figures) > 1 else {}
        )


class WiredBenchmark(ScriptBenchmark):
    """One that would need a network; for studies that are refused."""

    name = "wired"
    needs_network = True


def store_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every trial stored when it ends, as one of three seconds is."""
    monkeypatch.setattr("vtax.runner.ledger.UNREAD_S", 0.0)


class StopAfter(Observer):
    """An observer that asks vtax to stop once so many trials have ended. made: the platforms of those that have."""

    def __init__(self, trials: int) -> None:
        self.trials = trials
        self.made: tuple[str, ...] = ()

    def trial_ended(self, trial: EndedTrial) -> None:
        self.made += (trial.platform,)
        if len(self.made) == self.trials:
            os.kill(os.getpid(), signal.SIGTERM)


def install(monkeypatch: pytest.MonkeyPatch) -> ScriptedDriver:
    """Make this and its `others` the only drivers, and its `benchmarks` the only ones."""
    made = ScriptedDriver()
    monkeypatch.setattr(platform_registry, "drivers", lambda: {"scripted": made, **made.others})
    monkeypatch.setattr(
        benchmark_registry,
        "benchmarks",
        lambda: made.benchmarks,
    )
    monkeypatch.setattr(benchmark_registry, "has_foreign", lambda: True)
    return made


def study(**changes: Any) -> dict[str, Any]:
    declared = {
        "name": "s",
        "platforms": ["native", "other"],
        "design": {"blocks": 2, "seed": 7},
        "benchmark": [{"name": "script", "factors": {"size": [1, 2, 3]}}],
    }
    return {**declared, **changes}


def plan_of(declared: dict[str, Any]) -> Plan:
    return make_plan(
        LoadedStudy(validate(declared, "test"), "test"), image=Image("key", Path("/nowhere"))
    )


def executed(plan: Plan, store: Store, home: Home) -> RunHandle:
    run = begin(store, plan, vtax_version="test")
    execute(plan, run, home, Observer())
    return run
