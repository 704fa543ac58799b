"""systemd-nspawn: a container without a daemon and without a manager, over the overlay that every guest gets.

It sets no limits itself when no manager is asked (`--keep-unit --register=no`), so the whole program starts inside
the limited cgroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vtax.counters.layer import Part
from vtax.host import cgroup_mounts, namespaces
from vtax.host.namespaces import MountStep
from vtax.platforms import confinement, containers, scratch, stdio
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.containers import DROPPED_CAPABILITIES, ContainerOptions, Root
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import Program, StdioGuest


def environment(*, filtered: bool = True) -> dict[str, str]:
    """Return variables that systemd-nspawn reads (systemd, docs/ENVIRONMENT.md). filtered: by its own filter of
    system calls.

    /tmp stays the image's, as in every container, and is not in memory. Where the host has cgroup v2 alone, the guest
    gets nothing else: nspawn would guess v1 for a tree without systemd, and mount a hierarchy of it, which the host's
    kernel then keeps.
    """
    unified = all(hierarchy.unified for hierarchy in cgroup_mounts.hierarchies())
    own_filter = {} if filtered else {"SYSTEMD_SECCOMP": "0"}
    of_image = {"SYSTEMD_NSPAWN_TMPFS_TMP": "0"}
    return own_filter | of_image | ({"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"} if unified else {})


PARTS = (Part("runtime", "systemd-nspawn"),)
_OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))


@register_platform
class Nspawn(ContainerDriver):
    name = "nspawn"
    summary = "systemd-nspawn container"
    Options = ContainerOptions
    has_own_filter = True
    variants: Mapping[str, Mapping[str, Any]] = {
        "nspawn": {},
        "nspawn-userns": {"userns": True, "no_new_privileges": True},
    }
    programs: Mapping[str, str] = {"systemd-nspawn": "systemd-container"}
    version_argv = ("systemd-nspawn", "--version")

    def launch_program(
        self, options: ContainerOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        root = containers.overlay_root(spec, userns=options.userns)
        command = command_line(options, spec, root, argv)
        filtered = options.confinement != "none" and "asynchronous-io" not in spec.privileges
        mounts = [
            *containers.runtime_mounts(root),
            *scratch.mounts(spec, root.path, root.ids),
            *_no_files_of_host(),
        ]
        program = Program(
            command,
            mounts,
            limited=True,
            environment=environment(filtered=filtered),
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
        *_confinement(options, spec),
        f"--machine={spec.name}",
        f"--directory={root.path}",
        "--",
        *argv,
    ]


def _no_files_of_host() -> list[MountStep]:
    """Return what hides the files that nspawn shows a guest of its host: of these a guest could open others."""
    files = dict.fromkeys(path.resolve() for path in _OS_RELEASE if path.exists())
    return [namespaces.emptied(path, Path("/run/vtax-empty")) for path in files]


def _confinement(options: ContainerOptions, spec: GuestSpec) -> list[str]:
    """Return the options for what the guest may do (systemd-nspawn(1), Security Options).

    A capability to drop wins over one to keep: so everything else is named to be dropped.
    """
    gains_nothing = options.no_new_privileges or options.confinement == "strict"
    privileges = ["--no-new-privileges=yes"] if gains_nothing else []
    if options.confinement == "none":
        return [*privileges, *(f"--drop-capability=CAP_{name}" for name in DROPPED_CAPABILITIES)]
    capabilities = confinement.capabilities(spec.privileges, options.confinement)
    dropped_numbers = ",".join(map(str, confinement.other_capabilities(capabilities)))
    return [*privileges, f"--drop-capability={dropped_numbers}"]
