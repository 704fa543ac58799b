"""A vtax command that is killed: in a process of its own, telling the stages of its life, and the names it gives."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn
from unittest.mock import patch

from host_state import Inside, Parts

import vtax.cli.measure
from vtax.errors import VtaxError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms.base import Platform, Probe
from vtax.runner.events import Observer
from vtax.runner.open_guest import OpenGuest
from vtax.runner.plan import Plan
from vtax.runner.session import execute
from vtax.store.records import TrialRecord
from vtax.store.run import RunHandle

LONGEST_S = 180.0
FIRST_GUESS_S = {"commit": 0.01, "guest stop": 0.1, "clean-up": 0.1, "vtax clean": 0.1}


@dataclass
class Lab:
    """One home to kill in, what its surroundings were like before, and how long stages take, learned as it goes.

    probes: what platforms said once. A command probes again only when it is to be killed while it plans.
    clean: before the checks, or only after them.
    """

    home: Home
    inside: Inside
    before: Parts
    lengths: dict[tuple[str, str], float] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    clean: bool = True

    def guess_s(self, platform: str, stage: str) -> float:
        """How long a stage takes."""
        known = self.lengths.get((platform, stage), self.lengths.get(("", stage)))
        return FIRST_GUESS_S.get(stage, 0.5) if known is None else known

    def problems(self) -> list[str]:
        """What is not as it was."""
        return self.inside.leftovers() + self.inside.changes(self.before)


class Recorded(Observer):
    """Writes what a run does, and on which platform, to a pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.platform = pipe, ""

    def notify(self, stage: str, platform: str | None = None) -> None:
        os.write(
            self.pipe, f"{stage}\t{self.platform if platform is None else platform}\n".encode()
        )

    def guest_starting(self, platform: str, block: int) -> None:
        self.platform = platform
        self.notify("guest start")

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        self.notify("trial")


def observed(pipe: int, arguments: Sequence[str], probes: Mapping[str, Probe]) -> None:
    """A vtax command in this process, telling its stages. probes: what platforms said, of those that said it."""
    printed = Recorded(pipe)
    printed.notify("planning")
    add, together, probe = RunHandle.add_trial, RunHandle.together, Platform.probe
    added: list[TrialRecord] = []

    def recorded_trial(run: RunHandle, trial: TrialRecord) -> int:
        if not added:
            printed.notify("commit")
        added.append(trial)
        return add(run, trial)

    @contextmanager
    def recorded_together(run: RunHandle) -> Iterator[None]:
        is_outer = run._connection is None
        with together(run):
            yield
        if is_outer:
            for trial in added:
                printed.notify(f"committed {trial.cell_key} {trial.block} {trial.number}")
            added.clear()

    def recorded_execute(
        plan: Plan,
        run: RunHandle,
        home: Home,
        observer: Observer,
        cells: Collection[str] | None = None,
    ) -> None:
        execute(plan, run, home, printed, cells)

    def known_or_probed(platform: Platform, image: Image | None) -> Probe:
        return probes.get(platform.name) or probe(platform, image)

    patch.object(Platform, "probe", known_or_probed).start()
    patch.object(RunHandle, "add_trial", recorded_trial).start()
    patch.object(RunHandle, "together", recorded_together).start()
    patch.object(Guest, "hello", _reported_before(printed, "agent hello", Guest.hello)).start()
    patch.object(
        OpenGuest, "_take_down", _reported_before(printed, "guest stop", OpenGuest._take_down)
    ).start()
    patch.object(vtax.cli.measure, "execute", recorded_execute).start()
    command(arguments)


def _reported_before(printed: Recorded, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def notify_and_work(*args: Any, **more: Any) -> Any:
        printed.notify(stage)
        return work(*args, **more)

    return notify_and_work


def command(arguments: Sequence[str]) -> None:
    """A vtax command in this process."""
    from vtax.cli.main import group

    group.main(args=list(arguments), prog_name="vtax", standalone_mode=False)


def child(lab: Lab, work: Callable[[], None]) -> int:
    """Fork; the child works in silence and never returns here."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.environ["VTAX_HOME"] = str(lab.home.root)
    log = os.open(lab.home.root / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for fd, to in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(to, fd)
    _work_and_exit(work)


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
    except BaseException:
        os.write(2, traceback.format_exc().encode())
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
            return [f"vtax {arguments[0]} ended with {code}: {last_said(lab)}"]
        if ended:
            return []
        time.sleep(0.01)
    kill(pid)
    return [f"vtax {arguments[0]} did not end within {LONGEST_S:g} s"]


def last_said(lab: Lab) -> str:
    return " | ".join((lab.home.root / "log").read_text(errors="replace").splitlines()[-3:])


class Prey:
    """A vtax command that is to be killed in a stage of a platform."""

    def __init__(self, lab: Lab, arguments: Sequence[str], probes: Mapping[str, Probe]) -> None:
        self._lab, self._rest = lab, b""
        self._command = arguments[0]
        self._pipe, writer = os.pipe()
        self.committed: set[tuple[str, int, int]] = set()
        self.pid = child(lab, lambda: observed(writer, arguments, probes))
        os.close(writer)

    def kill_in(self, stage: str, platform: str, part: float) -> tuple[str, float]:
        """Wait for a stage, let a part of its length pass, kill.

        Returns the stage it was really killed in (none: it had ended before) and the delay in seconds.
        """
        has_data = {"clean-up": "trial", "vtax clean": "trial"}.get(stage, stage)
        for printed, on, since_last, last in self._stages():
            key = self._key(*last)
            self._lab.lengths[key] = (since_last + self._lab.lengths.get(key, since_last)) / 2
            if printed == has_data and on in (platform, ""):
                break
        else:
            os.waitpid(self.pid, 0)
            return "", 0.0
        if stage == "clean-up":
            os.kill(self.pid, signal.SIGTERM)
        delay_s = part * self._lab.guess_s(
            *self._key(platform, has_data if stage == "vtax clean" else stage)
        )
        time.sleep(delay_s)
        if alive := os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            kill(self.pid)
        for (
            printed,
            *_,
        ) in self._stages():  # what it said meanwhile, the trials it committed among it
            has_data = printed
        os.close(self._pipe)
        return ("clean-up" if stage == "clean-up" else has_data) if alive else "", delay_s

    def _key(self, platform: str, stage: str) -> tuple[str, str]:
        """Of the table of lengths: planning a run takes longer than planning to go on with it."""
        return ("", f"{stage} {self._command}") if stage == "planning" else (platform, stage)

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
