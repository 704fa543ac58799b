"""Xen: a domain started by xl in dom0, paravirtual (PV), PVH or HVM, with emulated or paravirtual devices.

A guest is a domain that boots the image's kernel from a copy-on-write overlay over the image's disk, as every machine
does (see virtual_machine). It is made paused. The host's side of its interfaces, which dom0's kernel or the device
model makes, then moves into the lab, the agent's stream and the console are connected, and the domain runs.

In dom0 everything that serves the domain belongs to the guest's cgroup or is known by its name: the device model,
the console's reader, and the kernel threads that carry its packets.
"""

from __future__ import annotations

import gzip
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vtax.counters import domains
from vtax.counters.layer import Part
from vtax.errors import CommandFailed, PlatformError, VtaxError
from vtax.guest.channel import Channel
from vtax.host import cgroups
from vtax.host.emulated_cpu import is_emulated, timeout_factor
from vtax.host.process import cpu_s_of, run
from vtax.host.resources import RestoreCommand, Tree
from vtax.messages import Note
from vtax.platforms import stdio, virtual_machine
from vtax.platforms.base import (
    GuestDisk,
    GuestSpec,
    HypervisorMemory,
    NetworkLimits,
    register_platform,
)
from vtax.platforms.stdio import Claim, StdioGuest, claim, start_error
from vtax.platforms.virtual_machine import Hypervisor
from vtax.platforms.xen import config, tools
from vtax.platforms.xen.config import VARIANTS, XenOptions

LOGS = Path("/var/log/xen")
PARTS = (
    Part("netback", r".+-q[0-9]+-.*"),
    Part("qemu", "xen-qemu-.*|qemu-system.*"),
    Part("console", "xenconsole|xl"),
)
"""Processes of a domain in dom0: kernel threads that carry packets, the device model, the reader of the console."""
_SHOWN_NAME = 15  # bytes of a thread's name that the kernel shows, at least


@dataclass
class XenGuest(StdioGuest):
    """A domain.

    process: the reader of its console, which ends with the domain.
    domain: its name.
    ports: host's side of its interfaces, after which the kernel names the threads that carry their packets.
    """

    domain: str = ""
    ports: tuple[str, ...] = ()

    def layer_pids(self) -> Sequence[int]:
        """Return the processes of the guest, with what serves it in dom0."""
        return [*super().layer_pids(), *backend_pids(self.ports)]

    def host_cpu_s(self) -> float | None:
        """Return the CPU seconds of the domain and of its device model, console and network back-end."""
        in_dom0 = super().host_cpu_s()
        if self._stopped or in_dom0 is None:
            return in_dom0
        of_domain = domain_cpu_s(self.domain)
        return None if of_domain is None else of_domain + in_dom0 + cpu_s(backend_pids(self.ports))


def domain_cpu_s(name: str) -> float | None:
    """Return the CPU seconds of a domain; None when it has ended.

    They are libxenstat's; without it they are xl's, in steps of 0.1 s.
    """
    cpu_s_by_name = domains.cpu_s()
    if name in cpu_s_by_name:
        return cpu_s_by_name[name]
    with suppress(CommandFailed):
        domain = tools.find(name)
        if domain is not None:
            return domain.cpu_s
    return None


def backend_pids(ports: tuple[str, ...], proc: Path = Path("/proc")) -> list[int]:
    """Return the kernel threads of netback for these interfaces (`PORT-q0-guest-rx`, `PORT-q0-dealloc`)."""
    prefixes = tuple(f"{port}-q"[:_SHOWN_NAME] for port in ports)
    pids = []
    for entry in proc.glob("[0-9]*") if prefixes else ():
        with suppress(OSError):
            if (entry / "comm").read_text().startswith(prefixes):
                pids.append(int(entry.name))
    return pids


def cpu_s(pids: Iterable[int], proc: Path = Path("/proc")) -> float:
    """Return the CPU seconds of processes that live."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += cpu_s_of((proc / str(pid) / "stat").read_text())
    return total


def destroy(name: str) -> RestoreCommand:
    """Return the journal's entry of a domain, ended at once with the interfaces and disks that dom0 serves to it."""
    absent = ("is an invalid domain identifier", "No such file", "not installed")
    return RestoreCommand(
        f"Xen domain {name}", ("xl", "destroy", name), (1, 2, 255), harmless_words=absent
    )


def log_files(name: str) -> list[Path]:
    """Return the files that xl and the device model write for a domain of this name."""
    return [LOGS / f"{kind}-{name}.log" for kind in ("xl", "qemu-dm")]


_CREATE_S = 60.0
_EXTRA_MEMORY_MIB = 24
"""Memory that a domain needs beside its own: page tables, the device model's video memory."""
_VIF_SCRIPT = """#!/bin/sh
# Called by xl for an interface of a domain: the lab joins it, so there is nothing to do but to say that it is there.
[ "$1" != online ] || exec xenstore-write "$XENBUS_PATH/hotplug-status" connected
"""
_MAX_MTU = {"e1000": 16110, "rtl8139": 4096}
_PV_MAX_MTU = 65517  # of netback and netfront: 65535 bytes less an Ethernet header with a VLAN tag


@register_platform
class Xen(Hypervisor):
    name = "xen"
    summary = "a domain of Xen by xl: PV, PVH or HVM, emulated or paravirtual devices"
    Options = XenOptions
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS
    is_below_host = True

    def disk(self, options: XenOptions) -> GuestDisk:
        """Return the disk, which dom0's QEMU serves from a file (libxl's qdisk, without direct-io-safe)."""
        return GuestDisk(cached=True)

    def network_limits(self, options: XenOptions) -> NetworkLimits:
        mtu = _MAX_MTU[options.nic] if options.devices == "emulated" else _PV_MAX_MTU
        return NetworkLimits(mtu=mtu, queues=1, not_attached=("macvtap",))

    def hypervisor_memory(self) -> HypervisorMemory | None:
        """Return the free memory of Xen; None where this host is no dom0."""
        try:
            tools.check_host()
            return HypervisorMemory(tools.free_mib() << 20, _EXTRA_MEMORY_MIB << 20)
        except VtaxError:
            return None

    def check_host(self, options: XenOptions) -> tuple[str, tuple[str, ...]]:
        """Return version and marks. Raises VtaxError where this host is no dom0."""
        tools.check_host()
        values = tools.info()
        return tools.version(values), tools.marks(values)

    def start_machine(self, options: XenOptions, spec: GuestSpec) -> XenGuest:
        tools.check_host()
        _check_room(spec)
        spec = _in_pool(options.cpupool, spec)
        return _start(options, spec, _boot(options, spec), virtual_machine.overlay(spec))


def _check_room(spec: GuestSpec) -> None:
    """Raise PlatformError when a domain of the guest's name exists, or the hypervisor lacks memory for another.

    xl would take the memory from dom0 otherwise, where it is configured so.
    """
    if tools.find(spec.name) is not None:
        raise PlatformError(
            Note("domain-exists", name=spec.name),
            hint=Note("hint-xl-rename", name=spec.name),
        )
    free_mib = tools.free_mib()
    needed_mib = (spec.resources.memory_bytes >> 20) + _EXTRA_MEMORY_MIB
    if free_mib < needed_mib:
        raise PlatformError(
            Note("hypervisor-memory", free_mib=free_mib, name=spec.name, needed_mib=needed_mib),
            hint="end domains (xl list), xl mem-set Domain-0 SIZE, or boot Xen with dom0_mem=SIZE,max:SIZE",
        )


def _boot(options: XenOptions, spec: GuestSpec) -> virtual_machine.Boot:
    """Return the boot files of the domain.

    The device model of type hvm loads packed kernels only, byte by byte through a port: an initrd of a third of the
    size saves it much time.
    """
    kernel, initrd = virtual_machine.boot_files(options.kernel, options.modules, spec.image)
    if options.type != "hvm":
        return virtual_machine.Boot(kernel, initrd)
    packed = spec.directory / "initrd.cpio.gz"
    packed.write_bytes(gzip.compress(initrd.read_bytes(), compresslevel=1))
    return virtual_machine.Boot(spec.image.kernel, packed)


def _in_pool(name: str, spec: GuestSpec) -> GuestSpec:
    """Return the guest with the CPUs of a pool in place of the study's. Raises PlatformError when it has too few."""
    if not name:
        return spec
    pools = tools.pools()
    if name not in pools:
        raise PlatformError(Note("no-pool", name=name), hint=Note("hint-pools", names=tuple(pools)))
    cpus = pools[name]
    vcpus = spec.resources.vcpus
    if len(cpus) < vcpus:
        note = Note("small-pool", pool=name, found=len(cpus), name=spec.name, requested=vcpus)
        raise PlatformError(note, hint=f"xl cpupool-cpu-add {name} CPU")
    if spec.resources.pinned:
        cpus = cpus[:vcpus]
    return replace(spec, resources=replace(spec.resources, cpus=cpus))


def _start(
    options: XenOptions, spec: GuestSpec, boot: virtual_machine.Boot, overlay: Path
) -> XenGuest:
    """Make the domain paused, join its interfaces, connect its consoles, let it run."""
    console, stderr = spec.directory / "console.log", spec.directory / "stderr.log"
    path = spec.directory / "domain.cfg"
    path.write_text(config.domain(options, spec.resources, boot, _prepare(options, spec, overlay)))
    with ExitStack() as undo:
        try:
            guest_claim = _claim(spec, undo)
            with guest_claim.group.procs_file() as join:
                programs = virtual_machine.Programs(guest_claim.tag, join, stderr)
                _create(spec, path, programs)
                ports = _join_interfaces(options, spec)
                # writes the kernel's messages to a file as long as the domain lives
                process = programs.spawn(["xl", "console", "-t", "pv", spec.name], console)
            channel = Channel.to_unix_socket(
                spec.directory / tools.channel_name(spec.name),
                timeout_s=10 * timeout_factor(),
                diagnose=lambda: describe(spec.name, stderr, console),
            )
            channel.silence_hint = virtual_machine.NOT_BOOTED
            undo.callback(channel.close)
            cpus = _pinned_cpus(options.cpupool, spec)
            run(["xl", "unpause", spec.name])
            executing_at = time.monotonic()
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            raise start_error(spec, error, describe(spec.name, stderr, console)) from error
        undo.pop_all()
    stdio.compile_agent(channel, spec.image)
    machine = cgroups.Limits(
        cpus, spec.resources.memory_bytes, cgroups.CpuTime(spec.resources.vcpus)
    )
    guest = XenGuest(
        process,
        channel,
        guest_claim,
        stderr,
        _notes(options.cpupool, spec),
        machine=machine,
        executing_at=executing_at,
    )
    guest.domain, guest.ports, guest.parts = spec.name, ports, PARTS
    return guest


def _prepare(options: XenOptions, spec: GuestSpec, overlay: Path) -> config.XenIo:
    script = spec.directory / "vif"
    script.write_text(_VIF_SCRIPT)
    script.chmod(0o755)
    interfaces = spec.plugboard.interfaces if spec.plugboard else ()
    tsc_mode: str = options.tsc_mode
    if tsc_mode == "auto":
        tsc_mode = "native" if is_emulated() else "default"
    return config.XenIo(spec.name, overlay, spec.directory, script, tsc_mode, interfaces)


def _claim(spec: GuestSpec, undo: ExitStack) -> Claim:
    """Return the cgroup and tag of every guest; the domain, released first; the logs that Xen keeps of it, last."""
    logs = [spec.journal.register(Tree(str(path))) for path in log_files(spec.name)]
    for registered in logs:
        undo.callback(registered.release)
    guest_claim = claim(spec, undo)
    guest_claim.after += logs
    registered = spec.journal.register(destroy(spec.name))
    guest_claim.before.append(registered)
    undo.callback(registered.release)
    return guest_claim


def _create(spec: GuestSpec, path: Path, programs: virtual_machine.Programs) -> None:
    """Make the domain, paused. xl stays as a daemon that destroys the domain when it ends. Raises PlatformError."""
    try:
        programs.call(["xl", "create", "-p", path], "xl create", _CREATE_S * timeout_factor())
    except PlatformError as error:
        raise PlatformError(error.what, where=_complaints(spec, programs.stderr)) from error


def _complaints(spec: GuestSpec, stderr: Path) -> str:
    """Return the last line of the device model, then those of xl."""
    _, log_of_model = log_files(spec.name)
    complaints = [stdio.last_lines(log_of_model, 1), tools.errors(stdio.text_of(stderr))]
    return " | ".join(filter(None, complaints))


def _join_interfaces(options: XenOptions, spec: GuestSpec) -> tuple[str, ...]:
    """Move the host's side of every interface into the lab, and return their names there."""
    if spec.plugboard is None:
        return ()
    domain = tools.find(spec.name)
    assert domain is not None
    suffix = "-emu" if options.devices == "emulated" else ""
    numbers = range(len(spec.plugboard.interfaces))
    devices = [f"vif{domain.domid}.{number}{suffix}" for number in numbers]
    return tuple(spec.plugboard.plug_devices(devices))


def _pinned_cpus(pool: str, spec: GuestSpec) -> tuple[int, ...]:
    """Return the CPUs that the domain may run on, read back.

    Raises PlatformError when they, or the pool, are others.
    """
    if pool:
        effective = tools.pool_of(spec.name)
        if effective != pool:
            raise PlatformError(Note("other-pool", name=spec.name, effective=effective, pool=pool))
    cpus_of_vcpus = [vcpu.cpus for vcpu in tools.vcpus(spec.name)]
    cpus = set().union(*cpus_of_vcpus)
    if not cpus <= set(spec.resources.cpus):
        raise PlatformError(
            Note("not-pinned-to", name=spec.name, cpus=spec.resources.cpus, allowed=cpus_of_vcpus)
        )
    return tuple(sorted(cpus))


def _notes(pool: str, spec: GuestSpec) -> tuple[str, ...]:
    """Return a note where its CPUs are not those of the study: of a pool, or where dom0 numbers them in another way."""
    if pool:
        cpus = ",".join(map(str, spec.resources.cpus))
        return (Note("pool-cpus", cpus=cpus, pool=pool),)
    if all(vcpu.cpus == (vcpu.number,) for vcpu in tools.vcpus("Domain-0")):
        return ()
    return (Note("dom0-not-pinned"),)


def describe(name: str, stderr: Path, console: Path) -> str:
    """Describe a domain: its console's last lines, a panic first, what xl says, and its state."""
    try:
        domain = tools.find(name)
        state = f"the domain is {tools.state(domain)}" if domain else "the domain has ended"
    except CommandFailed as error:
        state = error.what
    parts = []
    console_errors = virtual_machine.console_errors(console)
    if console_errors:
        parts.append(f"console: {console_errors}")
    complaints = tools.errors(stdio.text_of(stderr))
    if complaints:
        parts.append(f"xl: {complaints}")
    return "; ".join([*parts, state])
