"""The baseline: the image's files under the same limits, on the host's kernel with nothing else isolated.

The guest is a process in a mount namespace of its own whose root is an overlay over the image, with the host's
/dev, /proc and /sys; /scratch is a plain directory, so that the host's own file system is what a disk benchmark
measures. Only when it must join a topology does it get a network namespace, since nothing may touch the host's
network.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vtax.host.namespaces import MS_NODEV, MS_NOEXEC, MS_NOSUID, MountStep, bind, untrusted
from vtax.platforms import alike, containers, stdio
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import Root
from vtax.platforms.cpu_limits import CpuLimited
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest


@register_platform
class Native(LaunchedDriver):
    name = "native"
    summary = "the image's files on the host's kernel, same limits, nothing else isolated"
    Options = CpuLimited
    variants: Mapping[str, Mapping[str, Any]] = {"native": {}}
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True

    def isolation(self, options: CpuLimited) -> Isolation:
        return "nothing"

    def launch_program(
        self, options: CpuLimited, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        return launch(spec, argv, limited=True)


def launch(spec: GuestSpec, argv: Sequence[str], *, limited: bool) -> StdioGuest:
    """Start a guest whose first program is argv, within the spec's limits or with all that the host has."""
    root = containers.overlay_root(spec)
    scratch = spec.directory / containers.SCRATCH
    scratch.mkdir()
    scratch.chmod(0o1777)
    network = spec.plugboard is not None
    inside = root.path / containers.SCRATCH
    mounts = [root.mount, *_host_views(root, network), bind(scratch, inside), untrusted(inside)]
    mounts.append(alike.shared_memory(root.path / "dev/shm", spec.resources.memory_bytes))
    program = Program(argv, mounts, network=network, new_root=root.path, limited=limited)
    guest = stdio.start(spec, lambda group: program)
    guest.executing_at = time.monotonic()  # spawning a program ends with its first instruction
    if spec.plugboard is not None:
        try:
            spec.plugboard.plug_namespace(Path(f"/proc/{guest.process.pid}/ns/net"))
        except BaseException:
            guest.stop()
            raise
    return guest


def _host_views(root: Root, network: bool) -> list[MountStep]:
    """Return the host's /dev, /proc and /sys; with a network of its own, also a sysfs of its own (it shows the
    NICs)."""
    views = [bind(Path("/dev"), root.path / "dev"), bind(Path("/proc"), root.path / "proc")]
    if not network:
        return [*views, bind(Path("/sys"), root.path / "sys")]
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    return [
        *views,
        MountStep(root.path / "sys", "sysfs", "sysfs", flags),
        bind(Path("/sys/fs/cgroup"), root.path / "sys/fs/cgroup"),
    ]
