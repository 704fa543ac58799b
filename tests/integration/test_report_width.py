"""A report as a browser lays it out. Figures here are invented."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from synthetic_run import begin, fill

from vtax.report.analysis import analyse
from vtax.report.html import html
from vtax.store.store import Store

_MEASURE = """<script>addEventListener("load", () => { document.title = "widths " + [...document.querySelectorAll(
".scroll")].map(each => each.scrollWidth + "/" + each.clientWidth).join(" ") })</script></body>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_no_table_scrolls_sideways_in_a_window_of_1200_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        fill(begin(store), blocks=30)
        page = html(analyse(store, resamples=99))
    (tmp_path / "page.html").write_text(page.replace("</body>", _MEASURE), encoding="utf-8")
    arguments = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                 "--window-size=1200,2000", "--virtual-time-budget=3000", "--dump-dom",
                 f"file://{tmp_path / 'page.html'}"]  # fmt: skip
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout
    title = re.search(r"<title>widths ([^<]*)", shown)
    assert title is not None
    widths = [tuple(map(int, pair.split("/"))) for pair in title[1].split()]
    assert len(widths) > 4
    assert all(wanted <= there for wanted, there in widths)
