"""Specifications and drawings with fewer characters: values once, and no more digits than a figure can show."""

from __future__ import annotations

import json
import re
from typing import Any

from vtax.foreign_data import parse_json

_DIGITS = 6
_FONT = re.compile(r' font-family="[^"]*"')
_DEFAULTS = re.compile(
    r' (?:opacity="1"|stroke-width="1"|pointer-events="none"|transform="translate\(0,0\)")'
)
"""Attributes that say what holds without them; nothing in a static drawing has events."""
_UNSEEN = re.compile(
    r'<path class="(?:back|fore)ground" aria-hidden="true" d="[^"]*"(?: display="none")?/>'
)
"""A frame that Vega draws around every group, where it has neither fill nor line, or is not shown."""
_LONG_NUMBER = re.compile(r"(\d+\.\d{2})\d+")


def compact(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification of layers in which values that several layers show are one named data set."""
    if "layer" not in spec:
        return spec
    names: dict[str, str] = {}
    texts = [json.dumps(layer["data"]["values"], ensure_ascii=False) for layer in spec["layer"]]
    for text in texts:
        if texts.count(text) > 1:
            names.setdefault(text, f"d{len(names)}")
    layers = [
        {
            **layer,
            "data": {"name": names[text]}
            if text in names
            else {"values": _rounded(layer["data"]["values"])},
        }
        for layer, text in zip(spec["layer"], texts, strict=True)
    ]
    sets = {name: _rounded(parse_json(text)) for text, name in names.items()}
    return {**spec, **({"datasets": sets} if sets else {}), "layer": layers}


def compact_svg(svg: str) -> str:
    """Return a drawing whose coordinates have two decimals of a pixel, and which names its font once."""
    fonts = set(_FONT.findall(svg))
    if len(fonts) == 1:
        svg = _FONT.sub("", svg).replace("<svg ", f"<svg {fonts.pop().strip()} ", 1)
    svg = _UNSEEN.sub("", _DEFAULTS.sub("", svg))
    return re.sub(
        r'(?<= )(?:d|transform|x1|x2|y1|y2|x|y)="[^"]*"',
        lambda m: _LONG_NUMBER.sub(r"\1", m[0]),
        svg,
    )


def _rounded(value: Any) -> Any:
    """Values with numbers of six digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value
