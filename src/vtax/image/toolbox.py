"""The directory that every guest has beside its own files: a Python for the agent, and what joins it to a network.

In vtax's own image it holds one link, to the Python of that image. In the user's own image it holds the programs
with their loader and libraries, so that nothing depends on what that image has: another C library, or no shell.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from vtax.errors import CommandFailed, ImageError
from vtax.guest.bootstrap import CONFINE, HIDDEN, PYTHON, SANDBOX, TOOLBOX
from vtax.host.process import run

ENTRY = f"{TOOLBOX}/entry"
"""Program in a guest of the user's files that runs theirs, or the one it is given, as a container runtime would."""
OF_IMAGE = (ENTRY, "--vtax-version")
"""Prints the name and the digest of the user's image."""
_PROGRAMS = (
    "/usr/bin/python3",
    "/usr/bin/dash",
    "/usr/bin/ip",
    "/usr/sbin/ethtool",
    "/usr/bin/ping",
)
_BUSYBOX = "usr/bin/busybox"
_LEFT_OUT = ("__pycache__", "test", "idlelib", "ensurepip", "pydoc_data", "lib2to3", "turtledemo")


def link(tree: Path) -> None:
    """Give vtax's own tree its toolbox: the agent's Python is that of the image."""
    python = tree / PYTHON.lstrip("/")
    python.parent.mkdir(parents=True, exist_ok=True)
    python.symlink_to("/usr/bin/python3")
    _make_hidden(tree)


def install(base: Path, tree: Path) -> None:
    """Give the user's tree a toolbox with programs of the base's tree.

    patchelf writes into the programs where loader and libraries lie. Raises ImageError.
    """
    toolbox = tree / TOOLBOX.lstrip("/")
    bin_, lib = toolbox / "bin", toolbox / "lib"
    for directory in (bin_, lib):
        directory.mkdir(parents=True)
    try:
        for name in _PROGRAMS:
            shutil.copy(_resolve_in(base, name), bin_ / Path(name).name)
        standard = next((base / "usr/lib").glob("python3.*"))
        shutil.copytree(
            standard, lib / standard.name, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT)
        )
        files = list(_PROGRAMS)
        for path in sorted((lib / standard.name).glob("lib-dynload/*.so")):
            files.append(f"/usr/lib/{standard.name}/lib-dynload/{path.name}")
        loader = _copy_libraries(base, lib, files)
        for name in _PROGRAMS:
            program = bin_ / Path(name).name
            run(["patchelf", "--set-interpreter", f"{TOOLBOX}/lib/{loader}", program])
            run(["patchelf", "--force-rpath", "--set-rpath", f"{TOOLBOX}/lib", program])
    except (CommandFailed, OSError, StopIteration) as error:
        raise ImageError("the agent's Python could not be copied", where=str(error)) from error
    (bin_ / "sh").symlink_to("dash")  # that of busybox takes its own `ip`
    for launcher in (CONFINE, SANDBOX):
        shutil.copy(base / launcher.lstrip("/"), bin_)
    _make_hidden(tree)
    shutil.copy(base / _BUSYBOX, bin_ / "busybox")
    for applet in run([base / _BUSYBOX, "--list"]).stdout.split():
        if not (bin_ / applet).exists():
            (bin_ / applet).symlink_to("busybox")


def _make_hidden(tree: Path) -> None:
    (tree / HIDDEN.lstrip("/")).touch(0o444)


def _resolve_in(tree: Path, name: str) -> Path:
    """Return a program of vtax's own tree by its path there, whose links are relative."""
    return (tree / name.lstrip("/")).resolve(strict=True)


def _copy_libraries(base: Path, lib: Path, files: list[str]) -> str:
    """Copy every library that these files need (ldd(1), in the base); return the name of the loader."""
    loader = ""
    for line in run(["chroot", base, "/usr/bin/ldd", *files]).stdout.splitlines():
        words = line.split()
        path = next((word for word in words if word.startswith("/") and not word.endswith(":")), "")
        if not path:
            continue
        target = lib / Path(path).name
        if not target.exists():
            shutil.copy(_resolve_in(base, path), target)
        if "=>" not in words:
            loader = target.name
    if not loader:
        raise OSError("ldd named no loader")
    return loader
