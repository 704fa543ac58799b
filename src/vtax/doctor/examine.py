"""The whole examination: what can run here, and what makes this host a bad place to measure, within 30 seconds.

Drivers are probed in child processes, so that a probe that takes too long can be ended in the middle of a start:
it is killed with the programs it runs, and its journal tells what to undo.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

from vtax.doctor.checks import CHECKS, findings, judge_load
from vtax.doctor.finding import Finding
from vtax.doctor.load import watch
from vtax.errors import RunInterrupted
from vtax.host.deferred_interrupts import deferred_interrupts
from vtax.host.home import Home
from vtax.host.journal import clean
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import Platform, Probe

BOUND_S = 30.0
_WORKERS = 2
_KEPT_FOR_THE_END_S = 5.0  # to undo what late probes had begun
_FORK = get_context("fork")  # children of a process of one thread, which have the drivers loaded already


@dataclass(frozen=True)
class Examination:
    """platforms: name -> probe, the baseline first. findings: of the host. seconds: it took.

    not_probed: why no platform was probed, each being None then; else empty.
    """

    platforms: Mapping[str, Probe | None]
    findings: tuple[Finding, ...]
    seconds: float
    not_probed: str = ""

    @property
    def worst(self) -> str:
        """The worst level of all findings."""
        levels = {finding.level for finding in self.findings}
        return next((level for level in ("bad", "warn") if level in levels), "ok")

    @property
    def not_shown(self) -> tuple[str, ...]:
        """Checks for which this host has nothing to look at: what they watch for may be there, unseen."""
        seen = {finding.name for finding in self.findings}
        return tuple(check.name for check in CHECKS if check.name not in seen)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "platforms": [
                {"name": name, **(asdict(probe) if probe else {})} for name, probe in self.platforms.items()
            ],
            "not_probed": self.not_probed,
            "findings": [asdict(finding) for finding in self.findings],
            "not_shown": list(self.not_shown),
            "seconds": round(self.seconds, 3),
        }


def examine(
    image: Image | None, progress: Callable[[str], None] = lambda line: None, not_probed: str = ""
) -> Examination:
    """Watch the host, look at it, then probe every platform. image: None before one is built.

    progress: called with a line as each platform is known. not_probed: why guests must not be started now, if so;
    platforms are only listed then.
    """
    started_at = time.monotonic()
    progress("the host itself")
    found = (*judge_load(watch()), *findings())
    if not_probed:
        return Examination(dict.fromkeys(registry.names()), found, time.monotonic() - started_at, not_probed)
    platforms = [registry.get(name) for name in registry.names()]
    probes = probe_all(platforms, image, started_at + BOUND_S - _KEPT_FOR_THE_END_S, progress)
    return Examination(probes, found, time.monotonic() - started_at)


def probe_all(
    platforms: Iterable[Platform],
    image: Image | None,
    deadline: float,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Probe]:
    """Probe platforms, two drivers at a time and each driver's own one after another.

    Platforms of equal options are probed once. One not known at the deadline (time.monotonic()) is reported as such,
    and what its probe had begun is undone.
    """
    wanted = list(platforms)
    by_driver: dict[str, dict[str, Platform]] = {}
    for platform in wanted:
        by_driver.setdefault(platform.driver.name, {}).setdefault(_identity(platform), platform)
    waiting = deque(tuple(same_driver.values()) for same_driver in by_driver.values())
    working: dict[Connection, ForkProcess] = {}
    known: dict[str, Probe] = {}
    try:
        while (waiting or working) and time.monotonic() < deadline:
            while waiting and len(working) < _WORKERS:
                working.update([_begin(waiting.popleft(), image)])
            ready = wait(list(working), timeout=max(0.0, deadline - time.monotonic()))
            for answers in [connection for connection in working if connection in ready]:
                try:
                    identity, probe = answers.recv()
                except EOFError:
                    working.pop(answers).join()
                    continue
                known[identity] = probe
                progress(f"{len(known)} of {len({_identity(p) for p in wanted})} platforms")
    finally:
        unanswered = _unanswered(bool(waiting or working), _end(working.values()))
    return {platform.name: known.get(_identity(platform), unanswered) for platform in wanted}


def _unanswered(late: bool, left: Sequence[str]) -> Probe:
    """What is said of a platform without an answer. left: what its probe left behind all the same."""
    if left:
        reason = f"its probe did not end in the time of this examination; left behind: {'; '.join(left)}"
        return Probe(False, reason, "sudo vtax clean")
    if late:
        return Probe(False, "its probe did not end in the time of this examination", "vtax platforms takes its time")
    return Probe(False, "its probe ended without an answer")


def _begin(platforms: Sequence[Platform], image: Image | None) -> tuple[Connection, ForkProcess]:
    """A child that probes these platforms, and where its answers arrive, which ends with the child."""
    answers, to_parent = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_probe_each, args=(platforms, image, to_parent), daemon=True)
    process.start()
    to_parent.close()
    return answers, process


def _probe_each(platforms: Sequence[Platform], image: Image | None, to_parent: Connection) -> None:
    """In the child. It leads a session of its own, so that the programs it runs end with it and Ctrl-C is not its."""
    os.setsid()
    with suppress(BrokenPipeError, RunInterrupted):  # whoever asks it to stop wants no answer
        for platform in platforms:
            to_parent.send((_identity(platform), platform.probe(image)))


def _end(processes: Iterable[ForkProcess]) -> tuple[str, ...]:
    """Kill children that still probe and undo what they had begun; what could not be undone."""
    late = list(processes)
    with deferred_interrupts():
        for process in late:
            if process.pid:
                with suppress(ProcessLookupError):  # it does not lead its group yet, and has run nothing
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
        return clean(Home.from_environment().journal).problems if late else ()


def _identity(platform: Platform) -> str:
    return repr(platform.identity())
