"""bubblewrap: the sandbox of Flatpak and of agents that run foreign code; namespaces by one small program, no daemon.

bwrap sets no limits, so the whole program starts inside the limited cgroup, and in a network namespace with a sysfs
of its own. It always sets no_new_privs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.counters.layer import Part
from vtax.host import namespaces
from vtax.host.namespaces import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MountStep
from vtax.platforms import confinement, containers, scratch, stdio
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.containers import ProcessOptions, Root
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest

PARTS = (Part("runtime", "bwrap"),)


@register_platform
class Bubblewrap(LaunchedDriver):
    name = "bubblewrap"
    summary = "bubblewrap sandbox"
    Options = ProcessOptions
    variants: Mapping[str, Mapping[str, Any]] = {"bubblewrap": {}}
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True
    programs: Mapping[str, str] = {"bwrap": "bubblewrap"}
    version_argv = ("bwrap", "--version")

    def launch_program(
        self, options: ProcessOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        root = containers.overlay_root(spec)
        mounts = [
            *containers.runtime_mounts(root),
            *scratch.mounts(spec, root.path),
            _own_sys(root),
            *namespaces.own_devices(root.path / "dev"),
        ]
        program = Program(command_line(spec, root, argv), mounts, network=True, limited=True)
        guest = stdio.start(spec, lambda group: program)
        guest.parts = PARTS
        return containers.finish_start(guest, spec, argv)


def command_line(spec: GuestSpec, root: Root, argv: Sequence[str]) -> list[str]:
    """Return the bwrap command (bwrap(1)). The program is the sandbox's first process, as in any container here."""
    kept = confinement.capabilities(spec.privileges)
    return [
        "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--as-pid-1",
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *(part for name in kept for part in ("--cap-add", f"CAP_{name}")),
        *("--hostname", spec.name),
        *("--bind", str(root.path), "/"),
        *("--proc", "/proc"),
        *("--dev-bind", str(root.path / "dev"), "/dev"),
        *("--chdir", "/"),
        "--",
        *argv,
    ]


def _own_sys(root: Root) -> MountStep:
    """Return a sysfs of the guest's network namespace: bwrap mounts none, and the host's names the host's NICs."""
    return MountStep(
        root.path / "sys", "sysfs", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY
    )
