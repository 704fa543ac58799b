"""A report as a browser shows it: on a telephone, a tablet and a desk, in both languages. Figures are invented."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from a_run import begin, fill
from axe_playwright_python.sync_playwright import Axe
from fleet import measure, merged
from playwright.sync_api import Browser, Page, sync_playwright
from shown import page as page_of

from vtax.report.analysis import analyse
from vtax.report.analysis.source import source_of
from vtax.report.chapters import report as report_of
from vtax.report.renderers.html import html
from vtax.report.renderers.language import ENGLISH, Language, language
from vtax.store.store import Store

pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")

PHONE, TABLET, DESK = (390, 844), (768, 1024), (1400, 900)
WINDOWS = [PHONE, TABLET, DESK]
LAPTOP = (1200, 900)
SLOW, BUSY, OLD = "rack1-node03", "rack2-node07", ("rack2-node01", "rack2-node02")
PAPER = (688, 1001)  # A4 without its margins, at 96 pixels an inch
_TIMEOUT_MS = 60_000
_RIGHTMOST = """() => Math.max(...[...document.querySelectorAll("body *:not(.scroll *, pre *, svg *, script)")]
    .map(each => each.getBoundingClientRect().right))"""
_BOXES = "(all) => all.map(each => { const b = each.getBoundingClientRect(); return [b.right, b.bottom, b.height]; })"
_WIDTHS = "(all) => all.map(each => [each.scrollWidth, each.clientWidth])"
_LINES = """(all) => all.filter(each => /\\[.*\\d.*\\]/.test(each.innerText)).map(each => {
  const range = document.createRange();
  range.selectNodeContents(each);
  return new Set([...range.getClientRects()].map(box => Math.round(box.bottom))).size;
})"""
_OUTSIDE = """(all) => all.flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1);
  }).map(text => text.textContent);
})"""


@pytest.fixture(scope="module", params=["en", "pt-BR"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in a language, as a file."""
    home = tmp_path_factory.mktemp("report")
    chosen: Language = ENGLISH if request.param == "en" else language(request.param)
    with (
        pytest.MonkeyPatch.context() as patched,
        Store.open(f"sqlite:///{home / 'store.sqlite'}") as store,
    ):
        patched.setenv("VTAX_HOME", str(home))
        fill(begin(store), blocks=30)
        text = page_of(analyse(store), chosen)
    file = home / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of twenty hosts of two kinds, of which one set of two and two others lie apart, as a file."""
    home = tmp_path_factory.mktemp("fleet")
    hosts = [f"rack{rack}-node{number:02}" for rack in (1, 2) for number in range(10)]
    own = {host: 1 + 0.004 * (number % 5) for number, host in enumerate(hosts)}

    def speed(host: str, session: int, platform: str) -> float:
        share = {"lxc": 0.98, "docker": 0.97, "qemu-tcg": 0.13}.get(platform, 1.0) * own[host]
        if host == SLOW:
            return share * 0.75
        if platform == "docker" and host == BUSY:
            return share * 0.8
        return share * (0.88 if platform in ("docker", "lxc") and host in OLD else 1.0)

    def facts(host: str, session: int) -> dict[str, object]:
        return {
            "cpu_model": f"A CPU of rack {host[4]}",
            "governor": "powersave" if host == SLOW else "performance",
            "microcode": "0xd000363" if host in OLD else "0xd0003e7",
        }

    with Store.open(f"sqlite:///{home / 'store.sqlite'}") as store:
        names = ("native", "docker", "lxc", "qemu-tcg")
        runs = measure(store, hosts, 2, speed=speed, facts=facts, platforms=names)
        record = [
            {"host": host, "group": f"rack-{host[4]}", "runs": of, "planned": 2, "state": "done"}
            for host, of in runs.items()
        ]
        text = html(report_of(source_of(store, merged(store, runs, hosts=record))))
    file = home / "report.html"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield found
        found.close()


class Seen:
    """A page with what it requested and what its console says."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda each: self.requests.append(each.url))
        page.on("pageerror", lambda each: self.errors.append(str(each)))
        page.on(
            "console", lambda each: self.errors.append(each.text) if each.type == "error" else None
        )


@pytest.fixture
def seen(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Seen]:
    """The report in a window, with its figures drawn."""
    width, height = request.param
    found = Seen(browser.new_page(viewport={"width": width, "height": height}))
    found.page.set_default_timeout(_TIMEOUT_MS)
    found.page.goto(report.as_uri())
    found.page.wait_for_function(
        "document.querySelectorAll('.drawn').length == [...document.querySelectorAll('.static')]"
        ".filter(each => !each.closest('details:not([open])')).length"
    )
    yield found
    found.page.close()


def measured(seen: Seen, selector: str, script: str) -> Any:
    return seen.page.eval_on_selector_all(selector, script)


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("seen", WINDOWS, indirect=True, ids=str)
def test_it_asks_for_nothing_says_no_error_and_passes_the_accessibility_checks(seen, report):
    assert seen.requests == [report.as_uri()]
    assert seen.errors == []
    found = Axe().run(seen.page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("seen", WINDOWS, indirect=True, ids=str)
def test_nothing_but_the_insides_of_tables_is_wider_than_the_window(seen):
    width = seen.page.viewport_size["width"] if seen.page.viewport_size else 0
    assert 0 < seen.page.evaluate(_RIGHTMOST) <= width
    assert measured(seen, ".drawn .interactive svg", _OUTSIDE) == []


@pytest.mark.parametrize("seen", [PHONE, DESK], indirect=True, ids=str)
def test_the_first_screen_has_the_question_the_answer_and_the_matrix(seen):
    width, height = seen.page.viewport_size["width"], seen.page.viewport_size["height"]
    boxes = measured(
        seen,
        "h1, .meta, .summary > p:first-of-type, .summary .overview tbody tr:first-child",
        _BOXES,
    )
    assert len(boxes) >= 4
    assert all(right <= width and 0 < bottom <= height for right, bottom, _ in boxes)


@pytest.mark.parametrize("seen", [PHONE], indirect=True, ids=str)
def test_a_telephone_shows_results_and_lists_without_scrolling_sideways(seen):
    widths = measured(seen, ".scroll:has(.result, .overview, .list)", _WIDTHS)
    assert widths
    assert all(wanted <= there for wanted, there in widths), widths


@pytest.mark.parametrize("seen", [PHONE], indirect=True, ids=str)
def test_a_telephone_does_not_scroll_sideways_when_everything_is_opened(seen):
    seen.page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("seen", [DESK], indirect=True, ids=str)
def test_a_desk_shows_every_table_whole_and_intervals_on_two_lines_at_most(seen):
    widths = measured(seen, ".scroll", _WIDTHS)
    assert all(wanted <= there for wanted, there in widths), widths
    seen.page.evaluate("document.querySelectorAll('#results details').forEach(e => e.open = true)")
    lines = measured(seen, "#results article tbody td", _LINES)
    assert len(lines) > 5
    assert max(lines) <= 2


@pytest.mark.parametrize("window", [PHONE, LAPTOP], ids=str)
def test_of_a_fleet_all_hosts_that_lie_apart_are_on_the_first_screen_and_no_table_is_cut(
    browser, fleet, window
):
    width, height = window
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(fleet.as_uri())
    lines = page.locator(".summary li").filter(has_text="of the other hosts in")
    texts = " ".join(lines.all_inner_texts())
    assert all(host in texts for host in (SLOW, BUSY, *OLD))
    bottoms = [bottom for _, bottom, _ in lines.evaluate_all(_BOXES)]
    assert max(bottoms[:3]) <= height
    sizes = "(all) => all.map(each => [...each.querySelectorAll('*:not(.mark)')].map(e => getComputedStyle(e).fontSize))"
    assert {len(set(each)) for each in lines.evaluate_all(sizes)} == {1}
    widths = page.eval_on_selector_all("#hosts .scroll:has(.result, .list)", _WIDTHS)
    assert widths
    assert all(wanted <= there for wanted, there in widths), widths
    page.close()


@pytest.mark.parametrize("seen", [DESK], indirect=True, ids=str)
def test_headings_follow_each_other_without_a_gap_and_tables_have_names(seen):
    """The contents beside the report stand before its title, with a heading of their own."""
    headings = ":is(h1, h2, h3, h4):not(nav *)"
    levels = measured(seen, headings, "(all) => all.map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    names = measured(seen, ".scroll", "(all) => all.map(each => each.ariaLabel)")
    assert all(names)
    heads = measured(
        seen, "table", "(all) => all.map(each => each.querySelectorAll('th[scope=col]').length)"
    )
    assert all(heads)


@pytest.mark.parametrize("seen", [DESK], indirect=True, ids=str)
def test_the_keyboard_alone_reaches_links_folded_parts_and_wide_tables(seen):
    """Every stop of the tabulator is visible where it has the focus, and Enter opens what is folded."""
    page = seen.page
    page.evaluate(
        "document.querySelectorAll('main details').forEach((each, number) => each.open = number > 0)"
    )
    wanted = page.eval_on_selector_all(
        ":is(main, nav) :is(a[href], summary, [tabindex='0'])",
        "(all) => all.filter(each => each.checkVisibility()).length",
    )
    assert wanted > 10
    kinds, marked = set(), 0
    for _ in range(wanted):
        page.keyboard.press("Tab")
        kind, has_mark = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return [e.tagName, s.outlineStyle != 'none' && parseFloat(s.outlineWidth) > 0]; }"
        )
        kinds.add(kind)
        marked += has_mark
    assert marked == wanted
    assert {"A", "SUMMARY", "DIV", "PRE"} <= kinds
    page.locator("details:not([open]) > summary").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open")


@pytest.mark.parametrize("seen", [TABLET], indirect=True, ids=str)
def test_paper_gets_what_is_open_and_every_figure_of_it_once(seen):
    page = seen.page
    page.emulate_media(media="print")
    assert (
        measured(seen, ".interactive", "(all) => all.filter(each => each.checkVisibility()).length")
        == 0
    )
    drawn = measured(
        seen,
        ".static svg",
        "(all) => all.map(e => [!e.closest('details:not([open])'), e.checkVisibility()])",
    )
    assert drawn
    assert [is_open for is_open, _ in drawn] == [is_visible for _, is_visible in drawn]
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert all(measured(seen, ".static svg", "(all) => all.map(each => each.checkVisibility())"))


@pytest.mark.parametrize("seen", [PAPER], indirect=True, ids=str)
def test_on_paper_a_figure_stays_with_its_heading_and_no_heading_stands_alone(seen):
    seen.page.emulate_media(media="print")
    visible = "all = all.filter(each => each.getClientRects().length);"
    together = f"(all) => {{ {visible} return all.map(each => each.getBoundingClientRect().bottom"
    together += " - each.closest('article').getBoundingClientRect().top); }"
    heights = measured(seen, "article > .figures > figure", together)
    assert heights
    assert max(heights) < PAPER[1] - 100  # room for the heading of the chapter
    of_chapter = f"(all) => {{ {visible} return all.map(each => [...each.querySelectorAll('p, li, table, figure')]"
    of_chapter += ".filter(part => part.getClientRects().length).length); }"
    chapters = measured(seen, "main > section", of_chapter)
    assert len(chapters) >= 2
    assert min(chapters) > 0
