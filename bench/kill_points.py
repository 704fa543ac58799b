"""Kill vtax with SIGKILL anywhere in a run's life, and show that nothing is lost and nothing is left behind.

A chain is one run of a small study, of one platform against native. It is killed again and again, each time in
another stage at a seeded moment, and gone on with by `vtax resume`. Every kill is followed by `vtax clean` and the
checks: nothing of ours is left (processes, namespaces, mounts, cgroups, files), the host's network, mounts, cgroups
and settings are as before, and every trial that was committed is still there, unchanged. At its end the run is
finished, and its trials are those of the plan in the plan's order. An image build is killed after every second chain.

    sudo .venv/bin/python bench/kill_points.py [--points 200] [--seed 1] [--platform NAME ...] [--chain N ...]

Prints a table of points and failures by platform and stage; exits with 1 when a point failed. The same seed gives the
same stages in the same order and the same moments as parts of a stage's length; --chain runs single ones again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from host_state import Ours, Parts, changes, leftovers, state

import vtax.cli.clean
import vtax.cli.measure
import vtax.cli.resume
import vtax.cli.run
from vtax.errors import VtaxError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.platforms import registry
from vtax.platforms.base import Platform
from vtax.runner.events import Observer, Silent
from vtax.runner.execute import execute
from vtax.runner.plan import Plan
from vtax.runner.resume import rebuild_plan
from vtax.runner.session import OpenSession
from vtax.store.records import TrialRecord
from vtax.store.run import RunHandle
from vtax.store.store import Store

STUDY = """
name = "kill"
platforms = {platforms}
[guest]
memory = "256MiB"
[design]
blocks = 2
seed = {seed}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = 1 }}
"""
STAGES = (
    "planning", "guest start", "agent hello", "trial", "commit", "guest stop", "clean-up", "vtax clean",
)  # fmt: skip
LONGEST_S = 180.0
FIRST_GUESS_S = {"commit": 0.01, "guest stop": 0.1, "clean-up": 0.1, "vtax clean": 0.1}
ATTEMPTS = 4
BUILD_STAGES = (("packages", 20.0), ("packages", 20.0), ("initrd again", 0.5), ("STREAM", 3.0))


Trial = tuple[str, str, int, int]
"""Run, cell, block, number."""


@dataclass(frozen=True)
class Point:
    """One kill: chain and number in it, where it fell, and what was wrong afterwards (nothing, when all held)."""

    chain: int
    platform: str
    stage: str
    delay_s: float
    problems: tuple[str, ...]


@dataclass
class Lab:
    """One home to kill in, what the host was like before, and how long stages take there, learned as it goes."""

    home: Home
    before: Parts
    lengths: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def ours(self) -> Ours:
        """How to know what this home made."""
        return Ours(self.home.root, self.home.root / "tokens")

    def guess_s(self, platform: str, stage: str) -> float:
        """How long a stage takes."""
        known = self.lengths.get((platform, stage), self.lengths.get(("", stage)))
        return FIRST_GUESS_S.get(stage, 0.5) if known is None else known

    def problems(self) -> list[str]:
        """What is not as it was."""
        return leftovers(self.ours) + changes(self.before, self.ours)


class Told(Silent):
    """Writes what a run does, and on which platform, to a pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.platform = pipe, ""

    def tell(self, stage: str, platform: str | None = None) -> None:
        os.write(self.pipe, f"{stage}\t{self.platform if platform is None else platform}\n".encode())

    def guest_starting(self, platform: str, block: int) -> None:
        self.platform = platform
        self.tell("guest start")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        self.tell("trial")


def observed(pipe: int, arguments: Sequence[str]) -> None:
    """A vtax command in this process, telling its stages."""
    told = Told(pipe)
    told.tell("planning")
    add = RunHandle.add_trial

    def told_trial(run: RunHandle, trial: TrialRecord) -> int:
        told.tell("commit")
        number = add(run, trial)
        told.tell(f"committed {trial.cell_key} {trial.block} {trial.number}")
        return number

    def told_execute(plan: Plan, run: RunHandle, home: Home, observer: Observer) -> None:
        execute(plan, run, home, told)

    patch.object(RunHandle, "add_trial", told_trial).start()
    patch.object(Guest, "hello", _told_before(told, "agent hello", Guest.hello)).start()
    patch.object(OpenSession, "_take_down", _told_before(told, "guest stop", OpenSession._take_down)).start()
    patch.object(vtax.cli.measure, "execute", told_execute).start()
    command(arguments)


def _told_before(told: Told, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def tell_and_work(*args: Any, **more: Any) -> Any:
        told.tell(stage)
        return work(*args, **more)

    return tell_and_work


def command(arguments: Sequence[str]) -> None:
    """A vtax command in this process."""
    from vtax.cli.main import group

    group.main(args=list(arguments), prog_name="vtax", standalone_mode=False)


def child(lab: Lab, work: Callable[[], None]) -> int:
    """Fork; the child works in silence, notes the tokens it draws, and never returns here."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    os.environ["VTAX_HOME"] = str(lab.home.root)
    log = os.open(lab.home.root / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for fd, to in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(to, fd)
    _note_tokens(lab.ours.tokens)
    own_lock = partial(measuring_lock, path=lab.home.root / "lock")  # nothing here measures; others may
    for module in (vtax.cli.run, vtax.cli.resume, vtax.cli.clean):
        patch.object(module, "measuring_lock", own_lock).start()
    _work_and_exit(work)


def _note_tokens(path: Path) -> None:
    draw, file = secrets.token_hex, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def noted(size: int | None = None) -> str:
        token = draw(size)
        os.write(file, f"{token}\n".encode())
        return token

    patch.object(secrets, "token_hex", noted).start()


def _work_and_exit(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        work()
        status = 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except VtaxError as error:
        os.write(2, f"{error}\n".encode())
        status = error.exit_status
    finally:
        os._exit(status)


def kill(pid: int) -> None:
    """SIGKILL a child, and only it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def finished(lab: Lab, *arguments: str) -> list[str]:
    """A vtax command to its end; what went wrong."""
    pid = child(lab, lambda: command(arguments))
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended and (code := os.waitstatus_to_exitcode(status)):
            return [f"vtax {arguments[0]} ended with {code}: {_last_said(lab)}"]
        if ended:
            return []
        time.sleep(0.01)
    kill(pid)
    return [f"vtax {arguments[0]} did not end within {LONGEST_S:g} s"]


def _last_said(lab: Lab) -> str:
    return " | ".join((lab.home.root / "log").read_text(errors="replace").splitlines()[-3:])


class Prey:
    """A vtax command that is to be killed in a stage of a platform."""

    def __init__(self, lab: Lab, arguments: Sequence[str]) -> None:
        self._lab, self._rest = lab, b""
        self._pipe, writer = os.pipe()
        self.committed: set[tuple[str, int, int]] = set()
        self.pid = child(lab, lambda: observed(writer, arguments))
        os.close(writer)

    def kill_in(self, stage: str, platform: str, part: float) -> tuple[str, float]:
        """Wait for a stage, let a part of its length pass, kill.

        Returns the stage it was really killed in (none: it had ended before) and the delay in seconds.
        """
        heard = {"clean-up": "trial", "vtax clean": "trial"}.get(stage, stage)
        for told, on, since_last, last in self._stages():
            self._lab.lengths[last] = max(since_last, 0.8 * self._lab.lengths.get(last, 0.0))
            if told == heard and on in (platform, ""):
                break
        else:
            os.waitpid(self.pid, 0)
            return "", 0.0
        if stage == "clean-up":
            os.kill(self.pid, signal.SIGINT)
        delay_s = part * self._lab.guess_s(platform, heard if stage == "vtax clean" else stage)
        time.sleep(delay_s)
        if alive := os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            kill(self.pid)
        for told, *_ in self._stages():  # what it said meanwhile, the trials it committed among it
            heard = told
        os.close(self._pipe)
        return ("clean-up" if stage == "clean-up" else heard) if alive else "", delay_s

    def _stages(self) -> Iterator[tuple[str, str, float, tuple[str, str]]]:
        """(stage, platform, seconds of the stage before, which that was), until the command is gone."""
        last, since = ("", ""), time.monotonic()
        while part := os.read(self._pipe, 1 << 16):
            *lines, self._rest = (self._rest + part).split(b"\n")
            for line in lines:
                stage, _, platform = line.decode().partition("\t")
                if stage.startswith("committed "):
                    key, block, number = stage.split()[1:]
                    self.committed.add((key, int(block), int(number)))
                else:
                    yield stage, platform, time.monotonic() - since, last
                    last, since = (platform, stage), time.monotonic()


def stored(lab: Lab) -> dict[Trial, tuple[Any, ...]]:
    """Every trial in the store with its values, by run, cell, block and number."""
    path = lab.home.root / "store.sqlite"
    if not path.exists():
        return {}
    with sqlite3.connect(path) as connection:
        try:
            rows = connection.execute(
                "select run.name, cell.key, trial.block, trial.number, trial.position, trial.status, trial.error, "
                "trial.started_at, (select group_concat(metric_id || '=' || value) from measurement "
                "where trial_id = trial.id) from trial join cell on cell.id = cell_id "
                "join run on run.id = trial.run_id"
            ).fetchall()
        except sqlite3.OperationalError:  # killed before its tables were made
            return {}
    return {row[:4]: row[4:] for row in rows}


def last_run(lab: Lab) -> tuple[str, str]:
    """Name and status of the newest run; empty when there is none."""
    if not (lab.home.root / "store.sqlite").exists():
        return "", ""
    with Store.open(lab.home.store_url) as store:
        runs = store.runs()
        return (runs[-1].name, runs[-1].status) if runs else ("", "")


def chain(lab: Lab, number: int, platform: str, seed: int, tell: Callable[[Point], None]) -> None:
    """One run, killed once in every stage, and finished."""
    generator = random.Random(f"{seed}/{number}")
    stages = generator.sample(STAGES, len(STAGES))
    study = lab.home.root / "kill.toml"
    names = json.dumps(list(dict.fromkeys(["native", platform])))
    study.write_text(STUDY.format(platforms=names, seed=generator.randrange(10**6)))
    tune = ["--tune"] if generator.random() < 0.3 else []
    name = ""
    for stage in stages:
        part, first = generator.random(), generator.random()
        known, killed, delay_s = stored(lab), "", 0.0
        committed: set[Trial] = set()
        for attempt in range(ATTEMPTS):
            going_on = bool(name) and last_run(lab) == (name, "interrupted")
            prey = Prey(lab, ["resume", name, *tune] if going_on else ["run", str(study), *tune])
            killed, delay_s = prey.kill_in(stage, platform, part / 4**attempt)
            name, committed = last_run(lab)[0], committed | {(last_run(lab)[0], *key) for key in prey.committed}
            if killed:
                break
        problems = [] if killed else [f"it ended before it could be killed: {_last_said(lab)}"]
        if stage == "vtax clean":
            delay_s = first * lab.guess_s(platform, stage)
            pid = child(lab, lambda: command(["clean"]))
            time.sleep(delay_s)
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                kill(pid)
        problems += checked(lab, name, known, committed)
        tell(
            Point(
                number, platform, "vtax clean" if stage == "vtax clean" else killed or stage, delay_s, tuple(problems)
            )
        )
    problems = finished(lab, "resume", name, *tune) if last_run(lab)[1] == "interrupted" else []
    problems += whole(lab, name) + lab.problems()
    if problems:
        tell(Point(number, platform, "(end of the chain)", 0.0, tuple(problems)))


def checked(lab: Lab, name: str, known: dict[Trial, Any], committed: set[Trial]) -> list[str]:
    """Clean, and what is wrong then. known: in the store before. committed: what vtax said it had stored."""
    began = time.monotonic()
    problems = finished(lab, "clean")
    lab.lengths["", "vtax clean"] = time.monotonic() - began
    problems += lab.problems()
    now = stored(lab)
    problems += [f"lost or changed trial {key}" for key, row in known.items() if now.get(key) != row]
    problems += [f"lost committed trial {key}" for key in committed if key not in now]
    if last_run(lab)[1] == "running":
        problems.append(f"{name} still says it is running")
    return problems


def whole(lab: Lab, name: str) -> list[str]:
    """Whether a run is finished, with the trials of its plan in the order of its plan, none of them failed."""
    if not name:
        return ["no run was ever begun"]
    with Store.open(lab.home.store_url) as store:
        run = store.open_run(name)
        plan = rebuild_plan(run, lab.home)
    planned = [
        (cell.key, block, 0) for block in range(plan.most_blocks) for s in plan.sessions(block) for cell in s.cells
    ]
    rows = {key[1:]: row for key, row in stored(lab).items() if key[0] == name}
    done = sorted(rows, key=lambda key: rows[key][0])
    problems = [] if run.status == "finished" else [f"{name} is {run.status} after resuming"]
    problems += [] if done == planned else [f"{name} has the trials {done}, its plan is {planned}"]
    return problems + [f"failed trial {key}: {row[2][:200]}" for key, row in rows.items() if row[1] != "ok"]


def build_point(lab: Lab, number: int, seed: int) -> Point:
    """Kill an image build in a home of its own; nothing that looks finished may stay."""
    stage, length_s = BUILD_STAGES[number % len(BUILD_STAGES)]
    delay_s = random.Random(f"{seed}/image/{number}").uniform(0.0, length_s)
    for attempt in range(ATTEMPTS):
        killed, problems = killed_build(lab, stage, delay_s / 4**attempt)
        if killed:
            break
    return Point(number, "(image)", f"image build: {stage}", delay_s / 4**attempt, tuple(problems))


def killed_build(lab: Lab, stage: str, delay_s: float) -> tuple[bool, list[str]]:
    """Whether a build was killed after a delay in a stage, and what was wrong then."""
    root = Path(tempfile.mkdtemp(dir=lab.home.root, prefix="build-"))
    inner = Lab(Home(root).ensure(), lab.before)
    if stage == "initrd again":  # with another image's tree there, only the initrd is made
        source = images.find(lab.home)
        assert source is not None
        (inner.home.images / ("0" * 12)).symlink_to(source.directory.resolve())
    reader, writer = os.pipe()

    def work() -> None:
        with Journal(inner.home.journal) as journal:
            images.build(inner.home, DEFAULT, journal, lambda line: _say(writer, line))

    pid = child(inner, work)
    os.close(writer)
    heard = b""
    while stage.split()[0].encode() not in heard and (part := os.read(reader, 4096)):
        heard += part
    time.sleep(delay_s)
    if alive := os.waitpid(pid, os.WNOHANG)[0] == 0:
        kill(pid)
    os.close(reader)
    problems = [] if alive else [f"it ended before it could be killed: {_last_said(inner)}"]
    problems += finished(inner, "clean") + inner.problems()
    if alive and images.find(inner.home) is not None:
        problems.append("a killed build left an image that looks finished")
    shutil.rmtree(root, ignore_errors=True)
    return alive, problems


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


@contextmanager
def home_to_kill_in(keep: Callable[[], bool]) -> Iterator[Lab]:
    """A home of its own with the images of the usual one; it stays when there is something to look at."""
    found = Home.from_environment().images.resolve()
    root = Path(tempfile.mkdtemp(prefix="vtax-kill-", dir="/var/tmp"))
    (root / "images").symlink_to(found)
    os.environ["VTAX_HOME"] = str(root)
    yield Lab(Home(root).ensure(), state())
    if not keep():
        shutil.rmtree(root)


def here(lab: Lab) -> list[str]:
    """The platforms that run here, each kind once."""
    image = images.find(lab.home)
    kinds: dict[str, Platform] = {}
    if image is None:
        raise SystemExit("there is no image; sudo vtax image build makes it")
    for name in registry.names():
        platform = registry.get(name)
        kinds.setdefault(repr(platform.identity()), platform)
    return [platform.name for platform in kinds.values() if platform.probe(image).available]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--platform", action="append", help="default: every platform that runs here")
    parser.add_argument("--chain", type=int, action="append", help="only these chains")
    parser.add_argument("--no-image", action="store_true", help="kill no image builds")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    points: list[Point] = []

    def tell(point: Point) -> None:
        points.append(point)
        told = "; ".join(point.problems) or "ok"
        where = f"chain {point.chain:2} {point.platform:18} {point.stage:24} {point.delay_s:6.3f} s"
        print(f"{time.monotonic() - began:7.1f} s {len(points):4} {where}  {told}", file=sys.stderr, flush=True)

    began = time.monotonic()
    with home_to_kill_in(lambda: any(point.problems for point in points)) as lab:
        platforms = arguments.platform or here(lab)
        for number in arguments.chain or range(arguments.points):
            if len(points) >= arguments.points:
                break
            chain(lab, number, platforms[number % len(platforms)], arguments.seed, tell)
            if number % 2 and not arguments.no_image:
                tell(build_point(lab, number // 2, arguments.seed))
    summarize(points, time.monotonic() - began, arguments.json)
    sys.exit(any(point.problems for point in points))


def summarize(points: Sequence[Point], seconds: float, as_json: bool) -> None:
    """Points and failures by platform and stage."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for point in points:
        counts[point.platform][point.stage] += 1
    failed = [point for point in points if point.problems]
    if as_json:
        rows = {"points": len(points), "failures": len(failed), "seconds": round(seconds), "counts": counts}
        print(json.dumps({**rows, "failed": [asdict(point) for point in failed]}, indent=2))
        return
    print(f"{len(points)} kill points in {seconds:.0f} s, {len(failed)} with something wrong\n")
    stages = list(dict.fromkeys(point.stage for point in points))
    print("| platform | " + " | ".join(stages) + " | failures |")
    print("|---" * (len(stages) + 2) + "|")
    for platform, by_stage in counts.items():
        wrong = sum(point.platform == platform for point in failed)
        print(f"| {platform} | " + " | ".join(str(by_stage[stage] or "") for stage in stages) + f" | {wrong} |")
    for point in failed:
        print(f"\nchain {point.chain}, {point.platform}, {point.stage}: {'; '.join(point.problems)}")


if __name__ == "__main__":
    main()
