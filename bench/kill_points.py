"""Kill vtax with SIGKILL anywhere in a run's life, and show that nothing is lost and nothing is left behind.

Each point runs a small study of one platform against native in a child, kills the child at a seeded random moment,
runs `vtax clean`, and checks: no process, namespace, mount, cgroup, container or file of ours is left, the network of
the host is as before, no committed trial is lost, and `vtax resume` completes the same plan. One point in eight kills
the clean-up as well; one in sixteen kills an image build instead of a run.

    sudo .venv/bin/python bench/kill_points.py [--points 200] [--seed 1] [--platform NAME ...] [--json]

Prints a table of points and failures per platform and stage; exits with 1 when a point failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from vtax.cli.main import group
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import clean
from vtax.host.process import MARK_VARIABLE
from vtax.image.build import find
from vtax.network.unchanged import host_network
from vtax.platforms import registry
from vtax.runner import execute as execution
from vtax.runner.events import Progress, Silent
from vtax.store.query import load
from vtax.store.store import Store

STUDY = """
name = "kill"
platforms = {platforms}
[guest]
memory = "256MiB"
[design]
blocks = 1
seed = {seed}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 0.2 }}
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = 1 }}
"""
LONGEST_S = 240.0
BUILD_WINDOW_S = 25.0


@dataclass(frozen=True)
class Point:
    """One kill: where it fell, and what was wrong afterwards (nothing, when all held)."""

    platform: str
    stage: str
    delay_s: float
    problems: tuple[str, ...]


class Stages(Silent):
    """Writes the stage a run is in to a pipe, so that the killer knows where it struck."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def tell(self, stage: str) -> None:
        os.write(self._pipe, f"{stage}\n".encode())

    def guest_starting(self, platform: str, block: int) -> None:
        self.tell("guest start")

    def guest_ready(self, platform: str, ready_s: float) -> None:
        self.tell("guest ready")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        self.tell("trial")

    def trial_ended(self, platform: str, label: str, figure: str, error: str, progress: Progress) -> None:
        last = progress.done_trials % 2 == 0
        self.tell("guest stop" if last else "between trials")


def child(work: Callable[[], None]) -> int:
    """Fork; the child works in silence and never returns here."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _work_and_exit(work)


def _work_and_exit(work: Callable[[], None]) -> NoReturn:
    status = 1
    try:
        work()
        status = 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except VtaxError as error:
        status = error.exit_status
    finally:
        os._exit(status)


def vtax(*arguments: str) -> None:
    """A command of vtax in this process."""
    group.main(args=list(arguments), prog_name="vtax", standalone_mode=False)


def run_in_child(study: Path, pipe: int) -> int:
    """`vtax run STUDY`, telling its stages."""

    def work() -> None:
        stages = Stages(pipe)
        stages.tell("planning")
        original = execution.execute
        import vtax.cli.measure as measuring

        measuring.execute = lambda plan, run, home, observer: original(plan, run, home, stages)  # type: ignore[attr-defined]
        vtax("run", str(study))

    return child(work)


def wait(pid: int, timeout_s: float) -> int | None:
    """Exit status of a child, or None when it did not end in time (it is killed then)."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def kill_after(pid: int, delay_s: float) -> bool:
    """SIGKILL a child after a delay; False when it had ended by itself."""
    deadline = time.monotonic() + delay_s
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def leftovers(home: Path) -> list[str]:
    """Everything on this host that only vtax could have left."""
    found = [f"namespace {p.name}" for p in Path("/run/netns").glob("vtax*")] if Path("/run/netns").is_dir() else []
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    found += [f"mount {path}" for path in mounts if path.startswith(str(home))]
    found += [f"cgroup {p}" for p in Path("/sys/fs/cgroup").glob("**/vtax*") if p.is_dir()]
    found += [f"files {p}" for p in (home / "guests").iterdir()] if (home / "guests").is_dir() else []
    found += [f"journal {p.name}" for p in (home / "journal").glob("*.jsonl")]
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int(entry.name) != os.getpid() and f"{MARK_VARIABLE}=".encode() in (entry / "environ").read_bytes():
                found.append(f"process {entry.name} {(entry / 'cmdline').read_bytes()[:80]!r}")
    return found


def trials(home: Home) -> set[tuple[str, str, int, int]]:
    """(run, cell, block, number) of every trial in the store."""
    if not (home.root / "store.sqlite").exists():
        return set()
    with Store.open(home.store_url) as store:
        return {(summary.name, *done) for summary in store.runs() for done in store.open_run(summary.name).done()}


def one_point(home: Home, platform: str, span_s: float, generator: random.Random, before: str) -> Point:
    """Run, kill, clean, check, resume, check."""
    study = home.root / "kill.toml"
    names = list(dict.fromkeys(["native", platform]))
    study.write_text(STUDY.format(platforms=json.dumps(names), seed=generator.randrange(10**6)))
    delay_s = generator.uniform(0.0, span_s)
    reader, writer = os.pipe()
    pid = run_in_child(study, writer)
    os.close(writer)
    killed = kill_after(pid, delay_s)
    stages = os.read(reader, 1 << 16).decode().split("\n")[:-1]
    os.close(reader)
    stage = (stages[-1] if stages else "planning") if killed else "ended before"
    problems = []
    if generator.random() < 1 / 8:
        stage += ", then clean"
        kill_after(child(lambda: vtax("clean")), generator.uniform(0.0, 0.3))
    committed = trials(home)
    problems += clean(home.journal).problems
    problems += leftovers(home.root)
    if (after := host_network()) != before:
        problems.append(
            "the host's network changed: " + "; ".join(sorted(set(after.splitlines()) ^ set(before.splitlines())))
        )
    problems += resume_problems(home, committed)
    return Point(platform, stage, delay_s, tuple(problems))


def resume_problems(home: Home, committed: set[tuple[str, str, int, int]]) -> list[str]:
    """What is wrong after resuming the last run, if one had begun."""
    if not (home.root / "store.sqlite").exists():
        return []
    with Store.open(home.store_url) as store:
        runs = store.runs()
    if runs and runs[-1].status != "finished":
        status = wait(child(lambda: vtax("resume")), LONGEST_S)
        if status != 0:
            return [f"vtax resume ended with {status}"]
    problems = [f"lost trial {lost}" for lost in committed - trials(home)]
    with Store.open(home.store_url) as store:
        for summary in store.runs()[-1:]:
            handle = store.open_run(summary.name)
            data = load(store.engine, handle)
            if handle.status != "finished" or len(handle.done()) != len(handle.cells):
                problems.append(
                    f"{summary.name} is {handle.status} with {len(handle.done())} of {len(handle.cells)} trials"
                )
            problems += [f"{summary.name}: failed trial: {failure.error[:200]}" for failure in data.failures]
    return problems + leftovers(home.root)


def build_point(root: Path, generator: random.Random) -> Point:
    """Kill an image build in a home of its own; nothing that looks finished may stay."""
    directory = Path(tempfile.mkdtemp(dir=root, prefix="build-"))
    home = Home(directory).ensure()
    os.environ["VTAX_HOME"] = str(directory)
    delay_s = generator.uniform(0.0, BUILD_WINDOW_S)
    kill_after(child(lambda: vtax("image", "build")), delay_s)
    problems = list(clean(home.journal).problems)
    if find(home) is not None:
        problems.append("a killed build left an image that looks finished")
    problems += leftovers(directory)
    problems += [f"build left {p}" for p in home.images.iterdir() if p.suffix != ".lock" and p.is_dir()]
    shutil.rmtree(directory, ignore_errors=True)
    return Point("(image)", "image build", delay_s, tuple(problems))


def span_of(home: Home, platform: str) -> float:
    """How long an undisturbed run takes: the window in which kills fall."""
    study = home.root / "kill.toml"
    study.write_text(STUDY.format(platforms=json.dumps(list(dict.fromkeys(["native", platform]))), seed=1))
    began = time.monotonic()
    status = wait(child(lambda: vtax("run", str(study))), LONGEST_S)
    if status != 0:
        raise SystemExit(f"an undisturbed run on {platform} ended with {status}: vtax run {study} says why")
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--platform", action="append", help="default: every platform that runs here")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    images = Home.from_environment().images.resolve()
    root = Path(tempfile.mkdtemp(prefix="vtax-kill-"))
    (root / "images").symlink_to(images)
    os.environ["VTAX_HOME"] = str(root)
    home = Home(root).ensure()
    image = find(home)
    platforms = arguments.platform or [n for n in registry.names() if registry.get(n).probe(image).available]
    generator = random.Random(arguments.seed)
    before = host_network()
    points: list[Point] = []
    spans = {platform: span_of(home, platform) for platform in platforms}
    for number in range(arguments.points):
        if number % 16 == 15:
            point = build_point(root, generator)
            os.environ["VTAX_HOME"] = str(root)
        else:
            platform = platforms[number % len(platforms)]
            point = one_point(home, platform, spans[platform], generator, before)
        points.append(point)
        told = "ok" if not point.problems else "; ".join(point.problems)
        print(
            f"{number + 1:4} {point.platform:18} {point.stage:24} {point.delay_s:6.2f} s  {told}",
            file=sys.stderr,
            flush=True,
        )
    summarize(points, arguments.json)
    if not any(p.problems for p in points):
        shutil.rmtree(root)
    sys.exit(any(p.problems for p in points))


def summarize(points: list[Point], as_json: bool) -> None:
    """Points and failures per platform and per stage."""
    rows: dict[str, Any] = {}
    for what in ("platform", "stage"):
        total = Counter(getattr(p, what) for p in points)
        failed = Counter(getattr(p, what) for p in points if p.problems)
        rows[what] = {name: {"points": total[name], "failures": failed[name]} for name in sorted(total)}
    if as_json:
        print(
            json.dumps({"points": len(points), "failures": sum(bool(p.problems) for p in points), **rows}, indent=2)
        )
        return
    print(f"{len(points)} kill points, {sum(bool(p.problems) for p in points)} failures")
    for what, found in rows.items():
        for name, counts in found.items():
            print(f"  {what:9} {name:26} {counts['points']:4} points  {counts['failures']:3} failures")


if __name__ == "__main__":
    main()
