"""Where `/scratch` of a guest lies, the directory in which benchmarks write: the same choice for every driver.

- `volume`: a directory of this host, as manuals tell a service to keep its data.
- `layer`: the writable layer of the guest's root, as in a container without a volume; for native an overlay.
- `memory`: a file system in the guest's memory.

A machine keeps `/scratch` on the file system of its disk, which counts as a volume. A driver takes the function for
the form in which its guests get their mounts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vtax.host import namespaces
from vtax.host.namespaces import MountStep
from vtax.host.user_namespace import IdRange
from vtax.platforms.base import GuestSpec

NAME = "scratch"
PLACE = f"/{NAME}"
MODE = 0o1777


def prepare(spec: GuestSpec, ids: IdRange | None = None) -> None:
    """Make the directory of this host that is a guest's volume, if it is to have one.

    ids: of the guest's user namespace, whose root then owns it, so that nothing in it is a file of the host's root.
    """
    if spec.scratch == "volume":
        namespaces.made_directory(_volume(spec), MODE, ids.first if ids else 0)


def _volume(spec: GuestSpec) -> Path:
    return spec.directory / "volume"


def mounts(spec: GuestSpec, root: Path, ids: IdRange | None = None) -> list[MountStep]:
    """Return what is mounted over /scratch of a guest whose root vtax mounts.

    root: where that is. ids: see `prepare`.
    """
    place = root / NAME
    if spec.scratch == "volume":
        return [namespaces.bind(_volume(spec), place), namespaces.untrusted(place)]
    if spec.scratch == "memory":
        owner = ids.first if ids else 0
        return [namespaces.tmpfs(place, MODE, size=spec.resources.memory_bytes, owner=owner)]
    return []


def oci_mounts(spec: GuestSpec) -> list[dict[str, Any]]:
    """Return the mounts of /scratch in the config.json of a container (OCI runtime specification, Mounts)."""
    common = {"destination": PLACE}
    if spec.scratch == "volume":
        options = ["bind", "nosuid", "nodev"]
        source = str(_volume(spec))
        return [{**common, "type": "bind", "source": source, "options": options}]
    if spec.scratch == "memory":
        options = ["nosuid", "nodev", f"mode={MODE:o}", f"size={spec.resources.memory_bytes}"]
        return [{**common, "type": "tmpfs", "source": "tmpfs", "options": options}]
    return []


def run_options(spec: GuestSpec) -> list[str]:
    """Return the options of `podman run` and `docker run` for /scratch."""
    if spec.scratch == "volume":
        return [f"--mount=type=bind,source={_volume(spec)},target={PLACE}"]
    if spec.scratch == "memory":
        return [f"--tmpfs={PLACE}:exec,mode={MODE:o},size={spec.resources.memory_bytes}"]
    return []
