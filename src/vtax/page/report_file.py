"""A report as the page serves it: with a link to the page of its run, beside a file with its content security policy.

Both are made once, by the worker: a request for a report opens two files and computes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import quote

from markupsafe import escape

_EYEBROW = '<p class="eyebrow">vtax</p>'
_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)


def policy_file(report: Path) -> Path:
    """Return the file of the policy of a report."""
    return report.with_name(f"{report.name}.policy")


def with_back_link(text: str, name: str) -> str:
    """Return a report, as `vtax report` writes it, whose first line leads to the page of its run."""
    address = f"/runs/{quote(name, safe='')}"
    link = f'<p class="eyebrow"><a href="{escape(address)}">vtax: {escape(name)}</a></p>'
    return text.replace(_EYEBROW, link, 1)


def report_policy(text: str) -> str:
    """Return the policy of a report, which carries its scripts and styles within: the scripts are allowed one by one.

    Its figures are drawn by Vega, which compiles expressions and sets styles. So it is a sandbox: an origin of its
    own, without cookies, which loads from nowhere and connects to nothing.
    """
    scripts = [
        match["text"]
        for match in _SCRIPT.finditer(text)
        if "application/json" not in match["attributes"]
    ]
    hashes = " ".join(map(hash_of, scripts)) or "'none'"
    return (
        f"sandbox allow-scripts; default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )


def hash_of(text: str) -> str:
    """Return a source expression that allows exactly this script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
