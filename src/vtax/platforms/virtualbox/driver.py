"""VirtualBox: a machine without a display, made by VBoxManage and run by VBoxHeadless.

The machine boots the image's kernel from a CD, and its disk is a VDI over the image's (see machine.py). Each
guest has a service (VBoxSVC), settings and media of its own, in its directory. So the user's machines are neither
visible nor changed, and what remains of a killed run are processes, which are in the guest's cgroup, and files.

VirtualBox bridges interfaces of the host's first network namespace. For each of the guest's there is a veth pair: one
end is bridged, the other joins the lab. Host-only interfaces are not used.

Written for hardware, and never run on it: docs/platforms.md states how far a machine came on an emulated processor.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from vtax.counters.layer import Part
from vtax.errors import PlatformError, VtaxError
from vtax.guest.channel import Channel
from vtax.host import tsc
from vtax.host.cgroups import Cgroup, Limits
from vtax.host.emulated_cpu import is_emulated, is_virtual, timeout_factor
from vtax.host.process import run
from vtax.host.resources import Tree
from vtax.host.waiting import wait_until
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import stdio, virtual_machine
from vtax.platforms.base import (
    GuestDisk,
    GuestSpec,
    NetworkLimits,
    Resources,
    register_platform,
)
from vtax.platforms.stdio import Claim, StdioGuest, claim, start_error
from vtax.platforms.virtual_machine import Hypervisor
from vtax.platforms.virtualbox import machine, tools
from vtax.platforms.virtualbox.machine import VARIANTS, VirtualBoxOptions

NEVER_ON_HARDWARE = "never run on hardware"
PARTS = (
    Part("vcpu", "VBoxHeadless", r"EMT(-[0-9]+)?"),
    Part("io", "VBoxHeadless"),
    Part("service", "VBoxSVC|VBoxXPCOMIPCD"),
)
"""Threads by the names that VirtualBox gives them. What vboxnetflt does in the host's kernel is in none."""
_CALL_S = 20.0
_START_S = 20.0
_PID_S = 2.0
_MAX_MTU = 16110


@register_platform
class VirtualBox(Hypervisor):
    name = "virtualbox"
    summary = f"a machine of VirtualBox ({NEVER_ON_HARDWARE})"
    Options = VirtualBoxOptions
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS
    writes_below_directory = False

    def disk(self, options: VirtualBoxOptions) -> GuestDisk:
        """Return the disk: VirtualBox bypasses the host's cache but on IDE (VBoxManage storagectl, --hostiocache)."""
        return GuestDisk(cached=options.disk == "ide")

    def network_limits(self, options: VirtualBoxOptions) -> NetworkLimits:
        """Return the limits: a change of offloads would undo what _join_interfaces turns off."""
        mtu = 1500 if options.nic == "Am79C973" else _MAX_MTU
        return NetworkLimits(
            interfaces=options.max_interfaces,
            mtu=mtu,
            engine_mtu=1500,
            queues=1,
            not_attached=("macvtap",),
            links_change=False,
        )

    def check_host(self, options: VirtualBoxOptions) -> tuple[str, tuple[str, ...]]:
        tools.check_host()
        return tools.version(), ("nested",) if is_virtual() else ()

    def start_machine(self, options: VirtualBoxOptions, spec: GuestSpec) -> StdioGuest:
        tools.check_host()
        if spec.plugboard is not None and not _is_translated(spec):
            tools.check_network()
        return _start(options, spec)


@dataclass(frozen=True)
class _Calls:
    """Programs of VirtualBox for one guest, all of which use a service of its own."""

    io: machine.VirtualBoxIo
    programs: virtual_machine.Programs

    def serve(self) -> None:
        """Start the service, which stays: one that VBoxManage starts ends when it is unused, between two calls.

        VBoxSVC returns when its daemon is ready, with any status (126 in 7.2.22). Raises PlatformError.
        """
        pid_file = self.io.service
        argv = [str(tools.service_program()), "--daemonize", "--pidfile", str(pid_file)]
        status = self.programs.spawn(argv).wait(_START_S * timeout_factor())
        failed = PlatformError(Note("vboxsvc-not-started", status=status))
        wait_until(pid_file.exists, _PID_S * timeout_factor(), 0.05, otherwise=lambda: failed)

    def manage(self, *arguments: str) -> None:
        """Call VBoxManage. Raises CommandFailed or PlatformError."""
        argv = ["VBoxManage", "-q", *arguments]
        self.programs.call(argv, f"VBoxManage {arguments[0]}", _CALL_S * timeout_factor())


def _start(options: VirtualBoxOptions, spec: GuestSpec) -> StdioGuest:
    """Make the machine paused, pin its virtual CPUs, connect the stream, let it run."""
    stderr = spec.directory / "stderr.log"
    io = machine.VirtualBoxIo(spec.name, spec.directory)
    with ExitStack() as undo:
        try:
            guest_claim = _claim(spec, undo)
            if spec.plugboard is not None:
                bridge_interfaces = (
                    () if _is_translated(spec) else _join_interfaces(spec, guest_claim, undo)
                )
                io = replace(
                    io, interfaces=tuple(spec.plugboard.interfaces), bridged=bridge_interfaces
                )
            _write_files(options, spec, io)
            with guest_claim.group.procs_file() as join:
                environment = machine.environment(io)
                programs = virtual_machine.Programs(guest_claim.tag, join, stderr, environment)
                calls = _Calls(io, programs)
                calls.serve()
                for arguments in machine.commands(options, spec.resources, io):
                    calls.manage(*arguments)
                headless = ["VBoxHeadless", "--startvm", spec.name, "--vrde", "off"]
                process = programs.spawn([*_where(spec), *headless, "--start-paused"])
                channel = Channel.to_unix_socket(
                    io.stream,
                    timeout_s=_START_S * timeout_factor(),
                    diagnose=partial(describe, process, io, stderr),
                )
                channel.silence_hint = virtual_machine.NOT_BOOTED
                undo.callback(channel.close)
                limits = _pin(process, spec.resources, guest_claim.group)
                calls.manage("controlvm", spec.name, "resume")
            executing_at = time.monotonic()
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            hint = tools.hint("".join(map(stdio.text_of, (stderr, io.log))))
            raise start_error(spec, error, describe(None, io, stderr), hint) from error
        undo.pop_all()
    stdio.compile_agent(channel, spec.image)
    notes = (Note("never-on-hardware", what=NEVER_ON_HARDWARE),)
    return StdioGuest(
        process,
        channel,
        guest_claim,
        stderr,
        notes,
        machine=limits,
        executing_at=executing_at,
        parts=PARTS,
        console=io.console,
    )


def _claim(spec: GuestSpec, undo: ExitStack) -> Claim:
    """Return the cgroup and tag of every guest; the directory of its service, released last.

    Raises PlatformError when something else uses that.
    """
    directory = machine.service_directory(spec.name)
    if directory.exists():
        raise PlatformError(
            Note("directory-exists", directory=directory), hint=Note("hint-rm", directory=directory)
        )
    registered = spec.journal.register(Tree(str(directory)))
    undo.callback(registered.release)
    guest_claim = claim(spec, undo)
    guest_claim.after.append(registered)
    return guest_claim


def _is_translated(spec: GuestSpec) -> bool:
    """Whether VirtualBox's own NAT joins its interfaces."""
    interfaces = spec.plugboard.interfaces if spec.plugboard else ()
    return spec.plugboard is not None and all(interface.engine for interface in interfaces)


def _where(spec: GuestSpec) -> Sequence[str]:
    """Return the command before the machine's own: its NAT opens connections where it runs."""
    if spec.plugboard is None or not _is_translated(spec):
        return ()
    spec.plugboard.plug_engine()
    return ("nsenter", f"--net=/run/netns/{spec.plugboard.lab_namespace}", "--")


def _join_interfaces(spec: GuestSpec, guest_claim: Claim, undo: ExitStack) -> tuple[str, ...]:
    """Make a veth pair per interface, one end in the lab, and return the names of the ends that stay here.

    VirtualBox passes on what arrives there as it is. So checksums are computed before, at the end in the lab: a veth
    pair would leave them to the receiver, and the guest's kernel drops every TCP segment.
    """
    assert spec.plugboard is not None
    own_ends, lab_ends = [], []
    for number, interface in enumerate(spec.plugboard.interfaces):
        own_end, lab_end = f"{spec.name}b{number}", f"{spec.name}l{number}"
        registered = spec.journal.register(tools.link(own_end))
        guest_claim.before.append(registered)
        undo.callback(registered.release)
        mtu = ["mtu", str(interface.mtu)]
        run(["ip", "link", "add", own_end, *mtu, "type", "veth", "peer", "name", lab_end, *mtu])
        run(["ip", "link", "set", "dev", own_end, "addrgenmode", "none", "up"])
        own_ends.append(own_end)
        lab_ends.append(lab_end)
    for port in spec.plugboard.plug_devices(lab_ends):
        run(["ethtool", "-K", port, "tx", "off"], network_namespace=spec.plugboard.lab_namespace)
    return tuple(own_ends)


def _write_files(options: VirtualBoxOptions, spec: GuestSpec, io: machine.VirtualBoxIo) -> None:
    """Write the description of the image's disk, and the CD."""
    image = spec.image
    io.settings.mkdir()
    io.base.write_text(machine.base_disk(image.disk, image.disk.stat().st_size))
    emulated = is_emulated()
    tsc_khz = tsc.frequency_khz() if emulated else None
    words = machine.kernel_command_line(options, emulated=emulated, tsc_khz=tsc_khz)
    io.loader_configuration.write_text(machine.loader_configuration(words))
    _, initrd = virtual_machine.boot_files(options.kernel, options.modules, image)
    run(machine.boot_medium(virtual_machine.Boot(_packed_kernel(options, image), initrd), io))


def _packed_kernel(options: VirtualBoxOptions, image: Image) -> Path:
    """Return the kernel as a boot loader reads it. Raises ImageError."""
    return image.kernel if options.kernel == "image" else host_kernel.find()[0]


def _pin(process: subprocess.Popen[bytes], resources: Resources, group: Cgroup) -> Limits:
    """Pin the virtual CPUs, one each, and return what the machine has then, as read back. Raises PlatformError."""

    def all_threads() -> list[int]:
        threads = virtual_machine.vcpu_threads(process.pid, tools.VCPU)
        return threads if len(threads) == resources.vcpus else []

    failed = PlatformError(Note("vbox-no-vcpus", vcpus=resources.vcpus))
    threads = wait_until(all_threads, _START_S * timeout_factor(), 0.05, otherwise=lambda: failed)
    return virtual_machine.pin(threads, resources, group)


def describe(
    process: subprocess.Popen[bytes] | None, io: machine.VirtualBoxIo, stderr: Path
) -> str:
    """Describe a machine: its console's last lines, a panic first, what VirtualBox says, whether it runs."""
    parts = []
    console_errors = virtual_machine.console_errors(io.console)
    if console_errors:
        parts.append(f"console: {console_errors}")
    complaints = tools.errors(stdio.text_of(stderr)) or tools.errors(stdio.text_of(io.log))
    parts.append(complaints or stdio.last_lines(stderr, 2))
    if process is not None:
        status = process.poll()
        state = "is still running" if status is None else f"ended with status {status}"
        parts.append(f"VBoxHeadless {state}")
    return "; ".join(filter(None, parts))
