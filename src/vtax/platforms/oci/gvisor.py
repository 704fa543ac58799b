"""gVisor: the guest's system calls are answered by a kernel in user space (runsc's "sentry"), not by the host's.

`runsc run` starts one container from a bundle that is written here: no daemon, no image store. Its root is the same
overlay that other containers get; how gVisor itself caches and overlays files is left at runsc's defaults.

The sandbox has a network stack of its own. runsc copies interfaces, addresses and routes into it once, at its start,
and takes the addresses away from the host's side, so the guest's network namespace is made and joined to the topology
before runsc starts. The namespace has a name, and is in the journal.

The limits are those of the cgroup that runsc is started in: everything of the sandbox stays there.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from vtax.counters.layer import Part
from vtax.guest.guest import own_limits
from vtax.host import namespaces
from vtax.host.process import find_program
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.namespace import NAMES
from vtax.platforms import containers, probing, stdio
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe, RunsAsRoot, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import ProcessOptions
from vtax.platforms.oci import runtime as oci_runtime
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest
from vtax.study.declared import Example

PARTS = (Part("runtime", "runsc.*"),)
_KVM_HINT = Note("hint-systrap")
# The agent's own: in the C locale its Python reads UTF-8 as well, and opens no locale's files, which is slow here.
_LOCALE = "C"
_UINT64 = 1 << 64  # how a bundle has RLIM_INFINITY, less one

# Releases before August 2024 take every network namespace of Linux 6.11 and later for the host's, and refuse it,
# because they find this directory's rmem_default there (gVisor issue 10704): Debian 13 has both. It is hidden from
# runsc; newer ones do not look.
_HIDDEN = namespaces.tmpfs(Path("/proc/sys/net"))


class GvisorOptions(ProcessOptions):
    """How the sandbox catches system calls, and with which runsc."""

    platform: Literal["systrap", "ptrace", "kvm"] = Field(
        "systrap",
        description="how system calls are caught: seccomp traps, ptrace, or the host's virtualization",
    )
    runsc: Annotated[str, Example("/opt/bin/runsc"), RunsAsRoot("a program")] = Field(
        "runsc", pattern=r"^[^\s-].*$", description="the runsc program: a name on PATH, or a path"
    )


@register_platform
class Gvisor(LaunchedDriver):
    name = "gvisor"
    summary = "gVisor sandbox: a kernel in user space"
    Options = GvisorOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        f"gvisor-{platform}": {"platform": platform} for platform in ("systrap", "ptrace", "kvm")
    }
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True

    def needed_programs(self, options: GvisorOptions) -> Mapping[str, str]:
        return {options.runsc: oci_runtime.RUNSC_HINT}

    def probe(self, options: GvisorOptions, image: Image | None) -> Probe:
        """Start it once."""
        probe = probing.probe(
            self.launch,
            options,
            image,
            programs=self.needed_programs(options),
            version_argv=(options.runsc, "--version"),
        )
        if probe.available or os.geteuid() != 0:
            return probe
        if options.platform == "kvm" and probing.no_device("kvm"):
            return replace(probe, reason=Note("no-usable-kvm", reason=probe.reason), hint=_KVM_HINT)
        if find_program(options.runsc) is None:
            return probe
        return replace(
            probe,
            hint=probe.hint or (_KVM_HINT if options.platform == "kvm" else oci_runtime.RUNSC_HINT),
        )

    def network_limits(self, options: GvisorOptions) -> NetworkLimits:
        return oci_runtime.network_limits("runsc")

    def isolation(self, options: GvisorOptions) -> Isolation:
        return "kernel"

    def differences(self, options: GvisorOptions) -> Mapping[str, str]:
        reason = "gVisor's kernel does not answer this question of prctl(2)"
        return dict.fromkeys(("huge pages kept from it", "timer slack"), reason)

    def launch_program(
        self, options: GvisorOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        """Start a guest whose first program is argv."""
        root = containers.overlay_root(spec)
        bundle = oci_runtime.bundle(spec, root.path, argv, NAMES / spec.name, _LOCALE)
        bundle["process"]["rlimits"] = _limits()
        (spec.directory / "config.json").write_text(json.dumps(bundle))
        program = Program(command_line(options, spec), [root.mount, _HIDDEN], limited=True)
        guest = stdio.start(spec, lambda group: program, lambda: oci_runtime.own_namespace(spec))
        guest.parts = PARTS
        oci_runtime.mark_sandbox(guest, spec)
        return guest


def _limits() -> list[dict[str, Any]]:
    """Return the limits of all guests for a bundle: a program inside may not set each of them in gVisor's kernel."""
    names = {}
    for name in dir(resource):
        if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE":
            names[getattr(resource, name)] = name
    limits = []
    for number, (soft, hard) in enumerate(own_limits()):
        if number in names:
            limits.append({"type": names[number], "soft": soft % _UINT64, "hard": hard % _UINT64})
    return limits


def command_line(options: GvisorOptions, spec: GuestSpec) -> list[str]:
    """Return the runsc command. Its records lie in the guest's directory."""
    return [
        options.runsc,
        f"--root={spec.directory / 'runsc'}",
        f"--platform={options.platform}",
        "--network=sandbox",
        "--ignore-cgroups",
        "run",
        f"--bundle={spec.directory}",
        spec.name,
    ]
