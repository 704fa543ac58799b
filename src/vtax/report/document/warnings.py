"""A warning as data: a code, how severe it is, typed data, and the places where it holds.

Its sentence is made by a renderer, from the template of its code in `sentences.py`; it is merged with others by code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from vtax.described import Means
from vtax.messages import Severity
from vtax.report.document.cells import Count, Factor
from vtax.report.document.notes import sentence_of
from vtax.report.document.text import Inline, joined, msg, plural


@dataclass(frozen=True)
class WarnedPlace:
    """Where a warning holds. subject: a benchmark or one of its metrics. block: from 0, -1 before the first one."""

    platform: str = ""
    subject: str = ""
    levels: tuple[tuple[str, str], ...] = ()
    block: int | None = None

    @property
    def inline(self) -> Inline:
        """`docker, iperf3, direction=send, block 4`."""
        age: Inline = ""
        if self.block is not None:
            number = Count(self.block + 1)
            age = (
                msg("block {number}", number=number)
                if self.block >= 0
                else msg("before the first block")
            )
        return joined(
            [self.platform, self.subject, Factor(self.levels) if self.levels else "", age]
        )


def levels_of(levels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Factor -> level as a place holds them."""
    return tuple((factor, str(level)) for factor, level in levels.items())


def factors(levels: Mapping[str, Any]) -> Inline:
    """Return `direction=send, mtu=1500`; nothing without a level."""
    return Factor(levels_of(levels)) if levels else ""


_WHERE = Means("where it holds; empty for the whole run", name="places")


@dataclass(frozen=True)
class Warning:
    """A warning, merged with those of its code that differ in numbers alone.

    cases: the data of each different one. given: each as it was given, from which a part of the places is merged
    again. kind: the name of its family in documents of schema `vtax.analysis/1`.
    """

    code: Annotated[str, Means("name of the sentence")]
    severity: Annotated[Severity, Means("`note`, `warning` or `error`")]
    data: Annotated[
        Mapping[str, Inline], Means("what the sentence holds; ranges have `low` and `high`")
    ]
    cases: tuple[Mapping[str, Inline], ...] = ()
    places: tuple[WarnedPlace, ...] = field(default=())
    times: Annotated[int, Means("how often it was given")] = 1
    is_primary: Annotated[bool, Means("whether it is about a primary metric or the run")] = True
    kind: str = ""
    given: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    @property
    def text(self) -> Annotated[Inline, Means("the sentence, with ranges where numbers differ")]:
        """The sentence; with how many others are like it where no range can stand for them."""
        sentence = sentence_of(self.code, self.data)
        texts = [str(case["text"]) for case in self.cases if "text" in case]
        if len(texts) < 2 or str(self.data.get("text")) != texts[0]:
            return sentence
        like = plural(
            " (and {count} like it with other numbers)",
            " (and {count} like it with other numbers)",
            len(texts) - 1,
        )
        return joined([sentence, like], "")

    @property
    def texts(self) -> Annotated[tuple[Inline, ...], Means("every different sentence")]:
        """The sentence of every case."""
        return tuple(sentence_of(self.code, data) for data in self.cases) or (self.text,)

    @property
    def where(self) -> Annotated[tuple[Inline, ...], _WHERE]:
        """Its places as texts."""
        return tuple(place.inline for place in self.places)
