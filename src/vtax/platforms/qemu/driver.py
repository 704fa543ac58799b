"""QEMU, emulating (TCG) or with the host's virtualization (KVM): one driver, every machine as options.

A guest is one QEMU process. It boots the image's kernel with a small initrd from a copy-on-write overlay over the
image's disk, so starting copies nothing. Agent and monitor are connected sockets that QEMU inherits: no names in the
file system, nobody else can connect, and each ends with the process. QEMU runs inside the lab's network namespace and
opens its taps there by name.

Virtual CPUs are pinned one by one before the first instruction runs. Everything else QEMU does (main loop, disk and
network threads) runs on the CPUs that are left, or beside the virtual CPUs where none are, which is then noted.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from vtax.counters.layer import Part
from vtax.errors import PlatformError, VtaxError
from vtax.guest.channel import Channel
from vtax.host import huge_pages, tsc
from vtax.host.cgroups import Cgroup, Limits
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.process import spawn
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import stdio, virtual_machine
from vtax.platforms.base import (
    GuestDisk,
    GuestSpec,
    NetworkLimits,
    Probe,
    Resources,
    Rung,
    register_platform,
)
from vtax.platforms.qemu import command
from vtax.platforms.qemu import probe as qemu_probe
from vtax.platforms.qemu import shares as qemu_shares
from vtax.platforms.qemu.command import LADDERS, VARIANTS, QemuOptions
from vtax.platforms.qemu.process import Monitor, crash, leave_no_core, open_macvtaps
from vtax.platforms.stdio import Claim, StdioGuest, claim, start_error
from vtax.platforms.virtual_machine import VirtualMachines

PARTS = (
    Part("vhost", ".*", r"vhost-[0-9]+"),
    Part("vcpu", "qemu-system.*", r"CPU [0-9]+/.*"),
    Part("io", "qemu-system.*", "IO .*"),
    Part("qemu", "qemu-system.*"),
    Part("virtiofsd", "virtiofsd"),
)
"""Threads by the names that QEMU gives them (-name debug-threads=on): the last is its main loop and its workers."""
_MONITOR_TIMEOUT_S = 20.0
_VHOST = Path("/dev/vhost-net")
_MIN_HUGE_SHARE = 0.9
_MAX_MTU = {"virtio-net": 65521, "e1000": 16110, "rtl8139": 4096}
"""The largest of Linux's tap, e1000 and 8139cp."""
_ENGINE_MTU = 1500  # of libslirp


@register_platform
class Qemu(VirtualMachines):
    name = "qemu"
    summary = "a virtual machine under QEMU: emulated, or with KVM; choice of machine, NIC model, disk, caching"
    Options = QemuOptions
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS
    tunings = ("default", "pinned", "hugepages")

    def ladders(self) -> Mapping[str, tuple[Rung, ...]]:
        return LADDERS

    def disk(self, options: QemuOptions) -> GuestDisk | None:
        if options.root != "disk" or options.data != "root":
            return None
        return GuestDisk(cached=options.cache not in ("none", "directsync"))

    def network_limits(self, options: QemuOptions) -> NetworkLimits:
        queues = 16 if _has_queues(options) else 1
        return NetworkLimits(mtu=_MAX_MTU[options.nic], engine_mtu=_ENGINE_MTU, queues=queues)

    def lacking(self, options: QemuOptions) -> tuple[str, str] | None:
        """Return what is missing. Raises ImageError for the host's kernel."""
        return qemu_probe.missing(options)

    def marks(self, options: QemuOptions) -> tuple[str, ...]:
        return qemu_probe.marks(options)

    def probe(self, options: QemuOptions, image: Image | None) -> Probe:
        return qemu_probe.probe(options, image, self.start)

    def start_machine(self, options: QemuOptions, spec: GuestSpec) -> StdioGuest:
        if options.huge_pages:
            spec = replace(spec, resources=replace(spec.resources, huge_pages=True))
        boot = boot_files(options, spec.image)
        disk = virtual_machine.overlay(spec) if options.root == "disk" else None
        with ExitStack() as fds:
            nics = _nics(options, spec, fds) if spec.plugboard else []
            return _start(options, spec, boot, disk, nics)


def boot_files(options: QemuOptions, image: Image) -> virtual_machine.Boot:
    """Return what to boot. Raises ImageError."""
    rate = tsc.frequency_khz() if options.accel == "tcg" else None
    return virtual_machine.Boot(
        *virtual_machine.boot_files(options.kernel, options.modules, image), rate
    )


def _has_queues(options: QemuOptions) -> bool:
    """Whether an interface may have several queues."""
    return options.nic == "virtio-net" and options.machine != "microvm"


def uses_vhost(options: QemuOptions) -> bool:
    """Whether the host's kernel serves the interfaces."""
    if options.vhost != "auto":
        return options.vhost == "on"
    is_possible = options.accel == "kvm" and options.nic == "virtio-net"
    return is_possible and os.access(_VHOST, os.R_OK | os.W_OK)


def _nics(options: QemuOptions, spec: GuestSpec, fds: ExitStack) -> list[command.Nic]:
    """Return the interfaces of the plugboard with their taps. A link may request more queues than the option does."""
    board = spec.plugboard
    assert board is not None
    nics = []
    if all(interface.engine for interface in board.interfaces):
        board.plug_engine()
        for interface in board.interfaces:
            nic = command.Nic(
                interface.mac,
                network=str(ip_interface(interface.addresses[0]).network),
                gateway=interface.engine,
                offloads=interface.offloads,
            )
            nics.append(nic)
        return nics
    queues = options.queues
    if _has_queues(options):
        queues = max(queues, *(interface.queues for interface in board.interfaces))
    taps = board.taps(queues)
    macvtaps = open_macvtaps(board.lab_namespace, taps, queues, spec.directory, fds)
    for interface, tap in zip(board.interfaces, taps, strict=True):
        own_fds = macvtaps.get(tap, ())
        nics.append(command.Nic(interface.mac, tap, own_fds, queues, interface.offloads))
    return nics


def _start(
    options: QemuOptions,
    spec: GuestSpec,
    boot: virtual_machine.Boot,
    disk: Path | None,
    nics: Sequence[command.Nic],
) -> StdioGuest:
    """Spawn QEMU stopped, pin its virtual CPUs, let it run. disk: of its files, unless a directory has them."""
    console, stderr = spec.directory / "console.log", spec.directory / "stderr.log"
    vhost = any(nic.tap for nic in nics) and uses_vhost(options)
    process = None
    helpers, are_shared = virtual_machine.helper_cpus(spec.resources)
    notes: list[str] = [Note("threads-share-host-cpus")] if are_shared else []
    notes += _network_notes(options, spec, nics, vhost)
    with ExitStack() as undo, ExitStack() as fds:
        try:
            guest_claim = claim(spec, undo)
            agent, agent_of_qemu = map(fds.enter_context, socket.socketpair())
            monitor, monitor_of_qemu = map(fds.enter_context, socket.socketpair())
            io = command.QemuIo(
                spec.name,
                console,
                agent_of_qemu.fileno(),
                monitor_of_qemu.fileno(),
                disk,
                qemu_shares.of_guest(options, spec),
                nics=nics,
                vhost=vhost,
            )
            notes += virtual_machine.limit_time(guest_claim.group, spec.resources)
            process = _spawn(options, spec, boot, io, guest_claim, helpers)
            agent_of_qemu.close()
            monitor_of_qemu.close()
            machine = _pin_and_run(monitor, spec.resources, guest_claim.group)
            executing_at = time.monotonic()
            notes += _memory_notes(process.pid, spec.resources)
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            output = describe(process, stderr, console) if process else _stderr_summary(stderr)
            raise start_error(spec, error, output) from error
        undo.pop_all()
        fd = agent.detach()
    channel = Channel(fd, fd, lambda: describe(process, stderr, console))
    channel.silence_hint = virtual_machine.NOT_BOOTED
    stdio.compile_agent(channel, spec.image)
    return StdioGuest(
        process,
        channel,
        guest_claim,
        stderr,
        tuple(notes),
        machine=machine,
        executing_at=executing_at,
        parts=PARTS,
        console=console,
    )


def _spawn(
    options: QemuOptions,
    spec: GuestSpec,
    boot: virtual_machine.Boot,
    io: command.QemuIo,
    guest_claim: Claim,
    helpers: Sequence[int],
) -> subprocess.Popen[bytes]:
    """Spawn QEMU, after what serves its files if that is another program. Raises CommandFailed, OSError."""
    inherited_fds = [io.agent_fd, io.monitor_fd]
    for nic in io.nics:
        inherited_fds += nic.fds
    with ExitStack() as fds:
        errors = fds.enter_context((spec.directory / "stderr.log").open("wb")).fileno()
        join = fds.enter_context(guest_claim.group.procs_file())
        shares = []
        for share in io.shares:
            if share.by != "virtiofs":
                shares.append(share)
                continue
            enter = _enter(join, helpers, [share])
            server = qemu_shares.serve(spec.directory, share, guest_claim, errors, enter)
            fd = fds.enter_context(server).fileno()
            inherited_fds.append(fd)
            shares.append(replace(share, fd=fd))
        argv = command.guest(options, spec.resources, boot, replace(io, shares=shares))
        if spec.plugboard is not None:
            argv = ["nsenter", f"--net=/run/netns/{spec.plugboard.lab_namespace}", "--", *argv]
        enter = _enter(join, helpers, [share for share in shares if share.by == "9p"])
        return spawn(
            argv, tag=guest_claim.tag, stderr=errors, pass_fds=inherited_fds, before_exec=enter
        )


def _network_notes(
    options: QemuOptions, spec: GuestSpec, nics: Sequence[command.Nic], vhost: bool
) -> Iterator[str]:
    if not nics or spec.plugboard is None:
        return
    if nics[0].network:
        yield Note("own-nat")
        return
    if options.accel == "kvm" and options.nic == "virtio-net" and not vhost:
        yield Note("vhost-off")
    requested = max(interface.queues for interface in spec.plugboard.interfaces)
    if nics[0].queues < requested:
        yield Note("interface-queues", queues=nics[0].queues, requested=requested)


def _enter(
    join: Sequence[int], cpus: Sequence[int], serves: Sequence[command.SharedDirectory]
) -> Callable[[], None]:
    """Between fork and exec: into the cgroup, onto the helpers' CPUs, which every thread then inherits.

    serves: the directories that the program serves to the guest.
    """
    mounts = [share.mount for share in serves if share.mount]
    into_cgroup = qemu_shares.entering(mounts, join) if serves else virtual_machine.joining(join)

    def enter() -> None:
        into_cgroup()
        os.sched_setaffinity(0, cpus)
        leave_no_core()

    return enter


def _pin_and_run(connection: socket.socket, resources: Resources, group: Cgroup) -> Limits:
    """Pin the virtual CPUs and let them run; what the machine has then, as read back."""
    monitor = Monitor(connection, _MONITOR_TIMEOUT_S * timeout_factor())
    threads = monitor.vcpu_threads()
    if len(threads) != resources.vcpus:
        raise PlatformError(Note("qemu-vcpus", found=len(threads), requested=resources.vcpus))
    limits = virtual_machine.pin(threads, resources, group)
    monitor.execute("cont")
    return limits


def _memory_notes(pid: int, resources: Resources) -> list[str]:
    """Return a note when the memory of a guest that is to be in huge pages is not: the host has too few."""
    if not resources.huge_pages:
        return []
    in_huge_pages = huge_pages.bytes_of_process(pid)
    if in_huge_pages >= _MIN_HUGE_SHARE * resources.memory_bytes:
        return []
    requested = resources.memory_bytes >> 20
    return [Note("huge-pages-part", found=in_huge_pages >> 20, requested=requested)]


def describe(process: subprocess.Popen[bytes], stderr: Path, console: Path) -> str:
    """Describe a machine: the console's errors, QEMU's stderr, whether it runs or how it ended."""
    try:
        status: int | None = process.wait(0.05)
    except subprocess.TimeoutExpired:
        status = None
    parts = []
    console_errors = virtual_machine.console_errors(console)
    if console_errors:
        parts.append(f"console: {console_errors}")
    reason = crash(status, _stderr(stderr))
    if reason:
        return "; ".join([*parts, reason])
    complaint = _stderr_summary(stderr)
    if complaint:
        parts.append(f"QEMU: {complaint}")
    parts.append("QEMU is still running" if status is None else Note("qemu-ended", status=status))
    return "; ".join(parts)


def _stderr_summary(stderr: Path) -> str:
    """Return the first two lines of QEMU's stderr: the register dump of a broken machine comes after them."""
    lines = _stderr(stderr).splitlines()[:2]
    return " | ".join(line.removeprefix(f"{command.PROGRAM}: ") for line in lines)


def _stderr(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""
