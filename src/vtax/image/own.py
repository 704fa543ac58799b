"""The user's own root file system as an image: what is unpacked, what is refused, and what every guest must find.

Images of containers are read by skopeo and unpacked by umoci, which writes nothing outside of the tree, whatever its
names say. Layers come from anywhere: unpacking ends when the disk of images runs full, device nodes, sockets and
pipes are left out, and a tree with too many or too large files is refused.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtax.errors import BadInput, ImageError
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.guest.bootstrap import PYTHON, TOOLBOX
from vtax.host.architecture import HOST, KNOWN
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run
from vtax.host.removal import remove_tree
from vtax.host.resources import TaggedProcesses
from vtax.host.walking import walk
from vtax.image import contents, toolbox
from vtax.image.elf import HEADER_BYTES, machine_of
from vtax.image.image import Image, disk_usage_bytes
from vtax.image.layer import FORMS, with_base
from vtax.image.recipe import OwnFiles, Recipe, data
from vtax.limits import OWN_IMAGE
from vtax.study.fields import checked_name
from vtax.units import about_size

SOURCES = {
    "docker-archive": "docker-archive",
    "oci": "oci",
    "oci-archive": "oci-archive",
    "podman": "containers-storage",
    "docker": "docker-daemon",
}
"""Where an image of containers comes from -> what skopeo calls it (containers-transports(5))."""
_PLAIN = ("dir", "tar")
_FILES = ("tar", "docker-archive", "oci-archive")
MAX_FILES = OWN_IMAGE.count
_SPARE_BYTES = 1 << 30  # that unpacking leaves of the disk of images
_UNPACK_S = 1800.0
_LOOK_S = 0.2
_DIRECTORIES = {
    "dev": 0o755,
    "proc": 0o555,
    "sys": 0o555,
    "run": 0o755,
    "etc": 0o755,
    "root": 0o700,
    "tmp": 0o1777,
    "scratch": 0o1777,
}
_NO_REASON = re.compile(
    r"^tar: (Exiting with|Skipping to next|Error is not recov|Removing leading)"
)
_PANIC = re.compile(r"(panic|fatal error): ")
_LONGEST_REASON = 300  # characters
_MACHINES = {
    3: "i386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    243: "riscv",
    258: "loongarch",
} | {architecture.elf_machine: architecture.machine for architecture in KNOWN.values()}
"""e_machine of a program (elf.h) -> what it is called."""
_GZIP = b"\x1f\x8b"
_PROGRAM_PLACES = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "app")


@dataclass(frozen=True)
class FileSource:
    """A source of the user's files. kind: of SOURCES or _PLAIN. place: path or name of the image there."""

    kind: str
    place: str

    @classmethod
    def of(cls, name: str, text: str) -> FileSource:
        """Return the source of `KIND:PLACE`. name: that the image gets. Raises BadInput."""
        try:
            checked_name(name)
        except ValueError as error:
            raise BadInput(f"image cannot be {name!r}: {error}", where="NAME") from error
        kind, _, place = text.partition(":")
        kinds = (*_PLAIN, *SOURCES)
        if kind not in kinds or not place:
            raise BadInput(
                f"{text!r} is no source of an image",
                hint=f"one of {':..., '.join(kinds)}:...",
            )
        path = Path(place if kind in _PLAIN else place.partition(":")[0])
        if kind in (*_FILES, "dir", "oci") and not path.exists():
            raise BadInput(f"there is no {place}", where=text)
        if kind in _FILES and not path.is_file():
            raise BadInput(f"{path} is no file", where=text)
        if kind == "docker-archive" and _begins(path) == _GZIP:
            raise BadInput(f"{path} is compressed", where=text, hint=f"gunzip {path}")
        if kind == "dir" and not path.is_dir():
            raise BadInput(
                f"{path} is a file, not a directory", where=text, hint=f"for an archive: tar:{path}"
            )
        if kind == "dir" and _is_of_this_host(path.resolve()):
            raise BadInput(
                "dir: needs a directory with a root file system, not the one of this host",
                where=text,
            )
        programs = ["patchelf"]
        if kind not in _PLAIN:
            programs += ["skopeo", "umoci"]
        for program in programs:
            if find_program(program) is None:
                raise BadInput(f"{program} is not installed", hint=packages_hint(program))
        return cls(kind, place)


def _is_of_this_host(path: Path) -> bool:
    return path == Path("/") or any(map(path.is_relative_to, ("/proc", "/sys", "/dev")))


def unpack(name: str, source: FileSource, directory: Path, tag: str) -> OwnFiles:
    """Unpack files of a source into `directory/tree`, clean them, and return their description.

    name: of the image.
    source: of the files.
    directory: empty, on the disk of images, in the journal.
    tag: of the processes, in the journal.

    Raises BadInput for files that cannot be unpacked or be an image.
    """
    tree = directory / "tree"
    with _while_room(directory, tag):
        if source.kind in _PLAIN:
            config = _unpack_plain(source, tree, tag)
        else:
            config = _unpack_oci(source, directory, tag)
    try:
        _refuse_size(tree)
        _refuse_foreign_programs(tree)
        _clean(tree)
        digest = contents.digest_of_files(tree)
    except OSError as error:
        raise BadInput("the image has files that cannot be read here", where=str(error)) from error
    entry = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    return OwnFiles(
        name,
        digest,
        tuple(map(str, entry)),
        tuple(map(str, config.get("Env") or ())),
        str(config.get("WorkingDir") or "/"),
        str(config.get("User") or ""),
    )


def make_own(
    recipe: Recipe, base: Image, image: Image, files: Path | None, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Make an image of the user's files with the base's kernel; return its part of the manifest.

    recipe: of the image.
    base: the image with the kernel.
    image: where it is made.
    files: the user's, which are moved into the image.
    progress: is called with one line as each stage begins.
    """
    own_files = recipe.own
    assert own_files is not None
    if files is None:
        raise ImageError(
            f"image {own_files.name} was made by another version of vtax, or removed",
            hint=f"sudo vtax image add {own_files.name} --from ...",
        )
    files.rename(image.tree)
    progress("the agent's Python")
    toolbox.install(base.tree, image.tree)
    _install_entry(own_files, image.tree)
    record = with_base(base, image, None, progress)
    return {**record, "packages": {}, "added_bytes": disk_usage_bytes(image.tree)}


def has_program(tree: Path, program: str, directories: Sequence[str]) -> bool:
    """Return whether a guest with this tree finds a program, by its path or in one of these directories."""
    names = [f"{directory}/{program}" for directory in directories]
    if "/" in program:
        names = [program]
    for name in names:
        path = _resolve(tree, name)
        if path is not None and path.is_file():
            return True
    return False


def _unpack_plain(source: FileSource, tree: Path, tag: str) -> dict[str, Any]:
    tree.mkdir()
    if source.kind == "dir":
        copy = ["cp", "--archive", "--reflink=auto", "--one-file-system"]
        _run([*copy, f"{source.place}/.", tree], tag)
    else:
        extract = ["tar", "--extract", f"--file={source.place}", f"--directory={tree}"]
        extract += ["--numeric-owner", "--sparse", "--force-local"]
        extract += ["--xattrs", "--xattrs-include=security.capability"]
        _run(extract, tag, f"tar --list --file {source.place}")
    return {}


def _unpack_oci(source: FileSource, directory: Path, tag: str) -> dict[str, Any]:
    """Return the configuration of the image. Only layers of this host's architecture are taken."""
    layout = f"oci:{directory / 'layout'}:image"
    skopeo: list[str | Path] = ["skopeo", "--tmpdir", directory, "--insecure-policy"]
    image = f"{SOURCES[source.kind]}:{source.place}"
    _run([*skopeo, "copy", "--quiet", image, layout], tag, f"skopeo inspect {image}")
    described = parse_json(_run([*skopeo, "inspect", "--config", layout], tag))
    architecture, system = described.get("architecture"), described.get("os")
    if architecture != HOST.debian or system != "linux":
        raise BadInput(
            f"the image is for {system} on {architecture}, and guests here run linux on {HOST.debian}"
        )
    _run(
        ["umoci", "raw", "unpack", "--image", f"{directory / 'layout'}:image", directory / "tree"],
        tag,
    )
    remove_tree(directory / "layout")
    config: dict[str, Any] = described.get("config") or {}
    return config


def _run(argv: Sequence[str | Path], tag: str, hint: str = "") -> str:
    """Return what a program prints. hint: a command that shows what it cannot read. Raises BadInput."""
    result = run(argv, timeout_s=_UNPACK_S, tag=tag, check=False)
    if result.status != 0:
        reason = _reason(result.stderr) or f"{argv[0]} failed with status {result.status}"
        raise BadInput(f"the image could not be unpacked: {reason}", hint=hint)
    return result.stdout


def _reason(stderr: str) -> str:
    """Return the line that says why a program failed: the last one; of a panic of Go the first, before its stacks."""
    reason = ""
    for line in stderr.splitlines():
        if line.strip() and not _NO_REASON.search(line):
            reason = line
            if _PANIC.match(line):
                break
    return one_line(reason, _LONGEST_REASON)


@contextmanager
def _while_room(directory: Path, tag: str) -> Iterator[None]:
    """End the processes that unpack before they fill the disk, or have made far more files than an image may have.

    Other programs' files on that disk count too, so the limit is twice that of an image. Raises BadInput when it was
    needed.
    """
    finished, was_full, are_many = threading.Event(), threading.Event(), threading.Event()
    processes = TaggedProcesses(tag, "unpacking an image")
    names_before = _names(os.statvfs(directory))

    def look() -> None:
        while not finished.wait(_LOOK_S):
            room = os.statvfs(directory)
            few_names = room.f_files and room.f_favail < room.f_files // 20
            if _names(room) - names_before > 2 * MAX_FILES:
                are_many.set()
            if room.f_bavail * room.f_frsize < _SPARE_BYTES or few_names:
                was_full.set()
            if was_full.is_set() or are_many.is_set():
                processes.remove()

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield
    except BadInput:
        if not (was_full.is_set() or are_many.is_set()):
            raise
    finally:
        finished.set()
        watching.join()
    if was_full.is_set():
        raise BadInput("the disk of images does not hold these files", where=str(directory.parent))
    if are_many.is_set():
        raise BadInput(f"the image has more than {MAX_FILES} files")


def _names(room: os.statvfs_result) -> int:
    """Return how many files a file system has; 0 where it does not count them."""
    return room.f_files - room.f_ffree


def _begins(path: Path) -> bytes:
    """Return the first two bytes of a file."""
    with path.open("rb") as file:
        return file.read(2)


def _refuse_size(tree: Path) -> None:
    """Raise BadInput for an empty tree, and one with too many files, too deep ones, or too many bytes for the disk."""
    count = total = 0
    for name, status in walk(tree):
        count += 1
        if count > MAX_FILES:
            raise BadInput(f"the image has more than {MAX_FILES} files")
        if name.count("/") >= OWN_IMAGE.depth:
            raise BadInput(f"the image has directories nested more than {OWN_IMAGE.depth} deep")
        total += 0 if stat.S_ISDIR(status.st_mode) else status.st_size
    free = shutil.disk_usage(tree).free
    if total * (FORMS - 1) > free - _SPARE_BYTES:
        raise BadInput(
            f"the files of the image are {about_size(total)}, holes counted, and {about_size(free)} are free",
            hint="an image is kept as a tree, an archive and a disk",
        )
    if count == 0:
        raise BadInput("the image has no files")


def _refuse_foreign_programs(tree: Path) -> None:
    """Raise BadInput when programs of the tree are for another processor, and none for this one."""
    foreign, machine = "", ""
    for place in _PROGRAM_PLACES:
        directory = _resolve(tree, place)
        if directory is None or not directory.is_dir():
            continue
        for path in sorted(directory.iterdir()):
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            with path.open("rb") as file:
                number = machine_of(file.read(HEADER_BYTES))
            if number == HOST.elf_machine:
                return
            if number is not None and not foreign:
                foreign = f"/{path.relative_to(tree)}"
                machine = _MACHINES.get(number, f"machine {number} of ELF")
    if foreign:
        raise BadInput(
            f"{foreign} is a program for {machine}, and guests here need {HOST.machine}",
            hint=f"take the files of linux/{HOST.debian}, as docker pull --platform linux/{HOST.debian} does",
        )


def _clean(tree: Path) -> None:
    """Remove devices, pipes and sockets, and make the directories and files that every guest must find."""
    for name, status in walk(tree):
        if stat.S_IFMT(status.st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            (tree / name).unlink()
    tree.chmod(0o755)
    os.chown(tree, 0, 0)
    for name in ("dev", "scratch", TOOLBOX.lstrip("/")):
        remove_tree(tree / name)
    for name, mode in _DIRECTORIES.items():
        path = tree / name
        if path.is_symlink() or not path.is_dir():
            remove_tree(path)
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    if not os.path.lexists(tree / "usr"):
        (tree / "usr").mkdir()  # without it systemd-nspawn takes a tree for none
    for name, text in {
        "etc/hostname": "vtax\n",
        "etc/hosts": "127.0.0.1 localhost vtax\n::1 localhost ip6-localhost ip6-loopback\n",
        "etc/resolv.conf": "",
    }.items():
        remove_tree(tree / name)
        (tree / name).write_text(text)


def _install_entry(own_files: OwnFiles, tree: Path) -> None:
    box = tree / TOOLBOX.lstrip("/")
    settings = {
        "entry": own_files.entry,
        "environment": dict(variable.partition("=")[::2] for variable in own_files.environment),
        "directory": own_files.directory,
        "user": own_files.user,
        "version": f"{own_files.name} {own_files.digest[:12]}",
    }
    (box / "entry.json").write_text(json.dumps(settings))
    (box / "entry").write_bytes(f"#!{PYTHON} -ISB\n".encode() + data("entry.py"))
    (box / "entry").chmod(0o755)


def _resolve(tree: Path, name: str) -> Path | None:
    """Return the file that a name leads to within the tree, links followed as in a guest; None for no file."""
    parts, at, links = name.split("/"), tree, 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at if at == tree else at.parent
            continue
        at = at / part  # an empty one changes nothing
        if at.is_symlink():
            links += 1
            target = str(at.readlink())
            at = tree if target.startswith("/") else at.parent
            parts[:0] = target.split("/")
            if links > 40:  # as many as the kernel follows (path_resolution(7))
                return None
        elif not at.exists():
            return None
    return at
