"""Removes from a host what a campaign installed there: its pack, its image, and the consents to its study.

Runs stay, in the store and in their directories.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from vtax.described import Means
from vtax.doctor.readiness import PACKS, kept_in, packs_in
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.host.consents import forget_consents
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.host.removal import remove_tree
from vtax.host.walking import walk
from vtax.image import build as images
from vtax.platforms.oci import docker_daemon
from vtax.units import format_count

_SHORT_DIGEST = re.compile(r"[0-9a-f]{12}")
_BLOCK_BYTES = 512


@dataclass(frozen=True)
class Removal:
    """Answer of `vtax host remove`."""

    removed: Annotated[tuple[str, ...], Means("what was removed, such as `pack 4f1d0c77aa31`")]
    freed_bytes: Annotated[int, Means("space that pack and image took", unit="bytes")]
    kept: Annotated[tuple[str, ...], Means("packs, images and consents that are here still")]


def remove_pack(home: Home, pack: str, image_key: str) -> Removal:
    """Remove a pack, the consents to its study, and an image, unless another pack is here, which may need it.

    The vtax that does so may be the pack's own, so the pack is removed last.

    home: VTAX_HOME.
    pack: name of its directory, the beginning of its digest.
    image_key: of its image; one that is not here is passed over.

    Raises BadInput for a text that names no pack, and for an image that is in use; Busy while a run measures.
    """
    if not _SHORT_DIGEST.fullmatch(pack):
        raise BadInput(
            f"{one_line(pack, 60)!r} names no pack", hint="the first 12 digits of its digest"
        )
    directory = home.root / PACKS / pack
    removed_names, freed_bytes = [], 0
    with measuring_lock("vtax host remove"):
        others = [path for path in packs_in(home) if path != directory]
        unused_images = [image for image in images.list_images(home) if image.key == image_key]
        if unused_images and not others:
            freed_bytes += _size_bytes(unused_images[0].directory)
            images.removable(home, image_key)
            with Journal(home.journal) as journal:
                docker_daemon.remove_copies(home, image_key, journal)
            images.remove(home, image_key)
            removed_names.append(f"image {image_key}")
        count = forget_consents(home, directory)
        if count:
            removed_names.append(format_count(count, "consent"))
        kept_names = [what for what in kept_in(home) if what != f"pack {pack}"]
        if directory.is_dir():
            freed_bytes += _size_bytes(directory)
            remove_tree(directory)
            removed_names.append(f"pack {pack}")
    return Removal(tuple(removed_names), freed_bytes, tuple(kept_names))


def _size_bytes(directory: Path) -> int:
    """Return the space that a tree takes."""
    size = 0
    with suppress(OSError):
        size = sum(status.st_blocks for _, status in walk(directory, is_strict=False))
    return size * _BLOCK_BYTES
