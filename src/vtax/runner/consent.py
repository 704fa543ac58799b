"""What of a study root of this host would run, and the rule that it runs only after consent.

A study is data; an option that names a program, or a configuration which names programs, makes it more than that.
Options say so themselves (platforms.base.RunsAsRoot), so nothing here knows a driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from vtax.errors import BadInput
from vtax.platforms.base import HostProgram, Platform

HINT = "read what it is; then --trust has it run, once for this file"


def programs_of(platforms: Iterable[Platform]) -> tuple[HostProgram, ...]:
    """What root of this host would run because the options of platforms say so."""
    return tuple(dict.fromkeys(program for platform in platforms for program in platform.host_programs))


def require_consent(programs: Iterable[HostProgram], consented: Collection[HostProgram], source: str) -> None:
    """Raise BadInput, naming them, for programs outside of what was consented to."""
    known = {program.identity for program in consented}
    if wanted := [program for program in programs if program.identity not in known]:
        raise BadInput(
            f"the study names what root of this host would run: {'; '.join(map(str, wanted))}",
            where=source,
            hint=HINT,
        )
