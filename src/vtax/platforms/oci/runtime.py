"""OCI runtimes: the programs by which Podman, Docker and containerd make a container; one option, `runtime`.

runc, crun and youki make it of the host's kernel. A sandbox (runsc of gVisor, Kata) puts a kernel of its own below
the guest's programs. It copies interfaces, addresses and routes once, at its start, so the guest's network namespace
is made and joined to the topology before, and has a name.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from vtax.counters.layer import Part
from vtax.errors import PlatformError, VtaxError
from vtax.guest.guest import ENVIRONMENT
from vtax.host import namespaces
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.journal import Registration
from vtax.host.namespaces import MountStep
from vtax.host.process import find_program, run
from vtax.host.resources import NetworkNamespace
from vtax.host.waiting import wait_until
from vtax.messages import Note
from vtax.network.namespace import NAMES, Namespace
from vtax.platforms import confinement, scratch, user_network
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe
from vtax.platforms.containers import ContainerOptions
from vtax.platforms.stdio import StdioGuest, describe
from vtax.platforms.user_network import Network

Runtime = Literal["runc", "crun", "youki", "runsc"]
RUNSC_HINT = Note("hint-newer-runsc")
PACKAGES: Mapping[str, str] = {"runc": "runc", "crun": "crun", "youki": "", "runsc": RUNSC_HINT}
"""Debian package of each, as of `probing.not_installed`."""
SANDBOXES = ("runsc", "kata")
SANDBOX_PARTS = (Part("sentry", "runsc-sandbox|exe"), Part("gofer", "runsc-gofer"))
PROGRAMS = "runc.*|crun|youki|runsc.*"
"""Runtimes as the kernel names their processes, for counters.layer.Part."""
OWN_STACK = Note("gvisor-network")
_VERSION_S = 15.0
_UP_TIMEOUT_S = 20.0
_HYBRID = Path("/sys/fs/cgroup/unified")
_T = TypeVar("_T")


class OciOptions(ContainerOptions):
    """How containers are made, and what the guest may gain."""

    runtime: Runtime = Field("runc", description="OCI runtime, found on PATH; runsc is gVisor")
    network: Network = Field(
        "kernel",
        description="'kernel', or the program of rootless networks behind which own-nat puts the guest",
    )

    @model_validator(mode="after")
    def _network_is_there_in_time(self) -> Self:
        if self.network != "kernel" and self.runtime in SANDBOXES:
            raise ValueError(
                f"network {self.network} needs a runtime of the host's kernel, not {self.runtime}"
            )
        return self


def first_answer(
    process: subprocess.Popen[bytes], log: Path, ask: Callable[[], _T | None], silent: Note
) -> _T:
    """Return the first true answer of a daemon. Raises PlatformError where it ends, or stays silent and is ended.

    log: what it prints. ask: asks it. silent: says that it does not answer.
    """

    def failed() -> PlatformError:
        state = describe(process, log)
        process.terminate()
        return PlatformError(silent, where=state)

    def answer() -> _T | None:
        if process.poll() is not None:
            raise failed()
        return ask()

    answered = wait_until(answer, _UP_TIMEOUT_S * timeout_factor(), 0.01, otherwise=failed)
    assert answered is not None
    return answered


def with_version(probe: Probe, program: str) -> Probe:
    """Return a probe whose version has that of the runtime, too. program: a name on PATH, or a path."""
    path = find_program(program)
    with suppress(VtaxError, IndexError):
        line = run(
            [path or program, "--version"], timeout_s=_VERSION_S * timeout_factor()
        ).stdout.splitlines()[0]
        return replace(probe, version=", ".join(filter(None, (probe.version, line.strip()))))
    return probe


def network_limits(runtime: str, network: Network = "kernel") -> NetworkLimits:
    """See platforms.base.Driver.

    gVisor's stack drops what is longer than the MTU, as a router is handed by offloads; it reads an interface through
    one channel (runsc's --num-network-channels).
    """
    if runtime in SANDBOXES:
        return NetworkLimits(queues=1, forwards=False, links_change=False)
    return user_network.limited(NetworkLimits(), network)


def one_hierarchy() -> list[MountStep]:
    """Return what hides the second hierarchy of a host with cgroup v1 and v2 from a runtime: crun refuses both."""
    return [namespaces.tmpfs(_HYBRID)] if _HYBRID.is_dir() else []


def own_namespace(spec: GuestSpec) -> list[Registration]:
    """Return the guest's network namespace, joined to its topology; with only a loopback when it has none."""
    registered = spec.journal.register(NetworkNamespace(spec.name))
    try:
        run(["ip", "netns", "add", spec.name])
        if spec.plugboard is None:
            namespace = Namespace.named(spec.name)
            namespace.suppress_background_traffic()
            namespace.ip("link set dev lo up")
        else:
            spec.plugboard.plug_namespace(NAMES / spec.name, own_stack=True)
    except BaseException:
        registered.release()
        raise
    return [registered]


def network_of(spec: GuestSpec) -> tuple[Path, MountStep]:
    """Where a runtime that does not see the host's /run finds the namespace of own_namespace, and its mount."""
    place = spec.directory / "network"
    place.touch()
    return place, namespaces.bind(Path(f"/proc/{os.getpid()}/root{NAMES / spec.name}"), place)


def mark_sandbox(guest: StdioGuest, spec: GuestSpec) -> None:
    """Say of a guest what differs in a sandbox."""
    guest.parts = (*SANDBOX_PARTS, *guest.parts)
    if spec.plugboard is not None:
        guest.notes += (OWN_STACK,)


def bundle(
    spec: GuestSpec,
    root: Path,
    argv: Sequence[str],
    network: Path | None,
    locale: str | None = None,
) -> dict[str, Any]:
    """config.json of the OCI runtime specification, 1.0. network: of a namespace; None: a new one.

    locale: LC_ALL of the agent; None: that of all guests.
    """
    environment = ENVIRONMENT | ({"LC_ALL": locale} if locale else {})
    capabilities = [f"CAP_{name}" for name in confinement.capabilities(spec.privileges)]
    network_namespace = {"type": "network"} | ({"path": str(network)} if network else {})
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": [f"{key}={value}" for key, value in environment.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        },
        "root": {"path": str(root)},
        "hostname": spec.name,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {
                "destination": "/dev/shm",
                "type": "tmpfs",
                "source": "shm",
                "options": ["nosuid", "nodev"],
            },
            {
                "destination": "/sys",
                "type": "sysfs",
                "source": "sysfs",
                "options": ["nosuid", "noexec", "nodev"],
            },
            *scratch.oci_mounts(spec),
        ],
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount")),
                network_namespace,
            ]
        },
    }
