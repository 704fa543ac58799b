"""Podman without a daemon, its storage and records in memory that ends with the container.

`podman run --rootfs` starts a container on a directory, so no image is copied into Podman's store: the directory is
the overlay that every guest gets. Podman's own root, run and temporary directories lie in the private /run of the
guest, so a user's containers are never seen or touched, and a killed run leaves no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vtax.counters.layer import Part
from vtax.host import cgroups
from vtax.host.cgroups import Cgroup
from vtax.host.process import find_program
from vtax.image.image import Image
from vtax.platforms import containers, scratch, stdio, user_network
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import Root, oci_confinement
from vtax.platforms.oci import runtime as oci_runtime
from vtax.platforms.oci.runtime import OciOptions
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import Program, StdioGuest

# No default ulimits: raising one fails where the capability is missing, and every guest has vtax's own. The
# directory of networks, which Podman makes and locks even for a container without any, is not in /etc.
_CONTAINERS_CONF = (
    '[containers]\ndefault_ulimits = []\n[network]\nnetwork_config_dir = "/run/vtax/networks"\n'
)
_STORAGE_CONF = (
    '[storage]\ndriver = "vfs"\nrunroot = "/run/vtax/run"\ngraphroot = "/run/vtax/store"\n'
)

PARTS = (Part("runtime", f"podman|conmon|{oci_runtime.PROGRAMS}"),)


@register_platform
class Podman(ContainerDriver):
    name = "podman"
    version_argv = ("podman", "--version")
    summary = "Podman container, no daemon"
    Options = OciOptions
    has_own_filter = True
    variants: Mapping[str, Mapping[str, Any]] = {
        "podman": {},
        "podman-userns": {"userns": True, "no_new_privileges": True},
        "podman-pasta": {"network": "pasta"},
        "podman-slirp4netns": {"network": "slirp4netns"},
    }

    def needed_programs(self, options: OciOptions) -> Mapping[str, str]:
        programs = {
            "podman": "podman",
            options.runtime: oci_runtime.PACKAGES[options.runtime],
            "conmon": "conmon",
        }
        return programs | user_network.programs(options.network)

    def probe(self, options: OciOptions, image: Image | None) -> Probe:
        """Start it once."""
        probe = super().probe(options, image)
        return oci_runtime.with_version(probe, options.runtime) if probe.version else probe

    def network_limits(self, options: OciOptions) -> NetworkLimits:
        return oci_runtime.network_limits(options.runtime, options.network)

    def isolation(self, options: OciOptions) -> Isolation:
        return "kernel" if options.runtime in oci_runtime.SANDBOXES else super().isolation(options)

    def launch_program(
        self, options: OciOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        """Start a guest whose first program is argv."""
        root = containers.overlay_root(spec, userns=options.userns)
        environment, sandboxed = {}, options.runtime in oci_runtime.SANDBOXES
        for variable, text in (
            ("CONTAINERS_CONF", _CONTAINERS_CONF),
            ("CONTAINERS_STORAGE_CONF", _STORAGE_CONF),
        ):
            path = spec.directory / f"{variable.lower()}.toml"
            path.write_text(text)
            environment[variable] = str(path)

        def program(group: Cgroup) -> Program:
            network, network_mount = oci_runtime.network_of(spec) if sandboxed else (None, None)
            command = command_line(options, spec, root, group.runtime_path, argv, network)
            mounts = [
                *([network_mount] if network_mount else []),
                *containers.runtime_mounts(root),
                *oci_runtime.one_hierarchy(),
            ]
            return Program(
                command, mounts, subgroup=containers.CLIENTS, environment=environment, ids=root.ids
            )

        guest = stdio.start(
            spec, program, partial(oci_runtime.own_namespace, spec) if sandboxed else list
        )
        guest.parts = PARTS
        if sandboxed:
            oci_runtime.mark_sandbox(guest, spec)
        return containers.finish_start(
            guest, spec, argv, network=options.network, sandboxed=sandboxed
        )


def command_line(
    options: OciOptions,
    spec: GuestSpec,
    root: Root,
    parent: str,
    argv: Sequence[str],
    network: Path | None = None,
) -> list[str]:
    """Return the podman command. parent: cgroup under which Podman makes the container's. network: a namespace."""
    memory = str(spec.resources.memory_bytes)
    return [
        "podman",
        "--tmpdir=/run/vtax/tmp",
        f"--runtime={find_program(options.runtime) or options.runtime}",
        "--cgroup-manager=cgroupfs",
        "--events-backend=file",
        "--log-level=error",
        "run",
        "--interactive",
        "--rm",
        f"--network=ns:{network}" if network else "--network=none",
        "--log-driver=none",
        f"--name={spec.name}",
        f"--hostname={spec.name}",
        f"--cgroup-parent={parent}",
        f"--cpuset-cpus={','.join(map(str, spec.resources.cpus))}",
        f"--memory={memory}",
        f"--memory-swap={memory}",
        f"--shm-size={memory}",
        f"--pids-limit={cgroups.most_processes()}",
        *([f"--uidmap={root.ids.colons}", f"--gidmap={root.ids.colons}"] if root.ids else []),
        *scratch.run_options(spec),
        *oci_confinement(options, spec),
        "--rootfs",
        str(root.path),
        *argv,
    ]
