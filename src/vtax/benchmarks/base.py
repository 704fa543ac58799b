"""Base of every benchmark: a real tool, typed parameters, a command per role, and a parser to metrics.

A benchmark is one module in this package, or in another one that has an entry point of the group `vtax.benchmarks`,
with a class that derives from `Benchmark` below and has the decorator `register_benchmark`. It knows nothing of
platforms, topologies or designs.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict

from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.plugins import register
from vtax.image.recipe import DataSet
from vtax.stats.checks import Better
from vtax.stats.means import Average
from vtax.stats.terms import MetricRole, is_rate, role_of
from vtax.study.fields import Privilege

Role = Literal["single", "server", "client"]
Resource = Literal["cpu", "memory", "disk", "network", "kernel", "start", "application"]
Place = Literal["guest", "peer"]


class Parameters(BaseModel):
    """Base of every benchmark's parameters: unknown names and infinite numbers are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@runtime_checkable
class Timed(Protocol):
    """Parameters of a tool that measures for a time it is given."""

    @property
    def duration_s(self) -> float:
        """Seconds measured."""


SHORTEST_S = 0.02
"""The shortest time that tools are given: below it they do little but start."""


@runtime_checkable
class OneAtATime(Protocol):
    """Parameters of a tool that sends a request, waits for the whole response, and then sends the next one.

    Its metric `transactions` is their number a second.
    """

    @property
    def request_size(self) -> int:
        """Bytes of a request's payload."""

    @property
    def response_size(self) -> int:
        """Bytes of a response's payload."""

    @property
    def is_datagram(self) -> bool:
        """Whether each of them is a UDP datagram."""


@dataclass(frozen=True)
class Operations:
    """The operation that a trial does many times, such as a request.

    unit: the name of one of them.
    setting: the effective setting, or the metric, that has their number in a trial. Without one the whole trial is one.
    each: how much of that number is one operation, such as 10^9 bytes of a gigabyte.
    time: the unit of CPU time that suits one of them.
    """

    unit: str
    setting: str = ""
    each: float = 1.0
    time: Literal["s", "µs", "ns"] = "s"

    def number(self, outcome: Outcome) -> float | None:
        """Return how many of them a trial did; None when its outcome does not say."""
        if not self.setting:
            return 1.0
        count = outcome.effective.get(self.setting, outcome.values.get(self.setting))
        return count / self.each if isinstance(count, int | float) and count > 0 else None


@dataclass(frozen=True)
class WorkParameter:
    """The parameter that says how much a trial does.

    parameter: its name, such as `events`.
    least: the smallest count: such a trial does hardly more than start and end.
    step: what counts are multiples of.
    """

    parameter: str
    least: int = 1
    step: int = 1


@dataclass(frozen=True)
class Tail:
    """A percentile of a histogram.

    histogram: its name in Outcome.histograms.
    share: of the values that are at most the percentile, such as 0.99.
    """

    histogram: str
    share: float


@dataclass(frozen=True)
class Metric:
    """One thing that a benchmark measures.

    name, unit, title: as tables and exports show them.
    better: whether higher or lower values are better.
    role: whether it is a speed, a cost, a size or a count, by which verdicts are worded; None for the one that
        `role_of` derives from name and unit.
    primary: whether tables show it first. A benchmark has at least one such metric.
    average: how the trials of a block are averaged: `harmonic` for a rate over fixed work (dd), `arithmetic` for times
        and for rates over a fixed time (iperf).
    fixed_work: the parameter that, when it is given, makes a rate over a fixed time one over fixed work.
    over_flows: what several flows at once make together: `sum` for rates and counts, `mean` for delays and shares.
    time_of: the operation that the metric is the time of, where the unit does not name it as `ns/operation` does. The
        counters of a trial are divided by the number of operations.
    tail: of a percentile. The percentile of a block is that of the requests of all its trials together.
    resolution: the smallest difference of two values that the tool can tell, in the unit. It is 0 where the outcomes
        say it, or where it is far below any noise.
    may_be_zero: whether a metric that is better higher can be 0. Otherwise a trial with 0 did nothing, and fails.
    most: what bounds it from above (benchmarks.bounds): its unit, the CPUs that there are (CPU time, or CPUs busy in
        percent of one), or nothing that is known.
    is_aside: whether the tool only says it of itself, beside the result. An impossible value is then left out, and
        fails no trial.
    per_unit: whether it has one meaning however much a trial does: the mean time of a request has, the time of the
        whole trial, a number of requests and an extreme have not. None where the unit says it: a rate, or `s/GB`.
    """

    name: str
    unit: str
    better: Better
    title: str = ""
    primary: bool = False
    average: Average = "arithmetic"
    fixed_work: str = ""
    over_flows: Literal["sum", "mean"] = "mean"
    time_of: Operations | None = None
    tail: Tail | None = None
    resolution: float = 0.0
    may_be_zero: bool = False
    most: Literal["unit", "cpus", "unknown"] = "unit"
    is_aside: bool = False
    role: MetricRole | None = None
    per_unit: bool | None = None

    @property
    def effective_role(self) -> MetricRole:
        """The role that it declares, or that its name and unit have."""
        return self.role or role_of(self.name, self.unit, self.better, is_primary=self.primary)

    @property
    def is_per_unit(self) -> bool:
        """Whether trials that do unlike amounts of work have comparable values of it."""
        if self.per_unit is not None:
            return self.per_unit
        is_of_operation = self.tail is not None or self.time_of is not None
        return is_rate(self.unit) or "/" in self.unit or is_of_operation


CPU_PER_GIGABYTE = Metric(
    "cpu_per_gigabyte",
    "s/GB",
    "lower",
    "CPU of the guests under test and their layer for a gigabyte through their interfaces",
)
"""Cost of moving data when the rate is at its limit. A network benchmark that lists it is given it by the runner,
from the host's account of every guest under test and the bytes their interfaces counted, when there is enough of
both. Behind `router-openflow` the lab's switch works for its controller, the guest: its CPU and bytes are added."""

PACKET_BYTES = Metric(
    "packet_bytes",
    "bytes",
    "higher",
    "mean size of the IP packets that carried the data, at the hop with the largest",
    per_unit=True,
)
"""Counts of the links. Every network benchmark has them: the runner counts at every hop outside of guests."""

WIRE_SHARE = Metric(
    "wire_share",
    "%",
    "lower",
    "8 KiB there and back over the link, of what a wire of its rate and delay carries",
    per_unit=True,
)
"""Share of a wire that a link with a rate or delay carries; above 100 % it is faster than one."""

HOST_CPU_PER, ENERGY_PER = "host_cpu_per_", "energy_per_"
"""Prefixes of the metrics of what the host spends on a unit of work."""
_ENERGY = {"s": "J", "µs": "mJ", "ns": "µJ"}  # what suits work whose CPU time is in a unit


def cost_metrics(work: Operations) -> tuple[Metric, Metric]:
    """Return the metrics of what one operation costs the host.

    They are the CPU time of the guests under test and their layers, and the energy of all processors.
    """
    name = re.sub("[^a-z0-9]+", "_", work.unit.lower()).strip("_")
    return (
        Metric(
            f"{HOST_CPU_PER}{name}",
            f"{work.time}/{work.unit}",
            "lower",
            "CPU time of the host for a unit of work",
        ),
        Metric(
            f"{ENERGY_PER}{name}",
            f"{_ENERGY[work.time]}/{work.unit}",
            "lower",
            "energy of the processors for a unit of work",
        ),
    )


_TIME = frozenset(
    {"s", "ms", "µs", "us", "ns", "ps", "min", "h", "IOPS"}
)  # IOPS: I/O operations per second


def is_timed(metric: str, unit: str) -> bool:
    """Return whether a metric is a time or a rate, by its unit. The host counts and times what it spends."""
    words = unit.replace("/", " ").replace("per", " ").split()
    is_of_host = metric == CPU_PER_GIGABYTE.name or metric.startswith(HOST_CPU_PER)
    return not is_of_host and any(word in _TIME for word in words)


@dataclass(frozen=True)
class Context:
    """Where a trial runs.

    vcpus, memory_bytes: of the guest.
    scratch: a writable directory in the guest, which lies where the study says (platforms.scratch).
    guest_address, peer_address: in the lab. Before there is a lab, they are of the right form.
    link_mbit_s: the rate of the link, when the topology limits it. No value can be above it.
    mtu: of the link; None when it is not known.
    congestion: the TCP congestion control that is requested at every end; empty when none was.
    flow: number of this trial among those that run at once. It keeps their ports apart.
    peer_scratch, peer_vcpus: the same as scratch and vcpus, of the peer.
    cpu_room_s: CPU time in seconds that the guest may use beyond what its vcpus have in the time of a trial: 0 on CPUs
        of its own, infinite where nothing limits it.
    """

    vcpus: int
    memory_bytes: int
    scratch: str = "/scratch"
    guest_address: str = "198.18.0.1"
    peer_address: str = "198.18.0.2"
    link_mbit_s: float | None = None
    mtu: int | None = None
    congestion: str = ""
    flow: int = 0
    peer_scratch: str = "/scratch"
    peer_vcpus: int = 1
    cpu_room_s: float = 0.0

    def scratch_of(self, *, peer: bool) -> str:
        """Return the writable directory of the guest, or of its peer."""
        return self.peer_scratch if peer else self.scratch


@dataclass(frozen=True)
class GuestFile:
    """A file that a command needs in its guest. It is written before the command runs. mode: permission bits."""

    path: str
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Command:
    """One program that is run for a trial.

    Exactly one command of a trial is in the foreground, `single` or `client`, and the trial's time is its time. A
    `server` is started first, in the background, and stopped after the client has ended. One that ends earlier fails
    the trial.

    role: whether it is the only program, the server, or the client.
    argv: the program and its arguments.
    place: which end runs it.
    environment: its variables, beside those of the agent.
    ready_port: a TCP port that a server must listen on before the client starts; None to wait for nothing.
    before, after: untimed commands around it, such as those that make files. Their failure fails the trial.
        Those of a server are run before it starts and after it has stopped.
    makes: files and directories that it makes, or that `before` does: they are gone before all that, and after it.
    files: written before the commands.
    timeout_s: of the command in the foreground, in place of the study's.
    directory: one of its own, with all its files. They are then written once in a guest rather than for each trial, and
        the directory is removed with the guest.
    is_cold: whether, after `before`, the data of all files that its guest wrote are dropped from the host's page cache.
        `before` drops them from the guest's.
    stays: of a server whether trials leave nothing in it, and its output says nothing. It is then not started anew
        for the next trial of its guest that needs the same.
    """

    role: Role
    argv: tuple[str, ...]
    place: Place = "guest"
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_port: int | None = None
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[tuple[str, ...], ...] = ()
    makes: tuple[str, ...] = ()
    files: tuple[GuestFile, ...] = ()
    timeout_s: float | None = None
    directory: str = ""
    is_cold: bool = False
    stays: bool = False


MAX_SAMPLES = 600  # of one metric in one trial: they are stored with it
INTERVALS = 10  # of a trial, of tools that are asked to report some
INTERVAL_S = "interval_s"  # the effective setting of a trial whose samples are of equal intervals: seconds of one


@dataclass(frozen=True)
class DiskWork:
    """The work that a tool asked of the guest's disk.

    moved_bytes: read and written.
    flushes: how often it waited until what it had written was on the disk.
    is_direct: whether it went past the guest's page cache, with O_DIRECT.
    if_not_counted: the warning that a cache below the guest may be part of the result; empty where none can be. Where
        the host's disks were counted, the runner decides by what they moved instead.
    """

    moved_bytes: int
    flushes: int = 0
    is_direct: bool = False
    if_not_counted: str = ""


def sum_disk_work(works: Sequence[DiskWork | None]) -> DiskWork | None:
    """Return the sum over the outcomes of one trial; None unless all have disk work."""
    known_works = [work for work in works if work is not None]
    if not known_works or len(known_works) < len(works):
        return None
    return DiskWork(
        sum(work.moved_bytes for work in known_works),
        sum(work.flushes for work in known_works),
        all(work.is_direct for work in known_works),
        next((work.if_not_counted for work in known_works if work.if_not_counted), ""),
    )


@dataclass(frozen=True)
class Outcome:
    """The result of a parser, from the outputs of a trial.

    values: metric name -> value.
    effective: settings that the tool really used, by name.
    warnings: about the trial.
    samples: metric name -> values within the trial, in order, 2 to MAX_SAMPLES of them, in the metric's unit; only
        where the tool reports them. They show how much noise there is within a trial, and are no part of the result.
        Those of equal intervals, from the start of measuring on, have their length in the effective setting INTERVAL_S.
    histograms: name, such as `latency` -> values and how often each came, in turn, by value, in the unit of its metrics
        (see benchmarks.histograms); the number of requests alone where the tool prints no more.
    disk: of a tool for disks. The runner compares it with what the host's disks did.
    resolutions: metric name -> the smallest difference that this trial can tell, in its unit, such as that of a rate by
        the clock that timed it. It is at least what the metric declares. Values that are `printed.Printed` need none.
    """

    values: Mapping[str, float]
    effective: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    histograms: Mapping[str, Sequence[float]] = field(default_factory=dict)
    disk: DiskWork | None = None
    resolutions: Mapping[str, float] = field(default_factory=dict)


def merged_resolutions(
    outcomes: Sequence[Outcome], values: Mapping[str, float]
) -> dict[str, float]:
    """Return the resolutions of the values that several outcomes make together.

    Each is the same share of its value as the coarsest one of the outcomes is.
    """
    shares: dict[str, float] = {}
    for outcome in outcomes:
        for name, step in outcome.resolutions.items():
            if value := outcome.values.get(name, 0.0):
                shares[name] = max(shares.get(name, 0.0), step / abs(value))
    return {name: share * abs(values[name]) for name, share in shares.items() if name in values}


class Benchmark(ABC):
    """A real tool. A benchmark derives from this class, or from `NetworkPair`, `Service` or `OwnProgram`.

    It must have the first seven of these; the others, from version_pattern on, have defaults.

    name: of the benchmark, as studies call it.
    title: one line for reports.
    tool: the program.
    Parameters: a model of what a study may fix or vary.
    metrics: what it measures, at least one of them primary.
    work: the unit of what a trial does, such as a request, for the cost of one to the host. None where no such cost can
        be counted; the class then says why.
    version_argv: prints the tool's version in the guest.
    version_pattern: finds it there, as its group; `^` and `$` match at every line.
    needs_network: whether it needs a peer and a topology.
    resource: of the guest that it loads, by which recommendations weigh it. `kernel` is system calls and processes,
        `start` the start of guests, `application` several resources.
    packages: Debian packages of its tool. Those that the base image lacks are a layer over it in the image of every
        study that has the benchmark.
    same_everywhere: effective settings that every platform should have alike, such as the code path that its tool chose
        by the CPU it saw. Platforms that differ in one are a warning of the run.
    stages: of a benchmark of starting guests, whose stages the runner times, in their order, each with its metric. The
        runner runs its command in each guest, and its `parse` reads what the runner writes as the output of role
        `single`: a line a repetition, with a JSON list of the guests that started at once. Each is an object,
        stage -> seconds since the request, or `error` -> why it did not start, where others did.
    load: parameters that load it more the larger they are. Reports draw latencies over them.
    counts: the parameter that says how much a trial does, of a tool that takes no fraction of a second, so that a study
        may ask for trials of equal time (`trial_time`). Where the parameters decide it, see the method `counted`.
    no_count: why there is none, for the error that a study with `trial_time` gets.
    hint_of_zero: the hint of a trial that fails because a metric is 0.
    """

    name: str
    title: str
    tool: str
    Parameters: type[Parameters]
    metrics: Sequence[Metric]
    work: Operations | None
    version_argv: tuple[str, ...]
    version_pattern: str = r"(?!)"
    needs_network: bool = False
    resource: Resource = "application"
    packages: tuple[str, ...] = ()
    same_everywhere: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    load: tuple[str, ...] = ()
    counts: WorkParameter | None = None
    no_count: str = ""
    hint_of_zero: str = ""

    def version_of(self, output: str) -> str:
        """Return the version in what version_argv printed. Raises BenchmarkError."""
        match = re.search(self.version_pattern, output, re.MULTILINE)
        if not match:
            raise BenchmarkError(
                f"{shlex.join(self.version_argv)} printed no version", where=output[:200]
            )
        return match[1]

    def counted(self, parameters: Any) -> WorkParameter | None:
        """Return the parameter that says how much a trial does; None where the time of a trial does, or nothing."""
        return self.counts

    def privileges(self, parameters: Any) -> frozenset[Privilege]:
        """Return what it needs beyond the confinement of guests. All guests under test of a run get what one asks."""
        return frozenset()

    def files_bytes(self, parameters: Any, context: Context) -> int:
        """Return the bytes of all files that a trial writes to the disk of its guest, together."""
        return 0

    def data(self, parameters: Any) -> DataSet:
        """Return the data that trials find in `DataSet.directory` of the guest, of a benchmark whose data take long
        to make, such as the tables of a database. They are made once, when the image of a study is built."""
        raise NotImplementedError(f"{self.name} starts from no data")

    @property
    def makes_data(self) -> bool:
        """Whether its trials start from `data`."""
        return type(self).data is not Benchmark.data

    def is_cold(self, parameters: Any) -> bool:
        """Tell, of a benchmark with stages, whether the image's files are to be outside the host's page cache."""
        return False

    def repetitions(self, parameters: Any) -> int:
        """Return, of a benchmark with stages, how often a trial starts a guest, or all that start at once."""
        return 1

    def stagger_s(self, parameters: Any) -> float:
        """Return, of a benchmark with stages, the time from one request to the next of guests that start at once."""
        return 0.0

    @abstractmethod
    def commands(self, parameters: Any, context: Context) -> Sequence[Command]:
        """Return the programs of one trial. Raises BadInput, at a parameter or nowhere, when it cannot work here."""

    @abstractmethod
    def expected_s(self, parameters: Any, context: Context) -> float:
        """Return about how long one trial takes, for the plan and the first estimate of time left."""

    @abstractmethod
    def parse(
        self, parameters: Any, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """Return what the outputs say.

        Raises BenchmarkError when the tool failed, its output is not understood, or it did not do what was requested.
        Values that no tool can measure need no check here: `benchmarks.bounds` refuses them for every benchmark.
        """


_B = TypeVar("_B", bound=Benchmark)


def register_benchmark(benchmark: type[_B]) -> type[_B]:
    """Make a benchmark known, as a decorator of its class. One instance serves all of its trials."""
    register("benchmark", benchmark())
    return benchmark


class NetworkPair(Benchmark):
    """A tool that moves data between the guest and its peer, and measures the network alone."""

    needs_network = True
    resource = "network"


class Service(Benchmark):
    """A server in the guest that a client on the peer loads."""

    needs_network = True


class OwnProgram(Benchmark):
    """A program of vtax, which the image holds, or which a library is loaded into. `tool` is its name.

    Its first line is name and version, with compiler and flags.
    """

    def __init_subclass__(cls) -> None:
        """Set how its version is read."""
        cls.version_argv = (cls.tool, "--version")
        cls.version_pattern = rf"\A{re.escape(cls.tool)} (\S.*?)\s*$"


def metrics_of(benchmark: Benchmark) -> tuple[Metric, ...]:
    """Return all metrics that trials may have, those that the runner counts included."""
    return (*benchmark.metrics, *counted_metrics(benchmark))


def counted_metrics(benchmark: Benchmark) -> tuple[Metric, ...]:
    """Return the metrics that the runner gives the trials of a benchmark, besides those of its parser."""
    of_links = (PACKET_BYTES, WIRE_SHARE) if benchmark.needs_network else ()
    costs = cost_metrics(benchmark.work) if benchmark.work else ()
    return (*of_links, *costs)
