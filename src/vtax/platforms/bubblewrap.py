"""bubblewrap: the sandbox of Flatpak and of agents that run foreign code; namespaces by one small program, no daemon.

bwrap sets no limits, so the whole program starts inside the limited cgroup, and in a network namespace with a sysfs
of its own: the launcher is native's. It always sets no_new_privs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.counters.layer import Part
from vtax.platforms import confinement, native
from vtax.platforms.base import GuestSpec, register_platform
from vtax.platforms.containers import ProcessOptions
from vtax.platforms.sandbox import ContainerDriver
from vtax.platforms.stdio import StdioGuest

PARTS = (Part("runtime", "bwrap"),)


@register_platform
class Bubblewrap(ContainerDriver):
    name = "bubblewrap"
    summary = "bubblewrap sandbox"
    Options = ProcessOptions
    variants: Mapping[str, Mapping[str, Any]] = {"bubblewrap": {}}
    programs: Mapping[str, str] = {"bwrap": "bubblewrap"}
    version_argv = ("bwrap", "--version")

    def launch_program(
        self, options: ProcessOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        guest = native.launch(
            spec,
            argv,
            isolating=command(spec),
            root="overlay",
            network=True,
            closed=True,
            enters_root=False,
        )
        guest.parts = PARTS
        return guest


def command(spec: GuestSpec) -> list[str]:
    """Return the bwrap command (bwrap(1)) before the guest's first program, which has PID 1, as in any container here."""
    root = spec.directory / native.ROOT
    capabilities = confinement.capabilities(spec.privileges)
    return [
        "bwrap",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--as-pid-1",
        "--die-with-parent",
        *("--cap-drop", "ALL"),
        *(part for name in capabilities for part in ("--cap-add", f"CAP_{name}")),
        *("--hostname", spec.name),
        *("--bind", str(root), "/"),
        *("--proc", "/proc"),
        *("--dev-bind", str(root / "dev"), "/dev"),
        *("--chdir", "/"),
        "--",
    ]
