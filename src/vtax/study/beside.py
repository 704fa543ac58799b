"""Files that a study needs beside its own: those of its programs."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from vtax.errors import BadInput
from vtax.study import text


def files_beside(study: Path) -> tuple[str, ...]:
    """Return the paths that a valid study names, relative to its file. Raises BadInput for one that is elsewhere."""
    programs = text.parse(text.read(study), str(study)).get("program", ())
    named = dict.fromkeys(name for program in programs for name in program.get("files", ()))
    for name in named:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise BadInput(
                f"the file {name!r} is not beside the study, which cannot be carried without it",
                where=str(study),
                hint="put it into the directory of the study, and name it by a relative path",
            )
    return tuple(str(PurePosixPath(name)) for name in named)
