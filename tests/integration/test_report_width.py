"""A report as a browser lays it out. Figures here are invented."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from shown import page as page_of
from synthetic_run import begin, fill

from vtax.report.analysis import analyse
from vtax.store.store import Store

_MEASURE = """<script>addEventListener("load", () => {
const lines = each => {
  const range = document.createRange();
  range.selectNodeContents(each);
  return new Set([...range.getClientRects()].map(box => Math.round(box.bottom))).size;
};
const widths = [...document.querySelectorAll(".scroll")].map(each => each.scrollWidth + "/" + each.clientWidth);
const heights = [...document.querySelectorAll("article:not(details *) tbody td:has(.whole)")].map(lines);
document.title = "widths " + widths.join(" ") + " lines " + heights.join(" ");
})</script></body>"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A report with every column, its widths and lines measured into its title."""
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        fill(begin(store), blocks=30)
        return page_of(analyse(store, resamples=99)).replace("</body>", _MEASURE)


def measured(page: str, window: int, tmp_path: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """(wanted and available width of every table, lines of every interval) as a browser shows the page."""
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    arguments = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                 f"--window-size={window},2000", "--virtual-time-budget=3000", "--dump-dom",
                 f"file://{tmp_path / 'page.html'}"]  # fmt: skip
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout
    title = re.search(r"<title>widths ([^<]*) lines ([^<]*)", shown)
    assert title is not None
    widths = [tuple(map(int, pair.split("/"))) for pair in title[1].split()]
    return [(wanted, there) for wanted, there in widths], list(map(int, title[2].split()))


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_no_table_scrolls_sideways_in_a_window_of_1200_pixels(page: str, tmp_path: Path) -> None:
    widths, _ = measured(page, 1200, tmp_path)
    assert len(widths) > 4
    assert all(wanted <= there for wanted, there in widths)


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("window", [1200, 800])
def test_an_interval_stands_on_two_lines_at_most(page: str, tmp_path: Path, window: int) -> None:
    _, lines = measured(page, window, tmp_path)
    assert len(lines) > 20
    assert max(lines) <= 2
