"""The minimal initrd: busybox, a few kernel modules, the init script, and the agent's bootstrap.

An ordinary initrd takes most of a boot under emulation. This one holds a few megabytes, uncompressed because copying
is cheaper than unpacking there, and loads only the modules that the command line names (see `data/init`).
The archive is cpio in the `newc` format (Linux: Documentation/driver-api/early-userspace/buffer-format.rst).
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import ImageError
from vtax.guest.bootstrap import argv as bootstrap_argv
from vtax.image.kernel import unpack_zstd
from vtax.image.recipe import data
from vtax.image.trimming import trimmed

APPLETS = (
    "[",
    "cp",
    "insmod",
    "ip",
    "ln",
    "mkdir",
    "mount",
    "poweroff",
    "sh",
    "sleep",
    "switch_root",
)
DIRECTORIES = ("bin", "dev", "links", "modules", "proc", "root")
DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
"""Links of every /dev; copied from one directory because that is one process."""
REQUESTED_AT_RUN_TIME: dict[str, tuple[str, ...]] = {"ext4": ("crc32c_generic", "crc32c_intel")}
"""Modules that others request through modprobe, which the initrd lacks; they are loaded first, where the kernel has
them (Linux 6.16 and newer compute CRCs without modules) and the CPU can."""

_MAX_MODULE_BYTES = 64 << 20
_DIRECTORY, _FILE, _LINK, _CHARACTER = 0o040755, 0o100644, 0o120777, 0o020600
_PROGRAM = 0o100755


@dataclass(frozen=True)
class CpioEntry:
    """One member of a cpio archive. device: major and minor number of a device node."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def cpio(entries: Iterable[CpioEntry]) -> bytes:
    """Return the archive of the entries, owned by root, with the time 0."""
    parts = []
    for number, entry in enumerate([*entries, CpioEntry("TRAILER!!!", 0)], start=1):
        name = entry.name.encode() + b"\0"
        fields = [number, entry.mode, 0, 0, 1, 0, len(entry.content), 0, 0]
        fields += [*entry.device, len(name), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        for part in (header, entry.content):
            parts += [part, b"\0" * (-len(part) % 4)]
    return b"".join(parts)


@dataclass(frozen=True)
class Modules:
    """Kernel modules, unpacked. files: name -> content. chains: name -> what to load, in order, itself last."""

    files: dict[str, bytes]
    chains: dict[str, tuple[str, ...]]


def collect_modules(directory: Path, module_names: Iterable[str]) -> Modules:
    """Return the wanted modules of a kernel and all they depend on. directory: /lib/modules/VERSION of that kernel.

    A module built into the kernel has an empty chain. Raises ImageError when one is neither there nor built in.
    """
    paths = {_normal(path.name.partition(".ko")[0]): path for path in directory.rglob("*.ko*")}
    built_in = {
        _normal(Path(line).stem) for line in (directory / "modules.builtin").read_text().split()
    }
    contents: dict[str, bytes] = {}
    chains: dict[str, tuple[str, ...]] = {}

    def chain_of(name: str) -> tuple[str, ...]:
        if name in chains:
            return chains[name]
        if name in built_in:
            return ()
        if name not in paths:
            raise ImageError(f"the kernel has no module {name}", where=str(directory))
        contents[name] = _unpack_module(paths[name])
        run_time_modules = [
            module for module in REQUESTED_AT_RUN_TIME.get(name, ()) if module in paths
        ]
        order: dict[str, None] = {}
        for dependency in run_time_modules + _dependencies(contents[name]):
            order |= dict.fromkeys(chain_of(dependency))
        chains[name] = (*order, name)
        return chains[name]

    return Modules(contents, {name: chain_of(name) for name in map(_normal, module_names)})


def write_modules(modules: Modules, directory: Path) -> None:
    """Keep unpacked modules beside an image, so that a new initrd needs no kernel package."""
    directory.mkdir()
    for name, content in modules.files.items():
        (directory / f"{name}.ko").write_bytes(content)
    lines = [" ".join((name, *chain)) for name, chain in modules.chains.items()]
    (directory / "order").write_text("\n".join(lines) + "\n")


def build_initrd(busybox: Path, modules: Path) -> bytes:
    """Return the initrd. busybox: a static one. modules: a directory that `write_modules` made."""
    *interpreter, _, code, _ = bootstrap_argv()
    entries = [CpioEntry(name, _DIRECTORY) for name in DIRECTORIES]
    entries.append(CpioEntry("dev/console", _CHARACTER, device=(5, 1)))
    entries.append(CpioEntry("bin/busybox", _PROGRAM, busybox.read_bytes()))
    for name in APPLETS:
        entries.append(CpioEntry(f"bin/{name}", _LINK, b"busybox"))
    for name, target in DEVICE_LINKS.items():
        entries.append(CpioEntry(f"links/{name}", _LINK, target.encode()))
    for path in sorted(modules.iterdir()):
        entries.append(CpioEntry(f"modules/{path.name}", _FILE, trimmed(path.read_bytes())))
    entries.append(CpioEntry("interpreter", _FILE, f"{' '.join(interpreter)}\n".encode()))
    entries.append(CpioEntry("bootstrap", _FILE, code.encode()))
    entries.append(CpioEntry("init", _PROGRAM, data("init")))
    return cpio(entries)


def _normal(name: str) -> str:
    return name.replace("-", "_")


def _unpack_module(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".ko":
        return content
    if path.suffix == ".xz":
        return lzma.decompress(content)
    if path.suffix == ".zst":
        return unpack_zstd(content, _MAX_MODULE_BYTES)
    raise ImageError(f"a kernel module is compressed in an unknown way: {path.name}")


def _dependencies(module: bytes) -> list[str]:
    """Return the names in the `depends=` entry of a module's .modinfo section."""
    match = re.search(rb"\0depends=([^\0]*)\0", module)
    if match is None:
        return []
    return [_normal(name) for name in match[1].decode().split(",") if name]
