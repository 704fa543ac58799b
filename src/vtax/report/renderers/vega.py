"""Specifications as text, as static SVG of a page, and the script that draws them interactively."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version

from markupsafe import escape

from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.report.renderers.axes import Spec
from vtax.report.renderers.compact import compact, compact_svg
from vtax.report.renderers.marks import FONT
from vtax.report.replacing import replacing

VEGA_LITE = "6.4"
_STATIC_WIDTH = 430
_MEASURED_FONT = "Liberation Sans"  # vl-convert brings it, and measures it in a quarter of the time of DejaVu Sans
_PARTS = re.compile(r' (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*"|aria-label="[^"]*")')
PLACEHOLDERS = {
    "@ink": "#1d2329",
    "@paper": "#ffffff",
    "@muted": "#59636e",
    "@grid": "#e3e7eb",
    "@slower": "#9c3d00",
    "@faster": "#00664a",
    "@equivalent": "#00527f",
    "@at-most": "#00527f",
    "@undecided": "#4c5157",
}
_NO_MARKUP = {
    ord(character): f"\\u{ord(character):04x}"
    for character in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"
}


def static_svg(spec: Spec, name: str) -> str:
    """Return a figure as SVG that scales with the page, laid out with the same font on every host.

    name: a prefix for its ids, unique in the page.
    """
    import vl_convert

    if "layer" in spec:  # charts of several drawings have their width, and a font for print
        spec = {
            **spec,
            "width": _STATIC_WIDTH,
            "config": {**spec["config"], "font": _MEASURED_FONT},
        }
    text = light(
        {**spec, "background": None}, {name: f"var(--{name[1:]})" for name in PLACEHOLDERS}
    )
    svg = compact_svg(vl_convert.vegalite_to_svg(text, vl_version=VEGA_LITE))
    svg = svg.replace(f'font-family="{_MEASURED_FONT}"', f'font-family="{FONT}"')
    # an image has no parts for a screen reader; of some marks Vega names the parts in spite of `aria`
    svg = re.sub(r"<[a-z]+ [^>]*>", lambda tag: _PARTS.sub("", tag[0]), svg)
    label = f'role="img" aria-label="{escape(spec["description"])}"'
    svg = re.sub(
        r'<svg([^>]*?) width="[\d.]+" height="[\d.]+"',
        lambda match: f"<svg{match[1]} {label}",
        svg,
        count=1,
    )
    svg = re.sub(r'(?<=")(clip|gradient_)(?=\d)', rf"{name}-\1", svg)
    return re.sub(r"(?<=url\(#)(?=clip|gradient_)", f"{name}-", svg)


def light(spec: Spec, colours: Mapping[str, str] = PLACEHOLDERS) -> str:
    """Return a specification as JSON with the colours of a light page, or with others."""
    return re.sub(
        r'"(@[\w-]+)"', lambda match: f'"{colours.get(match[1], match[1])}"', spec_text(spec)
    )


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script without any address in need of a network.

    Putting it together takes seconds, so the result is kept in the home, where that may be written.
    """
    import vl_convert

    cache_file = (
        Home.from_environment().root
        / "cache"
        / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.js"
    )
    with suppress(OSError):
        if script := cache_file.read_text(encoding="utf-8"):
            return script
    bundle: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE
    )
    script = bundle.replace("</script", "<\\/script")
    with suppress(OSError, VtaxError):
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(cache_file) as path:
            path.write_text(script, encoding="utf-8")
    return script


def spec_text(spec: Spec) -> str:
    """Return a specification as JSON that may stand inside a script element: nothing in it begins or ends markup."""
    return json.dumps(
        compact(spec), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).translate(_NO_MARKUP)
