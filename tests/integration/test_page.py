"""The pages of `vtax serve` in a browser: readable at every width, in both languages, by keyboard alone, from nowhere
else. Figures are invented. Debian's chromium is needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from a_run import begin, cells, fill, trial
from page_server import PageServer, served

from vtax.host.home import Home
from vtax.page import result_cache
from vtax.runner.event_log import EventLog
from vtax.runner.events import EndedTrial, Progress
from vtax.store.bundle import Bundle
from vtax.store.importing import import_bundle
from vtax.store.run import RunHandle
from vtax.store.store import Store

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed")
PAGES = {
    "runs": "/",
    "studies": "/studies",
    "run": "/runs/tour-2",
    "history": "/studies/tour",
    "compare": "/compare?a=tour-1&b=tour-2",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    home = Home(tmp_path_factory.mktemp("page")).ensure()
    with Store.open(home.root / "store.sqlite") as store:
        for number in range(1, 5):
            fill(
                begin(store, f"tour-{number}", started_at=1_700_000_000.0 + number * 86_400),
                blocks=5,
                seed=number,
            )
    with served(home) as made:
        for path in (*PAGES.values(), "/runs/tour-2/report"):
            for language in ("en", "pt-BR"):
                assert made.get(path, {"Cookie": f"vtax_language={language}"}).status == 200
        yield made
    assert made.bugs == []


@contextmanager
def opened(
    browser: playwright.Browser, width: int, language: str, **options: object
) -> Iterator[playwright.Page]:
    """A page of a window of this width. It fails at its end for messages of the console and foreign requests."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, locale=language, **options
    )
    page, problems = context.new_page(), []
    page.on("console", lambda each: problems.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda each: None if "//127.0.0.1:" in each.url else problems.append(each.url)
    )
    page.set_default_timeout(60_000)
    yield page
    context.close()
    assert problems == []


def violations(page: playwright.Page) -> list[str]:
    """What axe finds wrong with a page: rule and first element."""
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in axe.Axe().run(page).response["violations"]
    ]


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("language", ["en", "pt-BR"])
@pytest.mark.parametrize("width", [390, 768, 1200])
def test_every_page_is_accessible_and_fits_the_window(browser, server, width, language):
    scheme = "dark" if width == 768 else "light"
    with opened(browser, width, language, color_scheme=scheme) as page:
        for name, path in PAGES.items():
            page.goto(server.address + path)
            assert page.locator("[data-preparing]").count() == 0, name
            assert page.locator("html").get_attribute("lang") == language
            assert violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_on_paper_pages_are_what_they_say_without_what_is_clicked(browser, server):
    with opened(browser, 688, "en") as page:  # A4 without its margins, at 96 pixels an inch
        page.emulate_media(media="print")
        for name, path in PAGES.items():
            page.goto(server.address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 688, name
            clicked = page.locator("main :is(button, select, input), .bar nav")
            assert not any(each.is_visible() for each in clicked.all()), name


def test_the_list_reads_every_answer_and_the_page_of_a_run_draws_its_figures(browser, server):
    with opened(browser, 1200, "en") as page:
        page.goto(server.address)
        page.locator(".answer:not(:empty)").nth(3).wait_for()
        page.get_by_role("link", name="tour-2").click()
        page.locator("figure svg").first.wait_for()
        assert page.locator("[data-preparing]").count() == 0


def test_the_menu_of_platforms_follows_the_run(browser, tmp_path):
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        fill(begin(store), blocks=2)
        bundle = Path(__file__).parents[2] / "docs/examples/rootless.vtax.gz"
        import_bundle(store.engine, Bundle(bundle), "here")
    with served(home) as server, opened(browser, 1200, "en") as page:
        page.goto(f"{server.address}/compare")
        page.locator("select[name=a]").select_option("rootless-1")
        for side in ("a", "b"):
            offered = page.locator(f"select[name={side}_platform] option").all_inner_texts()[1:]
            assert offered == ["podman", "podman-pasta", "podman-slirp4netns", "native"]
        page.locator("select[name=a_platform]").select_option("podman-pasta")
        page.get_by_role("button", name="Compare").first.click()
        page.get_by_text("rootless-1:podman-pasta / rootless-1:podman").first.wait_for()


def test_a_report_draws_its_figures_within_its_sandbox(browser, server):
    with opened(browser, 1400, "en") as page:
        page.goto(f"{server.address}/runs/tour-2/report")
        page.locator(".drawn .interactive svg").first.wait_for()
        assert page.evaluate("self.origin") == "null"
        page.get_by_role("link", name="vtax: tour-2").click()
        page.get_by_role("heading", name="tour-2").wait_for()


def test_with_a_token_the_way_back_from_a_report_needs_none(browser, tmp_path):
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        fill(begin(store), blocks=2)
    with served(home, token="secret") as server, opened(browser, 1400, "en") as page:
        page.goto(f"{server.address}/runs/tour-1/report?token=secret")
        page.get_by_role("link", name="vtax: tour-1").click()
        page.get_by_role("heading", name="tour-1 finished").wait_for()
        assert "secret" not in page.url


def test_pages_work_without_javascript(browser, server):
    with opened(browser, 1400, "en", java_script_enabled=False) as page:
        page.goto(server.address)
        page.get_by_label("Name or note contains").fill("tour-3")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name="tour-3").click()
        page.get_by_text("Targets missed").wait_for()
        page.get_by_role("button", name="Compare").click()
        page.get_by_role("button", name="Compare").wait_for()
        assert page.url.endswith("/compare?a=tour-3&b=tour-4")


def test_the_keyboard_alone_leads_from_the_runs_to_a_comparison(browser, server):
    with opened(browser, 1400, "en") as page:
        page.goto(server.address)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        _tab_to(page, "tour-2")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/tour-2")
        _tab_to(page, "Downloads")
        page.keyboard.press("Enter")
        _tab_to(page, "csv")
        page.keyboard.press("Shift+Tab")
        page.goto(f"{server.address}/runs/tour-2")
        _tab_to(page, "Compare platforms")
        _tab_to(page, "Compare")
        page.keyboard.press("Enter")
        page.wait_for_url("**/compare?a=tour-2&b=*")
        page.get_by_text("two samples of blocks").first.wait_for()


def _tab_to(page: playwright.Page, text: str) -> None:
    """Press Tab until an element with this text has the focus, and is seen to have it."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == text:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    pytest.fail(f"the keyboard does not lead to {text}")


def test_a_live_run_is_watched_to_its_end(browser, tmp_path, measuring, monkeypatch):
    monkeypatch.setattr(
        result_cache, "is_measuring", lambda: False
    )  # its worker waits for no processor
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        run = begin(store)
        log = EventLog(home.events, run.name, run.identity)
        log.guest_starting("native", 0)
        with served(home) as server, opened(browser, 1400, "en") as page:
            page.goto(f"{server.address}/runs/tour-1")
            page.get_by_text("native: a fresh guest starts").first.wait_for()
            assert violations(page) == []
            page.evaluate("window.sameDocument = true")
            writer = threading.Thread(target=_measure, args=(run, log, 4))
            writer.start()
            page.get_by_text("block 2 of 8").first.wait_for()
            page.locator("#estimates .overview td.kept").first.wait_for()
            page.locator("#estimates td", has_text="±").first.wait_for()
            assert page.locator("progress").get_attribute("max") == "192"
            assert page.evaluate("window.sameDocument")
            writer.join()
            page.get_by_role("heading", name="tour-1 finished").wait_for()
            page.locator(".document table").first.wait_for()


def _measure(run: RunHandle, log: EventLog, blocks: int) -> None:
    """Write what a run would, with a moment between its blocks."""
    position = 0
    for block in range(blocks):
        for platform in ("native", "docker", "lxc", "qemu-tcg"):
            guest = run.begin_guest(platform, block, "", 1_700_000_000.0)
            log.guest_starting(platform, block)
            log.guest_ready(platform, 0.2)
            for cell in (each for each in cells() if each.platform == platform):
                log.trial_starting(platform, cell.label, "")
                value = 1000.0 * (1 + position % 7 / 1000)
                metric = "events" if cell.benchmark == "sysbench-cpu" else "throughput"
                run.add_trial(
                    trial(
                        cell, guest_id=guest, block=block, position=position, values={metric: value}
                    )
                )
                position += 1
                progress = Progress(block, 8, position, 192, float(position), 192.0 - position)
                log.trial_ended(
                    EndedTrial(platform, cell.label, "", (value, "Mbit/s"), "", progress)
                )
                time.sleep(0.05)
            run.end_guest(guest, ready_s=0.2, clock_offset_s=0.0, facts={}, notes=[])
        time.sleep(1.0)
    run.finish("finished", f"{blocks} of {blocks} blocks are made", 1_700_000_300.0)
    log.ended("finished", f"{blocks} of {blocks} blocks are made")
