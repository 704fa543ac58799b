"""From a file to plain values and back: what a path may turn out to be, TOML that is meant to harm, TOML of ours."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from vtax.errors import BadInput
from vtax.foreign_data import LongKey, NestedTooDeep, parse_toml
from vtax.host.foreign_file import read_foreign
from vtax.study.declared import shorten
from vtax.study.limits import MAX_BYTES, MAX_TEXT_CHARS, MAX_VALUES

_PATH_HINT = "give the path of a TOML file; vtax studies lists the shipped ones"
_SYNTAX_HINT = "correct that place; docs/study-files.md shows how a study is written"
_TWO_KINDS = "platforms lists names; a platform of your own is made by a table [[platform]]"


def read(path: Path, what: str = "study") -> bytes:
    """Return the content of a study file, or of another file of a study. Never waits for a writer.

    what: the file is. Raises BadInput for anything but a small regular file.
    """
    is_study = what == "study"
    hint = _PATH_HINT if is_study else "files of a study are beside it"
    try:
        return read_foreign(path, f"a {what}", MAX_BYTES, hint=hint)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        subject = "the study" if is_study else f"the {what} {shorten(path.name)!r}"
        hint = "make it readable, or give another file"
        raise BadInput(f"{subject} cannot be read: {reason}", where=str(path), hint=hint) from error


def beside(study: Path, name: str) -> Path:
    """Return the file that a study names, which is in the study's directory, wherever links in its path lead.

    So a study that came with its directory reads no other file of this host, and can be carried to another one.
    Raises BadInput for a path that is absolute, has `..`, or leads out.
    """
    path, directory = PurePosixPath(name), study.absolute().parent
    is_inside = not path.is_absolute() and ".." not in path.parts and len(name) <= MAX_TEXT_CHARS
    real_path = Path()
    if is_inside:
        with suppress(ValueError):  # a character that no path has
            real_path = Path(os.path.realpath(directory / path))
    if not real_path.is_relative_to(os.path.realpath(directory)):
        raise BadInput(
            f"the file {shorten(name)!r} is not in the directory of the study",
            where=str(study),
            hint="put it into that directory, and name it by a path from there, without ..",
        )
    return directory / path


def parse(content: bytes, source: str) -> dict[str, Any]:
    """Return the values of a TOML document; a byte order mark before it is skipped. Raises BadInput with the line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput(
            f"the study is not UTF-8: line {line} holds the byte 0x{content[error.start]:02x}",
            where=source,
            hint="save the file as UTF-8",
        ) from error
    try:
        return parse_toml(text, levels=MAX_VALUES)  # study.limits names the place that is too deep
    except LongKey as error:
        raise BadInput(
            "a key of the study has too many parts", where=source, hint=_SYNTAX_HINT
        ) from error
    except tomllib.TOMLDecodeError as error:
        hint = _TWO_KINDS if "'platforms'" in str(error) else _SYNTAX_HINT
        raise BadInput(f"the study is not valid TOML: {error}", where=source, hint=hint) from error
    except NestedTooDeep as error:
        raise BadInput(
            "the study's lists or tables are nested too deep", where=source, hint=_SYNTAX_HINT
        ) from error
    except ValueError as error:  # int() refuses thousands of digits
        raise BadInput(
            "whole numbers have at most 64 bits", where=source, hint=_SYNTAX_HINT
        ) from error


def dump(values: Mapping[str, Any]) -> str:
    """Return plain values, such as a stored study's, as TOML that `parse` reads.

    Null and empty values are left out: there the study has its defaults.
    """
    import tomli_w

    return tomli_w.dumps(_drop_empty(values))


def _drop_empty(value: Any) -> Any:
    """Return a value without what TOML cannot say or what says nothing, in the tables below it too."""
    if isinstance(value, list | tuple):
        return [_drop_empty(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    table = {}
    for key, entry in value.items():
        if entry is not None and entry not in ({}, []):
            table[key] = _drop_empty(entry)
    return table
