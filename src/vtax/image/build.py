"""Builds, finds and removes images.

An image is made in a directory of another name, written down in the journal, and renamed when it is finished: a
directory with an image's name is a whole image. When only the initrd's part of the recipe changed, everything else is
taken, by hard links, from an image that has it. A recipe with a layer is built over the image of its base, which is
built first when it is not there. One build at a time works in a home; the kernel frees the lock when a
build dies.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from vtax.errors import BadInput, ImageError, placed
from vtax.foreign_data import parse_json
from vtax.host import architecture
from vtax.host.home import Home
from vtax.host.journal import Journal, Registration
from vtax.host.lock import open_lock, wait_for_lock
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run
from vtax.host.removal import remove_tree
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image import contents
from vtax.image.export import DISK_BYTES, check_host_has, free_bytes, write_archive, write_disk
from vtax.image.image import MODULES, OWN, Image
from vtax.image.initrd import build_initrd, collect_modules, write_modules
from vtax.image.kernel import elf_of
from vtax.image.layer import FORMS, make_layer
from vtax.image.own import FileSource, make_own, unpack
from vtax.image.recipe import DEFAULT, PROGRAMS, Recipe
from vtax.image.tree import BuildRoot, make_build_root, make_tree, package_versions
from vtax.units import about_size

Progress = Callable[[str], None]

SPACE_NEEDED_BYTES = 2 * 1024**3
_BUILD_S = 2400.0  # max. wait for another build
_PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "tar": "tar",
    "unshare": "util-linux",
}


def find(home: Home, recipe: Recipe = DEFAULT) -> Image | None:
    """Return the finished image of a recipe, None when it is not built, or when this user may not enter the
    images."""
    return _finished(home, recipe.key)


def _finished(home: Home, key: str) -> Image | None:
    image = Image(key, home.images / key)
    with suppress(PermissionError):
        return image if image.directory.is_dir() else None
    return None


def checked(home: Home, recipe: Recipe = DEFAULT) -> Image | None:
    """As `find`, for guests to start from. Raises ImageError when the image is not as it was built, and BadInput for
    a home that others own or may change."""
    return checked_key(home, recipe.key)


def checked_key(home: Home, key: str) -> Image | None:
    """As `checked`, by the hash of a recipe."""
    image = _finished(home, key)
    if image is not None:
        home.ensure()
        contents.check(image)
    return image


def list_images(home: Home) -> list[Image]:
    """Return every finished image, oldest first. Raises BadInput when this user may not enter the images."""
    if not home.images.is_dir():
        return []
    if not os.access(home.images, os.R_OK | os.X_OK):
        raise BadInput(
            "only root can see the images", where=str(home.images), hint="run it again with sudo"
        )
    directories = [
        path for path in home.images.iterdir() if re.fullmatch(r"[0-9a-f]{12}", path.name)
    ]
    directories.sort(key=lambda path: path.stat().st_mtime)
    return [Image(path.name, path) for path in directories]


def ensure(home: Home, recipe: Recipe = DEFAULT, progress: Progress = lambda stage: None) -> Image:
    """Return the image of a recipe, checked, or built now if it is not there, with a journal of its own."""
    if image := checked(home, recipe):
        return image
    home.ensure()
    with Journal(home.journal) as journal:
        return build(home, recipe, journal, progress)


def build(
    home: Home,
    recipe: Recipe,
    journal: Journal,
    progress: Progress = lambda stage: None,
    files: Path | None = None,
) -> Image:
    """Build the image of a recipe, unless it is there, and that of its base.

    progress: called with one line as each stage begins. files: directory with the user's own, which is taken. Raises
    ImageError when a stage fails, BadInput when this host cannot build at all; either removes what it made.
    """
    _check_host(home, recipe)
    with build_lock(home, progress):
        return _build(home, recipe, journal, progress, files)


def _build(
    home: Home, recipe: Recipe, journal: Journal, progress: Progress, files: Path | None = None
) -> Image:
    """As `build`, with the lock."""
    if image := checked(home, recipe):
        return image
    started = time.monotonic()
    final = home.images / recipe.key
    partial = home.images / f"{recipe.key}.{journal.token}.partial"
    parent = _with_same_tree(home, recipe)
    if recipe.disk_bytes and not parent:
        parent = _build(home, recipe.with_disk(0), journal, progress)
    needs_base = recipe.own or (recipe.is_layered and not parent)
    base = _build(home, recipe.base, journal, progress) if needs_base else None
    registered = journal.register(Tree(str(partial)))
    try:
        partial.mkdir()
        image = Image(recipe.key, partial)
        if parent:
            record = _adopt(parent, image, recipe, progress)
        elif recipe.own:
            assert base is not None
            record = make_own(recipe, base, image, files, progress)
        else:
            record = _make(recipe, base, image, journal, progress)
        if recipe.own and base:
            (image.directory / OWN).write_text(f"{base.key}\n")
        progress("initrd")
        image.initrd.write_bytes(
            build_initrd((base or image).tree / "usr/bin/busybox", partial / MODULES)
        )
        if not image.elf_kernel.exists() and (elf := elf_of(image.kernel.read_bytes())):
            image.elf_kernel.write_bytes(elf)
        record |= {
            "key": recipe.key,
            "tree_key": recipe.tree_key,
            "recipe": recipe.record(),
            **({"base": recipe.base.key} if recipe.is_layered or recipe.own else {}),
            "built_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "build_s": round(time.monotonic() - started, 1),
        }
        image.manifest.write_text(json.dumps(record, indent=1) + "\n")
        contents.record(image)
        run(["sync", "--file-system", partial])
        partial.rename(final)
    except BaseException:
        registered.release()
        raise
    registered.forget()
    return Image(recipe.key, final)


def add(
    home: Home,
    name: str,
    source: FileSource,
    journal: Journal,
    progress: Progress = lambda stage: None,
) -> Image:
    """Make an image of files of the user's. Raises BadInput for files that cannot be one, else ImageError."""
    _check_host(home, DEFAULT)
    directory = home.images / f"own-{journal.token}.partial"
    unpacked = journal.register(Tree(str(directory)))
    tag = f"own-{journal.token}"
    processes = journal.register(TaggedProcesses(tag, "unpacking an image"))
    try:
        directory.mkdir()
        progress(f"files from {source.kind}:{source.place}")
        with placed(f"{source.kind}:{source.place}"):
            own = unpack(name, source, directory, tag)
        image = build(home, replace(DEFAULT, own=own), journal, progress, directory / "tree")
        os.utime(image.directory)  # the newest of a name is the one that it means
        return image
    except OSError as error:
        raise ImageError(f"the image {name} could not be made", where=str(error)) from error
    finally:
        processes.release()
        unpacked.release()


def named(home: Home, name: str) -> Recipe:
    """Return the recipe of the image that the user gave a name, the newest. Raises BadInput for an unknown one."""
    names = set()
    for image in reversed(list_images(home)):
        if own := _own(image):
            names.add(own["name"])
            if own["name"] == name:
                return DEFAULT.like({"own": own})
    known = ", ".join(sorted(names))
    raise BadInput(
        f"there is no image {name}",
        hint=f"there are: {known}"
        if known
        else f"sudo vtax image add {name} --from docker-archive:FILE",
    )


def _own(image: Image) -> dict[str, Any]:
    """Return what the manifest says of the user's own files; nothing for an image without."""
    with suppress(OSError, ValueError):
        return parse_json(image.manifest.read_text()).get("recipe", {}).get("own") or {}
    return {}


def known(home: Home, name: str) -> list[Image]:
    """Return the image of a key, or those of a name of the user's. Raises BadInput for none."""
    images = list_images(home)
    if found := [i for i in images if i.key == name] or [
        i for i in images if _own(i).get("name") == name
    ]:
        return found
    raise BadInput(f"there is no image {name!r}", hint="vtax image list shows what is there")


def removable(home: Home, name: str) -> list[Image]:
    """Return the images of a key or name. Raises BadInput for none and while a guest runs from one."""
    found = known(home, name)
    for image in found:
        if users := _users(image.directory):
            raise BadInput(
                f"image {image.key} is in use by process {users[0]}",
                hint="stop its guests first, or vtax clean",
            )
    return found


def remove(home: Home, name: str) -> None:
    """Remove the images of a key or name. Raises BadInput for none and while a guest runs from one."""
    found = removable(home, name)
    with Journal(home.journal) as journal, build_lock(home, lambda stage: None):
        for image in found:
            removed_image = home.images / f"{image.key}.{journal.token}.partial"
            journal.register(Tree(str(removed_image)))
            image.directory.rename(removed_image)


def _make(
    recipe: Recipe, base: Image | None, image: Image, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """Everything but the initrd; returns what the manifest says of it. base: what the recipe's layer lies over."""
    tag = f"image-{journal.token}"
    registered = journal.register(TaggedProcesses(tag, "the image build"))
    try:
        if base:
            return make_layer(recipe, base, image, tag, progress)
        return _make_base(recipe, image, tag, progress, registered)
    finally:
        registered.release()


def _make_base(
    recipe: Recipe, image: Image, tag: str, progress: Progress, registered: Registration
) -> dict[str, Any]:
    """Make the tree of the base and return what it is made of.

    registered: the processes with the tag, which end when one of two jobs fails.
    """
    build_root = BuildRoot(image.directory / "build-root")
    progress(f"packages of Debian {recipe.suite}, kernel, compiler")
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(make_tree, recipe, image.tree, tag),
            pool.submit(make_build_root, recipe, build_root.directory, tag),
        ]
        try:
            for job in as_completed(jobs):
                job.result()
        except BaseException:
            registered.release()
            raise
    progress("vtax's own programs")
    for program in PROGRAMS:
        build_root.compile(program, image.tree)
    shutil.copyfile(build_root.kernel, image.kernel)
    write_modules(collect_modules(build_root.modules, recipe.modules), image.directory / MODULES)
    record = {
        "kernel": build_root.modules.name,
        "packages": package_versions(image.tree),
        "programs": list(recipe.programs),
        "compiler": run(
            ["chroot", build_root.directory, "/usr/bin/gcc", "--version"]
        ).stdout.partition("\n")[0],
        "disk_bytes": DISK_BYTES,
    }
    remove_tree(build_root.directory)
    progress("archive")
    write_archive(image.tree, image.archive)
    progress("disk")
    return {**record, "mke2fs": write_disk(image.tree, image.disk)}


def _with_same_tree(home: Home, recipe: Recipe) -> Image | None:
    """Return an image that differs from the recipe's in nothing but initrd and size of disk, and is as it was
    built."""
    for image in list_images(home):
        with suppress(OSError, ValueError, ImageError):
            found = parse_json(image.manifest.read_text())
            of_disk = found.get("recipe", {}).get("disk_bytes", 0)
            if found.get("tree_key") == recipe.tree_key and of_disk in (0, recipe.disk_bytes):
                contents.check(image)
                return image
    return None


def _adopt(parent: Image, image: Image, recipe: Recipe, progress: Progress) -> dict[str, Any]:
    """Take everything from parent by hard links, except what is written anew; returns what the manifest says of it.

    Raises BadInput for a disk that does not hold the files.
    """
    run(["cp", "--archive", "--link", f"{parent.directory}/.", image.directory], timeout_s=300)
    for name in (contents.LIST, contents.STAMP, OWN):
        (image.directory / name).unlink(missing_ok=True)
    image.initrd.unlink()
    image.manifest.unlink()
    record: dict[str, Any] = parse_json(parent.manifest.read_text())
    if not recipe.disk_bytes or recipe.disk_bytes == record["disk_bytes"]:
        return record
    used = record["disk_bytes"] - free_bytes(parent.disk)
    if recipe.disk_bytes < used:
        raise BadInput(
            f"a disk of {about_size(recipe.disk_bytes)} does not hold the image of virtual machines, which needs "
            f"{about_size(used)}",
            hint="raise disk in [guest]",
        )
    progress(f"disk of {about_size(recipe.disk_bytes)}")
    image.disk.unlink()
    maker = write_disk(image.tree, image.disk, recipe.disk_bytes)
    return {**record, "disk_bytes": recipe.disk_bytes, "mke2fs": maker}


def _check_host(home: Home, recipe: Recipe) -> None:
    """Raise BadInput when this host cannot build: architecture, programs, space. Makes the home."""
    if os.geteuid() != 0:
        raise BadInput("building an image needs root", hint="sudo vtax image build")
    if platform.machine() not in architecture.KNOWN:
        known = ", ".join(architecture.KNOWN)
        raise BadInput(f"images are built for {known}, and this host is {platform.machine()}")
    for program, package in _PROGRAMS.items():
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", hint=packages_hint(package))
    home.ensure()
    check_host_has(recipe.disk_bytes, home.images)
    free = shutil.disk_usage(home.images).free
    needed = SPACE_NEEDED_BYTES + FORMS * sum(data.size_bytes for data in recipe.data)
    if free < needed:
        raise BadInput(
            f"building this image needs about {about_size(needed)} free, and {about_size(free)} are",
            where=str(home.images),
            hint="make room there, or set VTAX_HOME to a directory on a larger disk",
        )


@contextmanager
def build_lock(home: Home, progress: Progress) -> Iterator[None]:
    """Within the block, nothing else builds, removes or imports images of this home."""
    descriptor = open_lock(home.images / "build.lock")
    try:
        wait_for_lock(descriptor, "builds or removes an image", progress, _BUILD_S)
        yield
    finally:
        os.close(descriptor)


def _users(directory: Path) -> list[int]:
    """Return processes with the directory in their mounts or on their command line."""
    needle = str(directory).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if (
                    needle in (entry / "mountinfo").read_bytes()
                    or needle in (entry / "cmdline").read_bytes()
                ):
                    found.append(int(entry.name))
    return found
