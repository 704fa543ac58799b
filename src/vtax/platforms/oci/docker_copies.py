"""The copies of an image that Docker keeps, so that removing an image leaves none.

A private daemon's data directory (VTAX_HOME/docker/STORAGE) holds nothing but guest images, which are imported
again when they are needed, so it goes as a whole; no daemon need run, or even be installed, for that.
"""

from __future__ import annotations

import json
from pathlib import Path

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run
from vtax.host.resources import Tree
from vtax.messages import Note
from vtax.platforms.oci.docker_daemon import REPOSITORY, host_daemon, owner_of, pid_file_of


def remove(home: Home, key: str, journal: Journal) -> list[str]:
    """Remove every copy of an image, and return their descriptions. The journal removes the files when it is closed.

    Raises BadInput while a container of it, or a private daemon with it, runs.
    """
    return [*_from_host_daemon(key), *_from_private_daemons(home, key, journal)]


def _from_host_daemon(key: str) -> list[str]:
    daemon = host_daemon() if find_program("docker") else None
    if daemon is None:
        return []
    name = f"{REPOSITORY}:{key}"
    if name not in daemon.image_names():
        return []
    removed = run(daemon.command("image", "rm", name), check=False)
    if removed.status != 0:
        raise BadInput(
            f"Docker cannot remove {name}: {removed.stderr.strip()[-200:]}",
            hint=Note("hint-stop-containers"),
        )
    return [f"the copy in the host's Docker ({name})"]


def _from_private_daemons(home: Home, key: str, journal: Journal) -> list[str]:
    top = home.docker
    descriptions: list[str] = []
    if not top.is_dir():
        return descriptions
    for data in sorted(filter(Path.is_dir, top.iterdir())):
        if not _holds(data, key):
            continue
        pid_file = pid_file_of(home, data.name)
        owner = owner_of(pid_file)
        if owner is not None:
            raise BadInput(
                f"image {key} is in use by a private Docker daemon (process {owner})",
                hint="wait until the run that started it ends; if that was killed, run vtax clean",
            )
        removed_image = top / f"{data.name}.{journal.token}.removed"
        journal.register(Tree(str(removed_image)))
        data.rename(removed_image)
        pid_file.unlink(missing_ok=True)
        descriptions.append(f"the copy of private Docker daemons ({data})")
    return descriptions


def _holds(data: Path, key: str) -> bool:
    """Whether a data directory holds an image; one whose list cannot be read may."""
    if data.suffix == ".removed":
        return False
    lists = [*data.glob("image/*/repositories.json")]
    lists += data.glob("*/image/*/repositories.json")  # with a user namespace
    for file in lists:
        try:
            repositories = json.loads(file.read_text()).get("Repositories", {})
        except (OSError, ValueError):
            return True
        if f"{REPOSITORY}:{key}" in repositories.get(REPOSITORY, {}):
            return True
    return not lists
