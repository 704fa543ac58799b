"""Whether this host can measure now, and what a controller of many must know of it: `vtax host check`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from vtax import __version__
from vtax.counters.host import host_facts
from vtax.described import Means
from vtax.doctor.checks import findings, judge_load
from vtax.doctor.finding import Finding
from vtax.doctor.load import sample_load
from vtax.errors import BadInput
from vtax.host.consents import recorded_consents
from vtax.host.file_systems import free_bytes_below
from vtax.host.home import Home
from vtax.host.lock import is_measuring, measuring_process
from vtax.host.process import cpu_s_of
from vtax.image import contents
from vtax.image.build import SPACE_NEEDED_BYTES, list_images
from vtax.store.hosts import host_id
from vtax.units import about_size, format_count

AGENTS = frozenset({
    "actions-runner", "auditbeat", "buildkite-agent", "chef-client", "clamd", "collectd", "consul", "datadog-agent",
    "falco", "falcon-sensor", "filebeat", "fluent-bit", "fluentd", "gitlab-runner", "grafana-agent", "k3s", "kubelet",
    "metricbeat", "netdata", "node_exporter", "nomad", "nrpe", "osqueryd", "packagekitd", "prometheus", "promtail",
    "puppet", "raylet", "Runner.Listener", "salt-minion", "slurmd", "snapd", "splunkd", "telegraf",
    "unattended-upgrade", "wazuh-agentd", "zabbix_agent2", "zabbix_agentd",
})  # fmt: skip
"""Programs that stay on hosts of a fleet and work now and then: orchestration, monitoring, scanning, updates."""
_COMM = 15  # characters of a name that the kernel keeps
_WORDS = 3  # of a command line: an interpreter, an option, the script
# that a run is begun with: its store, its bundle, what guests write
_LEAST_FREE_BYTES = 256 * 1024**2
PACKS = "packs"
"""Directory of a home, below which each pack has one."""
_CODES = Literal["not-root", "lock-held", "space", "no-machine-id"]


@dataclass(frozen=True)
class Agent:
    """A program that stays on this host."""

    name: Annotated[str, Means("name of the program")]
    processes: Annotated[int, Means("how many processes of it")]
    cpu_s: Annotated[float, Means("CPU time of these since they started", unit="s")]


@dataclass(frozen=True)
class Obstacle:
    """Why this host cannot measure now."""

    code: Annotated[_CODES, Means("`not-root`, `lock-held`, `space` or `no-machine-id`")]
    detail: Annotated[str, Means("whose lock, or how much space is free")]


@dataclass(frozen=True)
class HeldImage:
    """An image of this host."""

    key: Annotated[str, Means("key of the image")]
    digest: Annotated[str, Means("SHA-256 of what guests get of it")]


@dataclass(frozen=True)
class Readiness:
    """Findings of `vtax host check`."""

    identity: Annotated[
        str,
        Means(
            "hash of machine-id, DMI UUID and board serial number; of the machine-id alone without root"
        ),
    ]
    host: Annotated[Mapping[str, Any], Means("facts of the host, as a run keeps them")]
    vtax_version: Annotated[str, Means("version of vtax")]
    time: Annotated[float, Means("clock of the host", is_time=True)]
    home: Annotated[str, Means("VTAX_HOME")]
    free_bytes: Annotated[int, Means("space that is free there", unit="bytes")]
    measures: Annotated[str, Means("run that measures here now; empty when none does")]
    images: Annotated[tuple[HeldImage, ...], Means("images that are here; none without root")]
    agents: Annotated[
        tuple[Agent, ...], Means("resident agents, such as kubelet and node_exporter")
    ]
    kept: Annotated[
        tuple[str, ...], Means("packs, images and consents that vtax keeps here; see `kept_in`")
    ]
    findings: tuple[Finding, ...]
    obstacles: Annotated[tuple[Obstacle, ...], Means("why it cannot measure now; none when it can")]

    @property
    def is_ready(self) -> Annotated[bool, Means("whether it can measure now")]:
        """Whether nothing is in the way."""
        return not self.obstacles

    @property
    def disturbances(
        self,
    ) -> Annotated[tuple[str, ...], Means("checks of vtax doctor that found a disturbance")]:
        """Names of the checks that warn, or are bad."""
        names = []
        for finding in self.findings:
            if finding.severity in ("warn", "bad"):
                names.append(finding.name)
        return tuple(names)


def readiness(home: Home) -> Readiness:
    """Look at this host; changes nothing, starts no guest, lasts about a second."""
    facts, free = host_facts(), free_bytes_below(home.root) or 0
    measures = ""
    if is_measuring():
        name, _ = measuring_process()
        measures = name or "another process"
    images: tuple[HeldImage, ...] = ()
    with suppress(BadInput):
        images = tuple(HeldImage(image.key, contents.digest(image)) for image in list_images(home))
    return Readiness(
        identity=host_id(facts),
        host=facts,
        vtax_version=__version__,
        time=time.time(),
        home=str(home.root),
        free_bytes=free,
        measures=measures,
        images=images,
        agents=agents(),
        kept=kept_in(home),
        findings=(*judge_load(sample_load()), *findings()),
        obstacles=tuple(_obstacles(facts, free, measures, has_image=bool(images))),
    )


def packs_in(home: Home) -> list[Path]:
    """Return the directories of the packs that are installed in a home."""
    with suppress(OSError):
        return sorted(path for path in (home.root / PACKS).iterdir() if path.is_dir())
    return []


def kept_in(home: Home) -> tuple[str, ...]:
    """Return what vtax keeps in a home for runs to come: `pack 4f1d0c77aa31`, `image 9b...`, `2 consents`."""
    names = [f"pack {path.name}" for path in packs_in(home)]
    with suppress(BadInput):
        names += [f"image {image.key}" for image in list_images(home)]
        count = len(recorded_consents(home))
        if count:
            names.append(format_count(count, "consent"))
    return tuple(names)


def _obstacles(
    facts: Mapping[str, Any], free: int, measures: str, *, has_image: bool
) -> Iterator[Obstacle]:
    if os.geteuid() != 0:
        yield Obstacle("not-root", "")
    if measures:
        yield Obstacle("lock-held", measures)
    if free < (_LEAST_FREE_BYTES if has_image else SPACE_NEEDED_BYTES):
        yield Obstacle("space", about_size(free))
    if not facts.get("machine_id"):
        yield Obstacle("no-machine-id", "")


def agents(proc: Path = Path("/proc")) -> tuple[Agent, ...]:
    """Return the resident agents among the processes of a host, by name."""
    agent_by_comm = {name[:_COMM]: name for name in AGENTS}
    agent_by_comm.update((name, name) for name in AGENTS)
    cpu_s: dict[str, list[float]] = {}
    for directory in proc.iterdir():
        name = _find_agent(directory, agent_by_comm) if directory.name.isdigit() else ""
        if name:
            cpu_s.setdefault(name, []).append(_cpu_s(directory))
    resident = []
    for name, seconds in sorted(cpu_s.items()):
        resident.append(Agent(name, len(seconds), round(sum(seconds), 2)))
    return tuple(resident)


def _find_agent(directory: Path, agent_by_comm: Mapping[str, str]) -> str:
    """Return the agent that a process is, by its name or its command; empty for any other."""
    with suppress(OSError):
        words = (directory / "cmdline").read_bytes().split(b"\0")[:_WORDS]
        comm = (directory / "comm").read_text(errors="replace").strip()
        for name in (comm, *(Path(os.fsdecode(word)).name for word in words)):
            if name in agent_by_comm:
                return agent_by_comm[name]
    return ""


def _cpu_s(directory: Path) -> float:
    with suppress(OSError, ValueError, IndexError):
        return cpu_s_of((directory / "stat").read_text())
    return 0.0
