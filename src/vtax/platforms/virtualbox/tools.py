"""Tools of VirtualBox that a host needs, and what they say of machines. Nothing starts a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from vtax.errors import PlatformError
from vtax.host.process import find_program, run
from vtax.host.resources import RestoreCommand
from vtax.messages import Note
from vtax.platforms import probing
from vtax.platforms.virtualbox.machine import LOADER_FILES

MIN_VERSION = (7, 0)
"""The first release with these names of options."""
DEVICE = Path("/dev/vboxdrv")
BRIDGE_MODULE = Path("/sys/module/vboxnetflt")
INSTALL = Note("hint-virtualbox")
_DIRECTORIES = tuple(map(Path, ("/usr/lib/virtualbox", "/usr/lib64/virtualbox", "/opt/VirtualBox")))
"""Where VirtualBox's own programs are: packages of Debian and Oracle, packages of others, Oracle's installer."""
_PROGRAMS = {"xorriso": "xorriso", "ip": "iproute2", "ethtool": "ethtool"}
_LOADER_PACKAGES = {"isolinux.bin": "isolinux", "ldlinux.c32": "syslinux-common"}
_ERROR = re.compile(
    r"VBoxManage: error: (.*)|Error: failed to start machine\. Error message: (.*)|"
    r".*?((?:Guru Meditation|[A-Z]*: ?VERR_|rc=VERR_|VMSetError).*)"
)
_KVM_IN_USE = re.compile("VERR_(?:VMX_IN_VMX_ROOT_MODE|SVM_IN_USE|SVM_HOST_SVME_NOT_ENABLED)")
"""Status codes of VirtualBox where KVM has VT-x or AMD-V, or has left it turned off."""
_UNLOAD_KVM = Note("hint-unload-kvm")
VCPU = re.compile(r"EMT(-\d+)?")
"""Name of a thread that is a virtual CPU."""


def check_host(device: Path = DEVICE, loader: Iterable[Path] = LOADER_FILES) -> None:
    """Raise PlatformError unless the programs and the kernel module are there: the reason, and what to install."""
    if find_program("VBoxManage") is None or find_program("VBoxHeadless") is None:
        raise PlatformError(Note("no-vboxmanage"), hint=INSTALL)
    absent = {}
    for program, package in _PROGRAMS.items():
        if find_program(program) is None:
            absent[program] = package
    for path in loader:
        if not path.exists():
            absent[str(path)] = _LOADER_PACKAGES[path.name]
    missing = probing.not_installed(absent)
    if missing:
        what, how_to_install = missing
        raise PlatformError(what, hint=how_to_install)
    if not device.exists():
        raise PlatformError(
            Note("no-vboxdrv", device=device),
            hint=Note("hint-vboxdrv"),
        )


def check_network(
    module: Path = BRIDGE_MODULE,
    own_namespace: Path = Path("/proc/self/ns/net"),
    first_namespace: Path = Path("/proc/1/ns/net"),
) -> None:
    """Raise PlatformError where VirtualBox cannot bridge a guest's interfaces."""
    if not module.exists():
        raise PlatformError(Note("no-vboxnetflt"), hint="modprobe vboxnetflt")
    if own_namespace.readlink() != first_namespace.readlink():
        raise PlatformError(
            Note("vbox-first-namespace"),
            hint=Note("hint-no-container"),
        )


def version() -> str:
    """Return `VirtualBox 7.2.4`. Raises CommandFailed, and PlatformError for one that is too old."""
    number = parse_version(run(["VBoxManage", "--version"]).stdout)
    if tuple(map(int, number.split(".")[:2])) < MIN_VERSION:
        raise PlatformError(Note("vbox-too-old", found=number), hint=INSTALL)
    return f"VirtualBox {number}"


def service_program(directories: Iterable[Path] = _DIRECTORIES) -> Path:
    """Return the path of VBoxSVC, which is on no PATH. Raises PlatformError."""
    for directory in directories:
        program = directory / "VBoxSVC"
        if program.exists():
            return program
    raise PlatformError(Note("no-vboxsvc", names=tuple(map(str, directories))), hint=INSTALL)


def parse_version(text: str) -> str:
    """Return the number in the last line, `7.2.4` of `7.2.4_Debianr170995`, after warnings. Raises PlatformError."""
    last = (text.strip().splitlines() or [""])[-1]
    match = re.match(r"\d+\.\d+(\.\d+)?", last)
    if match is None:
        raise PlatformError(Note("vbox-no-version", value=f"{last[:100]!r}"), hint=INSTALL)
    return match[0]


def errors(text: str) -> str:
    """Return what VBoxManage, VBoxHeadless or a machine's log complain of: the first two messages on one line."""
    messages: list[str] = []
    for line in text.splitlines():
        match = _ERROR.match(line)
        if match:
            message = (match[1] or match[2] or match[3]).strip()[:200]
            if message not in messages:
                messages.append(message)
    return " | ".join(messages[:2])


def hint(text: str) -> str:
    """Return how to fix what VirtualBox complains of, in its output or its log; empty where that is not known."""
    return _UNLOAD_KVM if _KVM_IN_USE.search(text) else ""


def link(name: str) -> RestoreCommand:
    """Return the journal's entry of a veth pair, removed by one of its ends, wherever the other is."""
    return RestoreCommand(
        f"interface {name}", ("ip", "link", "delete", name), (1,), ("Cannot find device",)
    )
