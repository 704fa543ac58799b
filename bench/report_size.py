"""The promise: a report can be read: visible words, height at 390 px, printed pages, smallest text of figures.

Opens each report in Chromium as a reader has it, with everything folded that is folded, and then opens all of it. Exits 1 when a promise is
broken: a report of up to 10 rows of its first table has the limits of a tour, a longer one those of a large study.
Usage: python bench/report_size.py REPORT.html ...
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

SMALL_ROWS = 10
WORDS, PIXELS, PAGES = 2500, 9000, 8  # of a tour
OPENED_PIXELS = 20_000  # of a tour at a width of 1200, with everything opened
WORDS_OF_LARGE = 5000
SMALLEST_TEXT_PX = 10.0
_TEXTS = """() => [...document.querySelectorAll("svg text")].filter(
    text => text.getScreenCTM() && text.checkVisibility() && text.getBoundingClientRect().width > 0
).map(text => [parseFloat(getComputedStyle(text).fontSize), text.getScreenCTM()]).map(
    ([size, scale]) => size * Math.hypot(scale.c, scale.d)
)"""


def size_of(browser: Browser, path: Path) -> dict[str, Any]:
    """Return what a reader of a report has before them."""
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(path.resolve().as_uri())
    page.wait_for_timeout(500)
    found = {
        "words": len(page.inner_text("body").split()),
        "px": page.evaluate("document.documentElement.scrollHeight"),
        "pages": len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True))),
        "rows": page.locator(".summary table.overview tbody tr").count(),
    }
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.wait_for_timeout(4000)
    found["text_px"] = min(page.evaluate(_TEXTS))
    page.set_viewport_size({"width": 1200, "height": 900})
    page.wait_for_timeout(2000)
    found["opened_px"] = page.evaluate("document.documentElement.scrollHeight")
    page.close()
    return found


def is_kept(found: dict[str, Any]) -> bool:
    """Return whether a report is as short and as large as promised."""
    if found["text_px"] < SMALLEST_TEXT_PX - 0.05:
        return False
    if found["rows"] > SMALL_ROWS:
        return bool(found["words"] <= WORDS_OF_LARGE)
    is_short = found["words"] <= WORDS and found["px"] <= PIXELS and found["pages"] <= PAGES
    return bool(is_short and found["opened_px"] <= OPENED_PIXELS)


def main() -> int:
    """Measure the reports that are named."""
    chromium = shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        kept = True
        for path in map(Path, sys.argv[1:]):
            found = size_of(browser, path)
            kept = kept and is_kept(found)
            print(
                f"{path}: {found['words']} words, {found['px']} px at 390, {found['pages']} pages of A4, "
                f"texts of figures from {found['text_px']:.1f} px; {found['opened_px']} px at 1200 with all opened"
            )
        browser.close()
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
