"""Errors in how a command was typed, in the form of all other errors: what failed, and a hint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

import click

from vtax.errors import BadInput

_NO_SUCH = re.compile(r"No such (command|option):? '?([^' ]+)'?")
_SYNONYMS = {
    "list": "ls ps runs status",
    "remove": "rm delete",
    "compare": "diff cmp contrast check gate",
    "show": "result results info view",
    "run": "start exec plan",
    "abort": "stop kill",
    "note": "rename tag",
    "export": "save",
    "import": "load",
    "serve": "web",
    "new": "init",
    "benchmarks": "bench",
    "history": "trend",
    "recommend": "rank",
    "image": "build",
}
"""Command -> what people type for it."""


def usage_error(error: click.ClickException) -> BadInput:
    """Return the error of click as one of vtax, with exit status 2."""
    what = error.format_message().strip().removesuffix(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vtax"
    hint = f"{command} --help lists what it takes"
    if found := _NO_SUCH.match(what):
        what = f"no such {found[1]} {found[2]!r}"
        if near := _near(found[1], found[2], context):
            hint = f"did you mean {near}?"
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(kind, click.IntRange):
        what = what.replace("is not a valid integer range", "is not a whole number")
        hint = f"write a whole number{_range(kind)}"
    if isinstance(kind, click.Choice) and (chosen := re.search(r"'([^']*)' is not one of", what)):
        near = _nearest(chosen[1], [str(each) for each in kind.choices])
        hint = f"did you mean {near}?" if near else hint
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


def _near(kind: str, typed: str, context: click.Context | None) -> str:
    """`vtax compare` for an unknown command of that kind, `--platforms` for an option; empty where none is near.

    kind: `command` or `option`. context: of the command that has no such one.
    """
    if context is None:
        return ""
    if (
        kind == "option"
        and context.parent
        and any(typed in param.opts for param in context.parent.command.params)
    ):
        return f"{context.parent.command_path} {typed} ... {context.info_name}"
    if kind == "option":
        known = [
            name
            for param in context.command.get_params(context)
            for name in param.opts
            if name[:2] == "--"
        ]
        return next((name for name in known if name.startswith(typed)), "") or _nearest(
            typed, known, 0.75
        )
    meant = next((name for name, words in _SYNONYMS.items() if typed in words.split()), "")
    if not meant or context.parent:
        meant = _nearest(typed.lower(), context.command.list_commands(context))  # type: ignore[attr-defined]
    return meant and f"{context.command_path} {meant}"


def _nearest(typed: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    return next(iter(get_close_matches(typed, known, 1, cutoff)), "")
