"""The program of User Mode Linux, fetched from Debian unstable: older ones do not start on recent hosts.

It is only unpacked, never installed, and only the program itself is kept: the image's C library runs it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vtax.errors import BadInput, ImageError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program
from vtax.host.resources import TaggedProcesses, Tree
from vtax.host.trust import private_directory
from vtax.image.tree import bootstrap

SUITE = "sid"
PACKAGE = "user-mode-linux"
PROGRAM = "usr/bin/linux.uml"
ACCEPT_EXPIRED = '--aptopt=Acquire::Check-Valid-Until "false"'


def program_file(home: Home) -> Path:
    """Where the fetched program is, or would be."""
    return home.root / "uml" / "linux.uml"


def fetch(home: Home, journal: Journal, *, accept_expired: bool = False) -> Path:
    """Fetch the program, also over an older one; returns its path. Takes a quarter of a minute.

    accept_expired: take package lists whose validity is over, as those of a mirror that stands still are; signatures
    are checked all the same. Raises BadInput or ImageError.
    """
    if os.geteuid() != 0:
        raise BadInput("fetching User Mode Linux needs root", hint="sudo vtax image uml")
    if find_program("mmdebstrap") is None:
        raise BadInput("mmdebstrap is not installed", hint="apt-get install mmdebstrap")
    target = program_file(home)
    partial = target.parent / f"{journal.token}.partial"
    tag = f"uml-{journal.token}"
    registered = [
        journal.register(Tree(str(partial))),
        journal.register(TaggedProcesses(tag, "the fetching of User Mode Linux")),
    ]
    try:
        private_directory(target.parent)
        partial.mkdir()
        options = [ACCEPT_EXPIRED] if accept_expired else []
        bootstrap(SUITE, [PACKAGE], partial / "tree", tag, variant="extract", options=options)
        shutil.move(partial / "tree" / PROGRAM, target)
    except ImageError as error:
        if "expired" in error.where or "not valid" in error.where:
            hint = "vtax image uml --accept-expired, if the mirror is known to stand still; signatures are checked"
            raise ImageError(error.what, where=error.where, hint=hint) from error
        raise
    finally:
        for each in reversed(registered):
            each.release()
    return target
