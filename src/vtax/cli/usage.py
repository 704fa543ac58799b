"""Errors in how a command was typed, in the form of all other errors: what failed, and a hint."""

from __future__ import annotations

import click

from vtax.errors import BadInput


def usage_error(error: click.ClickException) -> BadInput:
    """The error of click as one of vtax, with exit status 2."""
    what = error.format_message().strip().removesuffix(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vtax"
    hint = f"{command} --help lists what it takes"
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(kind, click.IntRange):
        what = what.replace("is not a valid integer range", "is not a whole number")
        hint = f"write a whole number{_range(kind)}"
    return BadInput(what[:1].lower() + what[1:], where=_usage(context), hint=hint)


def _range(kind: click.IntRange) -> str:
    """` from 1 to 100`."""
    low = "" if kind.min is None else f" from {kind.min}"
    return low + ("" if kind.max is None else f" to {kind.max}")


def _usage(context: click.Context | None) -> str:
    """`vtax run [OPTIONS] STUDY`; empty where the command is not known."""
    if context is None:
        return ""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
