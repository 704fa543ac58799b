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
const first = [...document.querySelectorAll(".resources li, .summary > p.flag")];
const judged = [...document.querySelectorAll(".overview tbody tr:first-child td.kept, article .result .key")];
const boxes = [...first, ...judged.slice(0, 6)]
  .map(each => each.getBoundingClientRect()).map(box => Math.round(box.right) + "/" + Math.round(box.bottom));
const others = [...document.querySelectorAll("body *:not(.scroll *, pre *, svg *, script)")];
const sideways = Math.round(Math.max(...others.map(each => each.getBoundingClientRect().right))) + "/" + innerWidth;
const rows = [...document.querySelectorAll(".scroll:has(.result, .overview)")]
  .map(each => each.scrollWidth + "/" + each.clientWidth);
parent.postMessage("boxes " + boxes.join(" ") + " tables " + rows.join(" ") + " page " + sideways, "*");
})</script></body>"""
_FRAME = """<title></title><script>addEventListener("message", found => { document.title = found.data; })</script>
<iframe src="page.html" width="390" height="844"></iframe>"""


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A report with every column, its widths and lines measured into its title."""
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        fill(begin(store), blocks=30)
        return page_of(analyse(store, resamples=99)).replace("</body>", _MEASURE)


def shown_in(window: int, file: Path) -> str:
    """What a browser makes of a file, as markup."""
    arguments = ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                 f"--user-data-dir={file.parent / 'profile'}",
                 f"--window-size={window},2000", "--virtual-time-budget=3000", "--dump-dom",
                 f"file://{file}"]  # fmt: skip
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout


def measured(page: str, window: int, tmp_path: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """(wanted and available width of every table, lines of every interval) as a browser shows the page."""
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    shown = shown_in(window, tmp_path / "page.html")
    title = re.search(r"<title>widths ([^<]*) lines ([^<]*)", shown)
    assert title is not None
    return pairs(title[1]), list(map(int, title[2].split()))


def pairs(text: str) -> list[tuple[int, int]]:
    """`1/2 3/4` as numbers."""
    return [(int(first), int(second)) for first, second in (each.split("/") for each in text.split())]


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


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_telephone_shows_every_platform_and_verdict_without_scrolling_sideways(page: str, tmp_path: Path) -> None:
    """In a frame of 390 by 844 pixels, since no window of a browser is that narrow."""
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    (tmp_path / "frame.html").write_text(_FRAME)
    found = re.search(r"<title>boxes ([^<]*) tables ([^<]*) page ([^<]*)<", shown_in(600, tmp_path / "frame.html"))
    assert found is not None
    boxes = pairs(found[1])
    assert len(boxes) >= 8  # resources and what to distrust; three platforms in the overview, three verdicts
    assert all(right <= 390 for right, _ in boxes)
    assert all(0 < bottom <= 844 for _, bottom in boxes[:-6])  # on the first screen
    assert all(wanted <= there for wanted, there in pairs(found[2]))
    assert all(wanted <= there for wanted, there in pairs(found[3]))
