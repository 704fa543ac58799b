"""The pages of `vtax serve`, asked for by HTTP. Figures are invented."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner
from page_server import PageServer, served
from sqlalchemy.exc import OperationalError
from synthetic_run import DECLARED, begin, fill

from vtax.cli.main import group
from vtax.host.home import Home
from vtax.live import courtesy
from vtax.live import state as live_state
from vtax.page import pages as pages_module
from vtax.page.access import is_own_name
from vtax.page.making import DOWNLOADS
from vtax.report.files import write
from vtax.runner.event_log import EventLog
from vtax.runner.events import Progress
from vtax.store import schema
from vtax.store import store as stores
from vtax.store.listing import Listing, Wanted
from vtax.store.store import Store

EVIL = "<script>alert(1)<-script>-1"
EVIL_PATH = "/runs/%3Cscript%3Ealert(1)%3C-script%3E-1"
PAGES = ("/", "/studies", "/contrast", "/runs/tour-1", "/studies/tour", "/contrast?treatment=tour-1&baseline=tour-2",
         EVIL_PATH, "/runs/nothing", "/nothing")  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def no_other_run() -> Iterator[None]:
    """Nothing here waits for a run that this host may measure meanwhile."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(courtesy, "is_measuring", lambda: False)
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with finished runs, one of them with names that would be markup."""
    home = Home(tmp_path_factory.mktemp("page")).ensure()
    with Store.open(home.root / "store.sqlite") as store:
        for number in (1, 2, 3):
            run = begin(store, f"tour-{number}", started_at=1_700_000_000.0 + number * 86_400)
            fill(run, blocks=5, seed=number)
        declared = {**DECLARED, "title": "<script>alert(2)</script>", "question": "<img src=x onerror=alert(3)>"}
        fill(begin(store, EVIL, study="<b>evil", declared=declared, started_at=1_690_000_000.0), blocks=3)
    return home


@pytest.fixture(scope="module")
def server(filled: Home) -> Iterator[PageServer]:
    with served(filled) as made:
        yield made
    assert made.bugs == []


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_strict_policy_and_keeps_to_it(server: PageServer, path: str) -> None:
    answer = server.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert all("src=" in attributes for attributes in re.findall(r"<script([^>]*)>", answer.text))
    assert not re.search(r"<style|\son\w+=\"|https?://(?!www\.w3\.org)", answer.text)
    assert set(re.findall(r'\sstyle="([^"]*)"', answer.text)) <= {f"--colour:{c}" for c in _colours(answer.text)}


def _colours(text: str) -> set[str]:
    return set(re.findall(r"--colour:(#[0-9A-F]{6})", text))


def test_names_with_markup_are_text(server: PageServer) -> None:
    for path in ("/", "/studies", EVIL_PATH, f"{EVIL_PATH}/report", "/studies/%3Cb%3Eevil"):
        text = server.get(path).text
        assert "&lt;script&gt;alert(" in text or "&lt;b&gt;evil" in text
        assert "<script>alert" not in text
        assert "<img src=x" not in text


def test_runs_are_listed_filtered_and_paged(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(query: str) -> list[str]:
        return re.findall(r'<th scope="row"><a href="/runs/([^"]+)"', server.get(f"/{query}").text)

    assert listed("")[:3] == ["tour-3", "tour-2", "tour-1"]
    assert listed("?name=our-2") == ["tour-2"]
    assert listed("?study=tour&status=finished&platform=lxc") == ["tour-3", "tour-2", "tour-1"]
    assert listed("?platform=xen") == []
    assert "No run is like that." in server.get("/?platform=xen").text
    monkeypatch.setattr(pages_module, "RUNS_A_PAGE", 2)
    assert listed("?study=tour&page=2") == ["tour-1"]
    assert 'rel="prev" href="/?study=tour&amp;page=1"' in server.get("/?study=tour&page=2").text
    assert server.get("/?page=0").status == server.get("/?page=x").status == 404


def test_the_listing_counts_as_vtax_list_does(filled: Home) -> None:
    with Store.existing(filled.root / "store.sqlite") as store:
        listing = Listing()
        for _ in range(2):  # the second time from what is kept
            page = listing.page(store, Wanted(), 1, 50)
            assert sorted(page.runs, key=lambda run: run.name) == sorted(store.runs(), key=lambda run: run.name)


def test_a_run_is_shown_with_its_result(server: PageServer) -> None:
    text = server.get("/runs/tour-1").text
    assert "<h1>tour-1" in text
    assert "5 blocks" in text
    assert re.search(r'<span class="key slower">▼ slower</span>', text)
    assert 'href="/runs/tour-1/report"' in text
    assert all(f'href="/runs/tour-1/{kind}"' in text for kind in DOWNLOADS)


def test_a_report_is_that_of_vtax_report_in_a_sandbox_of_its_own(
    server: PageServer, filled: Home, tmp_path: Path
) -> None:
    answer = server.get("/runs/tour-1/report")
    with Store.existing(filled.root / "store.sqlite") as store:
        write(store, "tour-1", "html", tmp_path / "report.html")
    summary = re.search(r'<section id="answer".*?</section>', (tmp_path / "report.html").read_text(), re.DOTALL)
    assert summary is not None
    assert summary[0] in answer.text
    assert '<a href="/runs/tour-1">vtax: tour-1</a>' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
    assert "allow-same-origin" not in policy


def test_two_runs_are_compared_and_a_study_has_a_history(server: PageServer) -> None:
    text = server.get("/contrast?treatment=tour-1&baseline=tour-2").text
    assert "tour-1 / tour-2" in text
    assert "two samples of blocks" in text
    history = server.get("/studies/tour").text
    assert "<svg" in history
    assert 'role="graphics-' not in history, "an image has no parts for a screen reader"
    assert "tour-3" in history
    assert server.get("/studies/none").status == 404
    assert server.get("/contrast?treatment=nope&baseline=tour-2").status == 404


@pytest.mark.parametrize("kind", DOWNLOADS)
def test_downloads_are_files_with_the_name_of_the_run(server: PageServer, kind: str) -> None:
    answer = server.get(f"/runs/tour-2/{kind}")
    assert answer.status == 200
    assert answer.headers["Content-Disposition"] == f'attachment; filename="tour-2{DOWNLOADS[kind]}"'
    if kind == "bundle":
        assert b'"tour-2"' in gzip.decompress(answer.body)
    if kind == "json":
        assert json.loads(answer.body)["run"] == "tour-2"
    if kind == "csv":
        assert len(answer.body.splitlines()) > 200


def test_the_language_is_that_of_the_address_or_the_cookie_or_the_browser(server: PageServer) -> None:
    portuguese = server.get("/?language=pt-BR")
    assert '<html lang="pt-BR">' in portuguese.text
    assert "Execuções" in portuguese.text
    assert "vtax_language=pt-BR" in portuguese.headers["Set-Cookie"]
    assert "Execuções" in server.get("/", {"Cookie": "vtax_language=pt-BR"}).text
    assert "Execuções" in server.get("/", {"Accept-Language": "pt;q=0.9, en;q=0.5"}).text
    assert "<h1>Runs" in server.get("/", {"Accept-Language": "de"}).text
    assert "mais lenta" in server.get("/runs/tour-1?language=pt-BR").text
    unknown = server.get("/?language=xx")
    assert unknown.status == 400
    assert "languages: en, pt-BR" in unknown.text


def test_without_a_run_the_pages_say_how_to_begin(tmp_path: Path) -> None:
    home = Home(tmp_path).ensure()
    with served(home) as server:
        for path in ("/", "/studies"):
            assert "There is no run yet." in server.get(path).text
        assert server.get("/runs/tour-1").status == 404
        assert not (tmp_path / "store.sqlite").exists()
        Store.open(tmp_path / "store.sqlite").close()
        assert "There is no run yet." in server.get("/").text


def test_a_store_that_cannot_be_read_is_a_page_without_a_trace(filled: Home, tmp_path: Path) -> None:
    with served(filled, place=tmp_path / "store.sqlite") as server:
        (tmp_path / "store.sqlite").write_bytes(b"no database" * 1000)
        answer = server.get("/")
        assert answer.status == 503
        assert "the store is not a database" in answer.text
        assert "Traceback" not in answer.text


def test_a_bug_is_a_page_without_a_trace_and_is_reported(filled: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(filled) as server:
        monkeypatch.setattr(pages_module, "studies", lambda _: 1 / 0)
        answer = server.get("/studies")
    assert (answer.status, [type(bug) for bug in server.bugs]) == (500, [ZeroDivisionError])
    assert "ZeroDivision" not in answer.text


def test_the_store_is_only_read(filled: Home) -> None:
    with (
        Store.looked_at(filled.root / "store.sqlite") as store,
        store.engine.connect() as connection,
        pytest.raises(OperationalError, match="readonly"),
    ):
        connection.execute(schema.run.delete())


def test_a_worker_that_was_killed_is_replaced(filled: Home) -> None:
    with served(filled) as server:
        assert server.get("/runs/tour-1").status == 200
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        assert {server.get(f"/runs/tour-{number}").status for number in (2, 3)} == {200}
        assert server.bugs == []


def test_a_removed_run_leaves_its_counts_to_no_other(tmp_path: Path) -> None:
    listing = Listing()
    with Store.open(tmp_path / "store.sqlite") as store:
        fill(begin(store))
        (first,) = listing.page(store, Wanted(), 1, 50).runs
        store.remove_run("tour-1")
        fill(begin(store, "tour-2"), blocks=2)
        (second,) = listing.page(store, Wanted(), 1, 50).runs
    assert (first.failed, second.failed) == (1, 0)


@pytest.mark.parametrize("number", ["000000001999999", "9" * 5000, "0", "x"])
def test_a_page_that_is_no_number_is_refused(server: PageServer, number: str) -> None:
    assert server.get(f"/?page={number}").status == 404


def test_beyond_this_host_every_request_needs_the_token(filled: Home) -> None:
    with served(filled, token="secret") as server:
        absent, wrong = server.get("/"), server.get("/?token=guess")
        assert (absent.status, wrong.status) == (401, 403)
        assert absent.headers["WWW-Authenticate"].startswith("Bearer")
        assert "tour" not in absent.text + wrong.text
        assert server.get("/static/page.css").status == 401
        given = server.get("/?status=finished&token=secret")
        assert (given.status, given.headers["Location"]) == (303, "/?status=finished")
        cookie = given.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert server.get("/", {"Cookie": cookie.partition(";")[0]}).status == 200
        assert server.get("/", {"Authorization": "Bearer secret"}).status == 200
        assert server.get("/", {"Authorization": "Bearer secre"}).status == 403
        assert server.get("//evil.example/?token=secret").headers["Location"].startswith("/evil.example")


def test_a_name_that_is_not_this_hosts_is_refused(server: PageServer) -> None:
    answer = server.get("/", {"Host": "evil.example"})
    assert answer.status == 421
    assert "tour" not in answer.text
    assert server.get("/", {"Host": "localhost:9999"}).status == 200


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("localhost:80", True), ("LOCALHOST", True), ("127.0.0.1:8", True), ("[::1]:80", True), ("192.0.2.7", True),
     ("evil.example", False), ("", False), ("localhost.evil.example:80", False), ("[evil.example]", False)],
)  # fmt: skip
def test_addresses_and_own_names_are_no_rebinding(host: str, is_own: bool) -> None:
    assert is_own_name(host, frozenset({"localhost"})) is is_own


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    answer = server.get("/runs/tour-1", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_a_live_run_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (live_state, stores):
        monkeypatch.setattr(module, "is_measuring", lambda: True)
    home = Home(tmp_path).ensure()
    store = Store.open(tmp_path / "store.sqlite")
    run = begin(store)
    log = EventLog(home.events, run.name, run.identity)
    log.guest_starting("docker", 0)
    with served(home) as server:
        page = server.get("/runs/tour-1").text
        assert 'data-events="/runs/tour-1/events?language=en"' in page
        assert "docker: a fresh guest starts" in page
        stream = urllib.request.urlopen(f"{server.address}/runs/tour-1/events?language=pt-BR", timeout=30)
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.extend(line.decode() for line in stream))
        thread.start()
        log.trial_ended("docker", "iperf3", (10.5, "Gbit/s"), "", Progress(0, 8, 7, 192, 20.0, 60.0))
        fill(run, finishes=False)
        until = time.monotonic() + 60
        while "event: estimates\n" not in seen and time.monotonic() < until:
            time.sleep(0.05)
        assert "event: estimates\n" in seen
        run.finish("finished", "8 of 8 blocks are made", 1_700_000_300.0)
        log.ended("finished", "8 of 8 blocks are made")
        thread.join(30)
        text = "".join(seen)
        assert "7 de 192 ensaios" in text or "192 ensaios" in text
        assert text.rstrip().endswith("event: end\ndata: finished")
        assert server.bugs == []
    store.close()


def test_nothing_is_left_of_a_server(filled: Home) -> None:
    with served(filled) as server:
        assert server.get("/runs/tour-1").status == 200
        assert multiprocessing.active_children()
    assert not multiprocessing.active_children()


@pytest.fixture
def run_once(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """In place of serving: what would be served."""
    given: list[Any] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: given.append((self.config.app, sockets)))
    return given


@pytest.mark.usefixtures("unmade_home", "run_once")
def test_the_address_has_a_token_beyond_this_host_alone() -> None:
    here = CliRunner().invoke(group, ["serve", "--port", "0"])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", here.stdout)
    everywhere = CliRunner().invoke(group, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert re.fullmatch(r"http://[^/]+:\d+/\?token=[\w-]{32}\n", everywhere.stdout)
    assert "not encrypted" in everywhere.stderr


@pytest.mark.usefixtures("unmade_home", "run_once")
@pytest.mark.parametrize(
    ("options", "error"),
    [(["--host", "no host"], "'no host' is no address"), (["--host", "192.0.2.7"], "this host has no address")],
)
def test_an_address_that_this_host_does_not_have_is_bad_input(options: list[str], error: str) -> None:
    found = CliRunner().invoke(group, ["serve", "--port", "0", *options])
    assert error in str(found.exception)


@pytest.mark.usefixtures("unmade_home", "run_once")
def test_a_port_in_use_is_bad_input(server: PageServer) -> None:
    found = CliRunner().invoke(group, ["serve", "--port", server.address.rpartition(":")[2]])
    assert "is in use" in str(found.exception)
    assert "--port" in str(found.exception)
