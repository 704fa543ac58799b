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

from vtax.campaign.host_runs import (
    BEGUN,
    End,
    HostRun,
    Request,
    RequestedRun,
    last_line,
    run_of,
    state_of,
)
from vtax.described import moment
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.host.digest import sha256_of_file
from vtax.host.lock import is_measuring, measuring_lock, measuring_process
from vtax.host.process import find_program
from vtax.host.waiting import wait_until

RunVtax = Callable[[RequestedRun, Sequence[str]], int]
SYSTEMD = Path("/run/systemd/system")
_AGAIN = ("absent", "interrupted", "busy", "refused")
"""States in which a further request starts it, or resumes its run."""
_ENVIRONMENT = ("PATH", "HOME", "LANG")
_START_S = 60.0
_STOP_S = 300.0  # as TimeoutStopSec
_POLL_S = 0.05
_PROPERTIES = ("KillMode=mixed", "TimeoutStopSec=5min", "TasksMax=infinity")


def start(requested: RequestedRun, request: Request, *, in_foreground: bool = False) -> HostRun:
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
    requested.directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(requested.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # of two requests at once the second one reads what the first one did
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            earlier_request = requested.request()
        except BadInput:
            earlier_request = None
        if earlier_request is not None and _subject(earlier_request) != _subject(request):
            raise BadInput(
                f"{requested.id} is the id of another study, scale or number of blocks",
                where=earlier_request.study,
                hint="request it by a new id",
            )
        state = "absent" if earlier_request is None else state_of(requested).state
        goes_on = request.next_session or request.has_boots
        is_due = state in _AGAIN or (state == "paused" and goes_on)
        if is_due:
            requested.write_request(request)
            with requested.log.open("a") as log:
                log.write(f"{BEGUN}{moment(time.time())}\n")
            if not in_foreground:
                _launch(requested)
    finally:
        os.close(descriptor)
    if is_due and in_foreground:
        carry_out(requested)
    return state_of(requested)


def stop(requested: RequestedRun) -> HostRun:
    """End the process of a run, which keeps what it measured and writes its bundle; return the state.

    Raises NotFound where nothing was requested, VtaxError where it does not end.
    """
    requested.request()
    _, worker = measuring_process(path=requested.lock)
    if worker is not None:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)
        wait_until(
            lambda: not is_measuring(requested.lock),
            _STOP_S,
            _POLL_S,
            otherwise=lambda: VtaxError(
                f"the process of {requested.id} did not end within {_STOP_S:g} s",
                where=str(requested.log),
                hint=f"kill -9 {worker}, then vtax clean",
            ),
        )
    return state_of(requested)


def carry_out(requested: RequestedRun, run_vtax: RunVtax | None = None) -> None:
    """Run, resume, or begin the next session of a requested run, and write its bundle; in this process.

    run_vtax: runs a command of vtax and returns its exit status; in a process of its own where None. Raises NotFound
    where nothing was requested, RunInterrupted when this process is to end.
    """
    request, run_vtax = requested.request(), run_vtax or _run_vtax
    with measuring_lock(f"vtax host work {requested.id}", requested.lock):
        requested.end.unlink(missing_ok=True)
        status, interruption = 0, None
        try:
            command = _next_command(requested, request)
            if command:
                status = run_vtax(requested, command)
        except RunInterrupted as error:
            status, interruption = error.exit_status, error
        end = End(status, last_line(requested.log) if status else "")
        run = run_of(requested)
        if run:
            bundle = requested.bundle
            export_status = run_vtax(requested, ["export", run.name, "-o", str(bundle)])
            if export_status == 0:
                end = replace(end, bundle=str(bundle), bundle_sha256=sha256_of_file(bundle))
            else:
                end = End(status or export_status, last_line(requested.log))
        requested.write_end(end)
    if interruption is not None:
        raise interruption


def _subject(request: Request) -> tuple[str, str, int]:
    return request.digest, request.scale, request.blocks


def _next_command(requested: RequestedRun, request: Request) -> list[str]:
    """Return the arguments of vtax that begin or continue a requested run; none where it has ended."""
    run = run_of(requested)
    if run is None:
        command = ["run", request.study, "--yes", "--tag", requested.tag]
        if request.scale:
            command += ["--scale", request.scale]
        if request.blocks:
            command += ["--blocks", str(request.blocks)]
        if request.seed is not None:
            command += ["--seed", str(request.seed)]
    elif run.status in ("finished", "failed"):
        return []
    elif run.status != "paused" or request.has_boots or request.next_session:
        command = ["resume", run.name]
        if run.status == "paused" and request.next_session:
            command.append("--session")
    else:
        return []
    if request.trust:
        command.append("--trust")
    if request.tune_host:
        command.append("--tune-host")
    return command


def _run_vtax(requested: RequestedRun, arguments: Sequence[str]) -> int:
    """Run a command of vtax with its stderr in the log; return its exit status. A request to stop is passed on."""
    with requested.log.open("ab") as log:
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


def _launch(requested: RequestedRun) -> None:
    """Start the process, and wait until it holds its lock or has ended. Raises VtaxError."""
    requested.end.unlink(missing_ok=True)
    command = [sys.executable, "-m", "vtax", "host", "work", requested.id]
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["VTAX_HOME"] = str(requested.home.root)
    with requested.log.open("ab") as log:
        if SYSTEMD.is_dir() and find_program("systemd-run"):
            command = systemd_command(requested, command, environment)
        process = subprocess.Popen(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if not wait_until(
        lambda: is_measuring(requested.lock) or requested.end.exists(), _START_S, _POLL_S
    ):
        with suppress(OSError):
            process.kill()
        raise VtaxError(
            f"the process of {requested.id} did not start",
            where=str(requested.log),
            hint="read that log",
        )


def systemd_command(
    requested: RequestedRun, command: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return the command that has systemd run another one in a unit of its own, which no login ends."""
    wrapper = ["systemd-run", "--quiet", "--collect", f"--unit=vtax-host-run-{requested.id}"]
    for setting in (*_PROPERTIES, f"StandardError=append:{requested.log}"):
        wrapper.append(f"--property={setting}")
    for name, value in sorted(environment.items()):
        wrapper.append(f"--setenv={name}={value}")
    return [*wrapper, "--", *command]
