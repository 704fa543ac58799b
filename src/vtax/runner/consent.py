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


def option_programs(platforms: Iterable[Platform]) -> tuple[HostProgram, ...]:
    """Return the programs in options of platforms that root of this host would run."""
    programs: dict[HostProgram, None] = {}
    for platform in platforms:
        programs.update(dict.fromkeys(platform.host_programs))
    return tuple(programs)


def declared_programs(
    study: Study, programs: Mapping[str, ProgramBenchmark]
) -> tuple[HostProgram, ...]:
    """Return the programs that a study declares: guests run them as root, and a native guest is root of this host.

    Consent is to all that decides what runs: commands, files, and every value that stands in an argument.
    """
    declared = []
    for name, program in programs.items():
        values = []
        for table in study.benchmark:
            if table.name == name:
                values.append([table.parameters, table.factors])
        defining = json.dumps([program.definition, values], sort_keys=True)
        digest = hashlib.sha256(defining.encode()).hexdigest()
        files = []
        for path, file_digest in program.host_files.items():
            files.append(f"{shlex.quote(str(path))} (sha256 {file_digest})")
        value = (
            f"{one_line(program.command_line, _LONGEST_COMMANDS)} (consent id {digest[:_DIGITS]})"
        )
        if files:
            value = f"files: {', '.join(files)}; {value}"
        origin = "a program of the study, in its guests"
        declared.append(HostProgram("", "program", name, value, origin))
    return tuple(declared)


def require_consent(
    programs: Iterable[HostProgram], consented: Collection[HostProgram], source: str
) -> None:
    """Raise BadInput that names the programs without consent."""
    known = {program.identity for program in consented}
    unknown = [program for program in programs if program.identity not in known]
    if unknown:
        raise BadInput(
            f"the study would run these programs as root: {'; '.join(map(str, unknown))}",
            where=source,
            hint=HINT,
        )
