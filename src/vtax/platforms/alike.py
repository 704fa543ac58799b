"""Limits, names and shared memory, which every guest on this host's kernel has alike, whatever its runtime gives.

A runtime's own limits would be measured as if they were a cost of its kind: systemd-nspawn gives 1 024 open files where
native has those of its caller, Podman a third of the processes. So a guest's first process gets, before it becomes
anything else, the limits of vtax itself, with which native runs; names are resolved as the image says; and /dev/shm
holds as much as the guest's memory.

A guest with a kernel of its own has its limits from the agent (`Guest.set_limits`). The check `fairness` of `vtax
conformance` tries what programs in a guest find.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

from vtax.guest.guest import RLIMITS, own_limits
from vtax.host import namespaces
from vtax.image.image import Image

SHM = Path("/dev/shm")
_OF_RUNTIMES = (Path("/etc/hosts"), Path("/etc/resolv.conf"))
"""Files that a runtime makes for a container: a server that it names is not there in a lab."""


def give(pid: int, image: Image, memory_bytes: int) -> None:
    """Give a guest what all have.

    What needs a capability that vtax itself lacks stays as it is, and the audit shows it; a file of the host's own
    that a runtime shows is not written. Raises OSError where a mount or a file cannot be made.

    pid: of its first process, which waits.
    image: of the guest.
    memory_bytes: that it may use.
    """
    for number, limit in zip(RLIMITS, own_limits(), strict=True):
        with suppress(PermissionError):
            resource.prlimit(pid, number, limit)
    with suppress(PermissionError):
        own_score = Path("/proc/self/oom_score_adj").read_text()
        Path(f"/proc/{pid}/oom_score_adj").write_text(own_score)
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    mount_points = {line.split()[4] for line in lines}
    texts = {path: _of_image(image, path) for path in _OF_RUNTIMES if str(path) in mount_points}
    of_host = [path.stat() for path in texts if path.exists()]

    def act() -> None:
        for path, text in texts.items():
            if not any(os.path.samestat(path.stat(), status) for status in of_host):
                path.write_bytes(text)
        if SHM.is_dir():
            namespaces.mount(namespaces.tmpfs(SHM, 0o1777, size=memory_bytes))

    namespaces.within(pid, act)


def _of_image(image: Image, path: Path) -> bytes:
    """Return what is in a file of the image; nothing where it has none, or a link to somewhere else."""
    file = image.tree / path.relative_to("/")
    return file.read_bytes() if file.is_file() and not file.is_symlink() else b""
