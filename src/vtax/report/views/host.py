"""The host that a run was made on, every fact that is kept of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.report.analysis.source import Source
from vtax.report.document import Column, Document, Group, Inline, Message, Row, Size, Table, joined, msg
from vtax.report.views.base import Options, View

_NAMES: Mapping[str, Message] = {
    "cpu_model": msg("CPU"),
    "cpus": msg("CPUs"),
    "cpus_allowed": msg("CPUs vtax may use"),
    "memory_bytes": msg("memory"),
    "distribution": msg("system"),
    "virtualized": msg("itself a virtual machine"),
}


def document(source: Source, _: Options) -> Document:
    """A table of facts."""
    host = source.analysis.host
    columns = (Column("fact", msg("fact")), Column("value", msg("value"), wraps=True))
    rows = tuple(Row(cells) for cells in fact_rows(host))
    table = Table(columns, (Group(rows),), key="host", label=msg("Host"), style="facts")
    return Document(VIEW.title, (table,), data=host)


def fact_rows(facts: Mapping[str, Any]) -> Iterator[tuple[Inline, Inline]]:
    """Facts as (name, text), nested ones flattened one level."""
    for key, value in facts.items():
        name: Inline = _NAMES.get(key, key.replace("_", " "))
        if isinstance(value, Mapping):
            yield from ((joined([name, inner], ": "), fact(inner, each)) for inner, each in value.items())
        else:
            yield name, fact(key, value)


def fact(key: str, value: Any) -> Inline:
    """One fact as people read it."""
    if isinstance(value, bool):
        return msg("yes") if value else msg("no")
    if key.endswith("_bytes") and isinstance(value, int | float):
        return Size(value)
    if isinstance(value, list | tuple) and all(isinstance(each, int | str) for each in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


VIEW = View("host", msg("Host"), msg("The host that the run was made on."), document, 50)
