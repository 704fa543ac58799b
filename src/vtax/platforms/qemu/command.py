"""From options and what was made for a guest to QEMU's command line. Pure: nothing here touches the host.

Reference: qemu(1). The machine has no default devices, no display and no USB. The agent's byte stream is a virtio
serial port with a name; the serial line goes to a file and says nothing unless something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from vtax.host.architecture import HOST
from vtax.host.namespaces import MountStep
from vtax.platforms import virtual_machine
from vtax.platforms.base import Resources
from vtax.platforms.qemu.options import QemuOptions
from vtax.platforms.virtual_machine import Boot

PROGRAM = HOST.qemu
AGENT_PORT = "vtax.agent"
_BY_MP_TABLE = "acpi=noirq"
"""Interrupt lines of a `pc` are read from the firmware's table rather than computed anew for each NIC, by a program
of 128 steps that ACPI interprets. The lines, the timers and everything else of ACPI are the same."""
_NO_HOT_PLUG = ("-global", "PIIX4_PM.acpi-root-pci-hotplug=off")
"""ACPI of a `pc` describes no places to plug a device into a running guest: Linux would register 30 of them."""
_VIRTIO_OFFLOADS = (
    "csum",
    "gso",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
)


@dataclass(frozen=True)
class Nic:
    """A network interface and its back end.

    tap: its name in the network namespace QEMU runs in; none: not connected.
    fds: of a tap that is handed over open, one per queue.
    network, gateway: what QEMU's own NAT shows the guest, in place of a tap.
    """

    mac: str
    tap: str = ""
    fds: tuple[int, ...] = ()
    queues: int = 1
    offloads: bool = True
    network: str = ""
    gateway: str = ""


@dataclass(frozen=True)
class SharedDirectory:
    """A directory of this host that the guest mounts.

    tag: by which its init finds it.
    by: 9p or virtiofs.
    mount: what to mount before it is served.
    fd: connected to virtiofsd, once that serves it.
    """

    tag: str
    by: str
    path: Path
    mount: MountStep | None = None
    fd: int = -1


@dataclass(frozen=True)
class QemuIo:
    """Resources of one guest.

    agent_fd, monitor_fd: inherited connected sockets.
    disk: its root disk, where it has one.
    vhost: whether taps use it.
    """

    name: str
    console: Path
    agent_fd: int
    monitor_fd: int
    disk: Path | None
    shares: Sequence[SharedDirectory] = ()
    nics: Sequence[Nic] = ()
    vhost: bool = False


def machine(options: QemuOptions, vcpus: int, memory_bytes: int) -> list[str]:
    """Return the bare machine: what a probe shares with a guest."""
    is_microvm = options.machine == "microvm"
    is_emulated = options.accel == "tcg"
    kind = f"{options.machine},{'rtc=on' if is_microvm else HOST.qemu_flags}"
    if is_microvm and is_emulated:
        kind += ",pit=off,pic=off"
    argv = [
        PROGRAM,
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-accel", "tcg,thread=multi" if is_emulated else "kvm"),
        *("-machine", kind, "-cpu", options.cpu_model),
        *("-smp", str(vcpus), "-m", f"size={memory_bytes // 1024}k"),
    ]
    if options.machine == "pc" and is_emulated:
        argv += _NO_HOT_PLUG
    if is_microvm:
        argv += ["-global", "virtio-mmio.force-legacy=off"]
    return argv


def guest(options: QemuOptions, resources: Resources, boot: Boot, io: QemuIo) -> list[str]:
    """Return a whole guest, stopped before its first instruction (-S)."""
    argv = [
        *machine(options, resources.vcpus, resources.memory_bytes),
        *memory(options, resources),
        *("-S", "-name", f"{io.name},debug-threads=on"),
        *("-kernel", str(boot.kernel), "-initrd", str(boot.initrd)),
        *("-append", kernel_command_line(options, boot.tsc_khz)),
        *("-chardev", f"socket,id=monitor,fd={io.monitor_fd}"),
        *("-mon", "chardev=monitor,mode=control"),
        *("-serial", f"file:{io.console}"),
        *("-chardev", f"socket,id=agent,fd={io.agent_fd}"),
        *("-device", _on_bus(options, "virtio-serial")),
        *("-device", f"virtserialport,chardev=agent,nr=1,name={AGENT_PORT}"),
    ]
    if io.disk:
        argv += disk(options, io.disk)
    for directory in io.shares:
        argv += share(options, directory)
    return [*argv, *network(options, io.nics, io.vhost)]


def memory(options: QemuOptions, resources: Resources) -> list[str]:
    """Return the guest's memory as a backend, where it is not simply QEMU's own.

    With huge pages it is filled before the start: QEMU asks for them for all guest memory (madvise), and what matters
    is that it is there from the first trial on. virtiofsd shares it with QEMU.
    """
    is_shared = "virtiofs" in options.shared_by
    if not (resources.huge_pages or is_shared):
        return []
    kind = "memfd,share=on" if is_shared else "ram"
    backend = f"memory-backend-{kind},id=memory,size={resources.memory_bytes // 1024}k"
    if resources.huge_pages:
        backend += ",prealloc=on"
    return ["-object", backend, "-machine", "memory-backend=memory"]


def kernel_command_line(options: QemuOptions, tsc_khz: int | None) -> str:
    """Return the command line of the guest's kernel. tsc_khz: see virtual_machine.emulation_words."""
    words: list[str] = []
    if options.accel == "tcg" and options.machine != "virt":
        more = [_BY_MP_TABLE] if options.machine == "pc" else []
        words = virtual_machine.emulation_words(tsc_khz, more)
    if options.data != "root":
        words.append(f"vtax.data={options.data}")
    if options.mitigations == "off":
        words.append("mitigations=off")
    return virtual_machine.kernel_command_line(
        HOST.console, options.modules, options.root_device, AGENT_PORT, words
    )


def disk(options: QemuOptions, overlay: Path) -> list[str]:
    """Return the root disk: a qcow2 overlay with the chosen cache mode and I/O engine."""
    name = str(overlay).replace(",", ",,")
    drive = f"if=none,id=root,file={name},format=qcow2,cache={options.cache},aio={options.aio}"
    argv = ["-drive", drive]
    if options.disk == "virtio-blk":
        device = f"{_on_bus(options, 'virtio-blk')},drive=root"
        if options.io_thread:
            argv += ["-object", "iothread,id=disk"]
            device += ",iothread=disk"
        return [*argv, "-device", device]
    if options.disk == "sata" and options.machine != "q35":
        return [*argv, "-device", "ahci,id=sata", "-device", "ide-hd,drive=root,bus=sata.0"]
    return [*argv, "-device", "ide-hd,drive=root,bus=ide.0"]


def share(options: QemuOptions, shared: SharedDirectory) -> list[str]:
    """Return a directory of this host for the guest. Owners and modes are its own (passthrough)."""
    tag = shared.tag
    if shared.by == "virtiofs":
        device = f"{_on_bus(options, 'vhost-user-fs')},chardev={tag},tag={tag}"
        return ["-chardev", f"socket,id={tag},fd={shared.fd}", "-device", device]
    path = str(shared.path).replace(",", ",,")
    back = f"local,id={tag},path={path},security_model=passthrough,multidevs=remap"
    device = f"{_on_bus(options, 'virtio-9p')},fsdev={tag},mount_tag={tag}"
    return ["-fsdev", back, "-device", device]


def network(options: QemuOptions, nics: Sequence[Nic], vhost: bool) -> list[str]:
    """Return the network interfaces in order, each with its back end."""
    argv: list[str] = []
    for number, nic in enumerate(nics):
        name = f"net{number}"
        device = _nic_device(options, nic)
        if nic.tap:
            argv += ["-netdev", _tap(options, name, nic, vhost)]
        elif nic.network:
            argv += ["-netdev", _user(name, nic)]
        if nic.tap or nic.network:
            device += f",netdev={name}"
        argv += ["-device", device]
    return argv


def _tap(options: QemuOptions, name: str, nic: Nic, vhost: bool) -> str:
    words = [f"tap,id={name}"]
    if nic.fds:
        words.append(f"fds={':'.join(map(str, nic.fds))}")
    else:
        words += [f"ifname={nic.tap}", "script=no", "downscript=no"]
        if nic.queues > 1:
            words.append(f"queues={nic.queues}")
    if options.nic == "virtio-net":
        words.append(f"vhost={'on' if vhost else 'off'}")
    return ",".join(words)


def _user(name: str, nic: Nic) -> str:
    """Return QEMU's own NAT in user space, IPv4 alone."""
    dns = ip_network(nic.network)[3]  # an address of its own that nothing asks
    return f"user,id={name},net={nic.network},host={nic.gateway},dns={dns},ipv6=off"


def _nic_device(options: QemuOptions, nic: Nic) -> str:
    no_rom = "" if options.machine == "microvm" else ",romfile="
    if options.nic != "virtio-net":
        return f"{options.nic},mac={nic.mac}{no_rom}"
    words = [_on_bus(options, "virtio-net") + no_rom, f"mac={nic.mac}"]
    if nic.queues > 1:
        words += ["mq=on", f"vectors={2 * nic.queues + 2}"]
    if not nic.offloads:
        words += [f"{name}=off" for name in _VIRTIO_OFFLOADS]
    return ",".join(words)


def _on_bus(options: QemuOptions, device: str) -> str:
    return f"{device}-{'device' if options.machine == 'microvm' else 'pci'}"
