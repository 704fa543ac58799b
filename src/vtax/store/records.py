"""Records of the store: one frozen record per row of `schema.py`, without its numbers.

Rows refer to each other by what a person would say (a platform's name, a cell's key), never by database identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from vtax.described import Means
from vtax.levels import BENCHMARK, PLATFORM, Levels
from vtax.messages import Note

REFUSED = "refused"  # the code of the warning that a run ended because of what its study asks for
SAMPLES = (
    "samples"  # the key of TrialRecord.effective that holds metric name -> values within the trial
)
HISTOGRAMS = "histograms"  # the key that holds name -> values and counts in turn, or a count alone
RESOLUTIONS = "resolutions"  # the key that holds metric name -> a list of its smallest step alone
LISTS = (SAMPLES, HISTOGRAMS, RESOLUTIONS)  # what is under them is many numbers, and no setting
CLOCK_RATE = "clock-rate"
"""Code of the warning that a guest's clock ran at a wrong rate during a trial."""
HOST_CACHE = "host-cache"
"""Code of the warning of a trial whose files only the page cache below its guest's disk holds.

No claim and no verdict rests on a comparison of which it is true on one side alone."""
OTHER_QUANTITY = (
    "packet-size",
    "packets-not-counted",
    "not-a-wire",
    "undelayed",
    "few-transactions",
)
"""Codes of the warnings that a trial measured something else than its study asks for: packets of another size, more
transactions than a wire of the link's rate carries, messages that the link does not delay, a rate of few transactions.
No claim and no verdict rests on a cell with such a trial."""

LEVELS = Means("factor -> level")
MARKS = Means(
    "what must be said with every figure: `emulated`, `emulated host`, `nested`, `remote`, `not confined`"
)
STATUS = Means("`running`, `finished`, `paused`, `interrupted` or `failed`")
STARTED = Means("start of the run", name="started", is_time=True)
ENDED = Means("its end; null while it runs", name="ended", is_time=True)


@dataclass(frozen=True)
class PlatformRecord:
    """A platform of a run, tested or not."""

    name: Annotated[str, Means("name")]
    identity: Annotated[Mapping[str, Any], Means("driver and all its options")]
    available: Annotated[bool, Means("whether it was tested")]
    reason: Annotated[str, Means("why it was not tested")] = ""
    hint: Annotated[str, Means("how to make it available")] = ""
    marks: Annotated[tuple[str, ...], MARKS] = ()
    version: Annotated[str, Means("version of the runtime")] = ""
    is_baseline: Annotated[bool, Means("whether ratios are to it")] = False


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


class Placed:
    """A point on a platform."""

    platform: str
    label: str
    levels: Mapping[str, Any]

    @cached_property
    def place(self) -> Levels:
        """Its platform, its benchmark and the levels of its factors: what tells it from others of its run."""
        return Levels({**self.levels, PLATFORM: self.platform, BENCHMARK: self.label})


@dataclass(frozen=True)
class UntestedRecord(Placed):
    """A point that a platform of a run could not carry, and so has no cell of."""

    platform: Annotated[str, Means("platform")]
    point: Annotated[str, Means("key of the point")]
    benchmark: Annotated[str, Means("benchmark")]
    label: Annotated[str, Means("name of the benchmark table")]
    topology: Annotated[str, Means("topology")] = ""
    levels: Annotated[Mapping[str, Any], LEVELS] = field(default_factory=dict)
    reason: Annotated[str, Means("why the platform cannot carry it")] = ""
    hint: Annotated[str, Means("how it could")] = ""


@dataclass(frozen=True)
class CellRecord(Placed):
    """One combination of levels on one platform.

    point: the same without the platform.
    levels: what varies.
    tool: the program that the benchmark runs.
    """

    key: Annotated[str, Means("key of the cell", name="cell")]
    point: str
    platform: Annotated[str, Means("platform")]
    benchmark: Annotated[str, Means("benchmark")]
    label: Annotated[str, Means("name of the benchmark table")]
    tool_version: str = ""
    topology: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    levels: Annotated[Mapping[str, Any], LEVELS] = field(default_factory=dict)
    tool: str = ""


@dataclass(frozen=True)
class MetricRecord:
    """A metric of a benchmark. average, fixed_work: of trials, see stats.means."""

    benchmark: str
    name: Annotated[str, Means("metric", name="metric")]
    title: Annotated[str, Means("what people call it")]
    unit: Annotated[str, Means("unit of all its values")]
    better: Annotated[str, Means("`higher` or `lower`")]
    is_primary: Annotated[
        bool, Means("whether tables show it first and the run's rule looks at it", name="primary")
    ] = False
    average: str = "arithmetic"
    fixed_work: str = ""
    role: Annotated[
        str,
        Means(
            "`speed`, `cost`, `size` or `count`: speeds are slower or faster, costs more or less; there is no verdict "
            "on others"
        ),
    ] = "speed"


@dataclass(frozen=True)
class Design:
    """Platforms, cells and metrics of a run, in their order."""

    platforms: Sequence[PlatformRecord]
    cells: Sequence[CellRecord]
    metrics: Sequence[MetricRecord]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run as it begins.

    declared: the whole study; host: a description; both plain JSON values.
    started_at: Unix time.
    boot_id: of this boot of the host. Its first session begins with it.
    tags: see store.annotations.
    """

    name: str
    study: str
    declared: Mapping[str, Any]
    seed: int
    vtax_version: str
    image_key: str
    host: Mapping[str, Any]
    started_at: float
    plugins: Sequence[PluginRecord] = ()
    untested: Sequence[UntestedRecord] = ()
    boot_id: str = ""
    tags: Sequence[str] = ()


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

    guest_id: what `begin_guest` returned, None when no guest could be started.
    number: within cell and block.
    position: in the whole run.
    status: `ok` or `failed`; error says why.
    started_at: Unix time.
    outside_s, inside_s: the tool's time by the controller's and by the guest's clock.
    effective: settings really in force, and what SAMPLES names.
    values: metric name -> value.
    counters: (place, name) -> value.
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
    """One line of `vtax list`."""

    name: Annotated[str, Means("name of the run")]
    study: Annotated[str, Means("name of its study")]
    status: Annotated[str, STATUS]
    started_at: Annotated[float, STARTED]
    ended_at: Annotated[float | None, ENDED]
    duration_s: Annotated[float | None, Means("active time; null until it has ended", unit="s")]
    stopped_because: Annotated[str, Means("why it ended")]
    platforms: Annotated[tuple[str, ...], Means("platforms that it could test")]
    cells: Annotated[int, Means("cells of the run")]
    blocks: Annotated[int, Means("blocks that have a trial")]
    trials: Annotated[int, Means("measured trials, failed ones included")]
    failed: Annotated[int, Means("measured trials that failed")]
    sessions: Annotated[int, Means("sessions that were begun")] = 1
    origin: Annotated[
        str, Means("`merged`, `imported` or `imported from another host`; empty when measured here")
    ] = ""
    tags: Annotated[tuple[str, ...], Means("names that people gave it to find it by")] = ()
    notes: Annotated[tuple[str, ...], Means("sentences that people wrote beside it")] = ()
    hosts: Annotated[
        tuple[str, ...], Means("machine ids of its hosts, shortened hashes; each once")
    ] = ()
