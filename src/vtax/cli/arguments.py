"""Values that several commands take as text: shares such as 5%, and moments such as a day."""

from __future__ import annotations

import re
import shlex
from datetime import datetime

import click

from vtax.errors import BadInput

_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%?)", re.ASCII)
_PLAIN_FRACTION = 0.2  # above, a number without % may be meant as a percentage
_SHARE_HINT = "write a percentage such as 5%, or a fraction such as 0.05"


def listed(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entries of a repeatable option, each of which may be several between commas, each once.

    A comma within a value of the form KEY=VALUE stays, unless another KEY=VALUE follows. Raises BadInput for a text
    that names nothing.
    """
    found: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise BadInput(
                f"{text!r} names nothing",
                where=parameter.opts[0],
                hint="omit the option, or name something",
            )
        is_one = "=" in text and not all("=" in part for part in parts)
        found += [text] if is_one else parts
    return tuple(dict.fromkeys(found))


def share_of(text: str, where: str) -> float:
    """0.05 of `5%` or `0.05`. Raises BadInput for anything that is not above 0 and below 1. where: the option."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise BadInput(f"{text!r} is not a number", where=where, hint=_SHARE_HINT)
    share = float(match[1]) / (100 if match[2] else 1)
    if share > _PLAIN_FRACTION and not match[2]:
        hint = f"write {match[1]}%, or a fraction such as 0.05"
        if share < 1:
            hint = f"write {match[1]}% or {100 * share:g}%"
        raise BadInput(f"{match[1]} is not a percentage", where=where, hint=hint)
    if not 0 < share < 1:
        raise BadInput(f"{text!r} is not between 0 and 100 %", where=where, hint=_SHARE_HINT)
    return share


def moment_of(text: str, where: str) -> float:
    """Return the Unix time of a day or a time (ISO 8601) in this host's time zone. Raises BadInput. where: the
    option."""
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "write 2026-01-31 or 2026-01-31T12:30, in this host's time zone"
        raise BadInput(f"{text!r} is not a day or a time", where=where, hint=hint) from None


def words_of(text: str, option: str) -> list[str]:
    """Return the words of a command line. Raises BadInput naming the option."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(
            f"the command line cannot be split: {error}", where=option, hint="check its quotes"
        ) from error
    if not words:
        raise BadInput("the command line is empty", where=option, hint="name a program")
    return words
