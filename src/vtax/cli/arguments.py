"""Texts that several commands take: names between commas, shares such as 5%, and moments such as a day."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from vtax.cli.completion import run_names
from vtax.errors import BadInput
from vtax.units import share_of

run_argument = click.argument("run_name", metavar="[RUN]", default="last", shell_complete=run_names)
_SHARE_HINT = "write a percentage such as 5%, or a share such as 0.05"


def listed(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the entries of a repeatable option as `split_at_commas` does, each once."""
    return tuple(dict.fromkeys(split_at_commas(context, parameter, texts)))


def split_at_commas(
    _: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the entries of a repeatable option, each of which may be several between commas.

    A comma within a value of the form KEY=VALUE stays, unless another KEY=VALUE follows. Raises BadInput for a text
    that names nothing.
    """
    entries: list[str] = []
    for text in texts:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise BadInput(
                f"{text!r} names nothing",
                where=parameter.opts[0],
                hint="omit the option, or name something",
            )
        is_one = "=" in text and not all("=" in part for part in parts)
        entries += [text] if is_one else parts
    return tuple(entries)


def map_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds --map (parameter `mapped`): platforms of the run for those of a publication. text: its help."""
    return click.option(
        "--map", "mapped", multiple=True, callback=listed, metavar="THERE=HERE,...", help=text
    )


def share_of_option(text: str, where: str) -> float:
    """Return 0.05 of `5%`, `5` or `0.05`. Raises BadInput for anything that is not above 0 and below 1. where: the option."""
    try:
        share = share_of(text, percent_from_1=True)
    except ValueError as error:
        raise BadInput(str(error), where=where) from error
    if share <= 0:
        raise BadInput(f"{text!r} is not above 0 %", where=where, hint=_SHARE_HINT)
    return share


def moment_of(text: str, where: str) -> float:
    """Return the Unix time of a day or a time (ISO 8601) in this host's time zone. Raises BadInput.

    where: the option, for errors.
    """
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
