"""How much of a run's time is measured: the gaps between the trials of a guest, and from guest to guest.

A real run of short trials through the real runner and store. All times are the store's own: a gap is the time from
the start of a trial to the start of the next, less the measured program's own time in the first, and less a trial
of the least work before the second, which is measured too and not stored.

    sudo .venv/bin/python bench/trial_gap.py [--platform native ...] [--blocks 6] [--profile FILE] [--json]

The promises (docs/promises.md): between two trials of a guest at most 10 ms in the median and 20 ms in the mean, and
from guest to guest at most 0.2 s beyond the start of the next one.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cleanup

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.build import find
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.open_guest import OpenGuest
from vtax.runner.plan import PlannedCell, make_plan
from vtax.runner.session import execute
from vtax.store.query import GuestRow, RunData, load
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

PLATFORMS = ("native", "podman", "docker", "lxc", "nspawn")
BENCHMARKS = (
    {"name": "sysbench-cpu", "parameters": {"events": 160}},
    {"name": "stream", "parameters": {"repetitions": 2, "array_size": "64MiB"}},
    {"name": "dd", "parameters": {"file_size": "64MiB", "cache": "direct"}},
    {"name": "netperf", "parameters": {"test": "tcp_rr", "count": 3000}},
)


@dataclass(frozen=True)
class Gaps:
    """Gaps in seconds. n: how many."""

    n: int
    median_s: float
    mean_s: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Gaps:
        """Return them summarized."""
        if not seconds:
            return cls(0, 0.0, 0.0)
        return cls(len(seconds), statistics.median(seconds), statistics.mean(seconds))


@dataclass(frozen=True)
class Shares:
    """Where the time of a run went.

    elapsed_s: from its first trial to the end of its last. measured_s: of measured programs.
    least_s: of trials of the least work.
    controller_s: CPU time of this process and its children, of which most belongs to guests that it forked.
    within: gaps within guests. after: the same by the benchmark before the gap.
    to: from guest to guest, by the platform of the second, beyond its own start (`ready_s`).
    """

    trials: int
    failed: int
    elapsed_s: float
    measured_s: float
    least_s: float
    controller_s: float
    within: Gaps
    after: dict[str, Gaps]
    to: dict[str, Gaps]
    beyond_start: dict[str, Gaps]


def measure(platforms: Sequence[str], blocks: int, profile: Path | None) -> Shares:
    """Run the study and return where its time went."""
    home = Home.from_environment().ensure()
    image = find(home)
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    declared = {
        "name": "trial-gap",
        "baseline": platforms[0],
        "platforms": list(platforms),
        "guest": {"vcpus": 1, "memory": "1GiB"},
        "design": {"blocks": blocks, "stop": "fixed", "timeout": "60s"},
        "benchmark": list(BENCHMARKS),
    }
    with (
        measuring_lock("bench/trial_gap.py"),
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        Store.open(f"sqlite:///{directory}/store.sqlite") as store,
    ):
        plan = make_plan(LoadedStudy(validate(declared, __file__), __file__), image=image)
        run = begin(store, plan, vtax_version="bench")
        before = _own_cpu_s()
        profiler = cProfile.Profile(time.perf_counter) if profile else None
        with profiler or nullcontext(), _least_trials() as least:
            execute(plan, run, home, Observer())
        controller_s = _own_cpu_s() - before
        if profiler and profile:
            profiler.dump_stats(profile)
        return shares(load(store.engine, run), least, controller_s)


@contextmanager
def _least_trials() -> Iterator[list[tuple[float, float]]]:
    """Yield a list that gets start (Unix time) and length of every trial of the least work within the block."""
    least: list[tuple[float, float]] = []
    measure_least = OpenGuest._measure_least

    def timed(opened: OpenGuest, cell: PlannedCell) -> Any:
        began = time.time()
        try:
            return measure_least(opened, cell)
        finally:
            least.append((began, time.time() - began))

    with patch.object(OpenGuest, "_measure_least", timed):
        yield least


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def shares(data: RunData, least: Sequence[tuple[float, float]], controller_s: float) -> Shares:
    """Return where the time of a run went.

    least: see `_least_trials`.
    controller_s: see Shares.
    """
    trials = data.trials
    order = sorted(range(len(trials.id)), key=lambda number: trials.started_at[number])
    cells = [data.run.cells[trials.cell[number]] for number in order]
    guests: dict[tuple[str, int], GuestRow] = {}
    for guest in data.guests:
        guests[guest.platform, guest.block] = guest
    within: dict[str, list[float]] = defaultdict(list)
    to: dict[str, list[float]] = defaultdict(list)
    beyond: dict[str, list[float]] = defaultdict(list)
    for at in range(1, len(order)):
        first, second = order[at - 1], order[at]
        gap_s = float(trials.started_at[second] - trials.started_at[first])
        gap_s -= float(trials.outside_s[first])
        for began, length_s in least:
            if trials.started_at[first] < began < trials.started_at[second]:
                gap_s -= length_s
        earlier, later = cells[at - 1], cells[at]
        if _guest(data, first) == _guest(data, second):
            within[earlier.benchmark].append(gap_s)
        else:
            to[later.platform].append(gap_s)
            ready_s = guests[_guest(data, second)].ready_s or 0.0
            beyond[later.platform].append(gap_s - ready_s)
    last = order[-1]
    return Shares(
        trials=len(order),
        failed=int((~trials.is_ok).sum()),
        elapsed_s=float(
            trials.started_at[last] + trials.outside_s[last] - trials.started_at[order[0]]
        ),
        measured_s=float(trials.outside_s.sum()),
        least_s=sum(length_s for _, length_s in least),
        controller_s=controller_s,
        within=Gaps.of([gap_s for gaps in within.values() for gap_s in gaps]),
        after={name: Gaps.of(gaps) for name, gaps in sorted(within.items())},
        to={name: Gaps.of(gaps) for name, gaps in sorted(to.items())},
        beyond_start={name: Gaps.of(gaps) for name, gaps in sorted(beyond.items())},
    )


def _guest(data: RunData, number: int) -> tuple[str, int]:
    """Return what tells the guests of a run apart: each block has one of each platform."""
    cell = data.run.cells[data.trials.cell[number]]
    return cell.platform, int(data.trials.block[number])


def _line(name: str, gaps: Gaps) -> str:
    return f"{name:<28}{gaps.n:>6}{1000 * gaps.median_s:>11.1f}{1000 * gaps.mean_s:>10.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--platform", action="append", help="repeat for several")
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--profile", type=Path, help="write a profile of the controller")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.platform or PLATFORMS, arguments.blocks, arguments.profile)
    if arguments.json:
        print(json.dumps(asdict(result), indent=2))
        return
    share, least = result.measured_s / result.elapsed_s, result.least_s / result.elapsed_s
    print(f"{result.trials} trials, {result.failed} failed, in {result.elapsed_s:.1f} s,")
    print(f"of which {share:.0%} measured, {least:.0%} trials of the least work;")
    print(f"controller {result.controller_s:.1f} s of CPU")
    print(f"{'milliseconds':<28}{'n':>6}{'median':>11}{'mean':>10}")
    print(_line("within a guest", result.within))
    for name, gaps in result.after.items():
        print(_line(f"  after {name}", gaps))
    for name, gaps in result.to.items():
        print(_line(f"to {name}", gaps))
    for name, gaps in result.beyond_start.items():
        print(_line(f"to {name}, beyond start", gaps))


if __name__ == "__main__":
    cleanup.run(main)
