"""The whole examination: what can run here, and what makes this host a bad place to measure, within 30 seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from queue import Empty, SimpleQueue
from typing import Any

from vtax.doctor.checks import CHECKS, findings, judge_load
from vtax.doctor.finding import Finding
from vtax.doctor.load import watch
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import Platform, Probe

BOUND_S = 30.0
_WORKERS = 2
_KEPT_FOR_THE_END_S = 1.0


@dataclass(frozen=True)
class Examination:
    """platforms: name -> probe, the baseline first. findings: of the host. seconds: it took."""

    platforms: Mapping[str, Probe]
    findings: tuple[Finding, ...]
    seconds: float

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
            "platforms": [{"name": name, **asdict(probe)} for name, probe in self.platforms.items()],
            "findings": [asdict(finding) for finding in self.findings],
            "not_shown": list(self.not_shown),
            "seconds": round(self.seconds, 3),
        }


def examine(image: Image | None, progress: Callable[[str], None] = lambda line: None) -> Examination:
    """Watch the host, look at it, then probe every platform. image: None before one is built.

    progress: called from one thread with a line as each platform is known.
    """
    began = time.monotonic()
    progress("the host itself")
    found = (*judge_load(watch()), *findings())
    platforms = [registry.get(name) for name in registry.names()]
    probes = probe_all(platforms, image, began + BOUND_S - _KEPT_FOR_THE_END_S, progress)
    return Examination(probes, found, time.monotonic() - began)


def probe_all(
    platforms: Iterable[Platform],
    image: Image | None,
    deadline: float,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Probe]:
    """Probe platforms, two drivers at a time and each driver's own one after another.

    Platforms of equal options are probed once. One not known at the deadline (time.monotonic()) is reported as such;
    its probe, which bounds itself, is left behind in a thread that does not keep the process alive.
    """
    wanted = list(platforms)
    by_driver: dict[str, dict[str, Platform]] = {}
    for platform in wanted:
        by_driver.setdefault(platform.driver.name, {}).setdefault(_identity(platform), platform)
    jobs: SimpleQueue[list[Platform]] = SimpleQueue()
    answers: SimpleQueue[tuple[str, Probe]] = SimpleQueue()
    for same_driver in by_driver.values():
        jobs.put(list(same_driver.values()))
    for _ in range(_WORKERS):
        threading.Thread(target=_work, args=(jobs, answers, image, deadline), daemon=True).start()
    known: dict[str, Probe] = {}
    while len(known) < sum(map(len, by_driver.values())):
        try:
            identity, probe = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        known[identity] = probe
        progress(f"{len(known)} of {len({_identity(p) for p in wanted})} platforms")
    late = Probe(False, "its probe did not end in the time of this examination", "vtax platforms takes its time")
    return {platform.name: known.get(_identity(platform), late) for platform in wanted}


def _work(
    jobs: SimpleQueue[list[Platform]],
    answers: SimpleQueue[tuple[str, Probe]],
    image: Image | None,
    deadline: float,
) -> None:
    while True:
        try:
            platforms = jobs.get_nowait()
        except Empty:
            return
        for platform in platforms:
            if time.monotonic() < deadline:
                answers.put((_identity(platform), platform.probe(image)))


def _identity(platform: Platform) -> str:
    return repr(platform.identity())
