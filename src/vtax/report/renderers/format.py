"""Typed values and messages as text of a language: the only place where a value of a document becomes characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from vtax.messages import Note, forms_of
from vtax.report.document import cells
from vtax.report.document.cells import Nothing
from vtax.report.document.levels import written_level
from vtax.report.document.notes import data_of
from vtax.report.document.terms import unit_of
from vtax.report.document.text import (
    Inline,
    Joined,
    Link,
    Message,
    Role,
    Styled,
    Translated,
    msg,
    plural,
    term,
)
from vtax.report.document.warnings import Warning
from vtax.report.renderers import numbers
from vtax.report.renderers.language import ENGLISH, Language
from vtax.stats.verdict import p_text
from vtax.units import about_size, format_duration, format_percent

SIGNS: Mapping[str, str] = {
    "slower": "▼",
    "faster": "▲",
    "equivalent": "=",
    "at-most": "≤",
    "undecided": "?",
    "perhaps-slower": "▽",
    "perhaps-faster": "△",
}
WORDS: Mapping[str, Message] = {
    "slower": msg("slower"),
    "faster": msg("faster"),
    "equivalent": msg("equivalent"),
    "at-most": msg("costs at most the margin"),
    "undecided": msg("undecided"),
    "costs-more": msg("costs more"),
    "costs-less": msg("costs less"),
    "equal-cost": msg("equal cost"),
}
PARTS: tuple[Literal["estimate", "interval"], ...] = (
    "estimate",
    "interval",
)  # of a relative figure
_NAME = re.compile(r"\{(\w+)\}")
_BAR_CELLS = 10  # are the baseline
_BAR_MAX = 12
_PLACES_SHOWN = 2


@dataclass(frozen=True)
class Run:
    """A stretch of text of one look. value: the value it shows, None for words. link: key of a section."""

    text: str
    role: Role = ""
    value: Any = None
    link: str = ""


class Formatter:
    """Texts of documents in a language."""

    def __init__(self, language: Language = ENGLISH) -> None:
        self.language = language

    def text(self, inline: Inline) -> str:
        """Return a text as characters, without its roles."""
        return "".join(run.text for run in self.runs(inline))

    def runs(self, inline: Inline, role: Role = "") -> Iterator[Run]:
        """Yield the stretches of a text, in order."""
        if isinstance(inline, Note):
            one, many = forms_of(inline.code)
            yield from self._message(
                Message(one, data_of(inline), many, inline.data.get("count", 1)), role
            )
        elif isinstance(inline, str):
            yield Run(inline, role)
        elif isinstance(inline, Translated):
            yield Run(inline.others.get(self.language.code.partition("-")[0], inline.text), role)
        elif isinstance(inline, Message):
            yield from self._message(inline, role)
        elif isinstance(inline, Link):
            yield from (replace(run, link=inline.key) for run in self.runs(inline.text, role))
        elif isinstance(inline, Styled):
            yield from self.runs(inline.text, inline.role)
        elif isinstance(inline, Joined):
            yield from self._joined(inline, role)
        elif isinstance(inline, cells.Relative):
            yield from self._relative(inline, role)
        else:
            yield Run(self.value(inline), role, inline)

    def _message(self, message: Message, role: Role) -> Iterator[Run]:
        template = self.language.translated(message.template, message.many, message.count)
        parts = _NAME.split(template) if message.data else [template]  # braces of a term are data
        for number, part in enumerate(parts):
            if number % 2:
                yield from self.runs(message.data[part], role)
            elif part:
                yield Run(part, role)

    def _joined(self, texts: Joined, role: Role) -> Iterator[Run]:
        last = len(texts.parts) - 1
        for number, part in enumerate(texts.parts):
            if number:
                is_and = texts.is_list and number == last
                yield Run(self.text(msg(" and ")) if is_and else texts.separator, role)
            yield from self.runs(part, role)

    def _relative(self, value: cells.Relative, role: Role) -> Iterator[Run]:
        """Yield `95.4 % [93.0, 97.0] slower`; below half of the baseline `7.41 times slower [7.09, 7.81]`."""
        text, interval, kind = numbers.relative(
            value.estimate,
            value.low,
            value.high,
            of=value.is_of,
            decimals=value.decimals,
            has_interval=value.shows != "estimate",
        )
        if interval and value.shows == "low":
            low, high = interval[1:-1].split(", ")
            text = high if kind in ("slower", "more") else low
        parts: list[Run] = []
        if value.shows != "interval":
            parts.append(Run(self._share_of(value, self.number(text), kind), role, value))
        if interval and value.shows in ("both", "interval"):
            parts.append(
                Run(
                    self.number(interval),
                    "muted",
                    cells.IntervalCell(value.low, value.high, "quantity"),
                )
            )
        if value.verdict is not None and kind != value.verdict.kind:
            is_as_much = kind == "times" and value.verdict.kind == "costs-more"
            word = self.text(msg("as much")) if is_as_much else self.word(value.verdict)
            parts.append(Run(word, role, value))
        for number, part in enumerate(parts):
            if number:
                yield Run(" ", role)
            yield part

    def _share_of(self, value: cells.Relative, shown: str, kind: numbers.Kind) -> str:
        if kind == "percent":
            share = f"{shown}\N{NO-BREAK SPACE}%"
            phrase = msg("{share} of {baseline}", share=share, baseline=value.baseline)
            return self.text(phrase) if value.baseline else share
        if kind in ("more", "less"):
            return self._change_of(value, f"{shown}\N{NO-BREAK SPACE}%", kind)
        return self.text(
            {
                "slower": msg("{times} times slower", times=shown),
                "faster": msg("{times} times faster", times=shown),
                "times": msg("{times} times", times=shown),
            }[kind]
        )

    def _change_of(self, value: cells.Relative, share: str, kind: numbers.Kind) -> str:
        """Return `14 % longer`, `14 % longer than native`."""
        words = {
            ("time", "more"): msg("{share} longer", share=share),
            ("time", "less"): msg("{share} shorter", share=share),
            ("value", "more"): msg("{share} more", share=share),
            ("value", "less"): msg("{share} less", share=share),
        }
        word = words[value.is_of, kind]
        if value.baseline:
            return self.text(msg("{change} than {baseline}", change=word, baseline=value.baseline))
        return self.text(word)

    def value(self, value: Any) -> str:
        """Return a typed value as characters."""
        return _FORMATS[type(value)](self, value)

    def marks(self, platform: cells.PlatformCell) -> list[str]:
        """Return what must be said of a platform wherever it is shown."""
        return [self.text(term(mark)) for mark in platform.marks]

    def verdict(self, value: cells.VerdictCell) -> tuple[str, str]:
        """Return its sign with its word, and how many further blocks it needs; empty when that is none."""
        more = (
            self.text(cells.more_blocks(value.blocks_low, value.blocks_needed))
            if value.blocks_needed
            else ""
        )
        return f"{SIGNS[value.sign]} {self.word(value)}", more

    def word(self, verdict: cells.VerdictCell) -> str:
        """Return the word of a verdict, or its bound where it has one; `at-most` names its margin."""
        if verdict.leaning:
            return self.text(cells.PERHAPS[verdict.leaning])
        if verdict.bound != "":
            return self.text(verdict.bound)
        if verdict.kind == "at-most":
            margin = cells.Share(verdict.margin, "declared")
            return self.text(msg("costs at most {margin}", margin=margin))
        return self.text(WORDS[verdict.kind])

    def number(self, text: str) -> str:
        """Return a number that `numbers` made, as the language writes it."""
        return self.language.number(text)

    def sentence(self, warning: Warning) -> str:
        """Return a warning's sentence."""
        return self.text(warning.text)

    def times(self, warning: Warning) -> str:
        """Return how often it was given, where that is more than once, and that it is of secondary metrics."""
        if warning.is_primary:
            return (
                self.text(plural(" ({count} times)", " ({count} times)", warning.times))
                if warning.times > 1
                else ""
            )
        return self.text(
            plural(
                " (of secondary metrics)", " ({count} times, of secondary metrics)", warning.times
            )
        )

    def where(self, warning: Warning) -> str:
        """Return the places on one line: the first two, and how many more."""
        shown = [self.text(place.inline) for place in warning.places[:_PLACES_SHOWN]]
        further_count = len(warning.places) - _PLACES_SHOWN
        remainder = (
            [self.text(msg("and {count} more", count=cells.Count(further_count)))]
            if further_count > 0
            else []
        )
        return "; ".join([*shown, *remainder])

    def cases(self, warning: Warning) -> list[str]:
        """Return the sentences of all cases of a warning, each once with how often it stands."""
        counts = Counter(self.text(text) for text in warning.texts)
        return [
            text
            + (
                self.text(plural(" ({count} times)", " ({count} times)", count))
                if count > 1
                else ""
            )
            for text, count in counts.items()
        ]


def efficiency_bar(low: float, estimate: float, high: float) -> str:
    """Efficiency to scale, ten cells are the baseline: filled below the interval, ◆ the estimate, ░ the interval.

    What lies beyond twelve cells ends in an arrow.
    """
    low, estimate, high = (
        min(value * _BAR_CELLS, _BAR_MAX + 1.0) for value in (low, estimate, high)
    )
    place = min(max(math.ceil(estimate), 1), _BAR_MAX + 1) - 1
    bar = "".join(
        "█" if n + 0.5 <= low else "░" if n + 0.5 <= high else " " for n in range(_BAR_MAX)
    )
    bar += "»" if high > _BAR_MAX else " "
    mark = "»" if place == _BAR_MAX else "◆"
    return (bar[:place] + mark + bar[place + 1 :]).rstrip()


def _quantity(f: Formatter, value: cells.Quantity) -> str:
    text = f.number(numbers.number(value.value / value.scale.divisor, value.digits))
    return f"{text} {f.text(unit_of(value.scale.unit))}" if value.has_unit else text


def _mean(f: Formatter, value: cells.Mean) -> str:
    mean, half_width = numbers.mean_and_half_width(
        value.mean, value.half_width, value.scale, value.step, value.decimals
    )
    texts = {"mean": [mean], "half-width": [half_width], "both": [mean, half_width]}[value.shows]
    unit = f.text(unit_of(value.scale.unit)) if value.shows == "both" else ""
    return " ".join(filter(None, [f.number(" ".join(filter(None, texts))), unit]))


def _interval(f: Formatter, value: cells.IntervalCell) -> str:
    if value.of == "quantity":
        return f.number(numbers.bounds(value.low, value.high, value.scale))
    texts = [f.value(cells.Share(bound, "change")) for bound in (value.low, value.high)]
    return f"[{f.language.separator.join(texts)}]"


def _share(f: Formatter, value: cells.Share) -> str:
    share = value.value
    if value.style == "change":
        return f.number(("+" if share > 0 else "") + numbers.percent(share))
    if value.style == "signed decimal":
        return f.number(format_percent(share, "+.1f").replace("-", "\N{MINUS SIGN}"))
    formats: Mapping[str, Callable[[float], str]] = {
        "figures": numbers.percent,
        "declared": numbers.plain_percent,
        "whole": lambda share: format_percent(share, ".0f"),
    }
    return f.number(formats[value.style](share))


def _p_value(f: Formatter, value: cells.PValue) -> str:
    return f.number(p_text(value.value) if value.is_named else numbers.number(value.value, 2))


def _platform(f: Formatter, value: cells.PlatformCell) -> str:
    return f"{value.name} ({', '.join(f.marks(value))})" if value.marks else value.name


def _range(f: Formatter, value: cells.Range) -> str:
    low, high = f.text(value.low), f.text(value.high)
    return low if low == high else f.text(msg("{low} to {high}", low=low, high=high))


def _levels(f: Formatter, value: cells.Factor) -> str:
    return ", ".join(f"{factor}={written_level(factor, level)}" for factor, level in value.levels)


_FORMATS: Mapping[type, Callable[[Formatter, Any], str]] = {
    cells.Number: lambda f, v: f.number(numbers.number(v.value, v.digits)),
    cells.Count: lambda f, v: str(v.value),
    cells.Quantity: _quantity,
    cells.Mean: _mean,
    cells.IntervalCell: _interval,
    cells.Share: _share,
    cells.PValue: _p_value,
    cells.Duration: lambda f, v: f.number(format_duration(v.seconds)),
    cells.Offset: lambda f, v: f.number(f"{v.seconds:+.{v.decimals}f} s"),
    cells.Size: lambda f, v: f.number(about_size(v.size_bytes)),
    cells.Moment: lambda f, v: f.language.moment(v.seconds),
    cells.VerdictCell: lambda f, v: ", ".join(filter(None, f.verdict(v))),
    cells.Bar: lambda f, v: efficiency_bar(v.low, v.estimate, v.high),
    cells.Relative: lambda f, v: f.text(v),
    cells.PlatformCell: _platform,
    cells.Factor: _levels,
    cells.Range: _range,
    Nothing: lambda f, v: "–",
}


def english(text: Inline) -> str:
    """Return a text as English writes it: for programs, and for errors."""
    return Formatter().text(text)
