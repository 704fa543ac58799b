"""Start an emulated guest, image and all, in a process whose architecture was set to another one.

The packages are unpacked and not configured, since their scripts are programs of that architecture.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from bare_guests import left_of, spec_of

from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image import tree
from vtax.image.export import write_disk
from vtax.image.image import MODULES, Image
from vtax.image.initrd import build_initrd, collect_modules, write_modules
from vtax.image.recipe import DEFAULT
from vtax.platforms import registry

_READY_S = 300.0
_ESSENTIAL = ("base-files", "coreutils", "dash")
_SENT = bytes(range(256)) * 64
_SYSBENCH = ("sysbench", "cpu", "--time=2", "run")


def main() -> None:
    """Print one JSON object of a guest. Argument: a home, made now."""
    home = Home(Path(sys.argv[1])).ensure()
    with Journal(home.journal) as journal:
        image = make_image(home, journal)
        spec = spec_of(image, home, journal)
        platform = registry.get("qemu-tcg-virtio")
        found = {}
        started_at = time.monotonic()
        running = platform.start(spec)
        try:
            guest = Guest(running.channel)
            guest.hello(_READY_S)
            found["ready_s"] = round(time.monotonic() - started_at, 1)
            found["kernel"] = guest.facts()["kernel_release"]
            found["machine"] = guest.run(["uname", "-m"]).stdout.strip()
            found["sysbench"] = guest.run(list(_SYSBENCH), timeout_s=120).stdout
            guest.put("/scratch/sent", _SENT)
            found["bytes_equal"] = guest.get("/scratch/sent") == _SENT
        finally:
            running.stop()
        found["left"] = left_of(spec.name)
    print(json.dumps(found))


def make_image(home: Home, journal: Journal) -> Image:
    """Make the usual image, but without vtax's own compiled programs; the journal removes it."""
    image = Image(DEFAULT.key, home.images / DEFAULT.key)
    journal.register(Tree(str(image.directory)))
    image.directory.mkdir()
    tag = f"image-{journal.token}"
    registered = journal.register(TaggedProcesses(tag, "the image of arm64"))
    try:
        build_root = tree.BuildRoot(image.directory / "build-root")
        tree.make_build_root(DEFAULT, build_root.directory, tag)
        unpacked = replace(DEFAULT, variant="extract", packages=(*_ESSENTIAL, *DEFAULT.packages))
        tree.make_tree(unpacked, image.tree, tag)
    finally:
        registered.release()
    shutil.copyfile(build_root.kernel, image.kernel)
    write_modules(collect_modules(build_root.modules, DEFAULT.modules), image.directory / MODULES)
    shutil.rmtree(build_root.directory)
    image.initrd.write_bytes(
        build_initrd(image.tree / "usr/bin/busybox", image.directory / MODULES)
    )
    write_disk(image.tree, image.disk)
    return image
