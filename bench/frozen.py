"""Whether nearness in time narrows ratios: like guests one after another, and all alive together, all but one frozen.

Blocks of like guests of one platform with the tour's benchmarks, of two designs in random order:

- in turn: what `vtax run` does. A guest starts, runs every benchmark once and stops, then the next.
- alive: all guests are alive. Each benchmark runs in one guest after another, and all others are frozen (their
  cgroups' freezer, a virtual machine with its emulator). One guest runs every benchmark also before the others are
  started and after they have stopped: the ratio says what frozen neighbours, and having been frozen, move.

Then blocks in turn of the noisiest benchmarks: is one trial, or are several, or one as long as these, the best use of
a minute? A guest's start is shared by the five cells of the tour.

    sudo .venv/bin/python bench/frozen.py [--minutes 15] [--platform podman] [--alike 6] [--longer-of 2] [--json]

SD is that of the log-ratio of two like guests within a block; intervals (95 %) are jackknives over blocks. Guests
alive together would be worth building where the SD falls by a quarter and no figure moves by 0.5 %.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import cleanup
from alike import LONGER, TIMES, Block, Pair, Trial, length_rows, near_row

from vtax.errors import BadInput, PlatformError
from vtax.host.cgroups import Cgroup
from vtax.host.home import Home
from vtax.host.journal import Journal, Registration
from vtax.host.lock import measuring_lock
from vtax.host.resources import RestoreCommand
from vtax.host.waiting import wait_until
from vtax.image.build import find
from vtax.platforms import registry
from vtax.platforms.stdio import StdioGuest
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.open_guest import OpenGuest, OpenRun
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell, make_plan
from vtax.runner.removals import Removals
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate

TOUR: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "sysbench-cpu": ({"duration_s": 1}, "duration_s"),
    "stream": ({"repetitions": 4}, "repetitions"),
    "dd": ({"file_size": 256 << 20, "cache": "direct"}, "file_size"),
    "iperf3": ({"duration_s": 1}, "duration_s"),
}
"""The tour's benchmarks: parameters, and the one that makes a trial longer."""
SHARE_NEARNESS = 0.6  # of the time
FREEZE_S = 5.0


class Frozen:
    """The guests of a session, to be held still. Frozen processes end by no signal, so the journal thaws them."""

    def __init__(self, opened: OpenGuest, journal: Journal) -> None:
        self._files: list[tuple[Path, str, str]] = []
        for role, endpoint in opened.endpoints.items():
            running = endpoint.running
            if not isinstance(running, StdioGuest):
                raise BadInput(f"{role} is in no cgroup of this host, so it cannot be frozen")
            self._files += [freezer(group) for group in (running.group, running.elsewhere) if group]
        self._registered: list[Registration] = []
        for path, _, thawed in self._files:
            thaw = ("sh", "-c", f'echo {thawed} > "$0"', str(path))
            self._registered.append(
                journal.register(RestoreCommand("a frozen guest", thaw, (1, 2)))
            )

    def freeze(self) -> None:
        """Hold everything still, and return once it is."""
        self._set(0)

    def thaw(self) -> None:
        """Let everything go on."""
        self._set(1)

    def close(self) -> None:
        """Thaw for good."""
        for registered in self._registered:
            registered.release()

    def _set(self, word: int) -> None:
        for path, *words in self._files:
            path.write_text(words[word])
        for path, *words in self._files:
            wait_until(
                partial(is_set, path, words[word]),
                FREEZE_S,
                0.001,
                otherwise=partial(late, path, words[word]),
            )


def late(path: Path, word: str) -> PlatformError:
    return PlatformError(f"{path} did not become {word} in {FREEZE_S:g} s")


def freezer(group: Cgroup) -> tuple[Path, str, str]:
    """The file that freezes a group, and what to write to freeze and to thaw."""
    for hierarchy, path in group.directories:
        if "freezer" in hierarchy.controllers:
            return path / "freezer.state", "FROZEN", "THAWED"
    for hierarchy, path in group.directories:
        if hierarchy.unified and (path / "cgroup.freeze").exists():
            return path / "cgroup.freeze", "1", "0"
    raise BadInput(
        "this host has no cgroup freezer", hint="mount cgroup2, or the v1 controller freezer"
    )


def is_set(path: Path, word: str) -> bool:
    """Whether a group is frozen, or thawed, as asked."""
    if path.name == "freezer.state":
        return path.read_text().strip() == word
    return f"frozen {word}" in (path.parent / "cgroup.events").read_text().splitlines()


class Bench:
    """Starts like guests and runs trials in them."""

    def __init__(
        self,
        plan: Plan,
        run: RunHandle,
        home: Home,
        journal: Journal,
        parsers: Parsers,
        removals: Removals,
    ) -> None:
        self.plan = plan
        self.journal = journal
        self._run = OpenRun(plan, run, home, journal, Observer(), parsers, removals)
        self._blocks = 0
        self.errors: list[str] = []

    def sessions(self) -> list[GuestLife]:
        """The guests of the next block, in random order, each with its cells in random order."""
        self._blocks += 1
        return self.plan.guests(self._blocks)

    @contextmanager
    def opened(self, session: GuestLife, starts: list[float]) -> Iterator[OpenGuest]:
        """A guest, until the end of the block. starts: gets the seconds of its start."""
        began = time.monotonic()
        with OpenGuest(session, self._run) as opened:
            if not opened.has_started:
                raise PlatformError(opened.start_error)
            starts.append(time.monotonic() - began)
            yield opened

    def trial(self, opened: OpenGuest, cell: PlannedCell) -> list[Trial]:
        """A trial; none when it failed."""
        began = time.monotonic()
        result = opened.trial(cell)
        name = next(metric.name for metric in cell.point.own_metrics if metric.primary)
        if result.error or not (value := result.outcome.values.get(name, 0.0)) > 0:
            self.errors.append(f"{cell.point.label}: {result.error or 'no value'}")
            return []
        return [Trial(math.log(value), began, time.monotonic() - began)]

    def in_turn(self) -> Block:
        """A block in which every guest ends before the next one starts."""
        began, starts = time.monotonic(), list[float]()
        trials: defaultdict[str, list[Trial]] = defaultdict(list)
        for session in self.sessions():
            with self.opened(session, starts) as opened:
                for cell in short_cells(session):
                    trials[cell.point.label] += self.trial(opened, cell)
        return Block(trials, time.monotonic() - began, starts)

    def alive(self) -> Block:
        """A block whose guests are all alive, and all but the one that runs are frozen."""
        began, starts = time.monotonic(), list[float]()
        trials: defaultdict[str, list[Trial]] = defaultdict(list)
        alone: defaultdict[str, list[Trial]] = defaultdict(list)
        first, *others = self.sessions()
        cells = short_cells(first)
        beside: dict[str, float] = {}
        with self.opened(first, starts) as tried:
            for cell in cells:
                alone[cell.point.label] += self.trial(tried, cell)
            with ExitStack() as stack:
                guests = [(first, tried)]
                guests += [
                    (each, stack.enter_context(self.opened(each, starts))) for each in others
                ]
                held = {id(opened): Frozen(opened, self.journal) for _, opened in guests}
                for each in held.values():
                    stack.callback(each.close)
                for each in held.values():
                    each.freeze()
                for cell in random.sample(cells, len(cells)):
                    label = cell.point.label
                    for session, opened in random.sample(guests, len(guests)):
                        held[id(opened)].thaw()
                        found = self.trial(
                            opened, next(c for c in session.cells if c.point.label == label)
                        )
                        held[id(opened)].freeze()
                        trials[label] += found
                        if opened is tried and found:
                            beside[label] = found[0].log
            for cell in cells:
                alone[cell.point.label] += self.trial(tried, cell)
        moved = {
            label: log - statistics.fmean(trial.log for trial in alone[label])
            for label, log in beside.items()
            if len(alone[label]) == 2
        }
        return Block(trials, time.monotonic() - began, starts, moved)

    def lengths(self, labels: Sequence[str]) -> Block:
        """A block in turn: TIMES trials of each of these benchmarks and one that is as long, in random order."""
        began, starts = time.monotonic(), list[float]()
        trials: defaultdict[str, list[Trial]] = defaultdict(list)
        for session in self.sessions():
            with self.opened(session, starts) as opened:
                for cell in session.cells:
                    label = cell.point.label
                    if label.removesuffix(LONGER) in labels:
                        count = 1 if label.endswith(LONGER) else TIMES
                        found = [trial for _ in range(count) for trial in self.trial(opened, cell)]
                        trials[label] += (
                            found if len(found) == count else [Trial(math.nan, 0, 0)] * count
                        )
        return Block(trials, time.monotonic() - began, starts)


def short_cells(session: GuestLife) -> list[PlannedCell]:
    """The cells of the tour, in the order of the session."""
    return [cell for cell in session.cells if not cell.point.label.endswith(LONGER)]


def plan_for(name: str, alike: int) -> Plan:
    """A study of like platforms. Raises BadInput where the platform does not run here."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    platform = registry.get(name)
    probe = platform.probe(image)
    if not probe.available:
        raise BadInput(f"{name} does not run here: {probe.reason}", hint=probe.hint)
    names = [f"{name}-{number + 1}" for number in range(alike)]
    options = platform.driver.variants.get(name, {})
    declared = {
        "name": "frozen",
        "baseline": names[0],
        "platforms": names,
        "platform": [{"name": each, "driver": platform.driver.name, **options} for each in names],
        "guest": {"vcpus": 1, "memory": "1GiB"},
        "benchmark": [
            {
                "name": tool,
                "label": label,
                "parameters": {**parameters, longer: parameters[longer] * times},
            }
            for tool, (parameters, longer) in TOUR.items()
            for label, times in ((tool, 1), (tool + LONGER, TIMES))
        ],
    }
    study = LoadedStudy(validate(declared, "bench/frozen.py"), "bench/frozen.py")
    return make_plan(study, image=image, probes=dict.fromkeys(names, probe))


def while_time_lasts(until: float, what: str) -> Iterator[int]:
    """Numbers of rounds, of which none begins that would end too late by the length of the longest so far."""
    longest, number = 0.0, 0
    while number == 0 or time.monotonic() + longest < until:
        began = time.monotonic()
        yield number
        number, longest = number + 1, max(longest, time.monotonic() - began)
        took, left = time.monotonic() - began, max(until - time.monotonic(), 0)
        print(
            f"{what}: round {number} took {took:.0f} s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def nearness(bench: Bench, until: float) -> list[Pair]:
    """Pairs of blocks, in random order within a pair."""
    pairs = []
    for _ in while_time_lasts(until, "nearness"):
        designs = {"in turn": bench.in_turn, "alive": bench.alive}
        made = {name: designs[name]() for name in random.sample(list(designs), 2)}
        pairs.append((made["in turn"], made["alive"]))
    return pairs


def measure(platform: str, alike: int, minutes: float, longer_of: int) -> dict[str, Any]:
    """Everything that is found, with the values of all trials."""
    began = time.monotonic()
    home = Home.from_environment().ensure()
    plan = plan_for(platform, alike)
    with (
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        Store.open(f"sqlite:///{directory}/store.sqlite") as store,
        Removals() as removals,
        Parsers([(point.benchmark, point.parameters) for point in plan.points]) as parsers,
    ):
        bench = Bench(
            plan, begin(store, plan, vtax_version="bench"), home, journal, parsers, removals
        )
        share = SHARE_NEARNESS if longer_of else 1.0
        pairs = nearness(bench, began + minutes * 60 * share)
        rows = [near_row(label, pairs) for label in TOUR]
        noisiest = [row["benchmark"] for row in sorted(rows, key=lambda row: -row["sd_in_turn"])][
            :longer_of
        ]
        rounds = while_time_lasts(began + minutes * 60, "lengths") if noisiest else ()
        blocks = [bench.lengths(noisiest) for _ in rounds]
    return {
        "platform": platform,
        "alike": alike,
        "pairs": len(pairs),
        "blocks": len(blocks),
        "nearness": rows,
        "lengths": [row for label in noisiest for row in length_rows(label, blocks)],
        "block_s": [
            statistics.fmean(block.seconds for block in each) for each in zip(*pairs, strict=True)
        ],
        "errors": bench.errors,
        "values": {
            "in turn": [stored(one) for one, _ in pairs],
            "alive": [stored(other) for _, other in pairs],
            "lengths": [stored(block) for block in blocks],
        },
    }


def stored(block: Block) -> dict[str, Any]:
    trials = {
        name: [(trial.log, trial.at, trial.seconds) for trial in each]
        for name, each in block.trials.items()
    }
    return {
        "trials": trials,
        "moved": dict(block.alone),
        "seconds": block.seconds,
        "starts": list(block.starts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="whether like guests that are alive together have narrower ratios"
    )
    parser.add_argument("--platform", default="podman")
    parser.add_argument("--alike", type=int, default=6, help="guests of a block")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument(
        "--longer-of", type=int, default=2, help="how many of the noisiest to lengthen; 0: none"
    )
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds to wait for another measuring command"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.alike < 2:
        raise BadInput("two guests are the fewest that can be compared", where="--alike")
    with measuring_lock("bench/frozen.py", wait_s=arguments.wait):
        found = measure(arguments.platform, arguments.alike, arguments.minutes, arguments.longer_of)
    if arguments.json:
        print(json.dumps(found))
        return
    said(found)


def said(found: Mapping[str, Any]) -> None:
    seconds = " and ".join(f"{each:.0f} s" for each in found["block_s"])
    print(f"{found['alike']} x {found['platform']}, {found['pairs']} pairs of blocks of {seconds}")
    for row in found["nearness"]:
        in_turn = f"{row['sd_in_turn']:.2%} ({row['apart_in_turn_s']:.1f} s apart)"
        alive = f"{row['sd_alive']:.2%} ({row['apart_alive_s']:.1f} s; neighbours {row['sd_alive_neighbours']:.2%})"
        print(
            f"{row['benchmark']:<14} SD of a ratio in turn {in_turn}, alive {alive}, alive / in turn {row['ratio']}"
        )
        typical = f"in turn {row['typical_in_turn']:.2%}, alive {row['typical_alive']:.2%}"
        moved = row["moved"] or "unknown"
        print(f"{'':<14} median difference of two {typical}; beside frozen / alone {moved}")
    for row in found["lengths"]:
        print(
            f"{row['benchmark']:<14} {row['plan']:<24} SD {row['sd']:.2%}, {row['seconds']:.1f} s a guest, "
            f"variance x seconds {row['variance_seconds']} of one trial"
        )
    for error in dict.fromkeys(found["errors"]):
        print(error)


if __name__ == "__main__":
    cleanup.run(main)
