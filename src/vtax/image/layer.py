"""A layer over the base image: the packages and data that the benchmarks and topologies of some studies need.

A layered image is a whole image: its tree is a copy of the base's in which the packages are installed and the data
made, and it has the base's kernel and modules as hard links. Nothing of the base changes: guests that need no layer
start as fast as before, and the base can be removed. It costs seconds and the time of its data: no kernel, no
compiler, and only the packages that are new.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from vtax.errors import CommandFailed
from vtax.foreign_data import parse_json
from vtax.host.process import run
from vtax.image.export import DISK_BYTES, write_archive, write_disk
from vtax.image.image import MODULES, Image, disk_usage_bytes
from vtax.image.recipe import Recipe
from vtax.image.tree import add_layer, make_data, package_versions

_DISK_STEP_BYTES = 64 * 1024**2
FORMS = 3  # that the files of an image exist in: tree, archive, disk
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_APT_ANSWER = re.compile(
    r"After this operation, ([0-9.,]+) ([kMG]?B) of additional disk space will be used"
)


def make_layer(
    recipe: Recipe, base: Image, image: Image, tag: str, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Make everything of a layered image but the initrd; return its part of the manifest.

    recipe: of the image.
    base: the image that the layer lies over.
    image: where it is made.
    tag: of its processes, in the journal already.
    progress: is called with one line as each stage begins.

    The manifest has `added` and `changed`: packages, with their versions, that the base lacks, or has in another
    version; `added_bytes`: of the tree; `data_s`: seconds that each data set took to make.
    """
    progress(f"{', '.join(recipe.layer) or 'copy'} over image {base.key}")
    add_layer(recipe, base.tree, image.tree, tag)
    data_s = {}
    for data in recipe.data:
        progress(f"data {data.name}")
        start_s = time.monotonic()
        make_data(data, image.tree, tag)
        data_s[data.name] = round(time.monotonic() - start_s, 1)
    packages, base_packages = (
        package_versions(image.tree),
        parse_json(base.manifest.read_text())["packages"],
    )
    new_packages, new_versions = {}, {}
    for name, version in packages.items():
        if name not in base_packages:
            new_packages[name] = version
        elif base_packages[name] != version:
            new_versions[name] = version
    added_bytes = max(disk_usage_bytes(image.tree) - disk_usage_bytes(base.tree), 0)
    return {
        **with_base(base, image, tag, progress),
        "packages": packages,
        "added": new_packages,
        "changed": new_versions,
        "added_bytes": added_bytes,
        "data_s": data_s,
    }


def with_base(
    base: Image, image: Image, tag: str | None, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Add the base's kernel and modules, an archive, and a disk with as much scratch space as the base's.

    base: the image with the kernel.
    image: that they are added to.
    tag: of the processes, in the journal already; None for that of this process.
    progress: is called with one line as each stage begins.

    Returns their part of the manifest.
    """
    kernels = [path for path in (base.kernel, base.elf_kernel) if path.exists()]
    run(["cp", "--archive", "--link", *kernels, base.directory / MODULES, image.directory], tag=tag)
    added_bytes = max(disk_usage_bytes(image.tree) - disk_usage_bytes(base.tree), 0)
    disk_bytes = DISK_BYTES + -(-added_bytes // _DISK_STEP_BYTES) * _DISK_STEP_BYTES
    progress("archive")
    write_archive(image.tree, image.archive)
    progress("disk")
    maker = write_disk(image.tree, image.disk, disk_bytes)
    manifest = parse_json(base.manifest.read_text())
    of_base = {name: manifest[name] for name in ("kernel", "programs", "compiler")}
    return {**of_base, "disk_bytes": disk_bytes, "mke2fs": maker}


def estimated_bytes(recipe: Recipe, base: Image) -> tuple[int, bool]:
    """Return (bytes of disk that the layered image of a recipe will occupy, whether its packages are counted).

    They are not where this host's apt does not know their size: its package lists may be of another suite than the
    image's. Changes nothing.
    """
    forms = sum(disk_usage_bytes(path) for path in (base.tree, base.archive, base.disk))
    forms += FORMS * sum(data.size_bytes for data in recipe.data)
    if not recipe.layer:
        return forms, True
    status = f"Dir::State::status={base.tree}/var/lib/dpkg/status"
    command = ["apt-get", "install", "--assume-no", "--no-install-recommends", "-o", status]
    command += ["-o", "Debug::NoLocking=1"]
    command += ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
    try:
        answer = run([*command, *recipe.layer], check=False).stdout
    except CommandFailed:
        return forms, False
    match = _APT_ANSWER.search(answer)
    if match is None:
        return forms, False
    added_bytes = int(float(match[1].replace(",", "")) * _UNITS[match[2]])
    return forms + FORMS * added_bytes, True
