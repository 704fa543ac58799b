"""Kill vtax with SIGKILL anywhere in a run's life, and show that no trial is lost and no resource leaks.

A chain is one run of a small study, of one platform against native. It is killed again and again, each time in
another stage at a seeded moment, and gone on with by `vtax resume`. Every kill is followed by `vtax clean` and the
checks: no process, mount, cgroup or file is left, network and settings are as before (see host_state), and every
trial that was committed is still there, unchanged. At its end the run is finished, and its trials are those of the
plan in the plan's order. Some chains change settings of the host (`--tune-host`, huge pages), which must
be restored after each kill. Every fourth chain has two guests at once and a neighbour with a lab of its own. An image
build is killed after every fourth chain.

All of it happens in namespaces of its own (see isolated), so it does not matter what else the host does meanwhile,
and campaigns with other seeds can run beside it. Images are those of VTAX_HOME, seen read-only.

    sudo .venv/bin/python bench/kill_points.py [--points 200] [--seconds S] [--seed 1] [--platform NAME ...]
                                               [--chain N ...] [--log FILE] [--no-clean]

Prints a table of points and failures by platform and stage; exits with 1 when a point failed. The same seed gives the
same stages in the same order and the same moments as parts of a stage's length; --chain runs single ones again. With
--log, chains that ended are noted in a file and not made again, and the table is that of the file. --no-clean is the
check of the checks: no `vtax clean` follows a kill, and every kill in a running guest must be reported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cleanup
import isolated
from host_state import Inside
from isolated import Isolated
from kill_log import Log, Point, summarize
from kill_prey import Lab, Prey, child, command, finished, kill, last_said

from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import run
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.platforms import registry
from vtax.platforms.base import Platform
from vtax.runner.resume import rebuild_plan
from vtax.store.store import Store

STUDY = """
name = "kill"
platforms = {platforms}
tuning = {levels}
[guest]
memory = "256MiB"
[design]
blocks = 2
seed = {seed}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ events = 300 }}
{colocated}
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = 1 }}
"""
COLOCATED = """guests = [2]
neighbour = ["none", "network"]"""
COLOCATED_EVERY = 4  # chains
STAGES = (
    "planning",
    "guest start",
    "agent hello",
    "trial",
    "commit",
    "guest stop",
    "clean-up",
    "vtax clean",
)
ATTEMPTS = 4
BUILD_STAGES = (
    ("packages", 20.0),
    ("packages", 20.0),
    ("initrd again", 0.5),
    ("vtax's own programs", 2.0),
)


Trial = tuple[str, str, int, int]
"""Run, cell, block, number."""


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


def chain(
    lab: Lab, number: int, platform: str, seed: int, notify: Callable[[Point], None], *, wait: bool
) -> bool:
    """One run, killed once in every stage, and finished.

    wait: for a turn at the host's settings, if it changes them. Returns False when it did not get one.
    """
    generator = random.Random(f"{seed}/{number}")
    stages = generator.sample(STAGES, len(STAGES))
    how = generator.choice(("as it is", "--tune-host", "hugepages", "as it is"))
    if how == "as it is":
        run_of_a_chain(lab, number, platform, how, stages, generator, notify)
        return True
    with lab.inside.isolated.turn(wait=wait) as granted:
        if granted:
            inside = replace(lab.inside, settings=True)
            tuned = replace(lab, inside=inside, before=inside.state())
            run_of_a_chain(tuned, number, platform, how, stages, generator, notify)
        return granted


def run_of_a_chain(
    lab: Lab,
    number: int,
    platform: str,
    how: str,
    stages: Sequence[str],
    generator: random.Random,
    notify: Callable[[Point], None],
) -> None:
    """See `chain`. how: the host's settings that it changes meanwhile."""
    study = lab.home.root / "kill.toml"
    names = json.dumps(list(dict.fromkeys(["native", platform])))
    tune = ["--tune-host"] if how == "--tune-host" else []
    levels = (
        '["pinned+hugepages"]'
        if how == "hugepages" and how in registry.get(platform).driver.tunings
        else "[]"
    )
    colocated = COLOCATED if number % COLOCATED_EVERY == COLOCATED_EVERY - 1 else ""
    study.write_text(
        STUDY.format(
            platforms=names, levels=levels, seed=generator.randrange(10**6), colocated=colocated
        )
    )
    name = ""
    for stage in stages:
        part, first = generator.random(), generator.random()
        known, killed, delay_s = stored(lab), "", 0.0
        committed: set[Trial] = set()
        for attempt in range(ATTEMPTS):
            going_on = bool(name) and last_run(lab) == (name, "interrupted")
            probes = {} if stage == "planning" else lab.probes
            prey = Prey(
                lab, ["resume", name, *tune] if going_on else ["run", str(study), *tune], probes
            )
            killed, delay_s = prey.kill_in(stage, platform, part / 4**attempt)
            name, committed = (
                last_run(lab)[0],
                committed | {(last_run(lab)[0], *key) for key in prey.committed},
            )
            if killed:
                break
        problems = [] if killed else [f"it ended before it could be killed: {last_said(lab)}"]
        if stage == "vtax clean":
            delay_s = first * lab.guess_s(platform, stage)
            pid = child(lab, lambda: command(["clean"]))
            time.sleep(delay_s)
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                kill(pid)
        problems += checked(lab, name, known, committed)
        notify(
            Point(
                number,
                platform,
                "vtax clean" if stage == "vtax clean" else killed or stage,
                delay_s,
                tuple(problems),
            )
        )
    problems = finished(lab, "resume", name, *tune) if last_run(lab)[1] == "interrupted" else []
    problems += whole(lab, name) + lab.problems()
    if problems:
        notify(Point(number, platform, "(end of the chain)", 0.0, tuple(problems)))


def checked(lab: Lab, name: str, known: dict[Trial, Any], committed: set[Trial]) -> list[str]:
    """Clean, and what is wrong then; where the checks are checked, what was wrong before as well.

    known: in the store before. committed: what vtax said it had stored.
    """
    started_at = time.monotonic()
    left = [] if lab.clean else lab.problems()
    problems = finished(lab, "clean") + left
    lab.lengths["", "vtax clean"] = time.monotonic() - started_at
    problems += lab.problems()
    now = stored(lab)
    problems += [
        f"lost or changed trial {key}" for key, row in known.items() if now.get(key) != row
    ]
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
        (cell.key, block, 0)
        for block in range(plan.max_blocks)
        for s in plan.guests(block)
        for cell in s.cells
    ]
    rows = {key[1:]: row for key, row in stored(lab).items() if key[0] == name}
    done = sorted(rows, key=lambda key: rows[key][0])
    problems = [] if run.status == "finished" else [f"{name} is {run.status} after resuming"]
    problems += [] if done == planned else [f"{name} has the trials {done}, its plan is {planned}"]
    return problems + [
        f"failed trial {key}: {row[2][:200]}" for key, row in rows.items() if row[1] != "ok"
    ]


def build_point(lab: Lab, number: int, seed: int) -> Point:
    """Kill an image build in a home of its own; what looks finished then must be whole."""
    stage, length_s = BUILD_STAGES[number % len(BUILD_STAGES)]
    delay_s = random.Random(f"{seed}/image/{number}").uniform(0.0, length_s)
    for attempt in range(ATTEMPTS):
        killed, problems = killed_build(lab, stage, delay_s / 4**attempt)
        if killed:
            break
    return Point(number, "(image)", f"image build: {stage}", delay_s / 4**attempt, tuple(problems))


def killed_build(lab: Lab, stage: str, delay_s: float) -> tuple[bool, list[str]]:
    """Whether a build was killed after a delay in a stage, or never came to it, and what was wrong then."""
    root = Path(tempfile.mkdtemp(dir=lab.home.root, prefix="build-"))
    inner = Lab(Home(root).ensure(), replace(lab.inside, home=root), lab.before)
    if stage == "initrd again":  # with another image's tree there, only the initrd is made
        (inner.home.images / ("0" * 12)).symlink_to(copied_image(lab))
    reader, writer = os.pipe()

    def work() -> None:
        lab.inside.isolated.use_outer_network()
        with Journal(inner.home.journal) as journal:
            images.build(inner.home, DEFAULT, journal, lambda line: _say(writer, line))

    pid = child(inner, work)
    os.close(writer)
    has_data = part = b""
    while stage.split()[0].encode() not in has_data and (part := os.read(reader, 4096)):
        has_data += part
    time.sleep(delay_s)
    if alive := os.waitpid(pid, os.WNOHANG)[0] == 0:
        kill(pid)
    os.close(reader)
    problems = [] if alive else [f"it ended before it could be killed: {last_said(inner)}"]
    if not part:
        problems = [f"it ended and had never said {stage}: {last_said(inner)}"]
    problems += finished(inner, "clean") + inner.problems()
    try:
        images.checked(inner.home)
    except VtaxError as error:
        problems.append(f"a killed build left an image that looks finished: {error.what}")
    shutil.rmtree(root, ignore_errors=True)
    return alive or not part, problems


def copied_image(lab: Lab) -> Path:
    """A copy of the image that files can be linked from, made once: its own place is another mount, and read-only."""
    copy = lab.home.root / "copied"
    if not copy.exists():
        source = images.find(lab.home)
        assert source is not None
        run(["cp", "--archive", "--sparse=always", source.directory, copy], timeout_s=600)
    return copy


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


@contextmanager
def home_to_kill_in(inside: Isolated) -> Iterator[Lab]:
    """A home of its own with the images of the usual one, and what is there before anything is killed."""
    root = inside.root / "home"
    os.environ["VTAX_HOME"] = str(root)
    os.environ["TMPDIR"] = str(root)  # for what this program makes itself
    where = Inside(inside, root)
    yield Lab(Home(root).ensure(), where, where.state())


def shared() -> dict[str, Path]:
    """What the home inside sees of the usual one: its images."""
    home = Home.from_environment()
    return {
        f"home/images/{path.name}": path.resolve()
        for path in home.images.glob("*[!.partial]")
        if path.is_dir()
    }


def here(lab: Lab, wanted: Sequence[str]) -> list[str]:
    """The platforms that run here, of those wanted, otherwise each kind once; what they said is noted."""
    image = images.find(lab.home)
    kinds: dict[str, Platform] = {}
    if image is None:
        raise SystemExit("there is no image; sudo vtax image build makes it")
    for name in wanted or registry.names():
        platform = registry.get(name)
        kinds.setdefault(repr(platform.identity()), platform)
    for platform in [registry.get("native"), *kinds.values()]:
        lab.probes[platform.name] = platform.probe(image)
    return [platform.name for platform in kinds.values() if lab.probes[platform.name].available]


def first_run(lab: Lab) -> None:
    """Have everything made that is there for good since the first run on a host, such as /run/netns; tell what."""
    study = lab.home.root / "first.toml"
    study.write_text(STUDY.format(platforms='["native"]', levels="[]", seed=1, colocated=""))
    problems = finished(lab, "run", str(study))
    if problems:
        raise SystemExit(problems[0])
    print("there since the first run:", "; ".join(lab.problems()), file=sys.stderr, flush=True)
    lab.before = lab.inside.state()


def campaign(lab: Lab, arguments: argparse.Namespace, log: Log) -> None:
    """Chain after chain until there are enough points."""
    platforms = here(lab, arguments.platform or ())
    first_run(lab)
    printed: list[Point] = []

    def notify(point: Point) -> None:
        printed.append(point)
        message = "; ".join(point.problems) or "ok"
        where = f"chain {point.chain:2} {point.platform:18} {point.stage:24} {point.delay_s:6.3f} s"
        count = len(log.points) + len(printed)
        print(
            f"{time.monotonic() - started_at:7.1f} s {count:4} {where}  {message}",
            file=sys.stderr,
            flush=True,
        )

    started_at = time.monotonic()
    pending = deque(
        number for number in arguments.chain or range(arguments.points) if number not in log.chains
    )
    put_off: deque[int] = deque()  # until another campaign has changed the host's settings back
    fresh = False
    while (pending or put_off) and len(log.points) < arguments.points:
        if time.monotonic() - started_at > arguments.seconds:
            break
        fresh = bool(pending) and not (put_off and fresh)
        number = (pending if fresh else put_off).popleft()
        platform = platforms[number % len(platforms)]
        if not chain(lab, number, platform, arguments.seed, notify, wait=not pending):
            put_off.append(number)
            continue
        if number % 4 == 3 and not arguments.no_image:
            notify(build_point(lab, number // 4, arguments.seed))
        log.add(number, printed)
        printed.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no chain after them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--platform", action="append", help="default: every platform that runs here"
    )
    parser.add_argument("--chain", type=int, action="append", help="only these chains")
    parser.add_argument("--no-image", action="store_true", help="kill no image builds")
    parser.add_argument(
        "--no-clean", action="store_true", help="do not clean up before the checks, which must fail"
    )
    parser.add_argument(
        "--log", type=Path, help="note chains that ended in this file, and go on after those in it"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    inside = isolated.enter()
    if inside is None:
        return isolated.run_again(shared(), arguments.log)
    log = Log(inside.log, arguments.seed)
    with home_to_kill_in(inside) as lab:
        lab.clean = not arguments.no_clean
        campaign(lab, arguments, log)
    summarize(log.points, arguments.json)
    return int(any(point.problems for point in log.points))


if __name__ == "__main__":
    cleanup.run(main)
