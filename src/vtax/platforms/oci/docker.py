"""Docker: the host's running daemon, or a private one, with the image imported once and started by `docker run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vtax.counters.layer import Part
from vtax.errors import PlatformError
from vtax.host import cgroups
from vtax.host.cgroups import Cgroup
from vtax.host.packages import packages_hint
from vtax.host.process import find_program
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import containers, probing, scratch, stdio, user_network
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import oci_confinement
from vtax.platforms.oci import runtime as oci_runtime
from vtax.platforms.oci.docker_daemon import (
    Daemon,
    container_removal,
    host_daemon,
    image_removal,
    private_daemon,
)
from vtax.platforms.oci.runtime import OciOptions
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import Program, StdioGuest

_IPV6 = Path("/proc/sys/net/ipv6")
PARTS = (Part("daemon", "dockerd|containerd"), Part("runtime", f"docker|{oci_runtime.PROGRAMS}"))


class DockerOptions(OciOptions):
    """Which daemon, and how it stores images."""

    daemon: Literal["auto", "host", "private"] = Field(
        "auto", description="the host's running daemon, a private one, or the host's where it fits"
    )
    storage: Literal["default", "overlay2", "vfs"] = Field(
        "default",
        description="storage driver; default is the host daemon's, and overlay2 in a private one",
    )


@register_platform
class Docker(ContainerDriver):
    name = "docker"
    summary = "Docker container"
    Options = DockerOptions
    has_own_filter = True
    variants: Mapping[str, Mapping[str, Any]] = {
        "docker": {},
        "docker-overlay2": {"storage": "overlay2"},
        "docker-userns": {"userns": True, "no_new_privileges": True},
    }
    writes_below_directory = False

    def image_files(self, image: Image) -> None:
        """They are in the storage of a daemon."""

    def needed_programs(self, options: DockerOptions) -> Mapping[str, str]:
        """Return the programs to install; a daemon of the host's has its runtimes."""
        programs = {"docker": "docker-cli" if find_program("dockerd") else "docker.io"}
        if not _fitting_host_daemon(options):
            programs["dockerd"] = "docker.io"
            programs[options.runtime] = oci_runtime.PACKAGES[options.runtime]
        return programs | user_network.programs(options.network)

    def probe(self, options: DockerOptions, image: Image | None) -> Probe:
        """Start a container of the host's `cat` once; the image itself would take seconds to import."""
        daemon, programs = _fitting_host_daemon(options), self.needed_programs(options)
        version_argv = () if daemon else ("dockerd", "--version")
        launch = partial(self.launch_program, is_temporary=True)
        probe = probing.probe(launch, options, None, programs=programs, version_argv=version_argv)
        if "apparmor_parser" in probe.reason:
            # a kernel with AppArmor, but not its tools: Docker refuses every start
            probe = replace(probe, hint=packages_hint("apparmor"))
        if daemon:
            probe = replace(probe, version=f"Docker version {daemon.version}, the host's daemon")
            return oci_runtime.with_version(probe, daemon.runtimes[options.runtime])
        if not probe.available:
            return probe
        probe = replace(probe, version=f"{probe.version}, a private daemon")
        return oci_runtime.with_version(probe, options.runtime)

    def network_limits(self, options: DockerOptions) -> NetworkLimits:
        """Return the limits: a sandbox reads its network namespace before Docker has filled it."""
        limits = oci_runtime.network_limits(options.runtime, options.network)
        return replace(limits, interfaces=0) if options.runtime in oci_runtime.SANDBOXES else limits

    def isolation(self, options: DockerOptions) -> Isolation:
        return "kernel" if options.runtime in oci_runtime.SANDBOXES else super().isolation(options)

    def launch_program(
        self,
        options: DockerOptions,
        spec: GuestSpec,
        argv: Sequence[str],
        *,
        is_temporary: bool = False,
    ) -> StdioGuest:
        """Start a guest whose first program is argv. is_temporary: keep nothing, the image neither."""
        # A daemon that received a request for a container while the client ended makes the cgroup anew.
        group = cgroups.register_again(spec.name, spec.journal)
        daemon = daemon_for(options, spec, is_temporary)
        sandboxed = options.runtime in oci_runtime.SANDBOXES
        if is_temporary and not daemon.private:
            spec.journal.register(image_removal(daemon, f"vtax-guest:{spec.image.key}"))
        image = daemon.ensure_image(spec.image, keep_others=is_temporary)
        scratch.prepare(spec, daemon.ids)

        def program(group: Cgroup) -> Program:
            parent = group.runtime_path if daemon.private else None
            return Program(
                command_line(options, daemon, spec, image, parent, argv),
                subgroup=containers.CLIENTS,
            )

        def first_process() -> Iterable[int]:
            with suppress(PlatformError):
                return [daemon.get(f"/containers/{spec.name}/json")["State"]["Pid"]]
            return []

        with ExitStack() as undo:
            removal = container_removal(daemon, spec.name)
            container = spec.journal.register(removal)
            undo.callback(container.release)
            guest = stdio.start(spec, program)
            guest.parts, guest.daemon = PARTS, cache(daemon.pids)
            if sandboxed:
                oci_runtime.mark_sandbox(guest, spec)
            undo.pop_all()
        # until the container is there: after the client that may request it
        guest.claim.after += [group, container]
        find = None if daemon.private else first_process
        containers.finish_start(
            guest, spec, argv, find, network=options.network, sandboxed=sandboxed
        )
        container.resource = replace(removal, late_s=0.0)  # it is there, no client will request it
        guest.claim.after.remove(container)
        guest.claim.before.append(container)
        return guest


def daemon_for(options: DockerOptions, spec: GuestSpec, is_temporary: bool) -> Daemon:
    """Return the daemon that these options mean here, started if it is private. Raises PlatformError."""
    daemon = _fitting_host_daemon(options)
    if daemon is not None:
        return daemon
    if options.daemon == "host":
        raise _no_fitting_daemon(options, host_daemon())
    storage = "overlay2" if options.storage == "default" else options.storage
    return private_daemon(spec.journal, storage, userns=options.userns, is_temporary=is_temporary)


def command_line(
    options: DockerOptions,
    daemon: Daemon,
    spec: GuestSpec,
    image: str,
    parent: str | None,
    argv: Sequence[str],
) -> list[str]:
    """Return the docker command. parent: cgroup under which the daemon makes the container's; None: its choice."""
    memory = str(spec.resources.memory_bytes)
    has_ipv6 = _IPV6.exists() and options.runtime not in oci_runtime.SANDBOXES
    return daemon.command(
        "run",
        "--interactive",
        "--rm",
        "--pull=never",
        "--network=none",
        *(["--sysctl=net.ipv6.conf.lo.disable_ipv6=0"] if has_ipv6 else []),  # as elsewhere
        "--log-driver=none",
        f"--workdir={scratch.PLACE}",
        f"--runtime={options.runtime}",
        f"--name={spec.name}",
        f"--hostname={spec.name}",
        *([f"--cgroup-parent={parent}"] if parent else []),
        f"--cpuset-cpus={','.join(map(str, spec.resources.cpus))}",
        f"--memory={memory}",
        f"--memory-swap={memory}",
        f"--shm-size={memory}",
        f"--pids-limit={cgroups.most_processes()}",
        *scratch.run_options(spec),
        *oci_confinement(options, spec),
        image,
        *argv,
    )


def _fitting_host_daemon(options: DockerOptions) -> Daemon | None:
    if options.daemon == "private":
        return None
    daemon = host_daemon()
    if daemon is None or options.runtime not in daemon.runtimes:
        return None
    has_storage = options.storage in ("default", daemon.storage)
    return daemon if has_storage and options.userns == daemon.userns else None


def _no_fitting_daemon(options: DockerOptions, daemon: Daemon | None) -> PlatformError:
    """Return the error that says why the host's daemon is not used."""
    if daemon is None:
        return PlatformError(Note("no-docker"), hint="systemctl start docker")
    if options.storage not in ("default", daemon.storage):
        difference = f"uses the storage driver {daemon.storage}, not {options.storage}"
        option = "storage = 'default'"
    elif options.runtime not in daemon.runtimes:
        difference = f"has no runtime {options.runtime}"
        option = "add it to /etc/docker/daemon.json"
    else:
        difference = f"runs containers {'with' if daemon.userns else 'without'} a user namespace (userns-remap)"
        option = f"userns = {str(daemon.userns).lower()}"
    return PlatformError(
        Note("docker-differs", difference=difference),
        hint=Note("hint-docker-option", option=option),
    )
