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
    """Return the finished image of a recipe; None when it is not built, or when this user may not enter the images."""
    return _image_of_key(home, recipe.key)


def _image_of_key(home: Home, key: str) -> Image | None:
    image = Image(key, home.images / key)
    with suppress(PermissionError):
        return image if image.directory.is_dir() else None
    return None


def checked(home: Home, recipe: Recipe = DEFAULT) -> Image | None:
    """Return the image of a recipe for guests to start from; None when it is not built.

    Raises ImageError when the image is not as it was built, and BadInput for a home that others own or may change.
    """
    return checked_key(home, recipe.key)


def checked_key(home: Home, key: str) -> Image | None:
    """Return the image of a key for guests to start from, as `checked` does for a recipe."""
    image = _image_of_key(home, key)
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
    """Build the image of a recipe and that of its base, unless they are there.

    home: where images are.
    recipe: of the image.
    journal: registers what is made.
    progress: is called with one line as each stage begins.
    files: directory with the user's files, which is moved into the image.

    Raises ImageError when a stage fails, BadInput when this host cannot build at all; what was made is removed then.
    """
    _check_host(home, recipe)
    with build_lock(home, progress):
        return _build(home, recipe, journal, progress, files)


def _build(
    home: Home, recipe: Recipe, journal: Journal, progress: Progress, files: Path | None = None
) -> Image:
    """Build an image as `build` does, while the lock is held."""
    if image := checked(home, recipe):
        return image
    start_s = time.monotonic()
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
        if not image.elf_kernel.exists():
            elf = elf_of(image.kernel.read_bytes())
            if elf:
                image.elf_kernel.write_bytes(elf)
        record |= {"key": recipe.key, "tree_key": recipe.tree_key, "recipe": recipe.record()}
        if recipe.is_layered or recipe.own:
            record["base"] = recipe.base.key
        record["built_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record["build_s"] = round(time.monotonic() - start_s, 1)
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
    """Make an image of the user's files.

    home: where images are.
    name: of the image.
    source: of the files.
    journal: registers what is made.
    progress: is called with one line as each stage begins.

    Raises BadInput for files that cannot be an image, and ImageError when a stage fails.
    """
    _check_host(home, DEFAULT)
    directory = home.images / f"own-{journal.token}.partial"
    registered = journal.register(Tree(str(directory)))
    tag = f"own-{journal.token}"
    processes = journal.register(TaggedProcesses(tag, "unpacking an image"))
    try:
        directory.mkdir()
        progress(f"files from {source.kind}:{source.place}")
        with placed(f"{source.kind}:{source.place}"):
            own_files = unpack(name, source, directory, tag)
        image = build(home, replace(DEFAULT, own=own_files), journal, progress, directory / "tree")
        os.utime(image.directory)  # the newest of a name is the one that it means
        return image
    except OSError as error:
        raise ImageError(f"the image {name} could not be made", where=str(error)) from error
    finally:
        processes.release()
        registered.release()


def named(home: Home, name: str) -> Recipe:
    """Return the recipe of the image that the user gave a name, the newest. Raises BadInput for an unknown one."""
    names = set()
    for image in reversed(list_images(home)):
        own_files = _own_files(image)
        if own_files:
            names.add(own_files["name"])
            if own_files["name"] == name:
                return DEFAULT.like({"own": own_files})
    hint = f"sudo vtax image add {name} --from docker-archive:FILE"
    if names:
        hint = f"there are: {', '.join(sorted(names))}"
    raise BadInput(f"there is no image {name}", hint=hint)


def _own_files(image: Image) -> dict[str, Any]:
    """Return the record of the user's files in a manifest; an empty one for an image without."""
    with suppress(OSError, ValueError):
        return parse_json(image.manifest.read_text()).get("recipe", {}).get("own") or {}
    return {}


def known(home: Home, name: str) -> list[Image]:
    """Return the image of a key, or the images that the user gave a name. Raises BadInput for none."""
    images = list_images(home)
    matches = [image for image in images if image.key == name]
    if not matches:
        matches = [image for image in images if _own_files(image).get("name") == name]
    if not matches:
        raise BadInput(f"there is no image {name!r}", hint="vtax image list shows what is there")
    return matches


def removable(home: Home, name: str) -> list[Image]:
    """Return the images of a key or name. Raises BadInput for none and while a guest runs from one."""
    images = known(home, name)
    for image in images:
        users = _users(image.directory)
        if users:
            raise BadInput(
                f"image {image.key} is in use by process {users[0]}",
                hint="stop its guests first, or vtax clean",
            )
    return images


def remove(home: Home, name: str) -> None:
    """Remove the images of a key or name. Raises BadInput for none and while a guest runs from one."""
    images = removable(home, name)
    with Journal(home.journal) as journal, build_lock(home, lambda stage: None):
        for image in images:
            partial = home.images / f"{image.key}.{journal.token}.partial"
            journal.register(Tree(str(partial)))
            image.directory.rename(partial)


def _make(
    recipe: Recipe, base: Image | None, image: Image, journal: Journal, progress: Progress
) -> dict[str, Any]:
    """Make everything of an image but the initrd; return its part of the manifest. base: the image below the layer."""
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
    """Make the tree and the exports of the base; return its part of the manifest.

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
    compiler = run(["chroot", build_root.directory, "/usr/bin/gcc", "--version"]).stdout
    record = {
        "kernel": build_root.modules.name,
        "packages": package_versions(image.tree),
        "programs": list(recipe.programs),
        "compiler": compiler.partition("\n")[0],
        "disk_bytes": DISK_BYTES,
    }
    remove_tree(build_root.directory)
    progress("archive")
    write_archive(image.tree, image.archive)
    progress("disk")
    return {**record, "mke2fs": write_disk(image.tree, image.disk)}


def _with_same_tree(home: Home, recipe: Recipe) -> Image | None:
    """Return an undamaged image that differs from the recipe's in initrd and size of disk alone; None without one."""
    for image in list_images(home):
        with suppress(OSError, ValueError, ImageError):
            manifest = parse_json(image.manifest.read_text())
            disk_bytes = manifest.get("recipe", {}).get("disk_bytes", 0)
            has_same_tree = manifest.get("tree_key") == recipe.tree_key
            if has_same_tree and disk_bytes in (0, recipe.disk_bytes):
                contents.check(image)
                return image
    return None


def _adopt(parent: Image, image: Image, recipe: Recipe, progress: Progress) -> dict[str, Any]:
    """Take everything from a parent by hard links, except what is written anew; return its part of the manifest.

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
    used_bytes = record["disk_bytes"] - free_bytes(parent.disk)
    if recipe.disk_bytes < used_bytes:
        raise BadInput(
            f"a disk of {about_size(recipe.disk_bytes)} does not hold the image of virtual machines, which needs "
            f"{about_size(used_bytes)}",
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
        architectures = ", ".join(architecture.KNOWN)
        raise BadInput(
            f"images are built for {architectures}, and this host is {platform.machine()}"
        )
    for program, package in _PROGRAMS.items():
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", hint=packages_hint(package))
    home.ensure()
    check_host_has(recipe.disk_bytes, home.images)
    available_bytes = shutil.disk_usage(home.images).free
    needed_bytes = SPACE_NEEDED_BYTES + FORMS * sum(data.size_bytes for data in recipe.data)
    if available_bytes < needed_bytes:
        raise BadInput(
            f"building this image needs about {about_size(needed_bytes)} free, and {about_size(available_bytes)} are",
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
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                mounts, command = (entry / "mountinfo").read_bytes(), entry / "cmdline"
                if needle in mounts or needle in command.read_bytes():
                    pids.append(int(entry.name))
    return pids
