"""Figures of a report: their specifications by kind, the sentence below them, and files for print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping

from vtax.report import document as doc
from vtax.report.document import joined, msg
from vtax.report.renderers import vega
from vtax.report.renderers.axes import Spec
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import PRINT_FONT
from vtax.report.renderers.order_figure import has_too_many_trials, order
from vtax.report.renderers.panel_figures import panels
from vtax.report.renderers.row_figures import has_too_many_dots, ratios, shares, values, waterfall

_WIDTH = 430  # pixels
_KINDS: Mapping[str, Callable[[doc.RowFigure, Formatter], Spec]] = {
    "values": values,
    "ratios": ratios,
    "order": order,
    "shares": shares,
    "waterfall": waterfall,
}


def spec_of(figure: doc.Figure, formatter: Formatter, *, is_stacked: bool = False) -> Spec:
    """Return the specification of a figure, without title and notes. is_stacked: panels below each other."""
    if isinstance(figure, doc.Chart):
        return panels(figure, formatter, is_stacked=is_stacked)
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
    spec = spec_of(figure, formatter)
    if isinstance(figure, doc.Chart):
        sentences, title_chars, chars = figure.notes, 88, 118
        title["fontSize"] = 14
    else:
        title_chars, chars = 52, 74
        sentences = (caption_of(figure, spec, formatter),)
        title |= {"fontSize": 13, "frame": "bounds"}
        config = {**spec["config"], "font": PRINT_FONT}
        spec |= {"width": _WIDTH, "background": "@paper", "padding": 10, "config": config}
    title["text"] = textwrap.wrap(formatter.text(figure.title), title_chars)
    title["subtitle"] = [
        line for sentence in sentences for line in textwrap.wrap(formatter.text(sentence), chars)
    ]
    return _drawn({**spec, "title": title}, file_format)


def _drawn(spec: Spec, file_format: str) -> bytes:
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


def caption_of(figure: doc.RowFigure, spec: Spec, formatter: Formatter) -> str:
    """Return the sentences below a figure. spec: its specification."""
    (caption,) = figure.notes
    sentences: list[doc.Inline] = [joined([caption, "."], "")]
    if more := _what_stands_for_values(figure):
        sentences = [msg("{figure}, {blocks}.", figure=caption, blocks=more)]
    if figure.kind == "order" and has_too_many_trials(figure):
        sentences.append(msg("The band has nine in ten trials."))
    if _has_signs(spec):
        signs = "▲ ▼" if figure.kind == "order" else "◀ ▶"
        sentences.append(msg("An arrow ({signs}) marks what lies outside the axis.", signs=signs))
    return formatter.text(joined(sentences, " "))


def _what_stands_for_values(figure: doc.RowFigure) -> doc.Inline:
    """Return how a figure shows single values; empty for one without."""
    if figure.kind in ("shares", "order") or not any(row.values for row in figure.rows):
        return ""
    if figure.dots == "host":
        is_dense = has_too_many_dots(figure)
        return (
            msg("and quartiles and range of the hosts")
            if is_dense
            else msg("and a dot for every host")
        )
    if has_too_many_dots(figure):
        return msg("and quartiles and range of the blocks")
    return msg("and a dot for every block")


def _has_signs(spec: Spec) -> bool:
    """Return whether a figure has an arrow, because an interval, a block or an estimate lies outside its axis."""
    shown = [
        value.get("sign", value.get("text", ""))
        for layer in spec["layer"]
        if layer["mark"]["type"] == "text"
        for value in layer["data"]["values"]
    ]
    return any(text.startswith(("◀", "▲", "▼")) or text.endswith("▶") for text in shown)
