"""Programs of a study that root of this host would run, and the check that the user consented to them.

An option that names a program, or a configuration with programs, makes a study executable. Such options are declared
with platforms.base.RunsAsRoot, so that this module is independent of drivers.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Mapping

from vtax.benchmarks.program import ProgramBenchmark
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.platforms.base import HostProgram, Platform
from vtax.study.model import Study

_LONGEST_COMMANDS = 400
_DIGITS = 16  # of the identity of all that decides what runs
HINT = "inspect them, then run once with --trust"


def programs_of(platforms: Iterable[Platform]) -> tuple[HostProgram, ...]:
    """Programs in options of platforms that root of this host would run."""
    return tuple(
        dict.fromkeys(program for platform in platforms for program in platform.host_programs)
    )


def of_programs(study: Study, programs: Mapping[str, ProgramBenchmark]) -> tuple[HostProgram, ...]:
    """Return the programs that a study declares: guests run them as root, and a native guest is root of this host.

    Consent is to all that decides what runs: commands, files, and every value that stands in an argument.
    """
    found = []
    for name, program in programs.items():
        values = [
            [table.parameters, table.factors] for table in study.benchmark if table.name == name
        ]
        defining = json.dumps([program.definition, values], sort_keys=True)
        digest = hashlib.sha256(defining.encode()).hexdigest()
        named = [
            f"{shlex.quote(str(path))} (sha256 {of_file})"
            for path, of_file in program.host_files.items()
        ]
        files = f"files: {', '.join(named)}; " if named else ""
        value = f"{files}{one_line(program.command_line, _LONGEST_COMMANDS)} (consent id {digest[:_DIGITS]})"
        found.append(
            HostProgram("", "program", name, value, "a program of the study, in its guests")
        )
    return tuple(found)


def require_consent(
    programs: Iterable[HostProgram], consented: Collection[HostProgram], source: str
) -> None:
    """Raise BadInput that names the programs without consent."""
    known = {program.identity for program in consented}
    if wanted := [program for program in programs if program.identity not in known]:
        raise BadInput(
            f"the study would run these programs as root: {'; '.join(map(str, wanted))}",
            where=source,
            hint=HINT,
        )
