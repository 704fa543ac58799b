"""Errors in how a command was typed, in the form of all other errors: what failed, and a hint."""

from __future__ import annotations

import re
from difflib import get_close_matches

import click

from vtax.cli.commands import COMMANDS
from vtax.errors import BadInput

_SYNONYMS = {
    "list": "ls ps runs",
    "remove": "rm delete",
    "compare": "diff cmp contrast check gate",
    "show": "result view",
    "run": "start exec",
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
OF_CLICK = (
    "no such command {name}", "no such option {name}", "no such option {name}. Did you mean {near}?",
    "no such option {name}. (Did you mean one of: {near}?)", "missing command", "missing argument {name}",
    "missing option {name}", "got unexpected extra argument ({name})", "got unexpected extra arguments ({name})",
    "invalid value for {name}: {why}", "option {name} requires an argument", "option {name} does not take a value",
    "{value} is not one of {choices}", "{value} is not a valid float", "{value} is not a whole number",
    "{value} is not in the range {range}", "{kind} {path} does not exist", "{kind} {path} is a directory",
    "{kind} {path} is not readable", "{kind} {path} is not writable", "did you mean {near}?",
    "{command} --help lists what it takes", "write a whole number from {low} to {high}",
    "write a whole number from {low}",
    "Show this message and exit.", "Show the version and exit.",
)  # fmt: skip
"""Texts of click that users meet, as templates."""


def usage_error(error: click.ClickException) -> BadInput:
    """Return the error of click as one of vtax, with exit status 2."""
    what = error.format_message().strip().removesuffix(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "vtax"
    hint = f"{command} --help lists what it takes"
    if isinstance(error, click.UsageError) and (near := _near(what)):
        hint = f"did you mean {near}?"
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


def _near(what: str) -> str:
    """`vtax compare` for an unknown command of that kind; empty where none is near."""
    found = re.fullmatch(r"No such command '(.*)'", what)
    if found is None:
        return ""
    typed = found[1].lower()
    synonyms = (name for name, words in _SYNONYMS.items() if typed in words.split())
    meant = next(synonyms, "") or next(iter(get_close_matches(typed, COMMANDS, 1)), "")
    return meant and f"vtax {meant}"
