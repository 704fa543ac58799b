"""systemd-nspawn: a container without a daemon and without a manager, over the overlay that every guest gets.

It sets no limits itself when no manager is asked (`--keep-unit --register=no`), so the whole program starts inside
the limited cgroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.counters.layer import Part
from vtax.host import cgroup_mounts
from vtax.platforms import containers, stdio
from vtax.platforms.base import GuestSpec
from vtax.platforms.containers import DROPPED_CAPABILITIES, Confinement, ContainerOptions, Root
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest


def environment(confinement: Confinement = "default") -> dict[str, str]:
    """Return variables that systemd-nspawn reads (systemd, docs/ENVIRONMENT.md).

    Where the host has cgroup v2 alone, the guest gets nothing else: nspawn would guess v1 for a tree without systemd,
    and mount a hierarchy of it, which the host's kernel then keeps.
    """
    unified = all(hierarchy.unified for hierarchy in cgroup_mounts.hierarchies())
    unfiltered = {"SYSTEMD_SECCOMP": "0"} if confinement == "none" else {}
    return unfiltered | ({"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"} if unified else {})


PARTS = (Part("runtime", "systemd-nspawn"),)


class Nspawn(LaunchedDriver):
    name = "nspawn"
    summary = "systemd-nspawn container"
    Options = ContainerOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "nspawn": {},
        "nspawn-userns": {"userns": True, "no_new_privileges": True},
    }
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True
    programs: Mapping[str, str] = {"systemd-nspawn": "systemd-container"}
    version_argv = ("systemd-nspawn", "--version")

    def launch(self, options: ContainerOptions, spec: GuestSpec, argv: Sequence[str]) -> StdioGuest:
        root = containers.overlay_root(spec, userns=options.userns)
        command = command_line(options, spec, root, argv)
        program = Program(
            command,
            containers.runtime_mounts(root),
            limited=True,
            environment=environment(options.confinement),
            ids=root.ids,
        )
        guest = stdio.start(spec, lambda group: program)
        guest.parts = PARTS
        return containers.finish_start(guest, spec, argv)


def command_line(
    options: ContainerOptions, spec: GuestSpec, root: Root, argv: Sequence[str]
) -> list[str]:
    """Return the nspawn command. The root's files already belong to the ids of the user namespace."""
    return [
        "systemd-nspawn",
        "--quiet",
        "--keep-unit",
        "--register=no",
        "--pipe",
        "--private-network",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        *(
            [f"--private-users={root.ids.first}:{root.ids.count}", "--private-users-ownership=off"]
            if root.ids
            else []
        ),
        "--tmpfs=/dev/net",  # over the host's tun, which nspawn makes open to everybody
        *_confinement(options),
        f"--machine={spec.name}",
        f"--directory={root.path}",
        "--",
        *argv,
    ]


def _confinement(options: ContainerOptions) -> list[str]:
    """Return the options for what the guest may do (systemd-nspawn(1), Security Options)."""
    dropped = [f"--drop-capability=CAP_{name}" for name in DROPPED_CAPABILITIES]
    if options.confinement == "strict":
        dropped = ["--drop-capability=all"]
    gains_nothing = options.no_new_privileges or options.confinement == "strict"
    return [*dropped, *(["--no-new-privileges=yes"] if gains_nothing else [])]


DRIVER = Nspawn()
