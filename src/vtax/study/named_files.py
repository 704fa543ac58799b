"""Files that a study names by paths beside its own: those of programs, and job files.

`job_file` of a `[[benchmark]]` is such a path, and becomes the file's text. The text is then a parameter like others:
part of a cell's key, kept with the run, and the same when a run is resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from vtax.errors import BadInput
from vtax.study import text
from vtax.study.limits import MAX_TEXT_CHARS

JOB_FILE = "job_file"


def files_beside(study: Path) -> tuple[str, ...]:
    """Return the paths that a valid study names, relative to its file. Raises BadInput for one that is elsewhere."""
    names = dict.fromkeys(_file_names(text.parse(text.read(study), str(study))))
    for name in names:
        text.beside(study, name)
    return tuple(str(PurePosixPath(name)) for name in names)


def _file_names(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of every file that a study names, of programs first."""
    programs = data.get("program", ())
    for program in programs:
        yield from program.get("files", ())
    tables = [*data.get("benchmark", ())]
    for protocol in data.get("protocol", {}).values():
        tables += protocol.get("benchmark", ())
    own_programs = [program["name"] for program in programs]
    for table in tables:
        path = _job_file_of(table)
        if path and table.get("name", table.get("label")) not in own_programs:
            yield path


def with_job_files(data: Mapping[str, Any], study: Path) -> tuple[list[BadInput], dict[str, Any]]:
    """Return a problem for every file that cannot be read, and a study's values with the texts of the others."""
    tables = data.get("benchmark")
    if not isinstance(tables, list):
        return [], dict(data)
    programs = data.get("program")
    own_programs = []
    if isinstance(programs, list):
        own_programs = [table.get("name") for table in programs if isinstance(table, dict)]
    problems: list[BadInput] = []
    benchmarks = []
    for number, table in enumerate(tables, 1):
        path = _job_file_of(table)
        if not path or table.get("name") in own_programs:
            benchmarks.append(table)
            continue
        parameters = dict(table["parameters"])
        del parameters[JOB_FILE]
        try:
            parameters[JOB_FILE] = _read_job_file(text.beside(study, path))
        except BadInput as error:
            error.where = f"{study}: [[benchmark]] number {number}, key parameters.{JOB_FILE}"
            problems.append(error)
        benchmarks.append({**table, "parameters": parameters})
    return problems, {**data, "benchmark": benchmarks}


def _job_file_of(table: Any) -> str:
    """Return the path that a table names; empty where there is none, or a text."""
    parameters = table.get("parameters") if isinstance(table, dict) else None
    value = parameters.get(JOB_FILE) if isinstance(parameters, dict) else None
    is_path = isinstance(value, str) and "\n" not in value and "[" not in value
    return str(value) if is_path else ""


def _read_job_file(path: Path) -> str:
    content = text.read(path, "job file")
    try:
        job = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the job file {path.name} is not UTF-8", hint="save the file as UTF-8"
        ) from error
    if len(job) > MAX_TEXT_CHARS:
        raise BadInput(
            f"the job file {path.name} has {len(job)} characters; at most {MAX_TEXT_CHARS}",
            hint="take comments out, or measure some of its jobs by another [[benchmark]]",
        )
    return job if job.endswith("\n") else f"{job}\n"
