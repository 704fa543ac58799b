"""Options of a VirtualBox machine, the platforms that ship, and calls of VBoxManage(1) and a boot loader.

Pure: nothing here runs. VirtualBox loads no kernel by itself, so the machine boots from a CD that holds the kernel and
the initrd (ISOLINUX). Its disk is a differencing VDI over a VMDK that is only a description: its data are the image's
raw disk, read only. The first serial line writes the kernel's messages to a file; the second carries the agent's
stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.network.plugboard import Interface
from vtax.platforms import virtual_machine
from vtax.platforms.base import Resources
from vtax.platforms.options import DriverOptions

_DISK_MODULES = {"sata": ("ahci", "sd_mod"), "ide": ("ata_piix", "sd_mod")}
_NIC_MODULES = {
    "82540EM": ("e1000",),
    "virtio": ("virtio_pci", "virtio_net"),
    "Am79C973": ("pcnet32",),
}


class VirtualBoxOptions(DriverOptions):
    """Options of the driver `virtualbox`; values as VBoxManage calls them."""

    nic: Literal["82540EM", "virtio", "Am79C973"] = Field(
        "82540EM",
        description="NIC model (modifyvm --nic-type): Intel PRO/1000, virtio-net, PCnet-FAST III",
    )
    disk: Literal["sata", "ide"] = Field(
        "sata", description="controller of the disk: AHCI, or PIIX4"
    )
    chipset: Literal["piix3", "ich9"] = Field("piix3", description="chipset (modifyvm --chipset)")
    paravirt_provider: Literal["default", "none", "legacy", "minimal", "hyperv", "kvm"] = Field(
        "default",
        description="interface for paravirtualized clocks and hypercalls (modifyvm --paravirt-provider)",
    )
    nested_paging: bool = Field(
        True, description="second-level address translation by the processor (EPT, NPT)"
    )
    large_pages: bool = Field(
        True, description="guest memory in pages of 2 MiB; needs nested_paging"
    )
    kernel: Literal["image", "host"] = Field(
        "image", description="kernel of the guest: the image's or the host's"
    )

    @model_validator(mode="after")
    def _choices_go_together(self) -> Self:
        if self.nic == "Am79C973" and self.kernel == "image":
            raise ValueError("the image's initrd has no driver of nic Am79C973; use kernel host")
        if self.large_pages and not self.nested_paging:
            raise ValueError("large_pages needs nested_paging; turn both off")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        return (*_DISK_MODULES[self.disk], *_NIC_MODULES[self.nic])

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it."""
        return "/dev/sda"

    @property
    def max_interfaces(self) -> int:
        """How many interfaces a machine of the chipset has at most."""
        return {"piix3": 8, "ich9": 36}[self.chipset]


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "virtualbox": {},
    "virtualbox-virtio": {"nic": "virtio"},
    "virtualbox-pcnet": {"nic": "Am79C973", "kernel": "host"},
}


STREAM = "/dev/ttyS1"
_SPEED = 115200
"""Bits a second of both lines, the most that a UART of VirtualBox has: it takes the time that the speed says."""
_ON_EMULATED_CPU = ("edd=off", "mitigations=off", "nokaslr")
"""Without calls of the firmware for its disks, barriers against speculation, and relocation."""
_SECTOR_BYTES = 512
_LOADER = {
    "isolinux/isolinux.bin": Path("/usr/lib/ISOLINUX/isolinux.bin"),
    "isolinux/ldlinux.c32": Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"),
}
LOADER_FILES = tuple(_LOADER.values())


@dataclass(frozen=True)
class VirtualBoxIo:
    """Resources of one guest.

    directory: its own, where all its files are.
    bridged: for each interface, the one of the host that it is bridged to; none behind VirtualBox's own NAT.
    """

    name: str
    directory: Path
    interfaces: Sequence[Interface] = ()
    bridged: Sequence[str] = ()

    @property
    def settings(self) -> Path:
        """VirtualBox's own directory for it: settings, media registry, logs of its service."""
        return self.directory / "virtualbox"

    @property
    def log(self) -> Path:
        """VirtualBox's log of the machine."""
        return self.settings / self.name / "Logs" / "VBox.log"

    @property
    def base(self) -> Path:
        """The description of the image's disk."""
        return self.directory / "image.vmdk"

    @property
    def disk(self) -> Path:
        """The disk that the guest writes."""
        return self.directory / "disk.vdi"

    @property
    def boot_medium(self) -> Path:
        """The CD with kernel and initrd."""
        return self.directory / "boot.iso"

    @property
    def loader_configuration(self) -> Path:
        """The configuration of the CD's boot loader."""
        return self.directory / "isolinux.cfg"

    @property
    def service(self) -> Path:
        """The PID of its service, written when that is ready."""
        return self.directory / "service.pid"

    @property
    def stream(self) -> Path:
        """The socket of the second serial line."""
        return self.directory / "agent"

    @property
    def console(self) -> Path:
        """The file of the first serial line."""
        return self.directory / "console.log"


def environment(io: VirtualBoxIo) -> Mapping[str, str]:
    """Return what makes every program of VirtualBox use a service and settings of the guest's own."""
    return {"VBOX_USER_HOME": str(io.settings), "VBOX_IPC_SOCKETID": io.name}


def service_directory(name: str) -> Path:
    """Return where the programs of VirtualBox with this VBOX_IPC_SOCKETID meet."""
    return Path(f"/tmp/.vbox-{name}-ipc")


def commands(options: VirtualBoxOptions, resources: Resources, io: VirtualBoxIo) -> list[list[str]]:
    """Return the arguments of VBoxManage, call by call, that make the machine."""
    name = io.name
    create = ["createvm", "--name", name, "--basefolder", str(io.settings)]
    disk = ["createmedium", "disk", "--filename", str(io.disk), "--format", "VDI"]
    hardware = [*_hardware(options, resources), *_serial_lines(io), *_network(options, io)]
    ide = ["storagectl", name, "--name", "ide", "--add", "ide", "--controller", "PIIX4"]
    calls = [
        [*create, "--ostype", "Linux_64", "--register"],
        ["modifyvm", name, *hardware],
        [*disk, "--diffparent", str(io.base)],
        [*ide, "--bootable", "on"],
        _attach(name, "ide", 1, "dvddrive", io.boot_medium),
    ]
    if options.disk == "sata":
        kind = ["--add", "sata", "--controller", "IntelAhci", "--portcount", "1"]
        calls.append(["storagectl", name, "--name", "sata", *kind])
    calls.append(_attach(name, options.disk, 0, "hdd", io.disk))
    calls.append(["setextradata", name, "VBoxInternal/PowerOffInsteadOfReset", "1"])
    return calls


def kernel_command_line(
    options: VirtualBoxOptions, *, emulated: bool = False, tsc_khz: int | None = None
) -> str:
    """Return the command line of the guest's kernel, with its first serial line as console.

    The stream's line is a console too, since that sets its speed; `loglevel=1` leaves nothing to write but a panic.

    options: of the machine.
    emulated: whether the host's CPU is; then the kernel skips what such a CPU is slow at, too.
    tsc_khz: see virtual_machine.emulation_words.
    """
    consoles = f"ttyS1,{_SPEED} console=ttyS0,{_SPEED}"
    words = ["loglevel=1"]
    if emulated:
        words += virtual_machine.emulation_words(tsc_khz, _ON_EMULATED_CPU)
    return virtual_machine.kernel_command_line(
        consoles, options.modules, options.root_device, STREAM, words
    )


def loader_configuration(command_line: str) -> str:
    """Make the configuration of ISOLINUX: it boots at once."""
    lines = (
        "DEFAULT linux",
        "PROMPT 0",
        "TIMEOUT 0",
        "LABEL linux",
        "  KERNEL /kernel",
        "  INITRD /initrd",
    )
    return "\n".join((*lines, f"  APPEND {command_line}", ""))


def boot_medium(boot: virtual_machine.Boot, io: VirtualBoxIo) -> list[str | Path]:
    """Return the command that writes the CD. References: xorriso(1), and ISOLINUX's documentation."""
    files = {
        **_LOADER,
        "isolinux/isolinux.cfg": io.loader_configuration,
        "kernel": boot.kernel,
        "initrd": boot.initrd,
    }
    return [
        *("xorriso", "-as", "mkisofs", "-quiet", "-o", io.boot_medium),
        *("-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat"),
        *("-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "-graft-points"),
        *(f"{name}={path}" for name, path in files.items()),
    ]


def base_disk(raw: Path, size_bytes: int) -> str:
    """Return a VMDK descriptor of a raw disk (VMware Virtual Disk Format 1.1, monolithicFlat).

    Raises ValueError for a path that it cannot have.
    """
    if '"' in str(raw) or "\n" in str(raw):
        raise ValueError(f"a VMDK descriptor cannot name {str(raw)!r}")
    return (
        "# Disk DescriptorFile\nversion=1\nCID=76746178\nparentCID=ffffffff\n"
        'createType="monolithicFlat"\n\n'
        f'RW {size_bytes // _SECTOR_BYTES} FLAT "{raw}" 0\n\n'
        'ddb.virtualHWVersion = "4"\nddb.adapterType = "ide"\n'
    )


def _hardware(options: VirtualBoxOptions, resources: Resources) -> list[str]:
    return [
        *("--memory", str(resources.memory_bytes >> 20), "--cpus", str(resources.vcpus)),
        *("--chipset", options.chipset, "--firmware", "bios", "--ioapic", "on"),
        *("--nested-paging", _switch(options.nested_paging)),
        *("--large-pages", _switch(options.large_pages)),
        *("--paravirt-provider", options.paravirt_provider, "--rtc-use-utc", "on"),
        *("--graphicscontroller", "vboxvga", "--vram", "8"),
        *("--audio-enabled", "off", "--usb-ohci", "off"),
        *("--bios-boot-menu", "disabled"),
        *("--bios-logo-fade-in", "off", "--bios-logo-fade-out", "off"),
        *("--boot1", "dvd", "--boot2", "none", "--boot3", "none", "--boot4", "none"),
    ]


def _serial_lines(io: VirtualBoxIo) -> list[str]:
    return [
        *("--uart1", "0x3F8", "4", "--uart-mode1", "file", str(io.console)),
        *("--uart2", "0x2F8", "3", "--uart-mode2", "server", str(io.stream)),
    ]


def _network(options: VirtualBoxOptions, io: VirtualBoxIo) -> list[str]:
    if not io.interfaces:
        return ["--nic1", "none"]
    words: list[str] = []
    for number, interface in enumerate(io.interfaces, start=1):
        if io.bridged:
            adapter = io.bridged[number - 1]
            words += [f"--nic{number}", "bridged", f"--bridge-adapter{number}", adapter]
        else:
            network = str(ip_interface(interface.addresses[0]).network)
            words += [f"--nic{number}", "nat", f"--nat-net{number}", network]
        mac = interface.mac.replace(":", "")
        words += [f"--nic-type{number}", options.nic, f"--mac-address{number}", mac]
        words += [f"--cable-connected{number}", "on"]
    return words


def _attach(name: str, controller: str, port: int, kind: str, medium: Path) -> list[str]:
    """Return the arguments that attach a medium. kind: as VBoxManage calls what it is a medium of."""
    where = ["--storagectl", controller, "--port", str(port), "--device", "0"]
    return ["storageattach", name, *where, "--type", kind, "--medium", str(medium)]


def _switch(value: bool) -> str:
    return "on" if value else "off"
