"""Checks of a platform: the driver's declarations, the probe, a guest's life cycle, its network and leaks."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from vtax.conformance import declared, fair, host, reach
from vtax.conformance.check import Check, Failed, Skipped, require
from vtax.conformance.host import HostResources
from vtax.conformance.stage import MEMORY_BYTES, CheckEnvironment, GuestStage
from vtax.conformance.target import Target
from vtax.guest.guest import Guest
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.process import run
from vtax.host.walking import walk
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.platforms.base import Driver, NetworkLimits, Platform, Probe, RunningGuest
from vtax.platforms.confinement import Isolation
from vtax.platforms.options import Scratched
from vtax.study.fields import Scratch
from vtax.study.model import Tuning

PROBE_S = 20.0
STOP_S = 60.0
_PAYLOAD_BYTES = 1 << 20
_SEEN_ON_HOST = "vtax-is-here"
_TMPFS = "1021994"  # TMPFS_MAGIC of <linux/magic.h>
_LAB_MTU = 1400


def platform_of(driver: Driver) -> Platform:
    """Return the first platform of a driver, or one with its default options."""
    name, options = next(iter(driver.variants.items()), (driver.name, {}))
    return Platform(name, driver, driver.Options.model_validate(dict(options)))


class PlatformSubject:
    """The driver under test and its running guest."""

    def __init__(self, target: Target, environment: CheckEnvironment) -> None:
        self.target, self.environment = target, environment
        self.driver: Driver = target.plugin
        self.token = secrets.token_hex(8)
        self.probed: Probe | None = None
        self.before: HostResources | None = None
        self.stage: GuestStage | None = None
        self.running: RunningGuest | None = None

    def close(self) -> None:
        """Stop the running guest."""
        if self.stage is not None:
            self.stage.__exit__()
            self.stage = None

    @property
    def started(self) -> tuple[GuestStage, RunningGuest]:
        """The guest started by the check `start`."""
        assert self.stage is not None
        assert self.running is not None
        return self.stage, self.running


def _name(subject: PlatformSubject) -> None:
    declared.check_name(subject.driver.name, subject.target.shipped_names)


def _variants(subject: PlatformSubject) -> None:
    driver = subject.driver
    require(driver.variants or driver.argument, "it has no variants and takes no argument")
    shipped: set[str] = set()
    for other in registry.drivers().values():
        if other.name != driver.name:
            shipped.update(other.variants)
    for name, options in driver.variants.items():
        declared.check_name(name, shipped)
        driver.Options.model_validate(dict(options))


def _argument(subject: PlatformSubject) -> None:
    driver = subject.driver
    if not driver.argument:
        raise Skipped("its platforms take no argument")
    require(
        driver.argument in driver.Options.model_fields, f"Options has no field {driver.argument!r}"
    )


def _tunings(subject: PlatformSubject) -> None:
    known_tunings = get_args(Tuning)
    unknown_tunings = [word for word in subject.driver.tunings if word not in known_tunings]
    require(
        not unknown_tunings,
        f"tunings has {', '.join(unknown_tunings)}; it may have {', '.join(known_tunings)}",
    )


def _network_limits(subject: PlatformSubject) -> None:
    limits = subject.driver.network_limits(platform_of(subject.driver).options)
    require(isinstance(limits, NetworkLimits), f"network_limits returns {limits!r}")
    sizes = (limits.interfaces, limits.mtu, limits.queues)
    require(all(isinstance(size, int) and size > 0 for size in sizes), f"limits of {sizes}")


def _probe_without_image(subject: PlatformSubject) -> None:
    _probe_platform(subject, with_image=False)


def _probe(subject: PlatformSubject) -> None:
    subject.environment.need_image()
    probe = subject.probed = _probe_platform(subject, with_image=True)
    if not probe.available:
        raise Skipped(f"it does not run here: {probe.reason}")
    require(probe.version, "the probe has no version of the runtime")


def _probe_platform(subject: PlatformSubject, *, with_image: bool) -> Probe:
    platform = platform_of(subject.driver)
    image = subject.environment.image if with_image else None
    started_at = time.monotonic()
    probe = subject.driver.probe(platform.options, image)
    elapsed_s = time.monotonic() - started_at
    require(isinstance(probe, Probe), f"probe returns {probe!r}")
    require(elapsed_s <= PROBE_S * timeout_factor(), f"the probe ended after {elapsed_s:.0f} s")
    require(
        probe.available or probe.reason,
        "the probe gives no reason why the platform is not available",
    )
    return probe


def _probe_leaks(subject: PlatformSubject) -> None:
    home, before = (
        subject.environment.home,
        HostResources.now(subject.environment.home, subject.token),
    )
    with host.tagged(subject.token):
        _probe_platform(subject, with_image=True)
    host.check_no_leaks(before, home, subject.token)


def _start(subject: PlatformSubject) -> None:
    subject.before = HostResources.now(subject.environment.home, subject.token)
    subject.stage = GuestStage(subject.environment)
    with host.tagged(subject.token):
        subject.running = subject.stage.start(platform_of(subject.driver))
    require(isinstance(subject.running, RunningGuest), f"start returns {subject.running!r}")


def _journal(subject: PlatformSubject) -> None:
    stage, _ = subject.started
    registered_names = [str(resource) for resource in stage.journal.registered]
    require(
        len(registered_names) > 1, "the journal registers only the directory of the running guest"
    )


def _run(subject: PlatformSubject) -> None:
    guest = subject.started[0].guest()
    result = guest.run(["sh", "-c", "echo out; echo err >&2; exit 7"], timeout_s=30.0)
    outcome = (result.status, result.stdout, result.stderr)
    require(
        outcome == (7, "out\n", "err\n"), f"a program that ends with status 7 returns {outcome!r}"
    )


def _files(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    payload, path = os.urandom(_PAYLOAD_BYTES), f"{running_guest.scratch}/vtax-conformance"
    stage.guest().put(path, payload)
    require(
        stage.guest().get(path) == payload,
        f"a file in {running_guest.scratch} is read back with other content",
    )
    stage.guest().output_of(["rm", path])


def _same_files(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    if running_guest.is_remote:
        raise Skipped("its machine does not use the image")
    name = "/usr/bin/env"
    expected = (stage.image.tree / name.lstrip("/")).read_bytes()
    require(stage.guest().get(name) == expected, f"{name} differs from the image")


def _limits(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    notes = running_guest.notes
    require(
        isinstance(notes, tuple) and all(isinstance(note, str) for note in notes),
        f"notes is {notes!r}",
    )
    cpus = stage.guest().output_of(["nproc"]).strip()
    require(cpus == "1" or notes, f"a guest with one vCPU may use {cpus} CPUs, and no note says so")
    in_force = running_guest.limits_in_force()
    require(isinstance(in_force, Mapping), f"limits_in_force returns {in_force!r}")
    memory_kib = (
        stage.guest().output_of(["awk", "/^MemTotal:/ {print $2}", "/proc/meminfo"]).strip()
    )
    is_limited = "limit.memory" in in_force or int(memory_kib or 0) * 1024 <= MEMORY_BYTES
    require(is_limited or notes, "its memory has no limit, and no note says so")


def _confinement(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    isolation = subject.driver.isolation(platform_of(subject.driver).options)
    isolations = get_args(Isolation)
    require(
        isolation in isolations,
        f"isolation returns {isolation!r}; it may be {', '.join(isolations)}",
    )
    if running_guest.is_remote or isolation == "nothing":
        raise Skipped("its guests are not confined, and their results say so")
    beyond = reach.beyond_policy(reach.reached(stage.guest()), isolation)
    words = f"the root of its guest reaches {', '.join(beyond[:8])}; {len(beyond)} in all"
    require(not beyond, words)


def _fairness(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    driver, options = subject.driver, platform_of(subject.driver).options
    reasons = driver.differences(options)
    require(all(reasons.values()), f"differences gives no reason for {', '.join(reasons)}")
    if running_guest.is_remote or not driver.uses_image:
        raise Skipped("its machine is the user's: what differs is said beside its results")
    guest_facts = fair.read_facts(stage.guest(), running_guest)
    native_guest = stage.start(registry.get("native"), role="native")
    native_facts = fair.read_facts(stage.guest("native"), native_guest)
    has_own_kernel = driver.isolation(options) == "kernel"
    differences = fair.undeclared(guest_facts, native_facts, reasons, has_own_kernel=has_own_kernel)
    if differences:
        raise Failed(f"{'; '.join(differences[:8])} ({len(differences)} in all)")


def _scratch(subject: PlatformSubject) -> None:
    check_places(subject.started[0], platform_of(subject.driver))


def check_places(stage: GuestStage, platform: Platform) -> None:
    """Start a guest for each place that /scratch can have. Raises Failed where it lies elsewhere, Skipped for machines."""
    isolation = platform.driver.isolation(platform.options)
    can_choose = isinstance(platform.options, Scratched)
    if not can_choose and (isolation == "kernel" or not platform.driver.uses_image):
        raise Skipped("/scratch lies on the disk of a machine")
    places: tuple[Scratch, ...] = get_args(Scratch) if can_choose else ("volume",)
    for place in places:
        spec = stage.spec(scratch=place)
        running_guest = stage.started(platform, spec, role=place)
        _check_place(stage.guest(place), spec.directory, place, shares_kernel=isolation != "kernel")
        running_guest.stop()


def _check_place(guest: Guest, directory: Path, place: Scratch, *, shares_kernel: bool) -> None:
    """Raise Failed where /scratch of a guest does not lie where it is to be.

    directory: of the guest on this host.
    shares_kernel: the guest names file systems as this host does.
    """
    kinds = guest.output_of(["stat", "--file-system", "--format=%t", "/scratch", "/var/tmp"])
    kind, of_layer = kinds.split()
    guest.output_of(["touch", f"/scratch/{_SEEN_ON_HOST}"])
    names = [name for name, _ in walk(directory, is_strict=False) if name.endswith(_SEEN_ON_HOST)]
    is_seen = any(not name.startswith("upper/") for name in names)
    if place == "volume":
        require(is_seen, "what the guest writes in its volume is in no directory of the host")
        host_kind = run(["stat", "--file-system", "--format=%t", directory]).stdout.strip()
        if shares_kernel:
            require(
                kind == host_kind,
                f"/scratch has a file system {kind}, its directory here {host_kind}",
            )
    if place == "layer":
        require(kind == of_layer and not is_seen, "/scratch is not in the guest's own layer")
    if place == "memory":
        require(kind == _TMPFS and not is_seen, f"/scratch in memory has a file system {kind}")


def _cpu_time(subject: PlatformSubject) -> None:
    stage, running_guest = subject.started
    first = running_guest.host_cpu_s()
    if first is None:
        raise Skipped("the host does not account its CPU time")
    stage.guest().output_of(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
    second = running_guest.host_cpu_s()
    require(
        second is not None and 0 <= first < second,
        f"host_cpu_s is {first!r}, and {second!r} after work",
    )


def _stop(subject: PlatformSubject) -> None:
    _, running_guest = subject.started
    started_at = time.monotonic()
    running_guest.stop()
    running_guest.stop()
    elapsed_s = time.monotonic() - started_at
    require(elapsed_s <= STOP_S * timeout_factor(), f"stop ended after {elapsed_s:.0f} s")


def _leaks_after_stop(subject: PlatformSubject) -> None:
    assert subject.before is not None
    subject.close()
    host.check_no_leaks(subject.before, subject.environment.home, subject.token)


def _leaks_after_kill(subject: PlatformSubject) -> None:
    host.check_killed(subject.target, subject.environment.home, subject.token)


def _network(subject: PlatformSubject) -> None:
    if not subject.driver.joins_topologies:
        raise Skipped("its network interfaces belong to the user")
    topology = topologies.get("point-to-point")
    settings = topologies.settings("point-to-point", {})
    with GuestStage(subject.environment) as stage:
        links = topology.build(stage.journal, settings)
        stage.start_ends(links, {"guest": platform_of(subject.driver)})
        links.apply(settings)
        before = links.counters()
        stage.guest("guest").output_of(["ping", "-q", "-c", "3", "-W", "10", links.peer_address])
        after = links.counters()
        sizes = [name for name in after if name.endswith("_bytes")]
        is_counted = any(after[name] > before.get(name, 0.0) for name in sizes)
        require(is_counted, "no interface of the lab counts packets of the guest")
        if platform_of(subject.driver).network_limits.links_change:
            links.apply(settings.model_copy(update={"mtu": _LAB_MTU}))
            effective_mtu: Any = links.effective["link"]["mtu"]
            require(
                effective_mtu == _LAB_MTU,
                f"the link's MTU is {effective_mtu} after a change to {_LAB_MTU}",
            )
    if links.warnings:
        raise Failed(f"the guest's interface: {links.warnings[0]}")


_S = PlatformSubject
CHECKS: tuple[Check[PlatformSubject], ...] = (
    Check[_S](
        "type",
        lambda s: declared.check_type(s.driver, Driver),
        "derive from vtax.platforms.base.Driver",
    ),
    Check[_S]("name", _name, "choose a name of lower-case letters, digits and hyphens", ("type",)),
    Check[_S](
        "summary",
        lambda s: declared.check_line("summary", s.driver.summary),
        "say it in a line",
        ("type",),
    ),
    Check[_S](
        "options-model",
        lambda s: declared.check_model(s.driver.Options, defaults=True),
        'ConfigDict(extra="forbid", frozen=True), and Field(default, description=...) for each option',
        ("type",),
    ),
    Check[_S](
        "variants", _variants, "map names of platforms to values of options", ("options-model",)
    ),
    Check[_S]("argument", _argument, "name a field of Options", ("options-model",)),
    Check[_S](
        "options-json",
        lambda s: declared.check_json(platform_of(s.driver).options),
        "use types of options that pydantic writes as JSON and reads again",
        ("variants",),
    ),
    Check[_S]("tunings", _tunings, "use levels of the study's `tuning`", ("type",)),
    Check[_S](
        "network-limits", _network_limits, "return a NetworkLimits of positive sizes", ("variants",)
    ),
    Check[_S](
        "probe-without-image",
        _probe_without_image,
        "return a Probe with a reason; do not raise",
        ("variants",),
    ),
    Check[_S](
        "probe",
        _probe,
        "start a guest, wait for its agent, stop it, return a Probe within 20 s",
        ("variants",),
        60,
    ),
    Check[_S](
        "probe-leaks",
        _probe_leaks,
        "stop everything that the probe starts; register it in a journal first",
        ("probe",),
    ),
    Check[_S](
        "start",
        _start,
        "run bootstrap.argv(...) in the guest with the channel as its stream",
        ("probe",),
    ),
    Check[_S](
        "journal",
        _journal,
        "call spec.journal.register(...) before creating a resource",
        ("start",),
    ),
    Check[_S](
        "run", _run, "leave processes and exit statuses of the guest to the agent", ("start",)
    ),
    Check[_S]("image-files", _same_files, "start the guest from spec.image", ("start",)),
    Check[_S](
        "limits", _limits, "enforce spec.resources, or list unenforced limits in notes", ("start",)
    ),
    Check[_S](
        "confinement",
        _confinement,
        "hold the guest by platforms.confinement, or say in isolation() what its guests are",
        ("start",),
        60,
    ),
    Check[_S](
        "fairness",
        _fairness,
        "start by platforms.containers, or give what programs find as platforms.alike does; a difference that is the "
        "layer: say it in differences()",
        ("start",),
        60,
    ),
    Check[_S](
        "scratch",
        _scratch,
        "mount platforms.scratch.mounts(...) over /scratch, and derive Options from containers.ProcessOptions",
        ("start",),
        60,
    ),
    Check[_S](
        "cpu-time", _cpu_time, "return seconds of CPU time since the guest's start", ("start",)
    ),
    Check[_S]("files", _files, "set scratch to a writable directory of the guest", ("start",)),
    Check[_S]("stop", _stop, "stop the guest; a second call does nothing", ("start",)),
    Check[_S](
        "leaks-after-stop",
        _leaks_after_stop,
        "remove all resources of start() in stop()",
        ("stop",),
    ),
    Check[_S](
        "leaks-after-kill",
        _leaks_after_kill,
        "register resources in spec.journal before creating them",
        ("leaks-after-stop",),
    ),
    Check[_S](
        "network",
        _network,
        "join spec.plugboard: plug_namespace(...) or taps()",
        ("leaks-after-stop",),
    ),
)
