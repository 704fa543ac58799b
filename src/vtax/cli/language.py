"""The reader's language on the command line: help, and what stands in tables and answers.

A text is an entry of the catalogue of reports, or it stays English. Errors, hints and progress are English in every
language, so that an error can be searched for and quoted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from inspect import cleandoc

import click

from vtax.messages import Note
from vtax.report.renderers.language import ENGLISH, of_reader

EXTRA = "  ["
"""Between the help of an option and its default or range."""


def translate(text: str, /, **data: str) -> str:
    """Return a text in the language of the locale; in English where the catalogue lacks it.

    text: a template where there is data, or a note, which has its own.
    """
    language = of_reader()
    if language is ENGLISH or not isinstance(text, Note):
        template = language.translated(text)
        return template.format(**data) if data else template
    from vtax.report.renderers.format import Formatter  # numbers are formatted with numpy

    return Formatter(language).text(text)


def with_help(command: click.Command) -> click.Command:
    """Return a command whose help is in the language of the locale, and does not list itself."""
    command.context_class = HelpContext
    command.get_help_option = partial(_help_option, command)  # type: ignore[method-assign]
    for inner in getattr(command, "commands", {}).values():
        with_help(inner)
    return command


def _help_option(command: click.Command, context: click.Context) -> click.Option | None:
    option = type(command).get_help_option(command, context)
    if option is not None:
        option.hidden = True
    return option


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text, each on one line but for those that click prints as they are."""
    lines = []
    for paragraph in cleandoc(text.partition("\f")[0]).split("\n\n"):
        is_verbatim = paragraph.startswith("\b")
        lines.append(paragraph if is_verbatim else " ".join(paragraph.split()))
    return lines


class _Formatter(click.HelpFormatter):
    """Help in the language of the locale."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, f"{translate('Usage')}: ")

    def write_heading(self, heading: str) -> None:
        super().write_heading(translate(heading))

    def write_text(self, text: str) -> None:
        super().write_text("\n\n".join(map(translate, paragraphs(text))))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        translated = []
        for name, text in rows:
            meaning, extra, more = text.partition(EXTRA)
            translated.append((name, f"{translate(meaning)}{extra}{more}"))
        super().write_dl(translated, col_max)


class HelpContext(click.Context):
    """The context of a command whose help is in the language of the locale."""

    formatter_class = _Formatter
