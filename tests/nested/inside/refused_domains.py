"""Run inside dom0: ask for domains that cannot be, and print why they were refused, as one JSON object.

`python refused_domains.py NAME` with the name of a domain that is not of vtax, beside which there is no memory left.
Without NAME a guest crashes at boot: its initrd is none.
"""

from __future__ import annotations

import json
import secrets
import sys

from start_guests import traces

from vtax.errors import VtaxError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

READY_S = 300.0


def main() -> None:
    """See the module."""
    home = Home.from_environment().ensure()
    image, name = images.find(home), f"vtax-{secrets.token_hex(3)}"
    before = traces()
    if sys.argv[1:]:
        found = {
            "same_name": error_of(home, image, sys.argv[1]),
            "no_memory": error_of(home, image, name),
        }
    else:
        found = {"crashed": error_of(home, image, name, crashes=True)}
    print(json.dumps(found | {"left": sorted(traces() - before)}))


def error_of(home, image, name, *, crashes=False):
    """The three parts of the error with which a start of a PV domain ends."""
    directory = home.guests / f"try-{name}"
    with Journal(home.journal) as journal:
        journal.register(Tree(str(directory)))
        directory.mkdir()
        if crashes:
            image = with_broken_initrd(image, directory)
        try:
            spec = GuestSpec(name, image, Resources(1, 256 << 20, (0,)), directory, journal)
            running = registry.get("xen-pv").start(spec)
            Guest(running.channel).hello(READY_S)
            running.stop()
        except VtaxError as error:
            return [error.what, error.where, error.hint]
    return None


def with_broken_initrd(image, directory):
    """The image with an initrd that no kernel can unpack, so that the kernel finds no disk and panics."""
    broken = Image(image.key, directory / "image")
    broken.directory.mkdir()
    for path in image.directory.iterdir():
        (broken.directory / path.name).symlink_to(path)
    broken.initrd.unlink()
    broken.initrd.write_bytes(b"no initrd" * 1000)
    return broken


if __name__ == "__main__":
    main()
