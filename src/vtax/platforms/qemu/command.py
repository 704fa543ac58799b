"""Options of a QEMU machine, which choices go together, the platforms that ship, and QEMU's command line.

Pure: nothing here touches the host. Reference: qemu(1). The machine has no default devices, no display and no USB. The
agent's byte stream is a virtio serial port with a name; the serial line goes to a file and says nothing unless
something is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vtax.host.architecture import HOST
from vtax.host.namespaces import MountStep
from vtax.platforms import virtual_machine
from vtax.platforms.base import Resources, Rung, Step, ladder
from vtax.platforms.options import Choice, CpuLimited
from vtax.platforms.virtual_machine import Boot
from vtax.study.declared import Example


class QemuOptions(CpuLimited):
    """Options of the driver `qemu`."""

    accel: Literal["tcg", "kvm"] = Field(
        "tcg", description="tcg emulates the CPU, kvm uses the host's"
    )
    machine: Literal["pc", "q35", "microvm", "virt"] = Field(
        HOST.qemu_machines[0],  # type: ignore[arg-type]
        description="machine type; virt: on arm64, the only one there",
    )
    nic: Literal["virtio-net", "e1000", "rtl8139"] = Field("virtio-net", description="NIC model")
    disk: Literal["virtio-blk", "ide", "sata"] = Field(
        "virtio-blk", description="model of the disk"
    )
    root: Literal["disk", "9p", "virtiofs"] = Field(
        "disk",
        description="where the guest's files are: on its disk, or in a directory of this host by 9p or virtiofs",
    )
    data: Literal["root", "9p", "virtiofs"] = Field(
        "root",
        description="where benchmarks write: beside the guest's files, or in a directory of this host of their own",
    )
    queues: int = Field(1, ge=1, le=16, description="queue pairs of each virtio-net interface")
    vhost: Literal["auto", "on", "off"] = Field(
        "auto",
        description="virtio-net served by the host's kernel; auto: with kvm, where the host can",
    )
    cache: Literal["none", "writeback", "writethrough", "unsafe"] = Field(
        "writeback",
        description="how the disk uses the host's page cache and when it flushes (qemu -drive cache=)",
    )
    aio: Literal["threads", "io_uring", "native"] = Field(
        "threads", description="engine of disk I/O; native needs cache none"
    )
    io_thread: bool = Field(
        False, description="a virtio-blk disk has a thread of its own, instead of QEMU's main loop"
    )
    huge_pages: bool = Field(
        False,
        description="the guest's memory is in huge pages, filled before it starts; as the tuning hugepages, but "
        "without huge pages of the guest's own kernel",
    )
    mitigations: Literal["auto", "off"] = Field(
        "auto", description="what the guest's kernel does about flaws of the CPU: mitigations=off"
    )
    cpu: Annotated[str, Example("host,-la57"), Example("EPYC-v4")] = Field(
        "auto",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._,+=-]*$",
        description="CPU model and flags as for qemu -cpu; auto: host with kvm, with tcg max less slow features",
    )
    kernel: Literal["image", "host"] = Field(
        "image", description="kernel of the guest: the image's or the host's"
    )

    @model_validator(mode="after")
    def _choices_go_together(self) -> Self:
        if self.machine not in HOST.qemu_machines:
            raise ValueError(f"a {HOST.machine} host has machines {', '.join(HOST.qemu_machines)}")
        if self.machine == "microvm" and (self.nic != "virtio-net" or self.disk != "virtio-blk"):
            raise ValueError(
                "machine microvm has virtio devices only: nic virtio-net, disk virtio-blk"
            )
        if self.machine == "microvm" and self.queues > 1:
            raise ValueError("machine microvm has interfaces of one queue only")
        if self.machine in ("q35", "virt") and self.disk == "ide":
            raise ValueError(f"machine {self.machine} has no IDE controller; use disk sata")
        if self.queues > 1 and self.nic != "virtio-net":
            raise ValueError(f"nic {self.nic} has one queue; several need virtio-net")
        if self.vhost == "on" and self.nic != "virtio-net":
            raise ValueError(f"vhost serves virtio-net, not {self.nic}")
        if self.io_thread and (self.disk != "virtio-blk" or self.root != "disk"):
            raise ValueError("io_thread needs disk virtio-blk")
        of_disk = ("disk", "cache", "aio")
        if self.root != "disk" and (
            disk_options := [name for name in of_disk if name in self.model_fields_set]
        ):
            raise ValueError(f"root {self.root} has no disk: leave out {', '.join(disk_options)}")
        if self.aio == "native" and self.cache != "none":
            raise ValueError("aio native needs cache none")
        return self

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        nic = {"e1000": "e1000", "8139cp": "rtl8139"}.get(value)
        is_nic = fact == "interface.eth0.driver" and nic is not None
        return ("nic", str(nic), "virtio-net") if is_nic else None

    @property
    def cpu_model(self) -> str:
        """The argument of -cpu."""
        return (
            {"tcg": HOST.emulated_cpu, "kvm": "host"}[self.accel]
            if self.cpu == "auto"
            else self.cpu
        )

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        bus = "virtio_mmio" if self.machine == "microvm" else "virtio_pci"
        disks = {
            "virtio-blk": ("virtio_blk",),
            "ide": ("ata_piix", "sd_mod"),
            "sata": ("ahci", "sd_mod"),
        }
        shares = {"9p": ("9pnet_virtio", "9p"), "virtiofs": ("virtiofs",)}
        modules = {"virtio-net": "virtio_net", "e1000": "e1000", "rtl8139": "8139cp"}
        files = (*shares.get(self.root, disks[self.disk]), *shares.get(self.data, ()))
        return (bus, "virtio_console", *dict.fromkeys(files), modules[self.nic])

    @property
    def shared_by(self) -> frozenset[str]:
        """Name what brings directories of this host to the guest: `9p`, `virtiofs`, both or none."""
        return frozenset({self.root, self.data} - {"disk", "root"})

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it, or what its init mounts instead."""
        if self.root != "disk":
            return self.root
        return "/dev/vda" if self.disk == "virtio-blk" else "/dev/sda"


_EMULATED = {"disk": HOST.old_disk}

_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "qemu-tcg": {},
    "qemu-tcg-virtio": {},
    "qemu-tcg-e1000": {"nic": "e1000", **_EMULATED},
    "qemu-tcg-rtl8139": {"nic": "rtl8139", **_EMULATED},
    "qemu-tcg-microvm": {"machine": "microvm"},
    "kvm-virtio": {"accel": "kvm"},
    "kvm-virtio-vhost": {"accel": "kvm", "vhost": "on"},
    "kvm-virtio-user": {"accel": "kvm", "vhost": "off"},
    "kvm-e1000": {"accel": "kvm", "nic": "e1000", **_EMULATED},
    "kvm-rtl8139": {"accel": "kvm", "nic": "rtl8139", **_EMULATED},
    "kvm-emulated": {"accel": "kvm", "nic": "e1000", **_EMULATED},
    "kvm-microvm": {"accel": "kvm", "machine": "microvm"},
}
VARIANTS = {
    name: options
    for name, options in _VARIANTS.items()
    if options.get("machine", "") in ("", *HOST.qemu_machines)
}
"""`kvm-emulated` is what the papers call KVM's default: an emulated NIC and an IDE disk. `kvm-virtio` has its
packets carried by the host's kernel where it can; `-vhost` insists on that, and `-user` has QEMU itself do it."""


def _ladder(accel: str, cpu: str) -> tuple[Rung, ...]:
    """Return what a machine gains with each choice, from emulated devices on.

    cpu: the model that shows the guest all that it can have.
    """
    ground = {
        "accel": accel,
        "nic": "e1000",
        "disk": HOST.old_disk,
        "cache": "writethrough",
        "vhost": "off",
        "cpu_limit": "none",
        "cpu": "qemu64",
    }
    choices: list[tuple[str, str, Mapping[str, Any]]] = [
        ("nic", "virtio NIC", {"nic": "virtio-net"}),
        ("disk", "virtio disk", {"disk": "virtio-blk"}),
        ("cache", "cache mode writeback", {"cache": "writeback"}),
    ]
    if accel == "kvm":
        choices.append(("vhost", "vhost", {"vhost": "on"}))
    choices += [
        ("io-thread", "thread for the disk", {"io_thread": True, "vhost": "auto"}),
        ("huge-pages", "memory in huge pages", {"huge_pages": True}),
        ("pinned", "pinned virtual CPUs", {"cpu_limit": "cpuset"}),
        ("cpu", f"CPU model {cpu}", {"cpu": "auto"}),
        ("tuned", "no guest mitigations", {"mitigations": "off"}),
    ]
    options = dict(ground)
    steps = [Step(f"{accel}-ground", "emulated NIC and disk", ground)]
    for name, mechanism, changes in choices:
        key, value = next(iter(changes.items()))
        setting, default = _assigned(key, value), _assigned(key, options.get(key, False))
        steps.append(Step(f"{accel}-{name}", mechanism, changes, default, setting))
        options |= changes
    return ladder("qemu", steps)


def _assigned(key: str, value: Any) -> str:
    """Return an option as study files have it."""
    return f"{key} = {json.dumps(value)}"


LADDERS: Mapping[str, tuple[Rung, ...]] = {}
if "pc" in HOST.qemu_machines:
    LADDERS = {"qemu-tcg": _ladder("tcg", "max"), "kvm-virtio": _ladder("kvm", "host")}
"""Ladders up to a tuned machine, by the platform that they are about.

Above the rung vhost it stays on where the host has it, so that a host without it has all other rungs.
"""


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
        further_words = [_BY_MP_TABLE] if options.machine == "pc" else []
        words = virtual_machine.emulation_words(tsc_khz, further_words)
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


def share(options: QemuOptions, directory: SharedDirectory) -> list[str]:
    """Return a directory of this host for the guest. Owners and modes are its own (passthrough)."""
    tag = directory.tag
    if directory.by == "virtiofs":
        device = f"{_on_bus(options, 'vhost-user-fs')},chardev={tag},tag={tag}"
        return ["-chardev", f"socket,id={tag},fd={directory.fd}", "-device", device]
    path = str(directory.path).replace(",", ",,")
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
