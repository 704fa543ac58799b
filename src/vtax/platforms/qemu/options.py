"""Options of a QEMU machine, which choices go together, and the platforms that ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vtax.host.architecture import HOST
from vtax.platforms.base import Rung, Step, ladder
from vtax.platforms.cpu_limits import CpuLimited
from vtax.platforms.options import Choice
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
            chosen := [name for name in of_disk if name in self.model_fields_set]
        ):
            raise ValueError(f"root {self.root} has no disk: leave out {', '.join(chosen)}")
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
    steps: list[Step] = [
        Step(f"{accel}-ground", "emulated NIC and disk", ground),
        Step(f"{accel}-nic", "virtio NIC", {"nic": "virtio-net"}),
        Step(f"{accel}-disk", "virtio disk", {"disk": "virtio-blk"}),
        Step(f"{accel}-cache", "cache mode writeback", {"cache": "writeback"}),
    ]
    if accel == "kvm":
        steps.append(Step("kvm-vhost", "vhost", {"vhost": "on"}))
    steps += [
        Step(f"{accel}-io-thread", "thread for the disk", {"io_thread": True, "vhost": "auto"}),
        Step(f"{accel}-huge-pages", "memory in huge pages", {"huge_pages": True}),
        Step(f"{accel}-pinned", "pinned virtual CPUs", {"cpu_limit": "cpuset"}),
        Step(f"{accel}-cpu", f"CPU model {cpu}", {"cpu": "auto"}),
        Step(f"{accel}-mitigations", "no guest mitigations", {"mitigations": "off"}),
    ]
    return ladder("qemu", steps)


LADDERS: Mapping[str, tuple[Rung, ...]] = {}
if "pc" in HOST.qemu_machines:
    LADDERS = {"qemu-tcg": _ladder("tcg", "max"), "kvm-virtio": _ladder("kvm", "host")}
"""Ladders up to a tuned machine, by the platform that they are about.

Above the rung vhost it stays on where the host has it, so that a host without it has all other rungs.
"""
