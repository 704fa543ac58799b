"""What goes into the store and comes out of it: one frozen record per row of `schema.py`, without its numbers.

Rows refer to each other by what a person would say (a platform's name, a cell's key), never by database identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vtax.messages import Note

REFUSED = "refused"  # the code of the warning that a run ended because of what its study asks for
SAMPLES = "samples"  # the key of TrialRecord.effective that holds metric name -> values within the trial
HISTOGRAMS = "histograms"  # the key that holds name -> values and counts in turn, or a count alone
LISTS = (SAMPLES, HISTOGRAMS)  # what is under them is many numbers, and no setting
CLOCK_RATE = "clock-rate"
"""Code of the warning that a guest's clock ran at a wrong rate during a trial."""
HOST_CACHE = "host-cache"
"""Code of the warning of a trial whose files only the page cache below its guest's disk holds."""
OTHER_QUANTITY = ("packet-size", "packets-not-counted", "not-a-wire")
"""Codes of the warnings that a trial measured something else than its study asks for: packets of another size, more
transactions than a wire of the link's rate carries. No claim rests on such a trial."""


@dataclass(frozen=True)
class PlatformRecord:
    """A platform of a run, tested or not. reason, hint: why it was not available, and a hint."""

    name: str
    identity: Mapping[str, Any]
    available: bool
    reason: str = ""
    hint: str = ""
    marks: tuple[str, ...] = ()
    version: str = ""
    is_baseline: bool = False


@dataclass(frozen=True)
class PluginRecord:
    """A plug-in that vtax does not ship and a run used. kind: platform, benchmark, topology or view.

    name: of the driver, benchmark, topology or view. The others as in host.plugins.Origin.
    """

    kind: str
    name: str
    package: str = ""
    version: str = ""
    source: str = ""
    file: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class UntestedRecord:
    """A point that a platform of a run could not carry, and so has no cell of. reason, hint: as of a platform."""

    platform: str
    point: str
    benchmark: str
    label: str
    topology: str = ""
    levels: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True)
class CellRecord:
    """One combination of levels on one platform.

    point: the same without the platform. levels: what varies. tool: the program that the benchmark runs.
    """

    key: str
    point: str
    platform: str
    benchmark: str
    label: str
    tool_version: str = ""
    topology: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Any] = field(default_factory=dict)
    tool: str = ""


@dataclass(frozen=True)
class MetricRecord:
    """A metric of a benchmark. better: `higher` or `lower`. average, fixed_work: of trials, see stats.means."""

    benchmark: str
    name: str
    title: str
    unit: str
    better: str
    is_primary: bool = False
    average: str = "arithmetic"
    fixed_work: str = ""


@dataclass(frozen=True)
class OutputRecord:
    """Output of one program of a trial. status: exit status, or minus the signal."""

    role: str
    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class TrialRecord:
    """One execution of a benchmark in a cell, with its outputs.

    guest_id: what `begin_guest` returned, None when no guest could be started. number: within cell and block.
    position: in the whole run. status: `ok` or `failed`; error says why. started_at: Unix time. outside_s, inside_s:
    the tool's time by the controller's and by the guest's clock. effective: settings really in force,
    and what SAMPLES names. values: metric name -> value. counters: (place, name) -> value.
    """

    cell_key: str
    guest_id: int | None
    block: int
    number: int
    position: int
    is_warmup: bool
    status: str
    started_at: float
    outside_s: float | None = None
    inside_s: float | None = None
    effective: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    outputs: tuple[OutputRecord, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[tuple[str, str], float] = field(default_factory=dict)
    warnings: tuple[Note, ...] = ()


@dataclass(frozen=True)
class SessionRecord:
    """A part of a run in one boot of the host. number: from 1. boot_id: empty when it is not known.

    host: as of the run, when the session began. started_at: Unix time.
    """

    number: int
    boot_id: str
    host: Mapping[str, Any]
    started_at: float


@dataclass(frozen=True)
class RunSummary:
    """One line of `vtax list`. blocks: how many have a trial. trials, failed: warm-up trials left out.

    duration_s: active time in seconds, None until it has ended. sessions: how many were begun. origin: empty for a
    run that was measured into this store, see store.provenance. tags, notes: see store.annotations. hosts: machine
    ids of its sessions, each once.
    """

    name: str
    study: str
    status: str
    started_at: float
    ended_at: float | None
    duration_s: float | None
    stopped_because: str
    platforms: tuple[str, ...]
    cells: int
    blocks: int
    trials: int
    failed: int
    sessions: int = 1
    origin: str = ""
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
