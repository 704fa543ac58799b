"""Runs as files that other programs and people read: documents, the analysis as JSON, measurements as tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from vtax.errors import BadInput
from vtax.report import document as doc
from vtax.report.analysis.source import Source, source_of
from vtax.report.answers.result.exported import exported_whole
from vtax.report.chapters import report
from vtax.report.renderers.json import plain
from vtax.report.renderers.language import ENGLISH, Language
from vtax.report.replacing import replacing
from vtax.report.views.base import REPORT, Options
from vtax.store.query import in_order
from vtax.store.store import Store

DOCUMENTS = ("html", "markdown", "latex-document")  # formats with chapters


def write(
    store: Store,
    run_name: str,
    file_format: str,
    path: Path,
    language: Language = ENGLISH,
    options: Options = REPORT,
) -> None:
    """Write a run as html, json, markdown, latex, csv or parquet; an existing file is replaced whole or not at all.

    latex is one table, latex-document the report. language: of html, markdown and latex, as are options. Raises
    BadInput for an unknown run, for a wrong path and where there is no such table, StoreError when the store cannot
    be read or the disk is full.
    """
    if file_format in (*DOCUMENTS, "json", "latex"):
        source = source_of(store, run_name)
        with replacing(path) as new_path:
            write_whole(source, file_format, new_path, language, options)
        return
    from vtax.report.measurements import tidy, write_tables

    parts = in_order(store.engine, store.open_run(run_name))
    with replacing(path) as new_path:
        write_tables(starmap(tidy, parts), file_format, new_path)


def write_several(
    store: Store,
    run_names: Sequence[str],
    file_format: str,
    path: Path,
    language: Language = ENGLISH,
    options: Options = REPORT,
) -> None:
    """Write one html, markdown or latex-document file of several runs, a chapter each in their order below a list of them.

    The rest as in `write`. Raises BadInput for a format that has no chapters too.
    """
    from vtax.report.chapters import several
    from vtax.report.renderers.html import chapter_key

    if file_format not in DOCUMENTS:
        sentence = f"{file_format} holds one run"
        raise BadInput(
            sentence, hint="write a file for each run, or use --format markdown, latex-document"
        )
    analyses, chapters = [], []
    for name in run_names:
        source = source_of(store, name)
        chapters.append(report(source, options))
        analyses.append(source.analysis)
    first = several(analyses, [chapter_key(number) for number in range(len(chapters))])
    with replacing(path) as new_path:
        new_path.write_text(_rendered(file_format, first, language, chapters), encoding="utf-8")


def write_whole(
    source: Source,
    file_format: str,
    path: Path,
    language: Language = ENGLISH,
    options: Options = REPORT,
) -> None:
    """Write all that a source shows, as `write` does, to a file that nobody reads yet."""
    if file_format in DOCUMENTS:
        path.write_text(_rendered(file_format, report(source, options), language), encoding="utf-8")
    elif file_format == "latex":
        path.write_text(_table(source, language, options), encoding="utf-8")
    elif file_format == "json":
        path.write_text(
            json.dumps(plain(exported_whole(source)), indent=1, default=str) + "\n", "utf-8"
        )
    else:
        from vtax.report.measurements import tidy, write_tables

        write_tables([tidy(source.data, source.effective)], file_format, path)


def _table(source: Source, language: Language, options: Options) -> str:
    """Return the table of all comparisons as LaTeX."""
    from vtax.report.renderers.latex import latex_table

    document = report(source, options)
    for part in document.parts:
        for table in part.parts if isinstance(part, doc.Titled) else ():
            if isinstance(table, doc.Table) and table.repeats:
                return latex_table(document, table, language)
    raise BadInput(
        f"{source.analysis.name} has no table of comparisons", hint="use --format latex-document"
    )


def _rendered(
    file_format: str,
    document: doc.Document,
    language: Language,
    chapters: Sequence[doc.Document] = (),
) -> str:
    """Return a document as text of one of the formats with chapters."""
    if file_format == "html":
        from vtax.report.renderers.html import html as render
    elif file_format == "markdown":
        from vtax.report.renderers.markdown import markdown as render
    else:
        from vtax.report.renderers.latex import latex as render
    return render(document, language, chapters)
