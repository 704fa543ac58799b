"""Parameters that are files: `job_file` of a `[[benchmark]]` is a path beside the study, and becomes the file's text.

The text is then a parameter like others: part of a cell's key, kept with the run, and the same when a run is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtax.errors import BadInput
from vtax.study import text
from vtax.study.limits import MAX_TEXT_CHARS

JOB_FILE = "job_file"


def with_job_files(data: Mapping[str, Any], study: Path) -> tuple[list[BadInput], dict[str, Any]]:
    """Return a problem for every file that cannot be read, and a study's values with the texts of the others."""
    tables = data.get("benchmark")
    if not isinstance(tables, list):
        return [], dict(data)
    programs = data.get("program")
    listed = programs if isinstance(programs, list) else []
    own = [program.get("name") for program in listed if isinstance(program, dict)]
    problems: list[BadInput] = []
    read = []
    for number, table in enumerate(tables, 1):
        path = "" if isinstance(table, dict) and table.get("name") in own else job_file_of(table)
        given: dict[str, str] = {}
        if path:
            try:
                given = {JOB_FILE: _text(text.beside(study, path))}
            except BadInput as error:
                error.where = f"{study}: [[benchmark]] number {number}, key parameters.{JOB_FILE}"
                problems.append(error)
        read.append({**table, "parameters": {**_others(table), **given}} if path else table)
    return problems, {**data, "benchmark": read}


def _others(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table["parameters"].items() if name != JOB_FILE}


def job_file_of(table: Any) -> str:
    """Return the path that a table names; empty where there is none, or a text."""
    parameters = table.get("parameters") if isinstance(table, dict) else None
    value = parameters.get(JOB_FILE) if isinstance(parameters, dict) else None
    return value if isinstance(value, str) and "\n" not in value and "[" not in value else ""


def _text(path: Path) -> str:
    content = text.read(path, "job file")
    try:
        found = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the job file {path.name} is not UTF-8", hint="save the file as UTF-8"
        ) from error
    if len(found) > MAX_TEXT_CHARS:
        raise BadInput(
            f"the job file {path.name} has {len(found)} characters; at most {MAX_TEXT_CHARS}",
            hint="take comments out, or measure some of its jobs by another [[benchmark]]",
        )
    return found + ("" if found.endswith("\n") else "\n")
