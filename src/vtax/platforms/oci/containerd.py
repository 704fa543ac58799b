"""containerd, driven by its own client `ctr`: the layer below Docker and Kubernetes, its runtime by one option.

A private daemon lives as long as the journal of the vtax process that started it, in mount and network namespaces of
its own: all it keeps is in the /run that only these have. It has no images: a container's root is the overlay that
every guest gets, mounted in the daemon's namespace. Its shims, one a container, are outside of the guest's cgroup.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

from pydantic import Field

from vtax.counters.layer import Part
from vtax.errors import PlatformError, VtaxError
from vtax.host import cgroups, namespaces
from vtax.host.cgroups import Cgroup
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, spawn
from vtax.host.resources import RestoreCommand, TaggedProcesses, Tree, tagged_pids
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import containers, stdio
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import ProcessOptions
from vtax.platforms.oci import runtime as oci_runtime
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import Program, StdioGuest

PARTS = (Part("daemon", "containerd.*"), Part("runtime", f"ctr|{oci_runtime.PROGRAMS}"))
_SOCKET = "/run/vtax/containerd.sock"
_NAMESPACE = "vtax"
_KATA = "containerd-shim-kata-v2"
_CTR = ("ctr", f"--address={_SOCKET}", f"--namespace={_NAMESPACE}")
# Without images, Kubernetes and the directory that containerd would make in /opt
_CONFIG = f"""version = 2
root = "/run/vtax/root"
state = "/run/vtax/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri"]
[grpc]
address = "{_SOCKET}"
"""
# A client that is killed may have requested a task that is only being made, or have removed half of it, which
# containerd itself does not repair: whatever names the container ends, shim and runtime. Its record is in memory.
_REMOVE = f"""{" ".join(_CTR)} task rm --force "$1"; {" ".join(_CTR)} container rm "$1"
for _ in $(seq 250); do
  left=
  for process in $(grep -lszxF -e "$1" /proc/[0-9]*/cmdline); do
    process=${{process%/cmdline}} process=${{process#/proc/}}
    if [ "$process" != $$ ] && kill -9 "$process"; then left=1; fi
  done
  [ "$left" ] || break
  sleep 0.02
done
umount --lazy "$2/root" "$2/network"
[ ! "$left" ]
"""
_DEVPTS = {
    "destination": "/dev/pts",
    "type": "devpts",
    "source": "devpts",
    "options": ["nosuid", "noexec", "newinstance", "mode=620", "ptmxmode=666"],
}


class ContainerdOptions(ProcessOptions):
    """By what containers are made."""

    runtime: Literal["runc", "crun", "youki", "runsc", "kata"] = Field(
        "runc",
        description="OCI runtime, found on PATH; runsc is gVisor, kata (untried) a machine by Kata's own shim",
    )


@dataclass(frozen=True)
class ContainerdDaemon:
    """A private containerd. tag: of it and its shims."""

    process: subprocess.Popen[bytes]
    tag: str


def _program(options: ContainerdOptions) -> str:
    """Return the program of its runtime."""
    return _KATA if options.runtime == "kata" else options.runtime


def short_version(line: str) -> str:
    """Return name and version in the line `containerd PACKAGE VERSION REVISION`."""
    name, *fields = line.split()
    return " ".join([name, *fields[1:2]])


@register_platform
class Containerd(ContainerDriver):
    name = "containerd"
    version_argv = ("containerd", "--version")
    summary = "containerd container, any OCI runtime"
    Options = ContainerdOptions
    variants: Mapping[str, Mapping[str, Any]] = {"containerd": {}}

    def needed_programs(self, options: ContainerdOptions) -> Mapping[str, str]:
        runtime = {_program(options): oci_runtime.PACKAGES.get(options.runtime, "")}
        return {"containerd": "containerd", "ctr": "containerd"} | runtime

    def probe(self, options: ContainerdOptions, image: Image | None) -> Probe:
        """Start it once."""
        probe = super().probe(options, image)
        if not probe.version:
            return probe
        return oci_runtime.with_version(
            replace(probe, version=short_version(probe.version)), _program(options)
        )

    def network_limits(self, options: ContainerdOptions) -> NetworkLimits:
        return oci_runtime.network_limits(options.runtime)

    def isolation(self, options: ContainerdOptions) -> Isolation:
        return "kernel" if options.runtime in oci_runtime.SANDBOXES else super().isolation(options)

    def launch_program(
        self, options: ContainerdOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        """Start a guest whose first program is argv."""
        # A daemon that received a request for a task while the client ended makes the cgroup anew.
        cgroup_again = cgroups.register_again(spec.name, spec.journal)
        daemon, sandboxed = private_daemon(spec.journal), options.runtime in oci_runtime.SANDBOXES
        root = containers.overlay_root(spec)

        def program(group: Cgroup) -> Program:
            network, network_mount = oci_runtime.network_of(spec) if sandboxed else (None, None)
            (spec.directory / "config.json").write_text(
                json.dumps(bundle(spec, root.path, argv, group, network))
            )
            mounts = [root.mount, *([network_mount] if network_mount else [])]
            return Program(
                command_line(options, spec),
                mounts,
                subgroup=containers.CLIENTS,
                inside=daemon.process.pid,
            )

        with ExitStack() as undo:
            container = spec.journal.register(container_removal(daemon, spec))
            undo.callback(container.release)
            guest = stdio.start(
                spec, program, partial(oci_runtime.own_namespace, spec) if sandboxed else list
            )
            undo.pop_all()
        guest.claim.after += [cgroup_again, container]
        guest.parts, guest.daemon = PARTS, cache(partial(_serving_pids, daemon, spec.name))
        if sandboxed:
            oci_runtime.mark_sandbox(guest, spec)
        return containers.finish_start(guest, spec, argv, sandboxed=sandboxed)


def command_line(options: ContainerdOptions, spec: GuestSpec) -> list[str]:
    """Return the ctr command."""
    runtime_option = f"--runc-binary={find_program(options.runtime) or options.runtime}"
    if options.runtime == "kata":
        runtime_option = "--runtime=io.containerd.kata.v2"
    return [*_CTR, "run", f"--config={spec.directory / 'config.json'}", runtime_option, spec.name]


def bundle(
    spec: GuestSpec, root: Path, argv: Sequence[str], group: Cgroup, network: Path | None
) -> dict[str, Any]:
    """config.json of the container. group: of the guest, above the container's. network: see oci_runtime.bundle."""
    config = oci_runtime.bundle(spec, root, argv, network)
    memory, memory_bytes = group.directory("memory"), spec.resources.memory_bytes
    swap = memory and any(
        (memory / name).exists() for name in ("memory.swap.max", "memory.memsw.limit_in_bytes")
    )
    config["mounts"].append(_DEVPTS)
    for mount in config["mounts"]:
        if mount["destination"] == "/dev/shm":
            mount["options"] += ["mode=1777", f"size={memory_bytes}"]
        if mount["destination"] == "/sys":
            mount["options"].append("ro")
    config["linux"] |= {
        "cgroupsPath": f"{group.runtime_path}/{spec.name}",
        "resources": {
            "devices": [{"allow": False, "access": "rwm"}],
            "memory": {"limit": memory_bytes} | ({"swap": memory_bytes} if swap else {}),
            "cpu": {"cpus": ",".join(map(str, spec.resources.cpus))},
        },
    }
    return config


_private: WeakKeyDictionary[Journal, ContainerdDaemon] = WeakKeyDictionary()


def private_daemon(journal: Journal) -> ContainerdDaemon:
    """Return the daemon of a journal, started when it does not run yet.

    Raises PlatformError with the end of its log.
    """
    daemon = _private.get(journal)
    if daemon is None or daemon.process.poll() is not None:
        daemon = _private[journal] = _start_daemon(journal)
    return daemon


def _start_daemon(journal: Journal) -> ContainerdDaemon:
    tag = f"vtax-containerd-{secrets.token_hex(4)}"
    directory = Home.from_environment().ensure().guests / tag
    journal.register(Tree(str(directory)))
    directory.mkdir()
    config, log = directory / "config.toml", directory / "daemon.log"
    config.write_text(_CONFIG)
    mounts = [namespaces.tmpfs(Path("/run")), *oci_runtime.one_hierarchy()]
    journal.register(TaggedProcesses(tag, "the private containerd"))
    with log.open("wb") as errors:
        try:
            process = spawn(
                ["containerd", f"--config={config}", "--log-level=warn"],
                tag=tag,
                stderr=errors.fileno(),
                before_exec=namespaces.private(mounts, network=True),
            )
        except (VtaxError, subprocess.SubprocessError) as error:
            raise PlatformError(
                Note("containerd-not-started", error=error), where=log.read_text()
            ) from error

    def answers() -> bool:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.connect(f"/proc/{process.pid}/root{_SOCKET}")
            return True
        return False

    oci_runtime.first_answer(process, log, answers, Note("containerd-silent"))
    return ContainerdDaemon(process, tag)


def container_removal(daemon: ContainerdDaemon, spec: GuestSpec) -> RestoreCommand:
    """Return the journal's entry of a container and its mounts, all of which end with the daemon."""
    enter = (
        "nsenter",
        f"--mount=/proc/{daemon.process.pid}/ns/mnt",
        "--",
        "sh",
        "-c",
        _REMOVE,
        "sh",
    )
    words = ("No such file", "no such file")  # of nsenter, or of ctr: the daemon is gone
    return RestoreCommand(
        f"containerd container {spec.name}",
        (*enter, spec.name, str(spec.directory)),
        harmless_words=words,
    )


def _serving_pids(daemon: ContainerdDaemon, name: str) -> list[int]:
    """Return the daemon, and the shim of a container."""
    pids = [daemon.process.pid]
    for pid in tagged_pids(daemon.tag):
        with suppress(OSError):
            if name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                pids.append(pid)
    return pids
