"""LXC without a daemon: `lxc-start` in the foreground, its console off, so that its own streams are the guest's.

The container has Debian's common LXC configuration where that is installed (dropped capabilities, seccomp, device
rules), as any container made by `lxc-create` has, and with a user namespace what such a one has then (all
capabilities within it), but for those that no container of vtax has. LXC keeps its monitor outside the limits it sets
on the payload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vtax.counters.layer import Part
from vtax.host.namespaces import MountStep, bind
from vtax.host.user_namespace import IdRange
from vtax.platforms import confinement, containers, scratch, stdio
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.containers import DROPPED_CAPABILITIES, ContainerOptions, Root
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import Program, StdioGuest

COMMON = Path("/usr/share/lxc/config/common.conf")
COMMON_USERNS = Path("/usr/share/lxc/config/userns.conf")

PARTS = (Part("runtime", "lxc-.*"),)


@register_platform
class Lxc(ContainerDriver):
    name = "lxc"
    summary = "LXC container"
    Options = ContainerOptions
    has_own_filter = True
    variants: Mapping[str, Mapping[str, Any]] = {
        "lxc": {},
        "lxc-unprivileged": {"userns": True, "no_new_privileges": True},
    }
    programs: Mapping[str, str] = {"lxc-start": "lxc"}
    version_argv = ("lxc-start", "--version")

    def launch_program(
        self, options: ContainerOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        root = containers.overlay_root(spec, userns=options.userns)
        config = spec.directory / "lxc.conf"
        config.write_text(configuration(options, spec, root, COMMON.exists()))
        command = [
            "lxc-start",
            "--foreground",
            "--lxcpath=/run",  # the guest's private one, which its unprivileged root can reach
            f"--name={spec.name}",
            f"--rcfile={config}",
            f"--logfile={spec.directory / 'lxc.log'}",
            "--logpriority=ERROR",
            "--",
            *argv,
        ]
        mounts = [
            *containers.runtime_mounts(root),
            *scratch.mounts(spec, root.path, root.ids),
            *_owned_by_root(root.ids, spec.directory),
        ]
        program = Program(command, mounts, ids=root.ids)
        guest = stdio.start(spec, lambda group: program)
        guest.parts = PARTS
        return containers.finish_start(guest, spec, argv)


def configuration(options: ContainerOptions, spec: GuestSpec, root: Root, common: bool) -> str:
    """Return the container's configuration (lxc.container.conf(5)). common: with Debian's files.

    Limits are given for both cgroup versions; LXC ignores those of the other one. Cgroup names are relative to the
    group that lxc-start runs in.
    """
    resources, ids = spec.resources, root.ids
    cpus = ",".join(map(str, resources.cpus))
    settings = [
        *([("lxc.include", str(COMMON))] if common else []),
        *([("lxc.include", str(COMMON_USERNS))] if common and ids else []),
        *([("lxc.idmap", f"{kind} {ids.mapping}") for kind in "ug"] if ids else []),
        *_confinement(options, spec),
        ("lxc.uts.name", spec.name),
        ("lxc.rootfs.path", f"dir:{root.path}"),
        ("lxc.apparmor.profile", "unconfined"),
        ("lxc.net.0.type", "empty"),
        ("lxc.net.0.flags", "up"),
        ("lxc.console.path", "none"),
        ("lxc.tty.max", "0"),
        ("lxc.mount.entry", "tmpfs dev/shm tmpfs nosuid,nodev,create=dir 0 0"),
        ("lxc.cgroup.relative", "1"),
        ("lxc.cgroup.cpuset.cpus", cpus),
        ("lxc.cgroup.memory.limit_in_bytes", str(resources.memory_bytes)),
        ("lxc.cgroup.memory.memsw.limit_in_bytes", str(resources.memory_bytes)),
        ("lxc.cgroup2.cpuset.cpus", cpus),
        ("lxc.cgroup2.memory.max", str(resources.memory_bytes)),
        ("lxc.cgroup2.memory.swap.max", "0"),
    ]
    return "".join(f"{key} = {value}\n" for key, value in settings)


def _confinement(options: ContainerOptions, spec: GuestSpec) -> list[tuple[str, str]]:
    """Return what the guest may do. An empty value takes back what LXC's own files say."""
    gains_nothing = options.no_new_privileges or options.confinement == "strict"
    settings = [("lxc.no_new_privs", "1")] if gains_nothing else []
    if options.confinement == "none":
        dropped_names = " ".join(DROPPED_CAPABILITIES).lower()
        mounts = [] if COMMON.exists() else [("lxc.mount.auto", "proc:mixed sys:mixed")]
        return [*settings, *mounts, ("lxc.seccomp.profile", ""), ("lxc.cap.drop", dropped_names)]
    capabilities = confinement.capabilities(spec.privileges, options.confinement)
    return [
        *settings,
        ("lxc.cap.drop", ""),
        ("lxc.cap.keep", " ".join(capabilities).lower() or "none"),
        ("lxc.mount.auto", ""),
        ("lxc.mount.auto", "cgroup:mixed proc:mixed sys:ro"),
        ("lxc.mount.entry", ""),
    ]


def _owned_by_root(ids: IdRange | None, directory: Path) -> list[MountStep]:
    """Files in the place of /etc/subuid and subgid: with newuidmap installed, LXC maps only what root has there."""
    steps = []
    for path in (Path("/etc/subuid"), Path("/etc/subgid")):
        if ids is not None and path.exists():
            (directory / path.name).write_text(f"root:{ids.first}:{ids.count}\n")
            steps.append(bind(directory / path.name, path))
    return steps
