"""dom0 of Xen as a platform: the image's files on the kernel of the host's own domain, with all that dom0 has.

It is native without limits, in dom0: what a study compares its domains to when it measures the host's own domain,
as urschei2007 does. dom0's virtual CPUs and memory are those that Xen was booted with; they are read, and
noted, since they differ from the limits that every other guest of the study has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vtax.errors import PlatformError, VtaxError
from vtax.host.cgroups import CpuTime, Limits
from vtax.image.image import Image
from vtax.messages import Note, at
from vtax.platforms import native
from vtax.platforms.base import GuestSpec, Probe, register_platform
from vtax.platforms.confinement import Isolation
from vtax.platforms.options import Scratched
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import StdioGuest
from vtax.platforms.xen import tools

_NAME = "Domain-0"


@register_platform
class XenDom0(LaunchedDriver):
    name = "xen-dom0"
    summary = "dom0 of Xen, with the virtual CPUs and the memory that dom0 has"
    Options = Scratched
    variants: Mapping[str, Mapping[str, Any]] = {"xen-dom0": {}}
    tunings = ("default", "pinned")
    is_below_host = True

    def lacking(self, options: Scratched) -> None:
        """Raise VtaxError where this host is no dom0."""
        tools.check_host()

    def probe(self, options: Scratched, image: Image | None) -> Probe:
        """Start it once, where this host is dom0."""
        try:
            tools.check_host()
            values = tools.info()
        except VtaxError as error:
            return Probe(False, at(error.what, error.where), error.hint)
        probe = super().probe(options, image)
        return replace(probe, version=tools.version(values), marks=tools.marks(values))

    def isolation(self, options: Scratched) -> Isolation:
        return "nothing"

    def launch_program(
        self, options: Scratched, spec: GuestSpec, argv: Sequence[str]
    ) -> StdioGuest:
        tools.check_host()
        domain = tools.find(_NAME)
        if domain is None:
            raise PlatformError(Note("no-domain0", name=_NAME), hint="systemctl restart xen")
        guest = native.launch(spec, argv, limited=False)
        guest.notes += (Note("dom0-limits", count=domain.vcpus, size=domain.memory_mib),)
        guest.machine = Limits(
            tuple(sorted(os.sched_getaffinity(0))), domain.memory_mib << 20, CpuTime(domain.vcpus)
        )
        return guest
