"""The promise: hostile input and kills at any moment end in no traceback, no hang over 60 s and no leak.

Makes every campaign in one piece: the attacks of tests/security, each program as many as its test says (`whole`,
10 000 unless marked), in parts of other seeds that run side by side in processes of their own, without root where
another user can read the checkout; beside them, as root, two campaigns of kill points over every platform that runs
here.

    sudo .venv/bin/python bench/attacks.py [--log DIRECTORY] [--attacks N] [--kills 1000] [--kill-seconds 3000]
                                           [--only WORD] [--workers N]

Prints a Markdown table as it goes, a row for each program once its last part has ended; failures go to stderr. Growth
is of the memory of the process that is attacked, while it is; the peak is the most memory that a process of the
program had at any time, with pytest and what it loads in it. With --log, parts that ended well are kept there
and not made again on the same commit. --attacks is at most how many a program makes. Exits with 1 when one failed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cleanup
from kill_log import Log, Point, summarize

from vtax.errors import BadInput
from vtax.host.process import run

PARTS = 5  # of a campaign
FEWEST = 100  # attacks of a part
PART_S = 1800  # at most: a loop in C answers no signal
KILL_CAMPAIGNS = 2
NOBODY = 65534
CHECKOUT = Path(__file__).resolve().parents[1]
COLUMNS = (
    "what attacks",
    "attacks",
    "failures",
    "slowest (s)",
    "growth (MiB)",
    "peak (MiB)",
    "duration (s)",
)


@dataclass
class Program:
    """A campaign and the records of its parts that ended. name: a test, or kill points."""

    name: str
    parts: int
    records: list[dict[str, Any]] = field(default_factory=list)

    def row(self) -> str:
        """Figures of all parts; the duration is as if one had followed the other."""
        total = {
            key: sum(record[key] for record in self.records)
            for key in ("attacks", "failures", "elapsed_s")
        }
        most = {
            key: max(record[key] for record in self.records)
            for key in ("slowest_s", "growth", "peak")
        }
        return (
            f"| {self.name.rpartition('::')[2]} | {total['attacks']} | {total['failures']} | "
            f"{most['slowest_s']:.1f} | {most['growth'] >> 20} | {most['peak'] >> 20} | {total['elapsed_s']:.0f} |"
        )


@dataclass(frozen=True)
class Job:
    """A part of a campaign, as a process of its own. log: what it writes; output: what it prints."""

    program: Program
    seed: int
    count: int
    argv: tuple[str, ...]
    log: Path
    output: Path
    is_attack: bool


class Campaigns:
    """What is to be made, what runs, and the files where it is noted."""

    def __init__(self, scratch: Path, kept: Path, workers: int) -> None:
        commit = run(
            ["git", "-C", CHECKOUT, "describe", "--always", "--dirty"], check=False
        ).stdout.strip()
        self.scratch, self.log, self.workers = scratch, kept / f"attacks-{commit}.jsonl", workers
        self.programs: list[Program] = []
        self.points: list[Point] = []
        self.pending: deque[Job] = deque()
        self.running: dict[int, tuple[Job, float]] = {}
        self.failed = False

    def plan(self, name: str, attacks: int) -> None:
        """Queue the parts of a program of tests/security that have not ended before."""
        parts = max(1, min(PARTS, attacks // FEWEST))
        program = Program(name, parts)
        self.programs.append(program)
        done = {
            (old["program"], old["seed"], old["attacks"]): old
            for old in records_of(self.log)
            if not old["failures"]
        }
        for seed in range(1, parts + 1):
            count = attacks // parts + (seed <= attacks % parts)
            if old := done.get((name, seed, count)):
                program.records.append(old)
                continue
            scratch = self.scratch / f"part-{len(self.pending)}"
            argv = (
                "timeout",
                "--foreground",
                "--kill-after=5",
                str(PART_S),
                *pytest_of(scratch),
                f"--attacks={count}",
                f"--attack-seed={seed}",
                name,
            )
            self.pending.append(
                Job(program, seed, count, argv, scratch / "log", scratch / "output", True)
            )

    def start_kills(self, kills: int, seconds: int) -> None:
        """Start the campaigns of kill points. They mostly wait, so they run beside all attacks."""
        program = Program("kill points", KILL_CAMPAIGNS)
        self.programs.append(program)
        for seed in range(1, KILL_CAMPAIGNS + 1):
            log, count = (
                self.log.with_name(f"kills-{seed}-{self.log.name}"),
                -(-kills // KILL_CAMPAIGNS),
            )
            argv = (
                sys.executable,
                str(CHECKOUT / "bench" / "kill_points.py"),
                f"--points={count}",
                f"--seed={seed}",
                f"--seconds={seconds}",
                f"--log={log}",
            )
            self.start(Job(program, seed, count, argv, log, self.scratch / f"kills-{seed}", False))

    def start(self, job: Job) -> None:
        """Start a part; attacks without root where that is possible."""
        identity: dict[str, Any] = {}
        if job.is_attack:
            identity = without_root(job.output.parent)
        with job.output.open("ab") as output:
            process = subprocess.Popen(
                job.argv,
                cwd=CHECKOUT,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                **identity,
            )
        self.running[process.pid] = job, time.monotonic()
        process.returncode = 0  # it is waited for below, where its memory is read

    def run(self) -> None:
        """Make all that is queued; print a row when a program's last part ends."""
        print(f"| {' | '.join(COLUMNS)} |\n|---{'|---:' * (len(COLUMNS) - 1)}|", flush=True)
        for program in self.programs:
            self.finish(program)
        try:
            while self.pending or self.running:
                while (
                    self.pending
                    and sum(job.is_attack for job, _ in self.running.values()) < self.workers
                ):
                    self.start(self.pending.popleft())
                pid, status, usage = os.wait4(-1, 0)
                if pid in self.running:
                    job, started_at = self.running.pop(pid)
                    self.end(job, status, time.monotonic() - started_at, usage)
        finally:
            for pid in self.running:
                os.kill(pid, signal.SIGTERM)
            for pid in self.running:
                os.waitpid(pid, 0)

    def end(self, job: Job, status: int, elapsed_s: float, used: resource.struct_rusage) -> None:
        """Note a part that ended. status: as wait(2) has it."""
        counted: dict[str, Any] = {
            "program": job.program.name,
            "seed": job.seed,
            "attacks": job.count,
        }
        counted |= {"slowest_s": 0.0, "growth": 0, "failures": 0}
        if job.is_attack:
            for record in records_of(job.log):
                counted |= {
                    key: record[key] for key in ("slowest_s", "growth", "failures", "outcomes")
                }
        else:
            points = points_of(job.log, job.seed)
            self.points += points
            counted |= {
                "attacks": len(points),
                "failures": sum(bool(point.problems) for point in points),
            }
        if status and not counted["failures"]:
            counted["failures"] += 1
        cpu_s = used.ru_utime + used.ru_stime
        record = {**counted, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "peak": used.ru_maxrss << 10}
        if counted["failures"]:
            self.failed = True
            print(
                f"{json.dumps(record)}, exit status {os.waitstatus_to_exitcode(status)}",
                file=sys.stderr,
            )
            print(job.output.read_text(errors="replace")[-8000:], file=sys.stderr, flush=True)
        job.program.records.append(record)
        if job.is_attack:
            shutil.rmtree(job.output.parent)
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
        self.finish(job.program)

    def finish(self, program: Program) -> None:
        """Print a program's row once all of its parts have ended."""
        if len(program.records) == program.parts:
            print(program.row(), flush=True)
            self.failed |= any(record["failures"] for record in program.records)


def pytest_of(scratch: Path) -> tuple[str, ...]:
    """The command line of pytest, what it writes below a directory."""
    return (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={scratch}/tmp",
        f"--attack-log={scratch}/log",
    )


def without_root(scratch: Path) -> dict[str, Any]:
    """Make a directory of a part's own; how to start a process that writes nowhere else."""
    scratch.mkdir()
    environment = {
        **os.environ,
        "HOME": str(scratch),
        "VTAX_HOME": f"{scratch}/home",
        "TMPDIR": str(scratch),
        "HYPOTHESIS_STORAGE_DIRECTORY": f"{scratch}/hypothesis",
    }
    reads: list[str | Path] = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "test",
        "-r",
        CHECKOUT / "pyproject.toml",
        "-a",
        "-x",
        sys.executable,
        "-a",
        "-x",
        scratch.parent,
    ]
    if os.geteuid() != 0 or run(reads, check=False).status != 0:
        return {"env": environment}
    os.chown(scratch, NOBODY, NOBODY)
    return {"env": environment, "user": NOBODY, "group": NOBODY, "extra_groups": []}


def records_of(log: Path) -> list[dict[str, Any]]:
    """What a file of JSON lines holds; nothing when there is none."""
    return (
        [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        if log.exists()
        else []
    )


def points_of(log: Path, seed: int) -> list[Point]:
    """The kill points that a file holds."""
    descriptor = os.open(log, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        return Log(descriptor, seed).points
    finally:
        os.close(descriptor)


def discovered(directory: Path) -> list[tuple[str, int]]:
    """The programs of tests/security, by their tests, and how many attacks each makes in a whole campaign."""
    found = run(
        [*pytest_of(directory), "--collect-only", "tests/security"],
        cwd=CHECKOUT,
        timeout_s=300,
        check=False,
    )
    programs = [(record["program"], record["attacks"]) for record in records_of(directory / "log")]
    if not programs:
        raise BadInput(
            f"pytest found no campaign: {found.stdout[-500:]}",
            hint="requirements-dev.lock brings pytest",
        )
    return programs


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, help="keep the parts that ended in this directory")
    parser.add_argument("--attacks", type=int, default=10**9, help="at most as many of a program")
    parser.add_argument("--kills", type=int, default=1000 if os.geteuid() == 0 else 0)
    parser.add_argument(
        "--kill-seconds", type=int, default=3000, help="begin no chain of kills after them"
    )
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="parts side by side"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vtax-attacks-") as name:
        scratch, kept = Path(name), arguments.log or Path(name)
        scratch.chmod(0o755)
        kept.mkdir(parents=True, exist_ok=True)
        campaigns = Campaigns(scratch, kept, arguments.workers)
        for program, whole in discovered(scratch):
            if arguments.only in program:
                campaigns.plan(program, min(whole, arguments.attacks))
        if arguments.kills:
            campaigns.start_kills(arguments.kills, arguments.kill_seconds)
        campaigns.run()
    if campaigns.points:
        print()
        summarize(campaigns.points, as_json=False)
    return int(campaigns.failed)


if __name__ == "__main__":
    cleanup.run(main)
