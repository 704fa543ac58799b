"""Native plus single mechanisms of which containers are made, each by itself an option: what does each of them cost?

With none of its options a guest is native's. A study adds one mechanism after the other, from native to what a
container of a runtime has, and each step is compared with the step below it. The program `vtax-sandbox` of the image
makes the namespaces, gives up capabilities and sets no_new_privs; the filter of system calls is `vtax-confine`'s.

A guest is confined only with all that keeps its root away from the host's, see `confines`; else it keeps this host's
/dev, /sys and whatever else native shows, and its results say so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.guest.bootstrap import SANDBOX
from vtax.platforms import confinement, native
from vtax.platforms.base import GuestSpec, Rung, Step, ladder, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.containers import ProcessOptions
from vtax.platforms.native import Root
from vtax.platforms.options import Choice
from vtax.platforms.probing import LaunchedDriver, has_launchers
from vtax.platforms.stdio import StdioGuest
from vtax.study.fields import Privilege

Capabilities = Literal["all", "default", "none"]


class SandboxOptions(ProcessOptions):
    """Mechanisms of the kernel: but for the limits, none is on unless it is named."""

    limits: bool = Field(True, description="a cgroup with the limits of all guests")
    root: Root = Field(
        "plain",
        description="'plain': as native; 'overlay': an overlay over the image, as containers have it",
    )
    namespaces: bool = Field(
        False, description="PID, IPC, UTS and cgroup namespaces, and a /proc of its own"
    )
    network_namespace: bool = Field(
        False, description="a network namespace, without a topology, too"
    )
    userns: bool = Field(
        False, description="a user namespace, in which ids are what they are outside"
    )
    capabilities: Capabilities = Field(
        "all",
        description="'default': the eleven that containers have here; 'none': none; 'all': those of the host's root",
    )
    no_new_privileges: bool = Field(False, description="set no_new_privs")
    filter: bool = Field(
        False, description="vtax's filter of system calls, which sets no_new_privs as well"
    )
    closed: bool = Field(
        False,
        description="a /dev of its own, and of /proc and /sys what containers have; needs namespaces and "
        "network_namespace",
    )

    @model_validator(mode="after")
    def _closed_views_are_of_namespaces(self) -> Self:
        if self.closed and not (self.namespaces and self.network_namespace):
            raise ValueError("closed needs namespaces and network_namespace")
        return self

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        if fact == "root_file_system":
            return "root", "overlay", "plain"
        if fact == "seccomp_filters":
            return "filter", "true", "false"
        return super().choice_behind(fact, value, baseline)

    @property
    def confines(self) -> bool:
        """Whether the guest's root is held to the policy of all containers (`platforms.confinement`)."""
        return self.closed and self.filter and self.capabilities != "all"


_FILTER = "sandbox-filter"
_CONFINEMENT = ("fewer capabilities", "closed /proc and /sys")
"""Mechanisms that a container loses with the filter, by the option `confinement`."""
_MECHANISMS: Sequence[Step] = (
    Step("sandbox-namespaces", "process namespaces", {"namespaces": True}),
    Step("sandbox-network", "network namespace", {"network_namespace": True}),
    Step("sandbox-capabilities", "fewer capabilities", {"capabilities": "default"}),
    Step("sandbox-privileges", "no_new_privs", {"no_new_privileges": True}),
    Step(
        _FILTER,
        "filter of system calls",
        {"filter": True},
        'confinement = "none" leaves the filter out, and with it what it protects from',
    ),
    Step("sandbox-closed", "closed /dev, /proc, /sys", {"closed": True}),
    Step(
        "sandbox-overlay",
        "root in an overlay",
        {"root": "overlay"},
        "what is read or written often belongs into a volume",
    ),
)
"""Mechanisms of containers, in the order in which they are added; the last has all of the platform `sandbox`."""


class ContainerDriver(LaunchedDriver):
    """A driver of containers of the host's kernel, with the platform of its own name.

    has_own_filter: whether its runtime filters system calls, beside vtax's filter.
    """

    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True
    has_own_filter = False

    def ladders(self) -> Mapping[str, tuple[Rung, ...]]:
        """Return its mechanisms, one by one; on the last rung is what the runtime itself adds."""
        filter_text = "a filter of its own" if self.has_own_filter else ""
        mechanism_itself = (
            f"{self.name} itself, with {filter_text}" if filter_text else f"{self.name} itself"
        )
        rungs = [Rung("native", "nothing", "native", {})]
        for mechanism in ladder("sandbox", _MECHANISMS):
            if mechanism.name == _FILTER and "confinement" in self.Options.model_fields:
                taking = ", ".join(filter(None, (filter_text, *_CONFINEMENT)))
                left_out_by = {"confinement": "none"}
                rungs.append(replace(mechanism, left_out_by=left_out_by, taking=taking))
            else:
                rungs.append(mechanism)
        return {self.name: (*rungs, Rung(self.name, mechanism_itself, self.name, {}))}


@register_platform
class Sandbox(LaunchedDriver):
    name = "sandbox"
    summary = "native and single mechanisms of containers, to find out what each costs"
    Options = SandboxOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "sandbox": {
            "root": "overlay",
            "namespaces": True,
            "network_namespace": True,
            "capabilities": "default",
            "no_new_privileges": True,
            "filter": True,
            "closed": True,
        }
    }
    tunings = ("default", "pinned", "hugepages")
    writes_below_directory = True
    version_argv = ("uname", "-r")  # of the kernel: it makes the namespaces and filters

    def isolation(self, options: SandboxOptions) -> Isolation:
        return "confined" if options.confines else "nothing"

    def launch_program(
        self, options: SandboxOptions, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        isolating: list[str] = []
        if has_launchers(spec.image):
            isolating = command(options, spec.privileges)
            if options.filter and not confinement.is_confined(argv):
                argv = confinement.command(spec.privileges, argv)
        return native.launch(
            spec,
            argv,
            isolating=isolating,
            limited=options.limits,
            root=options.root,
            network=options.network_namespace,
            closed=options.closed and has_launchers(spec.image),
        )


def command(options: SandboxOptions, privileges: Collection[Privilege]) -> list[str]:
    """Return the command that isolates itself as the options say, before the guest's first program; empty for native's.

    privileges: what a benchmark asks for beyond the capabilities of guests.
    """
    mechanisms = []
    if options.userns:
        mechanisms.append("user")
    if options.namespaces:
        mechanisms += ["pid", "ipc", "uts", "cgroup"]
    if options.capabilities != "all":
        level: confinement.Confinement = (
            "strict" if options.capabilities == "none" else options.capabilities
        )
        capability_numbers = confinement.numbers(confinement.capabilities(privileges, level))
        mechanisms.append(f"capabilities={','.join(map(str, sorted(capability_numbers)))}")
    if options.no_new_privileges:
        mechanisms.append("no-new-privileges")
    return [SANDBOX, *mechanisms, "--"] if mechanisms else []
