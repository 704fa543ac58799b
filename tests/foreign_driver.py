"""A driver as somebody else would write it, as source text."""

from __future__ import annotations

GOOD = """
from vtax.platforms.base import Driver, register_platform
from vtax.platforms.options import DriverOptions
class Options(DriverOptions):
    pass
@register_platform
class Made(Driver):
    name = "{name}"
    summary = "somebody else's"
    Options = Options
    variants = {variants}
    def probe(self, options, image):
        raise {error}
    def start(self, options, spec):
        raise RuntimeError("not started here")
"""


def good(name: str, variants: str, error: str = "RuntimeError('no')") -> str:
    return GOOD.format(name=name, variants=variants, error=error)
