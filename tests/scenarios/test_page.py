"""The pages of `vtax serve`, asked for by HTTP. Figures are invented."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fleet
import pytest
from a_run import DECLARED, begin, fill
from page_server import PageServer, served
from sqlalchemy.exc import OperationalError

from vtax.host.home import Home
from vtax.live import state as live_state
from vtax.page import directory, worker
from vtax.page import pages as pages_module
from vtax.page.pages import Pages
from vtax.page.worker import DOWNLOADS
from vtax.report.files import write
from vtax.store import schema
from vtax.store.annotations import Annotations, annotate
from vtax.store.bundle import Bundle
from vtax.store.importing import import_bundle
from vtax.store.listing import Listing, RunFilter
from vtax.store.store import Store

EVIL = "<script>alert(1)<-script>-1"
EVIL_PATH = "/runs/%3Cscript%3Ealert(1)%3C-script%3E-1"
PAGES = (
    "/",
    "/studies",
    "/compare",
    "/runs/tour-1",
    "/studies/tour",
    "/compare?a=tour-1&b=tour-2",
    EVIL_PATH,
    "/runs/nothing",
    "/nothing",
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with finished runs, one of them with names that would be markup."""
    home = Home(tmp_path_factory.mktemp("page")).ensure()
    with Store.open(home.root / "store.sqlite") as store:
        for number in (1, 2, 3):
            run = begin(store, f"tour-{number}", started_at=1_700_000_000.0 + number * 86_400)
            fill(run, blocks=5, seed=number)
        declared = {
            **DECLARED,
            "title": "<script>alert(2)</script>",
            "question": "<img src=x onerror=alert(3)>",
        }
        fill(
            begin(store, EVIL, study="<b>evil", declared=declared, started_at=1_690_000_000.0),
            blocks=3,
        )
    return home


@pytest.fixture(scope="module")
def server(filled: Home) -> Iterator[PageServer]:
    with served(filled) as made:
        yield made
    assert made.bugs == []


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_a_strict_policy_and_keeps_to_it(server, path):
    answer = server.get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "unsafe-eval" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert all("src=" in attributes for attributes in re.findall(r"<script([^>]*)>", answer.text))
    assert not re.search(r"<style|\son\w+=\"|https?://(?!www\.w3\.org)", answer.text)
    assert set(re.findall(r'\sstyle="([^"]*)"', answer.text)) <= {
        f"--colour:{c}" for c in _colours(answer.text)
    }


def _colours(text: str) -> set[str]:
    return set(re.findall(r"--colour:(#[0-9A-F]{6})", text))


def test_names_with_markup_are_text(server):
    run, title, study = "&lt;script&gt;alert(1)", "&lt;script&gt;alert(2)", "&lt;b&gt;evil"
    shown = {
        "/": [run, study],
        "/studies": [title, study],
        EVIL_PATH: [run, title, study],
        "/compare": [run],
        f"{EVIL_PATH}/report": [run, title],
        "/studies/%3Cb%3Eevil": [study],
    }
    for path, texts in shown.items():
        text = server.get(path).text
        assert all(each in text for each in texts), path
        assert "<script>alert" not in text
        assert "<img src=x" not in text


def test_runs_are_listed_filtered_and_paged(server, monkeypatch):
    def listed(query: str) -> list[str]:
        return re.findall(r'<th scope="row"><a href="/runs/([^"]+)"', server.get(f"/{query}").text)

    assert listed("")[:3] == ["tour-3", "tour-2", "tour-1"]
    assert listed("?text=our-2") == ["tour-2"]
    assert listed("?study=tour&status=finished&platform=lxc") == ["tour-3", "tour-2", "tour-1"]
    assert listed("?status=failed") == []
    assert "No run is like that." in server.get("/?status=failed").text
    monkeypatch.setattr(pages_module, "RUNS_A_PAGE", 2)
    assert listed("?study=tour&page=2") == ["tour-1"]
    assert 'rel="prev" href="/?study=tour&amp;page=1"' in server.get("/?study=tour&page=2").text
    assert server.get("/?page=0").status == server.get("/?page=x").status == 404


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/?platform=dokcer", "there are: docker"),
        ("/?study=none", "there are: "),
        ("/?status=bogus", "running, finished"),
        ("/?tag=none", ""),
        ("/?page=99", "the last page is 1"),
        ("/runs/tuor-1", "tour-1"),
        ("/studies/none", "studies"),
        ("/runs/tour-1/docx", "known: csv"),
        ("/nothing", "linked above"),
    ],
)
def test_what_no_run_has_is_not_found_and_says_what_there_is(server, path, hint):
    answer = server.get(path)
    assert answer.status == 404
    assert "<h1>Not found</h1>" in answer.text
    assert hint in answer.text
    portuguese = server.get(path, {"Cookie": "vtax_language=pt-BR"}).text
    assert "<h1>Não encontrado</h1>" in portuguese


def test_tags_and_notes_are_shown_and_found(tmp_path):
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        for number, tags in ((1, ("quiet", "pré")), (2, ("quieter",))):
            run = begin(store, f"tour-{number}")
            fill(run, blocks=2)
            annotate(
                store.engine,
                run.id,
                lambda _, n=number, t=tags: Annotations(t, (f"água <b>{n}</b>",)),
            )
    with served(home) as server:

        def listed(query: str) -> list[str]:
            return re.findall(
                r'<th scope="row"><a href="/runs/([^"]+)"', server.get(f"/?{query}").text
            )

        assert listed("tag=quiet") == ["tour-1"]
        assert listed("tag=pr%C3%A9") == ["tour-1"]
        assert listed("text=%C3%A1gua") == ["tour-2", "tour-1"]
        assert listed("text=%3Cb%3E2") == ["tour-2"]
        for path in ("/", "/runs/tour-1"):
            text = server.get(path).text
            assert 'href="/?tag=pr%C3%A9">pré</a>' in text
            assert "água &lt;b&gt;1" in text
    assert server.bugs == []


def test_a_study_and_where_a_run_is_from_are_in_the_language_of_the_reader(tmp_path):
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        import_bundle(
            store.engine, Bundle(Path(__file__).parents[2] / "docs/examples/tour.vtax.gz"), "here"
        )
    with served(home) as server:
        for path in ("/studies", "/runs/tour-1"):
            assert (
                "Quanto custa cada camada deste hospedeiro?"
                in server.get(f"{path}?language=pt-BR").text
            )
        assert "importada de outro hospedeiro" in server.get("/?language=pt-BR").text
        assert "1 execução, 1 concluída, a última" in server.get("/studies?language=pt-BR").text


def test_the_sides_of_a_comparison_are_chosen_from_lists(server):
    empty = server.get("/compare").text
    example = (
        '<a href="/compare?a=tour-3%3Adocker&amp;b=tour-3%3Alxc">tour-3:docker / tour-3:lxc</a>'
    )
    assert example in empty
    assert 'href="/compare?a=tour-1"' in server.get("/runs/tour-1").text
    half = server.get("/compare?a=tour-1").text
    assert re.search(r"<option [^>]*selected>tour-1</option>", half)
    chosen = server.get("/compare?a=tour-1&a_platform=docker&b=tour-2&b_platform=docker").text
    assert "tour-1:docker" in chosen
    assert "<option selected>docker</option>" in chosen


@pytest.mark.parametrize(
    ("given", "b"),
    [
        ("a=tour-1:docker", "tour-1:native"),
        ("a=tour-1&a_platform=docker", "tour-1:native"),
        ("a=tour-1&a_platform=docker&b=&b_platform=lxc", "tour-1:lxc"),
        ("a=tour-1:docker&b=tour-2:docker", "tour-2:docker"),
    ],
)
def test_b_is_by_default_of_the_run_of_a_and_its_baseline(server, given, b):
    assert f"tour-1:docker / {b}" in server.get(f"/compare?{given}").text


def test_only_platforms_of_the_chosen_run_are_offered(tmp_path):
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        fill(begin(store), blocks=2)
        import_bundle(
            store.engine,
            Bundle(Path(__file__).parents[2] / "docs/examples/rootless.vtax.gz"),
            "here",
        )
    with served(home) as server:
        offered = server.get("/compare?a=rootless-1").text
        menus = re.findall(r'<select name="._platform">(.*?)</select>', offered, re.DOTALL)
        names = [set(re.findall(r"<option(?: selected)?>([^<]+)</option>", menu)) for menu in menus]
        own = {"podman", "podman-pasta", "podman-slirp4netns", "native"}
        assert names == [own, own]
        assert "data-platforms=" in offered


def test_the_list_has_the_question_and_the_answer_of_every_run(server):
    fragment = server.get("/runs/tour-1/answer").text
    assert "qemu-tcg" in fragment
    assert "<html" not in fragment
    listed = server.get("/").text
    question = DECLARED["question"]
    assert question in listed
    assert fragment in listed
    assert 'data-answer="/runs/tour-1/answer' not in listed


def test_answers_are_not_read_while_a_run_measures(filled, measuring):
    with served(filled) as server:
        listed = server.get("/").text
    assert "data-answer" not in listed
    assert "A run is being measured here" in listed


def test_the_page_of_a_run_has_the_figures_and_warnings_of_its_report(server):
    text = server.get("/runs/tour-1").text
    assert text.count("<figure") > 3
    assert 'id="warnings"' in text
    assert 'id="audit"' not in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


def test_the_words_of_a_run_are_shown_before_its_figures_are_drawn(filled, monkeypatch):
    drawn = Pages.drawn

    async def without_result(pages, request, kind, names, state):
        return None if kind == "result" else await drawn(pages, request, kind, names, state)

    with served(filled) as server:
        whole = server.get("/runs/tour-1").text
        monkeypatch.setattr(Pages, "drawn", without_result)
        first = server.get("/runs/tour-1?not=kept", timeout_s=0.0)
    assert first.status == 202
    assert "data-preparing" in first.text
    assert "<figure" not in first.text
    assert first.text.count("<table") == whole.count("<table")


def test_the_listing_counts_as_vtax_list_does(filled):
    with Store.existing(filled.root / "store.sqlite") as store:
        listing = Listing()
        for _ in range(2):  # the second time from what is kept
            page = listing.page(store, RunFilter(), 1, 50)
            assert sorted(page.runs, key=lambda run: run.name) == sorted(
                store.runs(), key=lambda run: run.name
            )


def test_only_platforms_that_were_measured_can_be_chosen(filled):
    with Store.existing(filled.root / "store.sqlite") as store:
        page = Listing().page(store, RunFilter(), 1, 50)
    assert page.names["platform"] == sorted({name for run in page.runs for name in run.platforms})


def test_a_run_is_shown_with_its_result(server):
    text = server.get("/runs/tour-1").text
    assert "<h1>tour-1" in text
    assert "5 blocks" in text
    assert re.search(r'<span class="key slower">▼ slower</span>', text)
    assert 'href="/runs/tour-1/report"' in text
    assert all(f'href="/runs/tour-1/{kind}"' in text for kind in DOWNLOADS)


def test_a_campaign_is_shown_with_its_hosts_and_later_with_one_more(tmp_path):
    home = Home(tmp_path).ensure()

    def measured(*hosts: str) -> str:
        runs.update(fleet.measure(store, hosts, facts=lambda host, _: {"machine_id": 12 * host}))
        return fleet.merged(store, runs)

    runs: dict[str, list[str]] = {}
    with Store.open(home.root / "store.sqlite") as store, served(home) as server:
        name = measured("a", "b", "c")
        answer = server.get(f"/runs/{name}")
        assert (answer.status, "3 hosts" in answer.text, "hosts like these" in answer.text) == (
            200,
            True,
            True,
        )
        assert measured("d") == name
        assert "4 hosts" in server.get(f"/runs/{name}").text


def test_a_report_is_that_of_vtax_report_in_a_sandbox_of_its_own(server, filled, tmp_path):
    answer = server.get("/runs/tour-1/report")
    with Store.existing(filled.root / "store.sqlite") as store:
        write(store, "tour-1", "html", tmp_path / "report.html")
    summary = re.search(
        r'<section id="answer".*?</section>', (tmp_path / "report.html").read_text(), re.DOTALL
    )
    assert summary[0] in answer.text
    assert '<a href="/runs/tour-1">vtax: tour-1</a>' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'sha256-")
    assert "allow-same-origin" not in policy


def test_two_runs_are_compared_and_a_study_has_a_history(server):
    text = server.get("/compare?a=tour-1&b=tour-2").text
    assert "tour-1 / tour-2" in text
    assert "two samples of blocks" in text
    history = server.get("/studies/tour").text
    assert "<svg" in history
    assert 'role="graphics-' not in history, "an image has no parts for a screen reader"
    assert "tour-3" in history
    assert server.get("/studies/none").status == 404
    assert server.get("/compare?a=nope&b=tour-2").status == 404


@pytest.mark.parametrize("kind", DOWNLOADS)
def test_downloads_are_files_with_the_name_of_the_run(server, kind):
    answer = server.get(f"/runs/tour-2/{kind}")
    assert answer.status == 200
    assert (
        answer.headers["Content-Disposition"] == f'attachment; filename="tour-2{DOWNLOADS[kind]}"'
    )
    if kind == "bundle":
        assert b'"tour-2"' in gzip.decompress(answer.body)
    if kind == "json":
        assert json.loads(answer.body)["run"] == "tour-2"
    if kind == "csv":
        assert len(answer.body.splitlines()) > 200


def test_a_download_that_is_prepared_says_when_to_ask_again(filled):
    with served(filled) as server:
        answer = server.get("/runs/tour-2/csv", timeout_s=0.0)
        assert (answer.status, answer.headers["Retry-After"]) == (202, "1")


@pytest.mark.parametrize("format_", ["csv", "report"])
def test_what_is_prepared_says_that_it_gives_way_to_a_run(format_, filled, measuring):
    with served(filled) as server:
        answer = server.get(f"/runs/tour-2/{format_}", timeout_s=0.0)
        assert answer.status == 202
        assert "A run is being measured on this host" in answer.text


def test_the_language_is_that_of_the_address_or_the_cookie_or_the_browser(server):
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
    assert "known: en, pt-BR" in unknown.text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/none?",
        "/runs/tour-1/zip?",
        "/?tag=none&",
        "/compare?a=tour-1:docker@direction&b=tour-1:native&",
        "/compare?a=tour-1&b=tour-1&",
    ],
)
def test_errors_are_english_on_a_page_of_any_language(server, path):
    english, portuguese = (server.get(f"{path}language={code}") for code in ("en", "pt-BR"))
    assert english.status == portuguese.status
    assert portuguese.status in (400, 404)
    what = r'<p class="question" lang="en">.+</p>'
    assert re.findall(what, portuguese.text) == re.findall(what, english.text) != []
    assert "Todas as execuções" in portuguese.text


def test_without_a_run_the_pages_say_how_to_begin(tmp_path):
    home = Home(tmp_path).ensure()
    with served(home) as server:
        for path in ("/", "/studies"):
            assert "There is no run yet." in server.get(path).text
        assert server.get("/runs/tour-1").status == 404
        assert not (tmp_path / "store.sqlite").exists()
        Store.open(tmp_path / "store.sqlite").close()
        assert "There is no run yet." in server.get("/").text


def test_a_store_that_cannot_be_read_is_a_page_without_a_trace(filled, tmp_path):
    with served(filled, place=tmp_path / "store.sqlite") as server:
        (tmp_path / "store.sqlite").write_bytes(b"no database" * 1000)
        answer = server.get("/")
        assert answer.status == 503
        assert "the store is not a database" in answer.text
        assert "Traceback" not in answer.text


def test_a_bug_is_a_page_without_a_trace_and_is_reported(filled, monkeypatch):
    with served(filled) as server:
        monkeypatch.setattr(pages_module, "studies", lambda _: 1 / 0)
        answer = server.get("/studies")
    assert (answer.status, [type(bug) for bug in server.bugs]) == (500, [ZeroDivisionError])
    assert "ZeroDivision" not in answer.text


def test_trials_are_counted_ahead_of_the_first_page(filled, monkeypatch):
    with Store.existing(filled.root / "store.sqlite") as store:
        listing = Listing()
        listing.count_ahead(store, lambda: True)
        monkeypatch.setattr(
            "vtax.store.listing.counts_of", lambda *_: pytest.fail("trials were counted again")
        )
        assert sum(run.failed for run in listing.page(store, RunFilter(), 1, 50).runs) == 3


def test_the_store_is_only_read(filled):
    with (
        Store.open_read_only(filled.root / "store.sqlite") as store,
        store.engine.connect() as connection,
        pytest.raises(OperationalError, match="readonly"),
    ):
        connection.execute(schema.run.delete())


def test_the_worker_and_the_live_page_only_read(filled, tmp_path, monkeypatch):
    def write(store: Store, *_: object) -> None:
        with store.engine.begin() as connection:
            connection.execute(schema.run.delete())

    monkeypatch.setitem(worker.KINDS, "result", write)
    monkeypatch.setattr(
        worker, "MOST_RESIDENT", 1 << 40
    )  # this process, which is no worker, may hold more
    monkeypatch.setattr(live_state, "_read_state", write)
    place = filled.root / "store.sqlite"
    with pytest.raises(OperationalError, match="readonly"):
        worker.make(worker.Task("result", place, ("tour-1",)), tmp_path / "result", False)
    with pytest.raises(OperationalError, match="readonly"):
        live_state.LiveRun(place, filled)


def test_what_a_killed_server_left_is_removed_and_what_another_holds_is_not(tmp_path, temporary_in):
    temporary_in(tmp_path)
    held, new = directory.Directory(), Path(tempfile.mkdtemp(prefix=directory.PREFIX))
    left, link = tmp_path / "vtax-page-left", tmp_path / "vtax-page-link"
    left.mkdir()
    (left / "1").touch()
    link.symlink_to(tmp_path)
    for path in (held.path, left):
        os.utime(path, (1.0, 1.0))
    assert directory.remove_abandoned() == [left]
    assert sorted(tmp_path.iterdir()) == sorted([held.path, new, link])
    held.remove()
    assert not held.path.exists()


def test_a_worker_that_was_killed_is_replaced(filled):
    with served(filled, start_method="spawn") as server:
        assert server.get("/runs/tour-1").status == 200
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        assert {server.get(f"/runs/tour-{number}").status for number in (2, 3)} == {200}
        assert server.bugs == []


def test_a_removed_run_leaves_its_counts_to_no_other(tmp_path):
    listing = Listing()
    with Store.open(tmp_path / "store.sqlite") as store:
        fill(begin(store))
        (first,) = listing.page(store, RunFilter(), 1, 50).runs
        store.remove_runs("tour-1")
        fill(begin(store, "tour-2"), blocks=2)
        (second,) = listing.page(store, RunFilter(), 1, 50).runs
    assert (first.failed, second.failed) == (1, 0)


@pytest.mark.parametrize("number", ["000000001999999", "9" * 5000, "0", "x"])
def test_a_page_that_is_no_number_is_refused(server, number):
    assert server.get(f"/?page={number}").status == 404


def test_nothing_is_left_of_a_server(filled):
    with served(filled, start_method="spawn") as server:
        assert server.get("/runs/tour-1").status == 200
        assert multiprocessing.active_children()
    assert not multiprocessing.active_children()
