"""A report as the page serves it: with a way back to its run, and with the policy that its own scripts need."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import escape

from vtax.page.access import report_policy

_EYEBROW = '<p class="eyebrow">vtax</p>'
_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


def with_back_link(path: Path, address: str, name: str) -> tuple[str, str]:
    """Return (a report whose first line leads to the page of its run, its content security policy).

    path: of the report as `vtax report` writes it.
    """
    text = path.read_text(encoding="utf-8")
    link = f'<p class="eyebrow"><a href="{escape(address)}">vtax: {escape(name)}</a></p>'
    scripts = [
        found["text"] for found in _SCRIPT.finditer(text) if "application/json" not in found["attributes"]
    ]  # fmt: skip
    return text.replace(_EYEBROW, link, 1), report_policy(scripts)
