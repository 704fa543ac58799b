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
    suggestion = ""
    unknown_match = _NO_SUCH.match(what)
    if unknown_match:
        what = f"no such {unknown_match[1]} {unknown_match[2]!r}"
        suggestion = _suggest(unknown_match[1], unknown_match[2], context)
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    if isinstance(kind, click.IntRange):
        what = what.replace("is not a valid integer range", "is not a whole number")
        hint = f"write a whole number{_range(kind)}"
    if isinstance(kind, click.Choice):
        choice_match = re.search(r"'([^']*)' is not one of", what)
        suggestion = _nearest(choice_match[1], list(map(str, kind.choices))) if choice_match else ""
    if suggestion:
        hint = f"did you mean {suggestion}?"
    return BadInput(what[:1].lower() + what[1:], where=_usage(context), hint=hint)


def _range(kind: click.IntRange) -> str:
    """Return ` from 1 to 100`."""
    text = ""
    if kind.min is not None:
        text += f" from {kind.min}"
    if kind.max is not None:
        text += f" to {kind.max}"
    return text


def _usage(context: click.Context | None) -> str:
    """Return `vtax run [OPTIONS] STUDY`; empty where the command is not known."""
    if context is None:
        return ""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _suggest(kind: str, text: str, context: click.Context | None) -> str:
    """Return `vtax compare` for an unknown command of that kind, `--platforms` for an option; empty where none is near.

    kind: `command` or `option`. context: of the command that has no such one.
    """
    if context is None:
        return ""
    if kind == "option":
        return _suggest_option(text, context)
    command = ""
    for name, synonyms in _SYNONYMS.items():
        if text in synonyms.split():
            command = name
    if not command or context.parent:
        command = _nearest(text.lower(), context.command.list_commands(context))  # type: ignore[attr-defined]
    return command and f"{context.command_path} {command}"


def _suggest_option(text: str, context: click.Context) -> str:
    """Return the option that is meant, or the command before this one with it."""
    parent = context.parent
    if parent and any(text in param.opts for param in parent.command.params):
        return f"{parent.command_path} {text} ... {context.info_name}"
    option_names = []
    for param in context.command.get_params(context):
        option_names += [name for name in param.opts if name[:2] == "--"]
    for name in option_names:
        if name.startswith(text):
            return name
    return _nearest(text, option_names, 0.75)


def _nearest(text: str, candidates: Sequence[str], cutoff: float = 0.6) -> str:
    matches = get_close_matches(text, candidates, 1, cutoff)
    return matches[0] if matches else ""
