"""Options of a Xen domain, which choices go together, the platforms that ship, and a domain's configuration.

Pure: nothing here touches the host. Reference: xl.cfg(5). The agent's byte stream is a PV console of its own, a
`channel`; the first console has the kernel's messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vtax.network.plugboard import Interface
from vtax.platforms import virtual_machine
from vtax.platforms.base import Resources
from vtax.platforms.options import DriverOptions
from vtax.study.declared import Example


class XenOptions(DriverOptions):
    """Options of the driver `xen`."""

    type: Literal["pv", "pvh", "hvm"] = Field(
        "pvh", description="type of the domain (xl.cfg: type)"
    )
    devices: Literal["pv", "emulated"] = Field(
        "pv",
        description="paravirtual disk and interfaces, or the emulated ones of a domain of type hvm",
    )
    nic: Literal["e1000", "rtl8139"] = Field(
        "e1000", description="NIC model of emulated interfaces"
    )
    tsc_mode: Literal["auto", "default", "always_emulate", "native", "native_paravirt"] = Field(
        "auto",
        description="time stamp counter (xl.cfg: tsc_mode); auto: default, native on emulated CPUs",
    )
    cpupool: Annotated[str, Example("Pool-node0")] = Field(
        "",
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="CPU pool of the domain (xl.cfg: pool), on whose CPUs it runs; empty: Xen's default pool, on the "
        "study's CPUs",
    )
    kernel: Literal["image", "host"] = Field(
        "image", description="kernel of the guest: the image's or the host's"
    )

    @model_validator(mode="after")
    def _choices_go_together(self) -> Self:
        if self.devices == "emulated" and self.type != "hvm":
            raise ValueError(
                f"type {self.type} has no emulated devices; use type hvm, or devices pv"
            )
        if self.type == "hvm" and self.kernel == "host":
            raise ValueError("type hvm boots the image's kernel; kernel host needs type pv or pvh")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        if self.devices == "pv":
            return ("xen_blkfront", "xen_netfront")
        return ("ahci", "sd_mod", {"e1000": "e1000", "rtl8139": "8139cp"}[self.nic])

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it."""
        return "/dev/xvda" if self.devices == "pv" else "/dev/sda"


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "xen-pv": {"type": "pv"},
    "xen-pvh": {},
    "xen-hvm": {"type": "hvm", "devices": "emulated"},
    "xen-hvm-pv": {"type": "hvm"},
}
"""`xen-hvm` is a domain with emulated devices alone, as the papers measured it; `xen-hvm-pv` has PV drivers."""


Value = str | int | Sequence[str]
STREAM = "/dev/hvc1"
CHANNELS = ("vtax-0", "vtax-1")
"""Names of two channels, of which the one that becomes console 1 is used: libxl 4.17 takes the first for console 0,
which is the kernel's, and leaves it out; later ones make it console 1."""
_CONSOLE = "hvc0"
_NO_PV_DEVICES = "xen_emul_unplug=never"
"""The kernel's word that leaves the emulated disk and NICs in place and their PV drivers off (xen/platform_pci)."""


@dataclass(frozen=True)
class XenIo:
    """Resources of one guest. sockets: directory of the sockets that the device model makes, one per channel.
    vif_script: what xl calls for each interface. tsc_mode: never `auto`."""

    name: str
    disk: Path
    sockets: Path
    vif_script: Path
    tsc_mode: str
    interfaces: Sequence[Interface] = ()


def domain(options: XenOptions, resources: Resources, boot: virtual_machine.Boot, io: XenIo) -> str:
    """Return the text of a configuration file. The i-th virtual CPU is pinned to the i-th of the resources' CPUs."""
    all_cpus = [",".join(map(str, resources.cpus))] * resources.vcpus
    own_cpus = [str(cpu) for cpu in resources.cpus]
    values: dict[str, Value] = {
        "name": io.name,
        "type": options.type,
        "kernel": str(boot.kernel),
        "ramdisk": str(boot.initrd),
        "cmdline": kernel_command_line(options),
        "vcpus": resources.vcpus,
        "cpus": own_cpus if resources.pinned else all_cpus,
        "memory": resources.memory_bytes >> 20,
        "maxmem": resources.memory_bytes >> 20,
        "tsc_mode": io.tsc_mode,
        "disk": [_disk(options, io.disk)],
        "vif": [_vif(options, interface, io.vif_script) for interface in io.interfaces],
        "channel": [f"connection=socket,path={io.sockets / name},name={name}" for name in CHANNELS],
        "on_poweroff": "destroy",
        "on_reboot": "destroy",
        "on_crash": "destroy",
    }
    if options.cpupool:
        values["pool"] = options.cpupool
    if options.type == "hvm":
        values |= {"vga": "none", "nographic": 1, "vnc": 0, "usb": 0, "hdtype": "ahci"}
    return text(values)


def kernel_command_line(options: XenOptions) -> str:
    """As every machine's; on its first console, with the emulated devices left to it where they are wanted."""
    further_words = () if options.devices == "pv" else (_NO_PV_DEVICES,)
    return virtual_machine.kernel_command_line(
        _CONSOLE, options.modules, options.root_device, STREAM, further_words
    )


def text(values: Mapping[str, Value]) -> str:
    """Return settings in the syntax of xl.cfg(5). Raises ValueError for text that it cannot quote."""
    lines = []
    for key, value in values.items():
        if isinstance(value, int):
            lines.append(f"{key} = {value}")
        elif isinstance(value, str):
            lines.append(f"{key} = {_quoted(value)}")
        else:
            lines.append(f"{key} = [{', '.join(map(_quoted, value))}]")
    return "\n".join(lines) + "\n"


def _disk(options: XenOptions, overlay: Path) -> str:
    device = options.root_device.removeprefix("/dev/").replace("sda", "hda")
    return f"format=qcow2, vdev={device}, access=rw, target={overlay}"


def _vif(options: XenOptions, interface: Interface, script: Path) -> str:
    kind = f"type=ioemu, model={options.nic}" if options.devices == "emulated" else "type=vif"
    return f"mac={interface.mac}, {kind}, script={script}"


def _quoted(value: str) -> str:
    if "'" in value or "\n" in value:
        raise ValueError(f"a domain's configuration cannot have {value!r}")
    return f"'{value}'"
