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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vtax.counters.layer import Part
from vtax.guest import bootstrap
from vtax.guest.guest import ENVIRONMENT
from vtax.host import namespaces
from vtax.host.journal import Registration
from vtax.host.process import find_program, run
from vtax.host.resources import NetworkNamespace
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.namespace import NAMES, Namespace
from vtax.platforms import containers, probing, stdio
from vtax.platforms.base import Driver, GuestSpec, NetworkLimits, Probe, RunsAsRoot
from vtax.platforms.stdio import Program, StdioGuest

OWN_STACK = Note("gvisor-network")
PARTS = (Part("sentry", "runsc-sandbox|exe"), Part("gofer", "runsc-gofer"), Part("runtime", "runsc.*"))
_HINT = Note("hint-newer-runsc")
_KVM_HINT = Note("hint-systrap")
# What runtimes give a container's root (Docker's default set, without those that no container of vtax has); they
# count inside the sandbox only.
_CAPABILITIES = [
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE",
        "NET_RAW", "SYS_CHROOT", "AUDIT_WRITE", "SETFCAP",
    )
]  # fmt: skip

# The agent's own: in the C locale its Python reads UTF-8 as well, and opens no locale's files, which is slow here.
_AGENT_ENVIRONMENT = {"LC_ALL": "C"}

# Releases before August 2024 take every network namespace of Linux 6.11 and later for the host's, and refuse it,
# because they find this directory's rmem_default there (gVisor issue 10704): Debian 13 has both. It is hidden from
# runsc; newer ones do not look.
_HIDDEN = namespaces.tmpfs(Path("/proc/sys/net"))


class GvisorOptions(BaseModel):
    """How the sandbox catches system calls, and with which runsc."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    platform: Literal["systrap", "ptrace", "kvm"] = Field(
        "systrap", description="how system calls are caught: seccomp traps, ptrace, or the host's virtualization"
    )
    runsc: Annotated[str, RunsAsRoot("a program")] = Field(
        "runsc", pattern=r"^[^\s-].*$", description="the runsc program: a name on PATH, or a path"
    )


class Gvisor(Driver):
    """See the module."""

    name = "gvisor"
    summary = "gVisor sandbox: a kernel in user space"
    Options = GvisorOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        f"gvisor-{platform}": {"platform": platform} for platform in ("systrap", "ptrace", "kvm")
    }
    links_change = False
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True

    def probe(self, options: GvisorOptions, image: Image | None) -> Probe:
        """Start it once."""
        probe = probing.probe(
            self.launch,
            options,
            image,
            programs={options.runsc: "runsc"},
            version_argv=(options.runsc, "--version"),
        )
        if probe.available or os.geteuid() != 0:
            return probe
        if options.platform == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return replace(probe, reason=Note("no-usable-kvm", reason=probe.reason), hint=_KVM_HINT)
        if options.platform != "ptrace" and find_program(options.runsc) is None:
            also = "; kvm needs bare metal, too (where kvm-virtio does not run, it does not)"
            return replace(probe, hint=_HINT + (also if options.platform == "kvm" else ""))
        return replace(probe, hint=probe.hint or (_KVM_HINT if options.platform == "kvm" else _HINT))

    def network_limits(self, options: GvisorOptions) -> NetworkLimits:
        """See platforms.base.Driver. Its stack drops what is longer than the MTU, as a router is handed by offloads;
        it reads an interface through one channel (runsc's --num-network-channels)."""
        return NetworkLimits(queues=1, forwards=False)

    def start(self, options: GvisorOptions, spec: GuestSpec) -> StdioGuest:
        """See platforms.base.Driver."""
        return self.launch(options, spec, bootstrap.argv("-"))

    def launch(self, options: GvisorOptions, spec: GuestSpec, argv: Sequence[str]) -> StdioGuest:
        """Start a guest whose first program is argv."""
        root = containers.overlay_root(spec)
        (spec.directory / "config.json").write_text(json.dumps(bundle(spec, root.path, argv)))
        program = Program(command_line(options, spec), [root.mount, _HIDDEN], limited=True)
        guest = stdio.start(spec, lambda group: program, lambda: _network(spec))
        guest.parts = PARTS
        if spec.plugboard is not None:
            guest.notes += (OWN_STACK,)
        return guest


def command_line(options: GvisorOptions, spec: GuestSpec) -> list[str]:
    """The runsc command. Its records lie in the guest's directory."""
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


def bundle(spec: GuestSpec, root: Path, argv: Sequence[str]) -> dict[str, Any]:
    """config.json of the OCI runtime specification, 1.0. The interfaces are those of the namespace of its name."""
    network = {"type": "network", "path": str(NAMES / spec.name)}
    capabilities = dict.fromkeys(("bounding", "effective", "permitted"), _CAPABILITIES)
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": [f"{key}={value}" for key, value in {**ENVIRONMENT, **_AGENT_ENVIRONMENT}.items()],
            "cwd": "/",
            "capabilities": capabilities,
        },
        "root": {"path": str(root)},
        "hostname": spec.name,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev"]},
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")] + [network]},
    }


def _network(spec: GuestSpec) -> list[Registration]:
    """The guest's network namespace, joined to its topology; with only a loopback when it has none."""
    registered = spec.journal.register(NetworkNamespace(spec.name))
    try:
        run(["ip", "netns", "add", spec.name])
        if spec.plugboard is None:
            own = Namespace.named(spec.name)
            own.suppress_background_traffic()
            own.ip("link set dev lo up")
        else:
            spec.plugboard.plug_namespace(NAMES / spec.name, own_stack=True)
    except BaseException:
        registered.release()
        raise
    return [registered]


DRIVER = Gvisor()
