"""From options and what was made for a guest to a domain's configuration. Pure: nothing here touches the host.

Reference: xl.cfg(5). The agent's byte stream is a PV console of its own, a `channel`; the first console has the
kernel's messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtax.network.plugboard import Interface
from vtax.platforms import virtual_machine
from vtax.platforms.base import Resources
from vtax.platforms.xen.options import XenOptions

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


def domain(
    options: XenOptions, resources: Resources, boot: virtual_machine.Boot, made: XenIo
) -> str:
    """Return the text of a configuration file. The i-th virtual CPU is pinned to the i-th of the resources' CPUs."""
    every = [",".join(map(str, resources.cpus))] * resources.vcpus
    pinned = [str(cpu) for cpu in resources.cpus]
    values: dict[str, Value] = {
        "name": made.name,
        "type": options.type,
        "kernel": str(boot.kernel),
        "ramdisk": str(boot.initrd),
        "cmdline": kernel_command_line(options),
        "vcpus": resources.vcpus,
        "cpus": pinned if resources.pinned else every,
        "memory": resources.memory_bytes >> 20,
        "maxmem": resources.memory_bytes >> 20,
        "tsc_mode": made.tsc_mode,
        "disk": [_disk(options, made.disk)],
        "vif": [_vif(options, interface, made.vif_script) for interface in made.interfaces],
        "channel": [
            f"connection=socket,path={made.sockets / name},name={name}" for name in CHANNELS
        ],
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
    more = () if options.devices == "pv" else (_NO_PV_DEVICES,)
    return virtual_machine.kernel_command_line(
        _CONSOLE, options.modules, options.root_device, STREAM, more
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
