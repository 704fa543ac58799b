"""Platforms whose figures need a word of caution (`emulated`) have it wherever these stand. Figures are invented."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from shown import drawn

from vtax.report.analysis.source import Source, source_of
from vtax.report.document import Bullets, Document, Figure, PlatformCell, Table, Titled
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.store import Store

EMULATED = "qemu-tcg"


@pytest.fixture(scope="module")
def source(tour_file: Path) -> Source:
    """A run whose last platform is emulated."""
    with Store.open(tour_file) as store:
        return source_of(store, "tour-1")


def names_in(value: Any) -> Iterator[str | PlatformCell]:
    """Every mention of the emulated platform: as plain text, or as a platform."""
    if isinstance(value, PlatformCell):
        if value.name == EMULATED:
            yield value
    elif isinstance(value, str):
        if value == EMULATED:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from names_in(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from names_in(getattr(value, field.name))


def shown_in(document: Document) -> Iterator[Any]:
    """Its tables, figures, and titles of sections, and the lines of a summary."""
    parts = list(document.parts)
    while parts:
        part = parts.pop()
        if isinstance(part, Titled):
            parts += part.parts
            yield part.title
        elif isinstance(part, Table):
            yield [column.title for column in part.columns], part.groups
        elif isinstance(part, Figure) or (
            isinstance(part, Bullets) and part.key in ("answers", "resources", "unmoved")
        ):
            yield part


@pytest.mark.parametrize("name", sorted(set(views()) - {"reproduce"}))
def test_every_table_and_figure_marks_an_emulated_platform(source, name):
    found = list(names_in(list(shown_in(views()[name].document(source, Options("report"))))))
    assert [
        each
        for each in found
        if not (isinstance(each, PlatformCell) and each.marks == ("emulated",))
    ] == []
    if name in ("result", "interaction", "explain", "variance", "recommend"):
        assert found, "this view has figures of every platform"


def test_the_first_lines_say_that_a_platform_is_emulated(source):
    text = " ".join(drawn(views()["result"].document(source, Options("brief")), 200).split())
    summary = text[text.index("Percent of") : text.index("Not tested")]
    assert summary.count(EMULATED) == summary.count(f"{EMULATED} (emulated)") > 0
