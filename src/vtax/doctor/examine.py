"""The examination within 30 s (300 s on an emulated CPU): which platforms run here, what disturbs measurements.

Drivers are probed in child processes, so that a slow probe can be killed with the programs it runs. Its journal lists
the resources to remove.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

from vtax.described import values_of
from vtax.doctor.checks import CHECKS, findings, judge_load
from vtax.doctor.finding import Finding
from vtax.doctor.load import sample_load
from vtax.doctor.packages import judge_packages, optional
from vtax.errors import RunInterrupted
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.interrupts import deferred_interrupts
from vtax.host.journal import clean
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import Platform, Probe

BOUND_S = 30.0
_WORKERS = 2
_CLEANUP_S = 5.0  # to remove resources of killed probes
# children of a process of one thread, which have the drivers loaded already
_FORK = get_context("fork")


@dataclass(frozen=True)
class Examination:
    """Observations of an examination of this host.

    platforms: name -> probe, the baseline first.
    findings: of the host.
    seconds: its duration.

    not_probed: why no platform was probed (all probes are None then), else empty.
    ladders: name of a ladder -> probes of its rungs.
    """

    platforms: Mapping[str, Probe | None]
    findings: tuple[Finding, ...]
    seconds: float
    not_probed: str = ""
    ladders: Mapping[str, Mapping[str, Probe]] = field(default_factory=dict)

    @property
    def worst(self) -> str:
        """The highest severity of all findings."""
        severities = {finding.severity for finding in self.findings}
        if "bad" in severities:
            return "bad"
        return "warn" if "warn" in severities else "ok"

    @property
    def not_observed(self) -> tuple[str, ...]:
        """Checks without an observation on this host: the disturbance may exist unseen."""
        names = dict.fromkeys(check.name for check in CHECKS)
        for finding in self.findings:
            names.pop(finding.name, None)
        return tuple(names)

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        platforms = []
        for name, probe in self.platforms.items():
            platforms.append({"name": name, **(values_of(probe) if probe else {})})
        ladders = []
        for name, rungs in self.ladders.items():
            probes = [{"name": rung, **values_of(probe)} for rung, probe in rungs.items()]
            ladders.append({"name": name, "rungs": probes})
        return {
            "platforms": platforms,
            "ladders": ladders,
            "not_probed": self.not_probed,
            "findings": list(map(values_of, self.findings)),
            "not_observed": list(self.not_observed),
            "seconds": round(self.seconds, 3),
        }


def examine(
    image: Image | None, progress: Callable[[str], None] = lambda line: None, not_probed: str = ""
) -> Examination:
    """Sample the load, run the checks, then probe every platform.

    image: None before one is built.
    progress: called with a line per probed platform.
    not_probed: why no guest may be started now, or empty; platforms are only listed then.
    """
    started_at = time.monotonic()
    progress("checking the host")
    results = (*judge_load(sample_load()), judge_packages(), *findings(), *optional())
    if not_probed:
        return Examination(
            dict.fromkeys(registry.names()), results, time.monotonic() - started_at, not_probed
        )
    names, ladders = registry.names(), registry.ladders()
    platforms = list(map(registry.get, names))
    for rungs in ladders.values():
        platforms += map(registry.platform_of, rungs)
    deadline = started_at + BOUND_S * timeout_factor() - _CLEANUP_S
    probes = probe_all(platforms, image, deadline, progress)
    return Examination(
        {name: probes[name] for name in names},
        results,
        time.monotonic() - started_at,
        ladders={
            name: {rung.name: probes[rung.name] for rung in rungs}
            for name, rungs in ladders.items()
        },
    )


def probe_all(
    platforms: Iterable[Platform],
    image: Image | None,
    deadline: float,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Probe]:
    """Probe platforms, two drivers at a time, the platforms of a driver one after another.

    Platforms of equal options are probed once. A probe that exceeds the deadline (time.monotonic()) is killed, its
    resources are removed, and the platform is reported as not available.
    """
    identities = {}
    by_driver: dict[str, dict[str, Platform]] = {}
    for platform in platforms:
        identity = identities[platform.name] = _identity(platform)
        by_driver.setdefault(platform.driver.name, {}).setdefault(identity, platform)
    total = len(set(identities.values()))
    queue = deque(tuple(same_driver.values()) for same_driver in by_driver.values())
    processes: dict[Connection, ForkProcess] = {}
    probes: dict[str, Probe] = {}
    try:
        while (queue or processes) and time.monotonic() < deadline:
            while queue and len(processes) < _WORKERS:
                processes.update([_start_probes(queue.popleft(), image)])
            ready = wait(list(processes), timeout=max(0.0, deadline - time.monotonic()))
            for answers in [connection for connection in processes if connection in ready]:
                try:
                    identity, probe = answers.recv()
                except EOFError:
                    processes.pop(answers).join()
                    continue
                probes[identity] = probe
                progress(f"{len(probes)} of {total} platforms")
    finally:
        missing_probe = _missing_probe(bool(queue or processes), _end(processes.values()))
    return {name: probes.get(identity, missing_probe) for name, identity in identities.items()}


def _missing_probe(is_late: bool, leaks: Sequence[str]) -> Probe:
    """Return the probe of a platform without a result. leaks: resources that its probe leaked."""
    if leaks:
        reason = f"its probe exceeded the time limit of the examination; leaked resources: {'; '.join(leaks)}"
        return Probe(False, reason, "sudo vtax clean", is_made=False)
    if is_late:
        return Probe(
            False,
            "its probe exceeded the time limit of the examination",
            "vtax platforms has no time limit",
            is_made=False,
        )
    return Probe(False, "its probe ended without a result", is_made=False)


def _start_probes(
    platforms: Sequence[Platform], image: Image | None
) -> tuple[Connection, ForkProcess]:
    """Return a child process that probes these platforms, and the connection for its results."""
    answers, to_parent = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_probe_each, args=(platforms, image, to_parent), daemon=True)
    process.start()
    to_parent.close()
    return answers, process


def _probe_each(platforms: Sequence[Platform], image: Image | None, to_parent: Connection) -> None:
    """Probe platforms in the child. It leads a session: its programs are killed with it, and Ctrl-C does not reach it."""
    os.setsid()
    with suppress(BrokenPipeError, RunInterrupted):  # a stopped probe has no result
        for platform in platforms:
            to_parent.send((_identity(platform), platform.probe(image)))


def _end(processes: Iterable[ForkProcess]) -> tuple[str, ...]:
    """Kill children that still probe and remove their resources; returns resources that could not be removed."""
    children = list(processes)
    with deferred_interrupts():
        for process in children:
            if process.pid:
                # a process that does not lead its group yet has started no program
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
        return clean(Home.from_environment().journal).stays if children else ()


def _identity(platform: Platform) -> str:
    return repr(platform.identity())
