"""Programs of a study that root of this host would run, and the check that the user consented to them.

An option that names a program, or a configuration with programs, makes a study executable. Such options are declared
with platforms.base.RunsAsRoot, so that this module is independent of drivers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vtax.errors import BadInput
from vtax.platforms.base import HostProgram, Platform

HINT = "inspect them, then run once with --trust"


def programs_of(platforms: Iterable[Platform]) -> tuple[HostProgram, ...]:
    """Programs in options of platforms that root of this host would run."""
    return tuple(dict.fromkeys(program for platform in platforms for program in platform.host_programs))


def require_consent(programs: Iterable[HostProgram], consented: Collection[HostProgram], source: str) -> None:
    """Raise BadInput that names the programs without consent."""
    known = {program.identity for program in consented}
    if wanted := [program for program in programs if program.identity not in known]:
        raise BadInput(
            f"the study names programs that root of this host would run: {'; '.join(map(str, wanted))}",
            where=source,
            hint=HINT,
        )
