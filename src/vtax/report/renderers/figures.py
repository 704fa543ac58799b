"""Figures of a report: their specifications by kind, the sentence below them, and files for print."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping

from vtax.report.document import Chart, Figure, joined, msg
from vtax.report.document.text import Inline
from vtax.report.renderers import charts, vega
from vtax.report.renderers.charts import PRINT_FONT, exported
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega_shares import shares
from vtax.report.renderers.vega_trials import distribution, has_too_many_trials, order

_WIDTH, _TITLE_CHARS, _CAPTION_CHARS = 430, 52, 74
_KINDS: Mapping[str, Callable[[Figure, Formatter], vega.Spec]] = {
    "values": vega.values, "ratios": vega.ratios, "order": order, "distribution": distribution, "shares": shares,
}  # fmt: skip


def spec_of(figure: Figure, formatter: Formatter) -> vega.Spec:
    """Return the specification of a figure."""
    return _KINDS[figure.kind](figure, formatter)


def file_of(figure: Figure | Chart, formatter: Formatter, file_format: str) -> bytes:
    """Return a figure with its title and the sentences below it as the content of an svg, pdf or png file, for
    print."""
    if isinstance(figure, Chart):
        return charts.file_of(figure, formatter, file_format)
    spec = spec_of(figure, formatter)
    title = {
        "text": textwrap.wrap(formatter.text(figure.title), _TITLE_CHARS),
        "subtitle": textwrap.wrap(caption_of(figure, spec, formatter), _CAPTION_CHARS),
        "anchor": "start", "fontSize": 13, "subtitleFontSize": 10.5, "color": "@ink", "subtitleColor": "@muted",
        "offset": 12, "subtitlePadding": 4, "frame": "bounds",
    }  # fmt: skip
    print_font = {**spec["config"], "font": PRINT_FONT}
    text = vega.spec_text({**spec, "title": title, "width": _WIDTH, "background": "@paper", "padding": 10,
                           "config": print_font})  # fmt: skip
    for placeholder, colour in vega.PLACEHOLDERS.items():
        text = text.replace(f'"{placeholder}"', f'"{colour}"')
    return exported(json.loads(text), file_format)


def id_of(figure: Figure | Chart) -> str:
    """Return the name of a figure among those of a report: `order-iperf3-throughput`."""
    return re.sub(r"[^a-z0-9]+", "-", figure.key.lower()).strip("-")


def caption_of(figure: Figure, spec: vega.Spec, formatter: Formatter) -> str:
    """Return the sentences below a figure. spec: its specification."""
    sentences: list[Inline] = [joined([figure.caption, "."], "")]
    if more := _what_stands_for_values(figure):
        sentences = [msg("{figure}, {blocks}.", figure=figure.caption, blocks=more)]
    if vega.marks_what_lies_outside(spec):
        signs = "▲ ▼" if figure.kind == "order" else "◀ ▶"
        sentences.append(msg("An arrow ({signs}) marks what lies outside the axis.", signs=signs))
    return formatter.text(joined(sentences, " "))


def _what_stands_for_values(figure: Figure) -> Inline:
    """Return how a figure shows single values; empty for one without."""
    if figure.kind == "shares" or not any(row.values for group in figure.groups for _, row in group.rows if row):
        return ""
    if figure.kind == "order":
        line = msg("with the means of blocks as a line")
        band = msg("with the range of nine in ten trials as a band, and the means of blocks as a line")
        return band if has_too_many_trials(figure) else line
    if figure.kind == "distribution":
        box = msg("with the median and quartiles of all trials, and their range as a line")
        dots = msg("a dot for every trial, those of the first block on top, with their median and quartiles")
        return box if has_too_many_trials(figure) else dots
    if vega.has_too_many_dots(figure):
        return msg("and quartiles and range of the blocks")
    return msg("and a dot for every block")
