"""Files that a study needs beside its own: those of its programs, and job files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from vtax.study import text
from vtax.study.job_files import job_file_of


def files_beside(study: Path) -> tuple[str, ...]:
    """Return the paths that a valid study names, relative to its file. Raises BadInput for one that is elsewhere."""
    named = dict.fromkeys(_named_files(text.parse(text.read(study), str(study))))
    for name in named:
        text.beside(study, name)
    return tuple(str(PurePosixPath(name)) for name in named)


def _named_files(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of every file that a study names, of programs first."""
    for program in data.get("program", ()):
        yield from program.get("files", ())
    tables = [*data.get("benchmark", ())]
    for protocol in data.get("protocol", {}).values():
        tables += protocol.get("benchmark", ())
    own = [program["name"] for program in data.get("program", ())]
    for table in tables:
        if table.get("name", table.get("label")) not in own and (path := job_file_of(table)):
            yield path
