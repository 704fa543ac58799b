"""Carries an image to another host in one file: tar in zstd, of all but what is made of the rest.

Archive and disk are made again where the image arrives, and everything is compared with the list that the image was
built with, so what guests start from is the same to the last bit. What a file holds is untrusted until then: it is
unpacked into a directory of root alone, in which every parent of a name is a directory that was made before, never a
link; members are of few kinds, counted and measured. Whether who made the image is to be trusted nothing here shows:
its programs run as root on this host, as those of one that was built here do.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from vtax.described import Means
from vtax.errors import BadInput, ImageError
from vtax.foreign_data import parse_json
from vtax.host.foreign_file import open_foreign
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run, spawn
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image import contents
from vtax.image.build import Progress, build_lock, checked_key
from vtax.image.export import disk_maker, write_archive, write_disk
from vtax.image.image import Image, disk_usage_bytes
from vtax.image.recipe import Recipe, is_package_name
from vtax.image.unpacking import DIRECTORIES, FILES, MANIFEST, Forward, Unpacking
from vtax.units import about_size

MAX_DISK_BYTES = 1024**4
MAX_FILE_BYTES = 64 << 30  # of an image that was exported: twice what it may unpack to
_TIMEOUT_S = 1800.0
_NAME_CHARS = 80
_MAGIC = b"\x28\xb5\x2f\xfd"  # of zstd
_DERIVED = ("rootfs.tar", "disk.raw")
_KERNEL, _SUITE = re.compile(r"[\w.+~-]{1,80}"), re.compile(r"[a-z]{1,40}")
_DAMAGE = (
    tarfile.TarError,
    ValueError,
    EOFError,
    RecursionError,  # tarfile calls itself for headers of headers
    OverflowError,
    LookupError,
    TypeError,
    AttributeError,
)


@dataclass(frozen=True)
class Carried:
    """An image that arrived."""

    key: Annotated[str, Means("key of the image")]
    digest: Annotated[str, Means("SHA-256 of what guests get of it")]
    is_new: Annotated[bool, Means("whether it was not there before")]


def export_image(image: Image, target: Path) -> None:
    """Write an image, which was checked, to a file. Raises BadInput for one of the user's files, ImageError."""
    _check_programs()
    if image.is_own:
        raise BadInput(
            f"image {image.key} is of your own files, which are not exported",
            hint="add them on the other host: vtax image add",
        )
    names = [name for name in (*FILES, *DIRECTORIES) if (image.directory / name).exists()]
    tar = ["tar", "--create", f"--file={target}", f"--directory={image.directory}", "--sort=name"]
    tar += ["--numeric-owner", "--xattrs", "--xattrs-include=security.capability"]
    tar += ["--pax-option=delete=atime,delete=ctime", "--use-compress-program=zstd -q -9 -T0"]
    run([*tar, *names], timeout_s=_TIMEOUT_S)


def import_image(
    home: Home,
    file: Path,
    journal: Journal,
    digest: str = "",
    progress: Progress = lambda stage: None,
) -> Carried:
    """Add the image in a file to a home, unless it is there with the same digest.

    home: that gets the image.
    file: that `export_image` wrote.
    journal: registers what is made.
    digest: that the image must have; empty for any.
    progress: is called with one line as each stage begins.

    Raises BadInput for a file that holds no image, is damaged, is of another vtax, has another digest, or cannot be
    made again here; and ImageError.
    """
    _check_programs()
    home.ensure()
    with build_lock(home, progress):
        partial = home.images / f"import.{journal.token}.partial"
        registered = journal.register(Tree(str(partial)))
        try:
            partial.mkdir(mode=0o700)
            with _damage(file), _zstd_stream(file, journal) as stream:
                unpacking = Unpacking(partial, stream)
                unpacking.first_two()
                identity = _read_identity(partial, digest, file)
                existing = _existing(home, identity)
                if existing:
                    return existing
                progress(f"files of image {identity.key}")
                unpacking.rest()
            _finish(Image(identity.key, partial), file, progress)
            run(["sync", "--file-system", partial])
            partial.chmod(0o755)
            partial.rename(home.images / identity.key)
            registered.forget()
        finally:
            registered.release()
    return identity


def _check_programs() -> None:
    if os.geteuid() != 0:
        raise BadInput("carrying an image needs root", hint="run it again with sudo")
    for program, package in (
        ("zstd", "zstd"),
        ("tar", "tar"),
        ("mke2fs", "e2fsprogs"),
        ("debugfs", "e2fsprogs"),
    ):
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", hint=packages_hint(package))


def _existing(home: Home, identity: Carried) -> Carried | None:
    """Return the image as not new where the home has it; else None. Raises BadInput where its files differ there."""
    image = checked_key(home, identity.key)
    if image is None:
        return None
    digest = contents.digest(image)
    if digest != identity.digest:
        raise BadInput(
            f"image {identity.key} is here with other files: {digest[:12]}, not {identity.digest[:12]}",
            hint=f"sudo vtax image remove {identity.key}, then import it again",
        )
    return Carried(identity.key, identity.digest, is_new=False)


def _read_identity(directory: Path, digest: str, file: Path) -> Carried:
    """Return the identity of an image by its manifest and its list. Raises ValueError and BadInput.

    directory: where both are.
    digest: that the image must have; empty for any.
    file: that it came in, for errors.
    """
    manifest = parse_json((directory / MANIFEST).read_text())
    recipe = Recipe.from_record(manifest["recipe"])
    packages, size = manifest["packages"], manifest["disk_bytes"]
    names = [*recipe.layer, *recipe.packages, *(data.name for data in recipe.data)]
    is_sound = (
        isinstance(packages, dict)
        and manifest["key"] == recipe.key
        and manifest["tree_key"] == recipe.tree_key
        and all(map(is_package_name, names))
        and _SUITE.fullmatch(recipe.suite)
        and _KERNEL.fullmatch(manifest["kernel"])
        and isinstance(manifest.get("mke2fs"), str)
        and type(size) is int
        and 0 < size <= MAX_DISK_BYTES
        and size % 4096 == 0
        and type(manifest.get("added_bytes", 0 if not recipe.is_layered else None)) is int
    )
    if not is_sound:
        raise ValueError("its manifest is not that of an image of this vtax")
    identity = Carried(recipe.key, contents.digest(Image(recipe.key, directory)), is_new=True)
    if digest and identity.digest != digest.lower():
        raise BadInput(
            f"the image has the digest {identity.digest[:12]}, not {digest[:12]}",
            where=str(file),
            hint="get the other one",
        )
    return identity


def _finish(image: Image, file: Path, progress: Progress) -> None:
    """Make archive and disk of the tree, and compare everything with the list of the image."""
    manifest = parse_json(image.manifest.read_text())
    needed_bytes = 2 * disk_usage_bytes(
        image.tree
    )  # the disk is sparse: only a guest that runs fills it
    free_bytes = shutil.disk_usage(image.directory).free
    if free_bytes < needed_bytes:
        raise BadInput(
            f"the image needs about {about_size(needed_bytes)} more, and {about_size(free_bytes)} are free",
            where=str(image.directory),
            hint="make room there, or set VTAX_HOME to a directory on a larger disk",
        )
    progress("archive")
    write_archive(image.tree, image.archive)
    progress("disk")
    write_disk(image.tree, image.disk, manifest["disk_bytes"])
    progress("comparison with its list")
    with _damage(file):
        different_files = contents.differing(image)
        derived = [json.dumps(name) for name in _DERIVED]
        for name in different_files:
            if name not in derived:
                raise ValueError(f"{name[:_NAME_CHARS]} is not what its list says")
    if different_files:
        raise BadInput(
            f"{', '.join(different_files)} cannot be made here as they were, to the last bit: {disk_maker()} made the disk "
            f"here, {manifest['mke2fs'][:40]} there",
            where=str(file),
            hint="take e2fsprogs and tar of the release that it was built on, or build the image here",
        )
    contents.stamp(image)


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    """Raise BadInput in place of any error of a damaged file, and ImageError for a full disk."""
    try:
        yield
    except _DAMAGE as error:
        why = str(error) if type(error) is ValueError and str(error) else "it cannot be unpacked"
        raise BadInput(
            f"the image is damaged: {why}",
            where=str(file),
            hint="copy it again, or export it again",
        ) from error
    except OSError as error:
        raise ImageError(
            f"the image cannot be unpacked: {error.strerror}", where=str(error.filename or file)
        ) from error


@contextmanager
def _zstd_stream(file: Path, journal: Journal) -> Iterator[Forward]:
    """Yield the stream in a file of zstd, as it is unpacked. Raises BadInput, and ValueError where it is cut off."""
    if not file.exists():
        raise BadInput(
            "there is no such file", where=str(file), hint="vtax image export writes images"
        )
    tag = f"image-import-{journal.token}"
    registered = journal.register(TaggedProcesses(tag, "the image import"))
    try:
        hint = "name an image that vtax image export wrote"
        with open_foreign(file, "an image", MAX_FILE_BYTES, hint=hint) as source:
            if source.read(len(_MAGIC)) != _MAGIC:
                raise BadInput(
                    "this is no image of vtax", where=str(file), hint="vtax image export writes one"
                )
            os.lseek(source.fileno(), 0, os.SEEK_SET)  # zstd reads on from there
            process = spawn(
                ["zstd", "-dcq"], tag=tag, stdin=source.fileno(), stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            try:
                stream = Forward(process.stdout)
                yield stream
                if stream.is_read and process.wait() != 0:
                    raise ValueError("it cannot be unpacked")
            finally:
                process.kill()
                process.stdout.close()
                process.wait()
    finally:
        registered.release()
