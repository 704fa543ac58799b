"""The live page of `vtax serve`: the stream of a run. Figures are invented."""

from __future__ import annotations

import threading
import time
import urllib.request

import pytest
from a_run import begin, fill
from page_server import served

from vtax.host.home import Home
from vtax.host.waiting import wait_until
from vtax.page import result_cache, stream
from vtax.runner.event_log import EventLog
from vtax.runner.events import EndedTrial, Progress
from vtax.store.store import Store


@pytest.fixture(autouse=True)
def patient(measuring: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run measures on this host, for which the worker of the page does not wait."""
    monkeypatch.setattr(result_cache, "is_measuring", lambda: False)


def test_a_live_run_is_followed_to_its_end(tmp_path):
    home = Home(tmp_path).ensure()
    store = Store.open(tmp_path / "store.sqlite")
    run = begin(store)
    log = EventLog(home.events, run.name, run.identity)
    log.guest_starting("docker", 0)
    with served(home) as server:
        page = server.get("/runs/tour-1").text
        assert 'data-events="/runs/tour-1/events?language=en"' in page
        assert "docker: a fresh guest starts" in page
        stream = urllib.request.urlopen(
            f"{server.address}/runs/tour-1/events?language=pt-BR", timeout=30
        )
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.extend(line.decode() for line in stream))
        thread.start()
        log.trial_ended(
            EndedTrial(
                "docker", "iperf3", "", (10.5, "Gbit/s"), "", Progress(0, 8, 7, 192, 20.0, 60.0)
            )
        )
        fill(run, finishes=False)
        until = time.monotonic() + 60
        while "event: estimates\n" not in seen and time.monotonic() < until:
            time.sleep(0.05)
        assert "event: estimates\n" in seen
        run.finish("finished", "8 of 8 blocks are made", 1_700_000_300.0)
        log.ended("finished", "8 of 8 blocks are made")
        thread.join(30)
        text = "".join(seen)
        assert "7 de 192 ensaios" in text
        assert text.rstrip().endswith("event: end\ndata: finished")
        assert server.bugs == []
    store.close()


def test_more_streams_than_there_is_room_for_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "MOST_STREAMS", 1)
    home = Home(tmp_path).ensure()
    with Store.open(tmp_path / "store.sqlite") as store:
        begin(store)
        with served(home) as server:
            assert server.get("/runs/tour-1/events", method="HEAD").status == 200
            for _ in range(2):  # the second time after the first stream was closed
                with urllib.request.urlopen(
                    f"{server.address}/runs/tour-1/events", timeout=30
                ) as opened:
                    assert opened.readline() == b"event: state\n"
                    assert server.get("/runs/tour-1/events").status == 503
                wait_until(
                    lambda: server.get("/runs/tour-1/events", method="HEAD").status == 200,
                    20.0,
                    0.05,
                )
