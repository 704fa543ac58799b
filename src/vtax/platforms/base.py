"""Base of every platform: a driver with options, and three verbs - probe, start, stop.

A driver is one module in this package, or in another one that has an entry point of the group `vtax.platforms`, with a
class that derives from `Driver` below and has the decorator `register_platform`. Nothing else needs an edit. A driver
knows nothing of topologies, designs or benchmarks: it is handed an image, resources and a `Plugboard` that
joins its network interface to whatever the topology is.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

from vtax.counters.layer import Part
from vtax.described import Means
from vtax.errors import VtaxError
from vtax.guest.audit import Fact
from vtax.guest.channel import Channel
from vtax.host.cgroups import CpuTime
from vtax.host.guest_memory import GuestMemory
from vtax.host.journal import Journal
from vtax.host.plugins import register
from vtax.image.image import Image
from vtax.messages import Note, at
from vtax.network.plugboard import Plugboard, Uplink
from vtax.platforms.confinement import Isolation
from vtax.platforms.options import CpuLimited, DriverOptions, Scratched
from vtax.study.fields import Privilege, Scratch
from vtax.study.keys import marked


@dataclass(frozen=True)
class RunsAsRoot:
    """Marks an option by whose value root of this host runs something: `Annotated[str, RunsAsRoot("a program")]`.

    what: it is, `a program`, or a configuration that may name programs. With any value but its default, and those of
    the driver's own variants, a platform is started and probed only after consent (runner.consent). harmless: a
    regular expression of whole values that need none.
    """

    what: str
    harmless: str = ""


@dataclass(frozen=True)
class HostProgram:
    """A program that root of this host runs because a study says so: for a platform, by an option, or in guests.

    what: see RunsAsRoot. platform: empty for a program of the study, whose name is the option.
    """

    platform: str
    driver: str
    option: str
    value: str
    what: str

    def __str__(self) -> str:
        """`platform mine: runsc = '/opt/runsc' (a program)`; nothing in it can pass for something else."""
        if not self.platform:
            return f"program {self.option}: {self.value!r} ({self.what})"
        return f"platform {self.platform}: {self.option} = {self.value!r} ({self.what})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """The identity that consent is given to, whatever the platform is called."""
        return self.driver, self.option, self.value


@dataclass(frozen=True)
class Resources:
    """Resources that a guest may use. The same for every platform of a study.

    vcpus: number of virtual CPUs. memory_bytes: limit of its memory. cpus: the host CPUs its vCPUs are pinned to,
    one each, in order; not pinned: all host CPUs it may run on, for as much time as vcpus of them have. huge_pages:
    its memory is to be in huge pages (the host's policy is set to that already). limited: CPU time as options of its
    platform set it (see cpu_limits), also of a virtual machine; None: as `pinned` says.
    """

    vcpus: int
    memory_bytes: int
    cpus: tuple[int, ...]
    pinned: bool = True
    huge_pages: bool = False
    limited: CpuTime | None = None

    @property
    def time(self) -> CpuTime:
        """The limit of CPU time of a guest that shares the host's kernel: in place of pinning, if not pinned."""
        return self.limited or CpuTime(None if self.pinned else self.vcpus)

    def unpinned(self, limited: CpuTime | None = None) -> Resources:
        """Return these resources on all CPUs of this host, without pinning. limited: see the class."""
        return replace(
            self, cpus=tuple(sorted(os.sched_getaffinity(0))), pinned=False, limited=limited
        )


@dataclass(frozen=True)
class Probe:
    """Whether a platform runs here, by a start of a guest rather than by a look for files.

    available: it was really started here. reason: why not (one sentence), or a note. hint: the fix.
    marks: labels of all its figures (`emulated`, `nested`). version: of the runtime.
    seconds: duration of the probe. is_made: whether there was one.
    """

    available: Annotated[bool, Means("whether a guest was started")]
    reason: Annotated[str, Means("why none was")] = ""
    hint: Annotated[str, Means("how to change that")] = ""
    marks: Annotated[tuple[str, ...], Means("marks of all its figures, such as `emulated`")] = ()
    version: Annotated[str, Means("version of the runtime")] = ""
    seconds: Annotated[float, Means("how long that took", unit="s")] = 0.0
    is_made: bool = True


@dataclass(frozen=True)
class GuestSpec:
    """One guest to start.

    name: unique, at most 12 characters of [a-z0-9-], starting `vtax`; names its container, cgroup, tap.
    directory: a private empty directory, already journalled by the caller. plugboard: None for no network at all.
    privileges: what a benchmark of the run asks for beyond the confinement of guests (platforms.confinement).
    scratch: where /scratch lies, if the platform can choose and does not (platforms.scratch).
    """

    name: str
    image: Image
    resources: Resources
    directory: Path
    journal: Journal
    plugboard: Plugboard | None = None
    privileges: frozenset[Privilege] = frozenset()
    scratch: Scratch = "volume"


class RunningGuest(ABC):
    """A started guest. A driver's guest derives from this class, sets `channel`, and says what differs.

    channel: the byte stream on whose other end the agent bootstrap listens (see guest.bootstrap). notes: limits this
    guest could not be given, and whatever else must be shown with its results. scratch: where benchmarks may write.
    is_remote: whether another host runs it. executing_at: when its first instruction, or its first process, ran, on
    the controller's monotonic clock; None where the driver does not see it. parts: of the virtualization layer, whose
    CPU time is counted by part. is_machine: whether vtax started it as a virtual machine, whose kernel counts this guest
    alone.
    """

    channel: Channel
    notes: tuple[str, ...] = ()
    scratch: str = "/scratch"
    is_remote: bool = False
    executing_at: float | None = None
    parts: tuple[Part, ...] = ()
    is_machine: bool = False

    def layer_pids(self) -> Sequence[int]:
        """Return processes of this host of which some belong to `parts`."""
        return ()

    def host_cpu_s(self) -> float | None:
        """CPU seconds the host has spent on this guest, virtualization layer included; None when not known."""
        return None

    def throttling(self) -> Mapping[str, float]:
        """Return effects of a quota of CPU time, by the names of counters.table; empty without one, or unknown."""
        return {}

    def host_memory(self) -> GuestMemory:
        """Memory the host spends on this guest now, virtualization layer included."""
        return GuestMemory()

    def page_faults(self) -> int | None:
        """Count page faults on this host by the guest and its virtualization layer; None when not known."""
        return None

    def oom_kills(self, *, has_ended: bool = False) -> int | None:
        """Count processes of it that were killed for lack of memory; None when not known.

        has_ended: whether it, or what ran in it, ended unexpectedly, and evidence is looked for that outlives it.
        """
        return None

    def limits_in_force(self) -> Mapping[str, Fact]:
        """Return the limits that the host enforces, as facts: `limit.cpus`, `limit.cpu_time`, `limit.memory`."""
        return {}

    @abstractmethod
    def stop(self) -> None:
        """End it and remove what it needed. May be called twice. Raises PlatformError when something stays."""


@dataclass(frozen=True)
class NetworkLimits:
    """Abilities of a platform's network interfaces.

    interfaces: max of one guest. mtu: max, bytes. engine_mtu: the same behind a NAT engine of its own. queues: max of
    an interface. forwards: whether a guest can route between its interfaces. not_attached: the link setting
    `attachment` values they cannot be joined by. links_change: whether a guest follows when MTU or offloads of its
    links change; otherwise every setting needs a fresh guest.
    """

    interfaces: int = 8
    mtu: int = 65535
    engine_mtu: int = 65535
    queues: int = 16
    forwards: bool = True
    not_attached: tuple[str, ...] = ()
    links_change: bool = True


@dataclass(frozen=True)
class HypervisorMemory:
    """Memory of guests that is not this host's.

    free_bytes: for more guests.
    overhead_bytes: what each of them needs beside its own.
    """

    free_bytes: int
    overhead_bytes: int


@dataclass(frozen=True)
class GuestDisk:
    """The image's disk as a guest's own. cached: whether the page cache of this host lies below it."""

    cached: bool


@dataclass(frozen=True)
class Rung:
    """A platform of a ladder: the rung below it with one mechanism added or exchanged, so that its cost is seen.

    name: of the platform, beside the other rungs.
    mechanism: what is new on it, in words.
    driver, options: of the platform, complete.
    remedy: how its cost is avoided, in words; empty where there is no way.
    choice: how a platform has what it gains, in words; empty where it is no choice.
    left_out_by: options of the highest rung's platform without the mechanism; None where all of them are its own.
    taking: what else these leave out, in words.
    """

    name: str
    mechanism: str
    driver: str
    options: Mapping[str, Any]
    remedy: str = ""
    choice: str = ""
    left_out_by: Mapping[str, Any] | None = None
    taking: str = ""


@dataclass(frozen=True)
class Step:
    """A rung by what is new on it. changes: options, of which a rung keeps those of all rungs below."""

    name: str
    mechanism: str
    changes: Mapping[str, Any]
    remedy: str = ""
    choice: str = ""


def ladder(driver: str, steps: Sequence[Step]) -> tuple[Rung, ...]:
    """Return the rungs of a ladder of one driver, from the ground up."""
    rungs: list[Rung] = []
    options: dict[str, Any] = {}
    for step in steps:
        options = {**options, **step.changes}
        rungs.append(Rung(step.name, step.mechanism, driver, options, step.remedy, step.choice))
    return tuple(rungs)


class Driver(ABC):
    """How one kind of platform is started. A driver derives from this class; what it leaves out has these defaults.

    name: of the driver. summary: one line for `vtax platforms`. Options: a model of its options, every field with a
    description and a default. variants: the platforms it ships, name -> option values. argument: the option
    that a platform's name `DRIVER:VALUE` sets; empty when there are no such names. joins_topologies: whether its
    guests can be joined to a topology, their interfaces being made for them. tunings: the words of a
    study's `tuning` that its guests follow. reaches_out: whether its probe talks to a machine that a study names,
    which a dry run leaves alone. uses_image: whether its guests are made from the image; machines that are the user's
    have files, CPUs and limits of their own. writes_below_directory: whether what its guests write is in files
    below GuestSpec.directory, so that a cold trial can drop it from the page cache. is_below_host: whether its
    hypervisor runs below the host's own kernel, so that native is no bare Linux beside it. A driver of
    machines elsewhere is a MachineDriver as well. An option that names what root of this host runs is marked, see
    RunsAsRoot.
    """

    name: str
    summary: str
    Options: type[DriverOptions] = DriverOptions
    variants: Mapping[str, Mapping[str, Any]]
    argument: str = ""
    joins_topologies: bool = True
    tunings: tuple[str, ...] = ("pinned",)
    reaches_out: bool = False
    uses_image: bool = True
    writes_below_directory: bool = False
    is_below_host: bool = False

    def ladders(self) -> Mapping[str, tuple[Rung, ...]]:
        """Return what its platforms are made of, by a name: rungs from the ground up."""
        return {}

    def network_limits(self, options: Any) -> NetworkLimits:
        """Return what the network interfaces of its guests can do."""
        return NetworkLimits()

    def disk(self, options: Any) -> GuestDisk | None:
        """Return the disk of its guests, of the size that a study sets.

        It is None where their files are on this host's file system, or the disk is the user's.
        """
        return None

    def hypervisor_memory(self) -> HypervisorMemory | None:
        """Return the memory of a hypervisor under this host; None when they use the host's memory. Never raises."""
        return None

    def image_files(self, image: Image) -> Path | None:
        """Return the directory with all files of the image that its guests read; None when they are elsewhere."""
        return image.directory if self.uses_image else None

    def isolation(self, options: Any) -> Isolation:
        """Return what stands between the root of its guests and this host.

        That is the policy of `platforms.confinement` (the check `confinement` tries it), a kernel of its own, or nothing.
        """
        return "confined"

    def differences(self, options: Any) -> Mapping[str, str]:
        """Return what programs in its guests find otherwise than in native's because its layer is so.

        A fact, as the check `fairness` names it, and why. What is of a kernel of its own needs no word; nothing else may
        differ.
        """
        return {}

    def lacking(self, options: Any) -> tuple[str, str] | None:
        """Return what this host lacks for it and a hint; None for nothing. Raises VtaxError likewise.

        It is what root can know without starting a guest.
        """
        return None

    def marks(self, options: Any) -> tuple[str, ...]:
        """Return the marks of its figures that are known without starting a guest."""
        return ()

    @abstractmethod
    def probe(self, options: Any, image: Image | None) -> Probe:
        """Find out by a start, in at most 20 s, whether this can run here.

        image: None before one is built; then check what can be checked without it.
        Never raises, never hangs, removes what it made.
        """

    @abstractmethod
    def start(self, options: Any, spec: GuestSpec) -> RunningGuest:
        """Start a guest. Everything made is journalled first.

        Raises PlatformError; after a failed start the journal has every resource that remains.
        """


_D = TypeVar("_D", bound=Driver)


def register_platform(driver: type[_D]) -> type[_D]:
    """Make the platforms of a driver known, as a decorator of its class. One instance serves all of its guests."""
    register("platform", driver())
    return driver


@runtime_checkable
class MachineDriver(Protocol):
    """A driver of other machines, which stand at ends of topologies by uplinks (see Plugboard.plug_uplinks)."""

    def uplinks(self, options: Any) -> Sequence[Uplink]:
        """Return what joins the machine to this host."""
        ...

    def check_machine(self, options: Any, mtu: int | None, programs: Sequence[str]) -> None:
        """Raise BadInput when the machine cannot be reached or lacks one of these programs.

        The interfaces at both ends of its uplinks must be usable, with this MTU.
        """
        ...

    def hold(
        self, options: Any, name: str, warn: Callable[[Note], None]
    ) -> AbstractContextManager[str]:
        """Hold the machine's measuring lock while the block runs; yields the identity of the machine (store.hosts).

        name: of the run, shown to others. It is free again once this process, or this host, is gone. warn: called
        where only another user could hold it, and at the end when it was lost before. Raises Busy with the holder's
        name, BadInput where the machine cannot be reached or, with uplinks, is this host.
        """
        ...

    def command(self, options: Any, arguments: Sequence[str]) -> Sequence[str]:
        """Return the command of this host that runs the Python there with these arguments."""
        ...

    def launch(self, options: Any, spec: GuestSpec, argv: Sequence[str]) -> RunningGuest:
        """Run argv there, its standard streams the channel. Whether that worked, the channel shows."""
        ...


@dataclass(frozen=True)
class Platform:
    """A named way to run the guest: a driver and its validated options."""

    name: str
    driver: Driver
    options: DriverOptions
    labels: Mapping[str, str] = field(default_factory=dict)

    def probe(self, image: Image | None) -> Probe:
        """Probe it; an exception of its driver becomes the reason why it is not available."""
        try:
            probe = self.driver.probe(self.options, image)
            if self.driver.isolation(self.options) == "nothing":
                return replace(probe, marks=(*probe.marks, "not confined"))
            return probe
        except VtaxError as error:
            return Probe(False, error.what, error.hint)
        except Exception as error:
            return Probe(False, Note("probe-failed", kind=type(error).__name__, error=error))

    def examine(self) -> Probe:
        """Return what is known of it without starting a guest: it counts as available where nothing is lacking."""
        try:
            missing = self.driver.lacking(self.options)
        except VtaxError as error:
            missing = at(error.what, error.where), error.hint
        if missing:
            return Probe(False, *missing, is_made=False)
        marks = self.driver.marks(self.options)
        return Probe(True, Note("not-probed-start"), marks=marks, is_made=False)

    def start(self, spec: GuestSpec) -> RunningGuest:
        if (
            isinstance(self.options, CpuLimited)
            and (time := self.options.time(spec.resources.vcpus)) is not None
        ):
            spec = replace(spec, resources=spec.resources.unpinned(time))
        return self.driver.start(self.options, replace(spec, scratch=self.scratch(spec.scratch)))

    def scratch(self, study_scratch: Scratch) -> Scratch:
        """Return where /scratch of its guests lies. study_scratch: where the study wants it."""
        if isinstance(self.options, Scratched):
            return self.options.scratch or study_scratch
        return "volume"

    @property
    def disk(self) -> GuestDisk | None:
        return self.driver.disk(self.options)

    @property
    def network_limits(self) -> NetworkLimits:
        """Return what the network interfaces of its guests can do."""
        return self.driver.network_limits(self.options)

    @property
    def host_programs(self) -> tuple[HostProgram, ...]:
        """Programs that root runs here because somebody set an option: none with defaults and shipped names."""
        programs = []
        for name, tag in marked(type(self.options), RunsAsRoot).items():
            value = getattr(self.options, name)
            default = (
                type(self.options)
                .model_fields[name]
                .get_default(call_default_factory=True, validated_data={})
            )
            shipped_values = [
                default,
                *(options.get(name) for options in self.driver.variants.values()),
            ]
            if value not in shipped_values and not (
                tag.harmless and re.fullmatch(tag.harmless, str(value))
            ):
                programs.append(
                    HostProgram(self.name, self.driver.name, name, str(value), tag.what)
                )
        return tuple(programs)

    def identity(self) -> dict[str, Any]:
        """Return the identity for cell keys and the report: driver and every option, not the name."""
        return {"driver": self.driver.name, "options": self.options.model_dump(mode="json")}
