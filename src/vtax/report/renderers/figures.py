"""Figures of a report: their specifications by kind, the sentence below them, and files for print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping

from vtax.report import document as doc
from vtax.report.document import joined, msg
from vtax.report.renderers import vega
from vtax.report.renderers.charts import PRINT_FONT, chart_spec
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega_shares import shares
from vtax.report.renderers.vega_steps import waterfall
from vtax.report.renderers.vega_trials import has_too_many_trials, order

_WIDTH = 430  # pixels
_KINDS: Mapping[str, Callable[[doc.RowFigure, Formatter], vega.Spec]] = {
    "values": vega.values,
    "ratios": vega.ratios,
    "order": order,
    "shares": shares,
    "waterfall": waterfall,
}


def spec_of(figure: doc.RowFigure, formatter: Formatter) -> vega.Spec:
    """Return the specification of a figure of rows."""
    return _KINDS[figure.kind](figure, formatter)


def file_of(figure: doc.Figure, formatter: Formatter, file_format: str) -> bytes:
    """Return a figure with its title and the sentences below it as the content of an svg, pdf or png file, for
    print."""
    title = {
        "anchor": "start",
        "subtitleFontSize": 10.5,
        "color": "@ink",
        "subtitleColor": "@muted",
        "offset": 12,
        "subtitlePadding": 4,
    }
    if isinstance(figure, doc.Chart):
        spec, sentences, title_chars, chars = chart_spec(figure, formatter), figure.notes, 88, 118
        title["fontSize"] = 14
    else:
        spec, title_chars, chars = spec_of(figure, formatter), 52, 74
        sentences = (caption_of(figure, spec, formatter),)
        title |= {"fontSize": 13, "frame": "bounds"}
        config = {**spec["config"], "font": PRINT_FONT}
        spec |= {"width": _WIDTH, "background": "@paper", "padding": 10, "config": config}
    title["text"] = textwrap.wrap(formatter.text(figure.title), title_chars)
    title["subtitle"] = [
        line for each in sentences for line in textwrap.wrap(formatter.text(each), chars)
    ]
    return _drawn({**spec, "title": title}, file_format)


def _drawn(spec: vega.Spec, file_format: str) -> bytes:
    """Return a specification as the content of an svg, pdf or png file."""
    import vl_convert

    text = vega.light(spec)
    if file_format == "svg":
        return vl_convert.vegalite_to_svg(text, vl_version=vega.VEGA_LITE).encode()
    if file_format == "pdf":
        return vl_convert.vegalite_to_pdf(text, vl_version=vega.VEGA_LITE)
    return vl_convert.vegalite_to_png(text, vl_version=vega.VEGA_LITE, scale=2)


def id_of(figure: doc.Figure) -> str:
    """Return the name of a figure among those of a report: `order-iperf3-throughput`."""
    return re.sub(r"[^a-z0-9]+", "-", figure.key.lower()).strip("-")


def caption_of(figure: doc.RowFigure, spec: vega.Spec, formatter: Formatter) -> str:
    """Return the sentences below a figure. spec: its specification."""
    (caption,) = figure.notes
    sentences: list[doc.Inline] = [joined([caption, "."], "")]
    if more := _what_stands_for_values(figure):
        sentences = [msg("{figure}, {blocks}.", figure=caption, blocks=more)]
    if figure.kind == "order" and has_too_many_trials(figure):
        sentences.append(msg("The band has nine in ten trials."))
    if vega.marks_what_lies_outside(spec):
        signs = "▲ ▼" if figure.kind == "order" else "◀ ▶"
        sentences.append(msg("An arrow ({signs}) marks what lies outside the axis.", signs=signs))
    return formatter.text(joined(sentences, " "))


def _what_stands_for_values(figure: doc.RowFigure) -> doc.Inline:
    """Return how a figure shows single values; empty for one without."""
    if figure.kind in ("shares", "order") or not any(row.values for row in figure.rows):
        return ""
    if figure.dots == "host":
        is_dense = vega.has_too_many_dots(figure)
        return (
            msg("and quartiles and range of the hosts")
            if is_dense
            else msg("and a dot for every host")
        )
    if vega.has_too_many_dots(figure):
        return msg("and quartiles and range of the blocks")
    return msg("and a dot for every block")
