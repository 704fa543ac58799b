"""The host's own kernel as a guest's: found, unpacked, and given an initrd with its own modules."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import ImageError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.image.initrd import build_initrd, collect_modules, write_modules
from vtax.image.kernel import elf_of

_KERNELS = ("boot/vmlinuz-{}", "usr/lib/modules/{}/vmlinuz", "lib/modules/{}/vmlinuz")


@dataclass(frozen=True)
class HostKernel:
    """A kernel and an initrd for it, ready to boot."""

    release: str
    kernel: Path
    initrd: Path


def find(root: Path = Path("/"), release: str = "") -> tuple[Path, Path]:
    """Return the file of a kernel and the directory of its modules. release: default, the running kernel's.

    Raises ImageError that says what is missing.
    """
    release = release or os.uname().release
    kernels = [root / pattern.format(release) for pattern in _KERNELS]
    kernel = next((path for path in kernels if path.is_file()), None)
    if kernel is None:
        raise ImageError(
            f"the file of this host's kernel {release} is not on this host",
            where=str(kernels[0]),
            hint=f"install the package linux-image-{release}, or use the image's kernel (option kernel = 'image')",
        )
    modules = root / "lib/modules" / release
    if not (modules / "modules.builtin").is_file():
        raise ImageError(
            f"the modules of this host's kernel {release} are not on this host",
            where=str(modules),
            hint="use the image's kernel (option kernel = 'image')",
        )
    return kernel, modules


def prepare(
    home: Home, image: Image, module_names: Sequence[str], root: Path = Path("/"), release: str = ""
) -> HostKernel:
    """Return the host's kernel with an initrd; both are made once per kernel, image and choice of modules.

    home: where they are kept.
    image: of the guests, whose busybox the initrd has.
    module_names: of the initrd.
    root: of the host's files.
    release: of the kernel; the running kernel's by default.

    Raises ImageError when the host's kernel is not there or lacks a module.
    """
    kernel, modules = find(root, release)
    identity = (kernel, kernel.stat().st_mtime_ns, image.key, *module_names)
    directory = home.root / "kernels" / hashlib.sha256(repr(identity).encode()).hexdigest()[:12]
    if not directory.is_dir():
        _make_kernel(home, image, (*module_names, "ext4"), kernel, modules, directory)
    return HostKernel(modules.name, directory / "kernel", directory / "initrd.cpio")


def _make_kernel(
    home: Home,
    image: Image,
    module_names: Sequence[str],
    kernel: Path,
    modules: Path,
    directory: Path,
) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = directory.with_name(f"{directory.name}.{secrets.token_hex(4)}.partial")
    with Journal(home.journal) as journal:
        registered = journal.register(Tree(str(partial)))
        partial.mkdir()
        packed = kernel.read_bytes()
        (partial / "kernel").write_bytes(elf_of(packed) or packed)
        write_modules(collect_modules(modules, module_names), partial / "modules")
        (partial / "initrd.cpio").write_bytes(
            build_initrd(image.tree / "usr/bin/busybox", partial / "modules")
        )
        try:
            partial.rename(directory)
        except OSError:
            if not directory.is_dir():  # otherwise another vtax has made the same meanwhile
                raise
        else:
            registered.forget()
