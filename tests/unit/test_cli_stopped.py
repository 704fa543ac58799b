"""A request to stop unwinds any command: what it had made is gone, and the exit status tells the signal."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ended_by

from vtax.errors import RunInterrupted
from vtax.host.interrupts import insist, stop_requests
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.messages import Note


@contextmanager
def something_made(tmp_path: Path) -> Iterator[Journal]:
    """A journal that holds the directory `made`."""
    with Journal(tmp_path / "journal") as journal:
        journal.register(Tree(str(tmp_path / "made")))
        (tmp_path / "made").mkdir()
        yield journal


def nothing_stays(tmp_path: Path) -> bool:
    """Whether what was made is gone, and the journal with it."""
    return not (tmp_path / "made").exists() and list((tmp_path / "journal").iterdir()) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_every_command_cleans_up_when_it_is_requested_to_stop(
    tmp_path, monkeypatch, number, status
):
    went_on = []

    def work() -> None:
        with something_made(tmp_path):
            os.kill(os.getpid(), number)
            went_on.append("after the request")

    if number == signal.SIGINT:  # which a shell's job in the background ignores
        signal.signal(number, signal.default_int_handler)
    before = signal.getsignal(number)
    assert ended_by(monkeypatch, work) == status
    assert nothing_stays(tmp_path)
    assert went_on == []
    assert signal.getsignal(number) is before


class Asking:
    """Something whose removal is when the request to stop comes."""

    kind = "asking"

    def remove(self) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        return True


@pytest.fixture
def asks_while_cleaning(monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr("vtax.host.journal.to_record", lambda resource: {"kind": resource.kind})
    return Asking()


def test_a_request_while_a_command_cleans_up_waits_until_all_is_undone(
    tmp_path, monkeypatch, asks_while_cleaning, capsys
):
    went_on = []

    def work() -> None:
        with something_made(tmp_path) as journal:
            journal.register(asks_while_cleaning)  # type: ignore[arg-type]
        went_on.append("after the request")

    assert ended_by(monkeypatch, work) == 143
    assert nothing_stays(tmp_path)
    assert went_on == []
    assert "cleaning up, please wait" in capsys.readouterr().err


def test_a_hangup_that_nohup_has_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests(pytest.fail):
            os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(RunInterrupted), stop_requests(pytest.fail):
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_that_a_finalizer_swallows_is_obeyed_before_further_work(monkeypatch):
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            sum(range(1000))  # the handler runs here, and Python drops what it raises

    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: dropped.append(event.exc_value))
    with stop_requests(pytest.fail):
        insist()
        found = [Finalized()]
        found.clear()
        assert [str(each) for each in dropped] == [Note("stopped", name="SIGTERM")]
        with pytest.raises(RunInterrupted) as raised:
            insist()
    assert raised.value.exit_status == 143
    insist()
