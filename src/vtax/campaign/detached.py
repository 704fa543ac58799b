"""Starts a process that outlives the session which asked for it, and carries out a requested run in it.

Where systemd runs, a transient unit holds it (systemd-run(1)), since the end of a login may kill what it started;
else a session of its own (setsid(2)).
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vtax.campaign.host_runs import BEGUN, End, HostRun, Place, Request, last_line, run_of, state_of
from vtax.described import moment
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.host.digest import sha256_of_file
from vtax.host.lock import is_measuring, measuring_lock, measuring_process
from vtax.host.process import find_program
from vtax.host.waiting import wait_until

Vtax = Callable[[Place, Sequence[str]], int]
SYSTEMD = Path("/run/systemd/system")
_AGAIN = ("absent", "interrupted", "busy", "refused")
"""States in which a further request starts it, or resumes its run."""
_KEPT = ("PATH", "HOME", "LANG")
_START_S = 60.0
_STOP_S = 300.0  # as TimeoutStopSec
_POLL_S = 0.05
_PROPERTIES = ("KillMode=mixed", "TimeoutStopSec=5min", "TasksMax=infinity")


def start(place: Place, request: Request, *, in_foreground: bool = False) -> HostRun:
    """Have a run carried out in the background unless it is, or has ended; return its state.

    One that was interrupted is resumed. in_foreground: this process carries it out, and returns at its end. Raises
    BadInput where the id is another study's, and VtaxError where the process does not start.
    """
    if os.environ.get("VTAX_STORE"):
        hint = "omit VTAX_STORE; a controller collects bundles"
        raise BadInput(
            "a host that a controller uses keeps its runs in its home",
            where="VTAX_STORE",
            hint=hint,
        )
    place.directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(place.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(
            descriptor, fcntl.LOCK_EX
        )  # of two requests at once the second one reads what the first one did
        try:
            known = place.request()
        except BadInput:
            known = None
        if known is not None and _measured(known) != _measured(request):
            raise BadInput(
                f"{place.id} is the id of another study, scale or number of blocks",
                where=known.study,
                hint="request it by a new id",
            )
        found = state_of(place) if known is not None else HostRun(place.id, "absent")
        is_due = found.state in _AGAIN or (
            found.state == "paused" and (request.next_session or request.has_boots)
        )
        if is_due:
            place.write_request(request)
            with place.log.open("a") as log:
                log.write(f"{BEGUN}{moment(time.time())}\n")
            if not in_foreground:
                _launch(place)
    finally:
        os.close(descriptor)
    if is_due and in_foreground:
        carry_out(place)
    return state_of(place)


def stop(place: Place) -> HostRun:
    """End the process of a run, which keeps what it measured and writes its bundle; return the state.

    Raises NotFound where nothing was requested, VtaxError where it does not end.
    """
    place.request()
    _, worker = measuring_process(path=place.lock)
    if worker is not None:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        wait_until(
            lambda: not is_measuring(place.lock),
            _STOP_S,
            _POLL_S,
            otherwise=lambda: VtaxError(
                f"the process of {place.id} did not end within {_STOP_S:g} s",
                where=str(place.log),
                hint=f"kill -9 {worker}, then vtax clean",
            ),
        )
    return state_of(place)


def carry_out(place: Place, vtax: Vtax | None = None) -> None:
    """Run, resume, or begin the next session of what was requested, and write its bundle; for the process itself.

    vtax: runs a command of it and returns the exit status; in a process of its own unless given. Raises NotFound
    where nothing was requested, RunInterrupted when this process is to end.
    """
    request, vtax = place.request(), vtax or _vtax
    with measuring_lock(f"vtax host work {place.id}", place.lock):
        place.end.unlink(missing_ok=True)
        status, stopped = 0, None
        try:
            if command := _command(place, request):
                status = vtax(place, command)
        except RunInterrupted as stop:
            status, stopped = stop.exit_status, stop
        end = End(status, last_line(place.log) if status else "")
        if run := run_of(place):
            if (exported := vtax(place, ["export", run.name, "-o", str(place.bundle)])) == 0:
                end = replace(
                    end, bundle=str(place.bundle), bundle_sha256=sha256_of_file(place.bundle)
                )
            else:
                end = End(status or exported, last_line(place.log))
        place.write_end(end)
    if stopped is not None:
        raise stopped


def _measured(request: Request) -> tuple[str, str, int]:
    return request.digest, request.scale, request.blocks


def _command(place: Place, request: Request) -> list[str]:
    """Return the arguments of vtax that bring it nearer to its end; none where only its bundle is missing."""
    options = [
        *(["--trust"] if request.trust else []),
        *(["--tune-host"] if request.tune_host else []),
    ]
    run = run_of(place)
    if run is None:
        scale = ["--scale", request.scale] if request.scale else []
        blocks = ["--blocks", str(request.blocks)] if request.blocks else []
        seed = [] if request.seed is None else ["--seed", str(request.seed)]
        return ["run", request.study, "--yes", "--tag", place.tag, *scale, *blocks, *seed, *options]
    if run.status == "paused" and request.next_session:
        return ["resume", run.name, "--session", *options]
    if run.status == "paused" and request.has_boots:
        return ["resume", run.name, *options]
    return [] if run.status in ("paused", "finished", "failed") else ["resume", run.name, *options]


def _vtax(place: Place, arguments: Sequence[str]) -> int:
    """Run a command of vtax with its stderr in the log; return its exit status. A request to stop is passed on."""
    with place.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "vtax", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        return process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise


def _launch(place: Place) -> None:
    """Start the process, and wait until it holds its lock or has ended. Raises VtaxError."""
    place.end.unlink(missing_ok=True)
    command = [sys.executable, "-m", "vtax", "host", "work", place.id]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment["VTAX_HOME"] = str(place.home.root)
    with place.log.open("ab") as log:
        if SYSTEMD.is_dir() and find_program("systemd-run"):
            command = systemd_command(place, command, environment)
        process = subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if not wait_until(lambda: is_measuring(place.lock) or place.end.exists(), _START_S, _POLL_S):
        with suppress(OSError):
            process.kill()
        raise VtaxError(
            f"the process of {place.id} did not start", where=str(place.log), hint="read that log"
        )


def systemd_command(
    place: Place, command: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return the command that has systemd run another one in a unit of its own, which no login ends."""
    return [
        *("systemd-run", "--quiet", "--collect", f"--unit=vtax-host-run-{place.id}"),
        *(f"--property={each}" for each in (*_PROPERTIES, f"StandardError=append:{place.log}")),
        *(f"--setenv={name}={value}" for name, value in sorted(environment.items())),
        "--",
        *command,
    ]
