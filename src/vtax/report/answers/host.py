"""The host of a run: every stored fact, and the installed plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis.facts import fact_name, fact_value
from vtax.report.analysis.source import Source
from vtax.report.document import joined, listed, msg, term
from vtax.report.views.base import Options, View, register_view
from vtax.store.records import PluginRecord


def document(source: Source, _: Options) -> doc.Document:
    """Return a table of facts, and one of plug-ins when the run used some."""
    host, plugins = source.analysis.host, source.analysis.plugins
    columns = (doc.Column("fact", msg("fact")), doc.Column("value", msg("value"), wraps=True))
    table = doc.table_of(columns, fact_rows(host), key="host", label=msg("Host"), style="facts")
    if not plugins:
        return doc.Document(VIEW.title, (table,), data=host)
    data = {**host, "plugins": plugins}
    return doc.Document(VIEW.title, (table, _plugins(plugins)), data=data)


def _plugins(plugins: Sequence[PluginRecord]) -> doc.Table:
    """Return a row per plug-in that vtax does not ship."""
    columns = (
        doc.Column("plugin", msg("plug-in")),
        doc.Column("package", msg("package"), wraps=True),
        doc.Column("file", msg("file")),
        doc.Column("sha256", msg("SHA-256"), wraps=True),
    )
    rows = [(f"{p.kind} {p.name}", package_of(p) or msg("none"), p.file, p.sha256) for p in plugins]
    return doc.table_of(
        columns, rows, key="plugins", label=msg("Plug-ins that are not part of vtax")
    )


def package_of(plugin: PluginRecord) -> str:
    """`my-package 1.0`; empty for a module without a package."""
    return f"{plugin.package} {plugin.version}" if plugin.package else ""


def fact_rows(facts: Mapping[str, Any]) -> Iterator[tuple[doc.Inline, doc.Inline]]:
    """Facts as (name, text), nested ones flattened one level, those with the same text in one row."""
    for key, value in facts.items():
        name: doc.Inline = fact_name(key)
        if not isinstance(value, Mapping):
            yield name, fact_value(key, value)
            continue
        is_note = key == "not_counted"
        names_by_text = by_key((str(field_value), inner) for inner, field_value in value.items())
        for names in names_by_text.values():
            first = value[names[0]]
            text: doc.Inline = first if is_note else fact_value(names[0], first)
            what = listed(map(term, names)) if is_note else ", ".join(names)
            if len(names) == 1:
                yield joined([name, what], ": "), text
            else:
                yield name, joined([what, text], ": ")


VIEW = register_view(
    View("host", msg("Host"), msg("The host of the run and its plug-ins."), document, 50)
)
