"""Ladders as Vega-Lite specifications: every step is a bar from where the one before it ends."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.renderers import vega
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.ratio_axis import axis_of, domain_of
from vtax.report.renderers.vega import Spec


def waterfall(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Bars between rungs, the interval of each step at its end, and lines from one step to the next."""
    rows, labels = vega.rows_of(figure, formatter)
    domain = domain_of([row.shown for _, row in rows if row.shown is not None], figure.margin)
    steps: list[Spec] = []
    for name, row in rows:
        if row.shown is None or row.start is None:
            continue
        to, low, high = row.shown
        text = formatter.text(row.text)
        step = {"from": row.start, "to": to, "low": low, "high": high, "text": text}
        steps.append(
            {**vega.shared_by(name, row, formatter), **step, "ink": f"@{row.verdict or 'ink'}"}
        )
    x = {"type": "quantitative", "title": vega.axis_title(figure, formatter), **axis_of(domain)}
    ink = {"color": {"field": "ink", "type": "nominal", "scale": None, "legend": None}}
    tooltip = [("platform", ""), ("text", formatter.text(figure.interval_title))]
    bounded = [step for step in steps if step["low"] is not None and step["high"] is not None]
    layers = [
        vega.layer(
            [{"row": name, "one": 1} for name, _ in rows],
            {"type": "tick", "color": vega.GREY, "thickness": 1, "size": 26},
            {"x": {"field": "one", **x}},
            tooltip=[],
            colour=False,
        ),
        vega.layer(
            steps,
            {"type": "bar", "opacity": 0.5, "height": vega.BAR_PX, "clip": True},
            {"x": {"field": "from", **x}, "x2": {"field": "to"}, **ink},
            tooltip,
            colour=False,
        ),
        vega.layer(
            bounded,
            {"type": "rule", "strokeWidth": 2, "clip": True},
            {"x": {"field": "low", **x}, "x2": {"field": "high"}, **ink},
            tooltip,
            colour=False,
        ),
        vega.layer(
            steps,
            {"type": "tick", "thickness": 2, "size": vega.BAR_PX, "clip": True},
            {"x": {"field": "to", **x}, **ink},
            tooltip,
            colour=False,
        ),
    ]
    return vega.frame(layers, labels, formatter.text(figure.title), formatter)
