"""Writes a pack: vtax, what it needs, a study and its image in one file, which prepares a host without a network.

It is a zip file whose files are stored as they are, since wheels and images are compressed; `python3 PACK` runs its
`__main__.py`, which is the module `prepare`. The same study, image and wheels make the same pack.
"""

from __future__ import annotations

import hashlib
import platform
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from vtax import __version__
from vtax.campaign import prepare
from vtax.campaign.prepare import IMAGE, MAIN, MANIFEST, WHEELS, Manifest
from vtax.campaign.wheel import EPOCH, write_wheel
from vtax.campaign.wheelhouse import download
from vtax.described import Means
from vtax.host.digest import sha256_of_file
from vtax.host.process import run
from vtax.image import carrying, contents
from vtax.image.build import Progress
from vtax.image.image import Image
from vtax.study.programs import files_beside

_CHUNK = 1 << 20
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Pack:
    """A pack that was written."""

    file: Annotated[str, Means("path of the pack")]
    bytes: Annotated[int, Means("size of the pack", unit="bytes")]
    digest: Annotated[str, Means("SHA-256 of its manifest, which has those of its files")]
    study: Annotated[str, Means("name of the study's file in the pack")]
    pythons: Annotated[tuple[str, ...], Means("Pythons that it has wheels for")]
    image_key: Annotated[str, Means("key of the image")]
    image_digest: Annotated[str, Means("SHA-256 of what guests get of the image")]
    vtax_version: Annotated[str, Means("version of vtax")]


def write_pack(
    study: Path,
    image: Image,
    target: Path,
    pythons: Sequence[str],
    progress: Progress = lambda stage: None,
) -> Pack:
    """Write a pack.

    study: the file of a valid study.
    image: of the study; it must be valid.
    target: the file to write.
    pythons: Pythons of the hosts, such as `3.11`.
    progress: is called with the name of each stage.

    Raises BadInput for a file of the study that is not beside it, an image that cannot be exported, and where vtax or
    pip is not installed; VtaxError where a wheel cannot be downloaded; ImageError.
    """
    study_files = [study.name, *files_beside(study)]
    with tempfile.TemporaryDirectory(prefix="vtax-pack-") as temporary:
        directory = Path(temporary)
        wheel = write_wheel(directory)
        hashes: dict[str, dict[str, str]] = {}
        wheels = {wheel.name}
        for python in dict.fromkeys(pythons):
            progress(f"wheels for Python {python}")
            names = (*download(wheel, python, directory), wheel.name)
            hashes[python] = {name: sha256_of_file(directory / name) for name in names}
            wheels.update(names)
        progress(f"image {image.key}")
        carrying.export_image(image, directory / IMAGE)
        archive_wheels(directory, wheels)
        members = {
            MAIN: Path(prepare.__file__),
            IMAGE: directory / IMAGE,
            WHEELS: directory / WHEELS,
        }
        for name in study_files:
            members[f"study/{name}"] = study.parent / name
        manifest = Manifest(
            __version__,
            platform.machine(),
            f"study/{study.name}",
            image.key,
            contents.digest(image),
            hashes,
            {},
        )
        progress("the pack")
        digest = write_members(target, manifest, members)
    return Pack(
        str(target),
        target.stat().st_size,
        digest,
        manifest.study,
        tuple(hashes),
        manifest.image_key,
        manifest.image_digest,
        __version__,
    )


def archive_wheels(directory: Path, names: Iterable[str]) -> None:
    """Write wheels of a directory to one archive beside them. Raises CommandFailed.

    Wheels for several Pythons have long pieces in common, which zstd finds with a long window.
    """
    tar = directory / "wheels.tar"
    with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(names):
            path = directory / name
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            with path.open("rb") as file:
                archive.addfile(member, file)
    run(
        ["zstd", "-q", "-3", "--long=27", "-f", tar, "-o", directory / WHEELS],
        timeout_s=_TIMEOUT_S,
    )
    tar.unlink()


def write_members(target: Path, manifest: Manifest, members: Mapping[str, Path]) -> str:
    """Write files, by their names in the pack, and the manifest with their hashes; return the digest of the pack."""
    files: dict[str, tuple[int, str]] = {}
    with ZipFile(target, "w", ZIP_STORED) as archive:
        for name, path in sorted(members.items()):
            with path.open("rb") as source:
                member = ZipInfo(name, EPOCH)
                member.external_attr = (0o100755 if path.stat().st_mode & 0o100 else 0o100644) << 16
                digest, size = hashlib.sha256(), 0
                with archive.open(member, "w", force_zip64=path.stat().st_size > 1 << 31) as file:
                    while chunk := source.read(_CHUNK):
                        digest.update(chunk)
                        size += len(chunk)
                        file.write(chunk)
            files[name] = size, digest.hexdigest()
        text = Manifest(**{**vars(manifest), "files": files}).text()
        archive.writestr(ZipInfo(MANIFEST, EPOCH), text)
    return hashlib.sha256(text).hexdigest()
