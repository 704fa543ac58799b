"""systemd-nspawn: a container without a daemon and without a manager, over the overlay that every guest gets.

It sets no limits itself when no manager is asked (`--keep-unit --register=no`), so the whole program starts inside
the limited cgroup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict

from vtax.counters.layer import Part
from vtax.guest import bootstrap
from vtax.host import cgroups
from vtax.image.image import Image
from vtax.platforms import containers, probing, stdio
from vtax.platforms.base import Driver, GuestSpec, Probe
from vtax.platforms.containers import CONFINEMENT, DROPPED_CAPABILITIES, NO_NEW_PRIVILEGES, USERNS, Confinement, Root
from vtax.platforms.cpu_limits import CpuLimited
from vtax.platforms.stdio import Program, StdioGuest


def environment(confinement: Confinement = "default") -> dict[str, str]:
    """Return variables that systemd-nspawn reads (systemd, docs/ENVIRONMENT.md).

    Where the host has cgroup v2 alone, the guest gets nothing else: nspawn would guess v1 for a tree without systemd,
    and mount a hierarchy of it, which the host's kernel then keeps.
    """
    unified = all(hierarchy.unified for hierarchy in cgroups.hierarchies())
    unfiltered = {"SYSTEMD_SECCOMP": "0"} if confinement == "none" else {}
    return unfiltered | ({"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"} if unified else {})


PARTS = (Part("runtime", "systemd-nspawn"),)


class NspawnOptions(CpuLimited):
    """What the guest may gain."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    userns: bool = USERNS
    no_new_privileges: bool = NO_NEW_PRIVILEGES
    confinement: Confinement = CONFINEMENT


class Nspawn(Driver):
    name = "nspawn"
    summary = "systemd-nspawn container"
    Options = NspawnOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "nspawn": {},
        "nspawn-userns": {"userns": True, "no_new_privileges": True},
    }
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True

    def probe(self, options: NspawnOptions, image: Image | None) -> Probe:
        """Start it once."""
        return probing.probe(
            self.launch,
            options,
            image,
            programs={"systemd-nspawn": "systemd-container"},
            version_argv=("systemd-nspawn", "--version"),
        )

    def start(self, options: NspawnOptions, spec: GuestSpec) -> StdioGuest:
        return self.launch(options, spec, bootstrap.argv("-"))

    def launch(self, options: NspawnOptions, spec: GuestSpec, argv: Sequence[str]) -> StdioGuest:
        """Start a guest whose first program is argv."""
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


def command_line(options: NspawnOptions, spec: GuestSpec, root: Root, argv: Sequence[str]) -> list[str]:
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


def _confinement(options: NspawnOptions) -> list[str]:
    """Return the options for what the guest may do (systemd-nspawn(1), Security Options)."""
    dropped = [f"--drop-capability=CAP_{name}" for name in DROPPED_CAPABILITIES]
    if options.confinement == "strict":
        dropped = ["--drop-capability=all"]
    gains_nothing = options.no_new_privileges or options.confinement == "strict"
    return [*dropped, *(["--no-new-privileges=yes"] if gains_nothing else [])]


DRIVER = Nspawn()
