"""Pages that are kept: how long, for whom, and how many."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a_run import begin
from starlette.responses import HTMLResponse, Response

from vtax.page import kept
from vtax.page.kept import KeptPages
from vtax.store.store import Store


class Maker:
    """Makes pages that tell how many were made before. status: of all of them. pause_s: that one takes."""

    def __init__(self, status: int = 200, pause_s: float = 0.0) -> None:
        self.made, self.status, self.pause_s = 0, status, pause_s

    async def __call__(self) -> Response:
        self.made += 1
        number = self.made
        await asyncio.sleep(self.pause_s)
        return HTMLResponse(f"page {number}", self.status)


@pytest.fixture
def pages(store: Store, tmp_path: Path):
    made = KeptPages(tmp_path / "store.sqlite")
    yield made
    made.close()


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch):
    """`measuring(True)` says that a run measures."""

    def say(is_measuring: bool) -> None:
        monkeypatch.setattr(kept, "is_measuring", lambda: is_measuring)

    say(False)
    return say


def bodies(pages: KeptPages, maker: Maker, times: int = 1) -> list[bytes]:
    """The bodies of answers to one after another."""

    async def ask() -> list[bytes]:
        return [bytes((await pages.get("/", maker)).body) for _ in range(times)]

    return asyncio.run(ask())


def test_a_page_is_kept_until_the_store_is_written_to(pages, store, measuring):
    maker = Maker()
    assert bodies(pages, maker, 3) == [b"page 1"] * 3
    begin(store)
    assert bodies(pages, maker, 2) == [b"page 2"] * 2


def test_who_reads_the_store_leaves_pages_as_they_are(store, tmp_path, measuring):
    begin(store)
    store.close()
    reader = KeptPages(tmp_path / "store.sqlite")
    maker = Maker()
    bodies(reader, maker)
    with Store.existing(tmp_path / "store.sqlite") as other:
        other.runs()
        assert bodies(reader, maker) == [b"page 1"]
    assert bodies(reader, maker) == [b"page 1"]
    reader.close()


def test_while_a_run_measures_a_page_is_kept_for_a_moment_whatever_it_writes(
    pages, store, measuring, monkeypatch
):
    maker = Maker()
    measuring(True)
    bodies(pages, maker)
    begin(store)
    assert bodies(pages, maker) == [b"page 1"]
    monkeypatch.setattr(kept, "MEASURING_S", 0.0)
    assert bodies(pages, maker) == [b"page 2"]


def test_a_page_whose_moments_are_old_is_made_again(pages, measuring, monkeypatch):
    maker = Maker()
    monkeypatch.setattr(kept, "STILL_S", 0.0)
    assert bodies(pages, maker, 2) == [b"page 1", b"page 2"]


def test_readers_at_once_share_one_page(pages, measuring):
    maker = Maker(pause_s=0.05)

    async def ask() -> set[bytes]:
        answers = await asyncio.gather(*(pages.get("/", maker) for _ in range(20)))
        return {bytes(answer.body) for answer in answers}

    assert asyncio.run(ask()) == {b"page 1"}
    assert maker.made == 1


def test_while_a_run_measures_who_would_wait_gets_the_page_before(pages, measuring, monkeypatch):
    measuring(True)
    bodies(pages, Maker())
    monkeypatch.setattr(kept, "MEASURING_S", 0.0)
    monkeypatch.setattr(kept, "_LATE_S", 0.01)
    slow = Maker(pause_s=0.5)

    async def ask() -> bytes:
        return bytes((await asyncio.wait_for(pages.get("/", slow), 0.3)).body)

    assert asyncio.run(ask()) == b"page 1"
    assert slow.made == 1


@pytest.mark.parametrize("status", [202, 404, 503])
def test_what_is_no_whole_page_is_not_kept(pages, measuring, status):
    maker = Maker(status)
    assert bodies(pages, maker, 2) == [b"page 1", b"page 2"]


def test_a_page_that_says_that_more_is_to_come_is_not_kept(pages, measuring):
    made = 0

    async def make() -> Response:
        nonlocal made
        made += 1
        return HTMLResponse("page", headers={"Cache-Control": "no-store"})

    async def ask() -> None:
        await pages.get("/", make)
        await pages.get("/", make)

    asyncio.run(ask())
    assert made == 2


def test_pages_beyond_the_room_for_them_go_the_oldest_first(pages, measuring, monkeypatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 14)
    maker = Maker()

    async def ask() -> list[bytes]:
        return [bytes((await pages.get(key, maker)).body) for key in "abacab"]

    assert asyncio.run(ask()) == [b"page 1", b"page 2", b"page 1", b"page 3", b"page 1", b"page 4"]


def test_an_answer_that_is_changed_changes_no_other(pages, measuring):
    maker = Maker()

    async def ask() -> list[tuple[bytes, bytes]]:
        first = await pages.get("/", maker)
        first.headers["set-cookie"] = "mine"
        return (await pages.get("/", maker)).raw_headers

    assert b"set-cookie" not in dict(asyncio.run(ask()))
