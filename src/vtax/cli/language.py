"""The reader's language on the command line: help, errors, and the lines and tables of commands.

Commands and errors are plain English where they arise. What leaves for a terminal is looked up here, by the templates
of two catalogues: that of the command line beside this file, and that of reports. What neither has stays English.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import cleandoc
from pathlib import Path

import click

LANGUAGES = Path(__file__).parent / "languages"
_ENGLISH = re.compile(r"|C|POSIX|(C|en)[_.@].*")
_NAME = re.compile(r"\{(\w+)\}")
_LABEL = re.compile(r"(\w+): ")
_INDENT = re.compile(r" *(?:- +)?")
_NUMBER = r"\d[\d., \u00a0\u202f]*?"
"""A `{count}`: no name stands for it, so that `key blocks` is not as many blocks."""
_WITHIN = "(?:(?!: |; ).)"
"""Data as first looked for: beyond a colon or semicolon is another sentence as a rule."""
_COUNT = re.compile(r"([\d.,]+) ([A-Za-z ]+)")
_WORDS = re.compile(
    r"[^\W\d_]{4,}.*[^\W\d_]{2,}|[^\W\d_]{2,}.*[^\W\d_]{4,}|[^\W\d_]{5,}|(?:[^\W\d_].*){8}",
    re.DOTALL,
)
"""Templates have so many letters, or are FORMS: `{a} of {b}` would match what it was not made for."""
_LIST = re.compile(r"(, | or | and )")
_FRACTION = re.compile(
    r"(?<![\w.,/='\"-])(\d+)\.(\d+)(?=[ \u00a0\u202f](?:%|[KMGT]iB|ms|s|min|h)(?![\w/]))"
)
"""A number before its unit; others may be versions."""
_TOKEN = r"(?:'[^']*'|\([^()]*\)|\S+?)"
_LONGEST = 2000  # characters of a line that is looked up: what a tool says may be endless
EXTRA = "  ["
"""Between the help of an option and its default or range."""
ORDERS = {"randomized": "randomized order", "sequential": "sequential order"}
FORMS = (
    "key {name}", "parameter {name}", "option {name}", "link setting {name}", "table {name}", "platform {name}",
    "study {name}", "status {name}", "tag {name}",
    "key {name} number {number}", "{table} number {number}", "{table} number {number} {called}",
    "entry {number} of {name}", "an entry", "a table", "a list", "a number", "a whole number", "a value",
    "a number above {low}", "the file as a whole", "{count} more", "as {first}",
)  # fmt: skip
"""Forms within sentences: each {name} is a single word, or in quotes or parentheses."""
COUNTED = (
    "block", "blocks", "whole block", "whole blocks", "cell", "cells", "trial", "trials", "reboot", "reboots", "vCPU",
    "vCPUs", "more trial", "more trials", "{name} (process {pid})", "a whole number from {low} to {high}",
    "a number from {low} to {high}", "a whole number of at least {low}", "a number above {low} and of at most {high}",
    "a number above {low} and below {high}", "a size of at least {low}, in bytes or with a unit",
    "a size from {low} to {high}, in bytes or with a unit",
    "a duration above {low} and of at most {high}, in seconds or with a unit",
    "a duration from {low} to {high}, in seconds or with a unit", "a list of {low} to {high} entries",
    "a list of at most {high} entries", "a list of at least {low}", "tables, each under [[...]]",
    "at most {high} tables, each under [[...]]", "{low} to {high} tables, each under [[...]]",
    "text of the form {pattern}", "text such as {examples}", "true or false", "randomized order", "sequential order",
    "{run} has no benchmark {name}", "{run} has no metric {name}", "{run} has no scale {name}",
    "{run} has no protocol {name}", "{run} has no level of {factor}, {name}", "known: {names}", "{count} problems:",
    "the base", "{key} (the base)", "{key} (the base, disk of {size})", "{key} ({added} over the base)",
    "{key} ({added} over the base, disk of {size})", "and {count} problem more", "and {count} problems more",
    "the study has no platform {name}", "{run} has no platform {name}",
    "the study has no benchmark {name}", "the study has no factor {name}",
    "the study has no level of {factor}, {name}", "{run} has no host {name}",
    "confinement", "runtimes", "shared directories", "own images", "missing: {names}",
    "; busiest: {programs}", "{version}, a private daemon, {runtime}", "{version}, the host's daemon, {runtime}",
)  # fmt: skip
"""Words behind a number, and other forms that data have."""
OF_OTHERS = (
    "No such file or directory", "Permission denied", "Operation not permitted", "No space left on device",
    "Is a directory", "Is not a file", "Not a directory", "File exists", "Read-only file system",
    "Input/output error", "Too many open files", "Cannot allocate memory", "Disk quota exceeded",
    "Connection refused", "{what} (at line {line}, column {column})", "{what} (at end of document)",
    "Invalid statement", "Expected newline or end of document after a statement", "Expected {what}",
    "Found invalid character {character}", "Cannot declare {key} twice", "Cannot overwrite a value",
    "Expected ']' at the end of a table declaration", "Expected ']]' at the end of an array declaration",
    "Cannot mutate immutable namespace {key}", "Cannot redefine namespace {key}",
    "Expected '=' after a key in a key/value pair", "Invalid initial character for a key part", "Unclosed array",
    "Duplicate inline table key {key}", "Unclosed inline table", "Unescaped '\\' in a string", "Invalid hex value",
    "Escaped character is not a Unicode scalar value", "Unterminated string", "Illegal character {character}",
    "Invalid date or datetime", "Invalid value",
)  # fmt: skip
"""Errors of the kernel and of the reader of TOML."""
FIRST = ("vtax", "hint", "where", "warning", "error")
"""Before what failed, where, and how to fix it."""
LABELS = (
    *FIRST[1:],
    "Usage",
    "Options",
    "Commands",
    "yes",
    "no",
    "unknown",
    "bad",
    "warn",
    "ok",
    "present",
    "missing",
    "off",
    "on",
    "none",
    "counters",
    "packages",
    "battery",
    "heat",
    "turbo",
    "available",
    "marks",
    "note",
    "reason",
    "version",
    "probe",
    "driver",
    "question",
    "platforms",
    "baseline",
    "guest",
    "tuning",
    "design",
    "cells",
    "publication",
    "tool",
    "resource",
    "attachments",
    "order",
    "or",
    "and",
    "all",
    "text",
    "higher",
    "lower",
)


@dataclass(frozen=True)
class Catalogue:
    """Texts in one language. exact: English to it. templates: (longest piece without data, English, it), longest
    first. decimal: sign of fractions."""

    exact: Mapping[str, str]
    templates: tuple[tuple[str, str, str], ...]
    decimal: str = "."

    def of(self, text: str) -> str:
        """Return a text of any number of lines in this language, in English what is not known."""
        whole = self._known(text) if "\n" in text else None
        found = whole if whole is not None else "\n".join(map(self._line, text.split("\n")))
        return _FRACTION.sub(rf"\1{self.decimal}\2", found)

    def _line(self, line: str) -> str:
        indent = _INDENT.match(line)[0]  # type: ignore[index]
        text = line[len(indent) :]
        label = _LABEL.match(text)
        if (
            label and label[1] == "where" and " " not in (name := text[label.end() :])
        ):  # a file, or a key
            return f"{indent}{self.exact.get(label[1], label[1])}: {name}"
        if label and (label[1] in FIRST or self._known(text, _WITHIN) is None):
            return (
                f"{indent}{self.exact.get(label[1], label[1])}: {self._line(text[label.end() :])}"
            )
        return indent + self._sentences(text)

    def _sentences(self, text: str) -> str:
        """Return a text, or the parts of it that colons and semicolons join, from the longest that is known."""
        if len(text) > _LONGEST:
            return text
        for data in (_WITHIN, "."):
            if (known := self._known(text, data)) is not None:
                return known
            for found in re.finditer(r"[;:] ", text):
                if (known := self._known(text[found.end() :], data)) is not None:
                    return f"{self._sentences(text[: found.start()])}{found[0]}{known}"
        if "; " in text:
            return "; ".join(map(self._sentences, text.split("; ")))
        return ": ".join(map(self._listed, text.split(": ")))

    def _listed(self, text: str) -> str:
        """Return `'a', b or a number`, whose parts are known or names, which stay; another text as it is."""
        parts = _LIST.split(text)
        for n, part in enumerate(parts):
            is_name = part != "text" and re.fullmatch(_TOKEN, part)
            if n % 2:
                parts[n] = part.replace(word := part.strip(" ,"), self.exact.get(word, word))
            elif not is_name and (known := self._known(part)) is None:
                return text
            elif not is_name:
                parts[n] = known
        return "".join(parts)

    def _known(self, text: str, data: str = ".") -> str | None:
        """Return a text that the catalogue has as it is or by a template; None for another.

        data: the characters that stand in a template, as a regular expression."""
        if (exact := self.exact.get(text)) is not None:
            return exact
        if (count := _COUNT.fullmatch(text)) and count[2] in self.exact:
            return f"{count[1]} {self.exact[count[2]]}"
        for piece, template, translated in self.templates:
            if piece in text and (match := _pattern(template, data).fullmatch(text)):
                parts = _NAME.split(translated)
                return "".join(
                    self._datum(part, match[part]) if n % 2 else part
                    for n, part in enumerate(parts)
                )
        return None

    def _datum(self, name: str, text: str) -> str:
        """Return what stands in a template: a name as it is, a count and several words in this language."""
        if name == "count":
            return text.replace(".", self.decimal)
        words = text.strip()
        return (
            text.replace(words, self._known(text) or self._sentences(words))
            if " " in words
            else text
        )


@cache
def _pattern(template: str, data: str) -> re.Pattern[str]:
    """Return what matches the texts that were made from a template: any text of one line for each name, or the word
    of a form, or the number of a `count`."""
    any_text = _TOKEN if template in FORMS else f"{data}*?"
    parts = _NAME.split(template)
    return re.compile(
        "".join(
            f"(?P<{p}>{_NUMBER if p == 'count' else any_text})" if n % 2 else re.escape(p)
            for n, p in enumerate(parts)
        )
    )


def said(text: str) -> str:
    """Return a text of vtax in the language of the locale."""
    return said_in(_here(), text)


def said_in(code: str, text: str) -> str:
    """Return a text of vtax in the language of a code such as `pt-BR`."""
    return text if code == "en" or not text else _read(code).of(text)


def with_help(command: click.Command) -> click.Command:
    """Return a command whose help is in the language of the locale, and does not list itself."""
    command.context_class = HelpContext
    command.get_help_option = partial(_help_option, command)  # type: ignore[method-assign]
    for inner in getattr(command, "commands", {}).values():
        with_help(inner)
    return command


def _help_option(command: click.Command, context: click.Context) -> click.Option | None:
    found = type(command).get_help_option(command, context)
    if found is not None:
        found.hidden = True
    return found


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help text, each on one line but for those that click prints as they are."""
    found = cleandoc(text.partition("\f")[0]).split("\n\n")
    return [each if each.startswith("\b") else " ".join(each.split()) for each in found]


class _Formatter(click.HelpFormatter):
    """Help in the language of the locale."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(prog, args, f"{said('Usage')}: ")

    def write_heading(self, heading: str) -> None:
        super().write_heading(said(heading))

    def write_text(self, text: str) -> None:
        super().write_text("\n\n".join(map(said, paragraphs(text))))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        parted = ((name, text.partition(EXTRA)) for name, text in rows)
        super().write_dl(
            [(name, f"{said(text)}{extra}{more}") for name, (text, extra, more) in parted], col_max
        )


class HelpContext(click.Context):
    """The context of a command whose help is in the language of the locale."""

    formatter_class = _Formatter


def _here() -> str:
    """Return the code of the locale's language."""
    locale = next(
        (os.environ[n] for n in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(n)), ""
    )
    if _ENGLISH.fullmatch(locale):
        return "en"
    from vtax.report.renderers.language import of_locale

    return of_locale(os.environ)


@cache
def _read(code: str) -> Catalogue:
    from babel import Locale
    from babel.messages.pofile import read_po

    from vtax.report.renderers.language import LANGUAGES as REPORTS

    pairs: dict[str, str] = {}
    for path in (REPORTS / f"{code}.po", LANGUAGES / f"{code}.po"):
        with path.open("rb") as file:
            for each in read_po(file):
                ids, strings = (
                    (x,) if isinstance(x, str) else tuple(x) for x in (each.id, each.string or "")
                )
                pairs.update(pair for pair in zip(ids, strings, strict=False) if all(pair))
    templates = [
        (max(_NAME.split(text)[::2], key=len), text, other)
        for text, other in pairs.items()
        if "{" in text
    ]
    worded = (
        each for each in templates if each[1] in FORMS or _WORDS.search(_NAME.sub(" ", each[1]))
    )
    decimal = str(Locale.parse(code, sep="-").number_symbols["latn"]["decimal"])
    return Catalogue(
        pairs, tuple(sorted(worded, key=lambda each: -len(_NAME.sub("", each[1])))), decimal
    )
