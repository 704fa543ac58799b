"""Guests that lie, and hosts on which nothing starts any more: what costs a trial, and what ends a run."""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lying_guest import Lie, LyingGuest
from scripted import (
    ScriptBenchmark,
    ScriptedDriver,
    ScriptedOptions,
    executed,
    plan_of,
    store_each_trial,
    study,
)

from vtax.errors import ImageError, PlatformError, RunInterrupted, StoreError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms.base import GuestSpec
from vtax.runner import trial
from vtax.runner.begin import begin
from vtax.runner.containment import Failure, contained
from vtax.runner.events import Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.store import database
from vtax.store import run as stored
from vtax.store.query import load, outputs
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate

ONE = {"platforms": ["native"], "design": {"blocks": 1, "seed": 7}}


@pytest.fixture
def lying(driver: ScriptedDriver) -> Callable[[Lie], None]:
    """Make every guest tell these lies."""

    def install_lie(lie: Lie) -> None:
        def start(options: ScriptedOptions, spec: GuestSpec) -> LyingGuest:
            driver.started.append(LyingGuest(spec, lie))
            return driver.started[-1]

        driver.start = start

    return install_lie


def numbered(change: Callable[..., Any]) -> Callable[..., Any]:
    """The change of a call, which is given its number, from 1."""
    calls: list[int] = []

    def changed(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return change(len(calls), *arguments, **named)

    return changed


def test_a_parser_that_does_not_end_costs_its_trial(driver, store, home, monkeypatch):
    parse = ScriptBenchmark.parse

    def slow(self: Any, parameters: Any, context: Any, results: Any) -> Any:
        if results["single"].stdout.startswith("a"):
            re.match("(a+)+$", results["single"].stdout)
        return parse(self, parameters, context, results)

    monkeypatch.setattr(ScriptBenchmark, "parse", slow)
    monkeypatch.setattr(trial, "TIMEOUT_S", 0.5)
    code = ["echo 1", "head -c 5000 /dev/zero | tr '\\0' a; echo !"]
    declared = study(**ONE, benchmark=[{"name": "script", "factors": {"code": code}}])
    data = load(store.engine, executed(plan_of(declared), store, home))
    (failure,) = data.failures
    assert failure.error.startswith("the parser of python3's output took more than 0.5 s\n  hint: ")
    assert data.trials.is_ok.sum() == 1


@pytest.mark.parametrize(
    "error", [KeyError("eth0"), ValueError("nonsense"), RecursionError("too deep")]
)
def test_what_nobody_foresaw_costs_its_trial_and_its_guest_only(
    error, driver, store, home, monkeypatch
):
    store_each_trial(monkeypatch)
    true = Guest.counted

    def counted(call: int, guest: Guest, *samples: Any) -> dict[str, float]:
        if call == 3:  # of the second trial
            raise error
        return true(guest, *samples)

    monkeypatch.setattr(Guest, "counted", numbered(counted))
    run = executed(plan_of(study(**ONE)), store, home)
    data = load(store.engine, run)
    assert run.status == "finished"
    assert data.trials.is_ok.tolist() == [True, False, True]
    assert f"unexpected {type(error).__name__}" in data.failures[0].error
    (trace,) = [
        output.stderr for output in outputs(store.engine, run) if output.role == "traceback"
    ]
    assert "in counted" in trace
    assert len(driver.started) == 2


def test_a_trial_that_leaves_its_guest_without_tools_costs_one_trial_of_another_cell(
    driver, store, home, tmp_path
):
    gone = f"{tmp_path}/$PPID"  # the agent's PID is the guest's
    codes = [
        f"touch {gone}; echo 1",
        *(f"test ! -e {gone} && echo {figure}" for figure in (2, 3, 4)),
    ]
    table = {"name": "script", "factors": {"code": codes}}
    design = {"blocks": 2, "order": "sequential"}
    run = executed(
        plan_of(study(platforms=["native"], benchmark=[table], design=design)), store, home
    )
    assert load(store.engine, run).trials.is_ok.tolist() == [True, False, True, True] * 2
    assert len(driver.started) == 4


def test_a_cell_that_fails_in_fresh_guests_too_costs_one_guest_for_all_of_them(driver, store, home):
    table = {"name": "script", "factors": {"code": ["echo 1", "exit 1"]}}
    design = {"blocks": 3, "trials": 4, "order": "sequential"}
    run = executed(
        plan_of(study(platforms=["native"], benchmark=[table], design=design)), store, home
    )
    assert load(store.engine, run).trials.is_ok.tolist() == ([True] * 4 + [False] * 4) * 3
    assert len(driver.started) == 4


def test_what_nobody_foresaw_while_a_guest_starts_costs_the_trials_of_that_guest(
    driver, store, home, facts_by
):
    def facts(call: int, *_: Any) -> dict[str, Any]:
        if call == 1:
            raise RecursionError("too deep")
        return {"kernel": "6.1"}

    counted = numbered(facts)
    facts_by(counted)
    run = executed(plan_of(study(**{**ONE, "design": {"blocks": 2}})), store, home)
    data = load(store.engine, run)
    assert run.status == "finished"
    assert data.trials.is_ok.tolist() == [False] * 3 + [True] * 3
    assert data.trials.position.tolist() == list(range(6))
    assert "unexpected RecursionError" in data.guests[0].error


@pytest.mark.parametrize(
    "error", [StoreError("the disk is full"), RunInterrupted("stop"), KeyboardInterrupt()]
)
def test_a_store_that_fails_and_a_request_to_stop_are_not_contained(error):
    with pytest.raises(type(error)), contained(Failure()):
        raise error


def says(op: str, **fields: Any) -> Lie:
    return lambda requested, header, payload: (
        ({**header, **fields}, payload) if requested["op"] == op else None
    )


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (says("run", status="0"), "status"),
        (says("run", usage=[]), "incomplete"),
        (says("run", stdout_size=-1), "stdout_size"),
        (says("run", id=10**6), "another request"),
        (
            lambda request, header, data: (
                ({**header, "sizes": [None]}, data) if request.get("paths") else None
            ),
            "other files",
        ),
        (says("facts", facts={"a": {"b": 1}}), "audit"),
        (says("facts", facts=[[[[[[[[[[1]]]]]]]]]]), "nested"),
    ],
)
def test_a_lie_costs_trials_and_is_named_as_their_reason(lie, reason, lying, store, home):
    lying(lie)
    run = executed(plan_of(study(**ONE)), store, home)
    data = load(store.engine, run)
    assert run.status == "finished"
    assert not data.trials.is_ok.any()
    assert all(reason in failure.error for failure in data.failures)
    assert not any("unexpected" in failure.error for failure in data.failures)


def test_an_agent_that_sends_more_than_it_was_requested_for_fills_no_store(lying, store, home):
    much = 20 << 20

    def lie(requested: dict[str, Any], header: dict[str, Any], payload: bytes) -> Any:
        if requested["op"] != "run" or requested["argv"][0] != "/bin/sh":
            return None
        return {**header, "stdout_size": much}, b"1.5\n".ljust(much) + b"e" * much

    lying(lie)
    table = {"name": "script", "parameters": {"code": "echo 1.5"}}
    run = executed(plan_of(study(**ONE, benchmark=[table])), store, home)
    (output,) = outputs(store.engine, run)
    assert (len(output.stdout), len(output.stderr)) == (8 << 20, 8 << 20)
    assert [w.code for w in load(store.engine, run).warnings].count("truncated") == 1


def with_image(home: Home, **changes: Any) -> Any:
    directory = home.images / "key"
    directory.mkdir(parents=True)
    return make_plan(
        LoadedStudy(validate(study(**changes), "test"), "test"), image=Image("key", directory)
    )


def test_an_image_that_is_removed_during_a_run_ends_it_and_its_trials_are_still_pending(
    driver, store, home, golden
):
    plan = with_image(home, platforms=["native"], design={"blocks": 3, "seed": 7})
    true = driver.start

    def start(options: ScriptedOptions, spec: GuestSpec) -> Any:
        if driver.started and not spec.image.directory.exists():
            raise PlatformError("no such image")
        if driver.started:
            shutil.rmtree(spec.image.directory)
        return true(options, spec)

    driver.start = start
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(ImageError) as caught:
        execute(plan, run, home, Observer())
    golden(str(caught.value))
    assert f"vtax resume {run.name}" in caught.value.hint
    assert (run.status, len(run.done())) == ("failed", 6)
    plan.image.directory.mkdir()
    again = store.open_run(run.name)
    driver.start = true
    execute(plan, again, home, Observer())
    assert (again.status, len(again.done())) == ("finished", 9)
    assert load(store.engine, again).trials.is_ok.all()


def test_a_host_on_which_no_platform_starts_any_more_ends_the_run(driver, store, home):
    plan = plan_of(study(design={"blocks": 4, "seed": 7}))
    true = driver.start

    def start(options: ScriptedOptions, spec: GuestSpec) -> Any:
        if len(driver.started) == 2:
            raise PlatformError("no space left on device")
        return true(options, spec)

    driver.start = start
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(PlatformError) as caught:
        execute(plan, run, home, Observer())
    assert (caught.value.what.code, caught.value.what.data["count"]) == ("no-guest-starts", 3)
    assert "no space left" in caught.value.what.data["error"]
    assert (run.status, len(run.done())) == ("failed", 6)


def test_one_platform_that_never_starts_does_not_end_the_run(driver, store, home):
    run = executed(
        plan_of(study(platforms=["native", "broken"], design={"blocks": 5, "seed": 7})), store, home
    )
    data = load(store.engine, run)
    assert (run.status, len(data.trials.id), len(data.failures)) == ("finished", 30, 15)
    assert sorted(data.trials.position.tolist()) == list(range(30))


class Locked(Observer):
    """After the first trial the store is locked by another process's transaction for a while."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file = file
        self._seconds = seconds
        self.messages: list[str] = []
        self.thread: threading.Thread | None = None

    def trial_ended(self, *_: Any) -> None:
        if self.thread is None:
            is_locked = threading.Event()
            self.thread = threading.Thread(target=self._lock, args=(is_locked,))
            self.thread.start()
            is_locked.wait()

    def message(self, text: str) -> None:
        self.messages.append(text)

    def _lock(self, is_locked: threading.Event) -> None:
        connection = sqlite3.connect(self._file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        is_locked.set()
        time.sleep(self._seconds)
        connection.execute("ROLLBACK")
        connection.close()


def locked_run(
    seconds: float, allowed_s: float, home: Home, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunHandle, Locked]:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 100)
    monkeypatch.setattr(stored, "BUSY_TIMEOUT_S", allowed_s)
    store_each_trial(monkeypatch)
    with Store.open(f"sqlite:///{home.root / 'store.sqlite'}") as store:
        plan = plan_of(study(**ONE))
        run = begin(store, plan, vtax_version="test")
        observer = Locked(home.root / "store.sqlite", seconds)
        try:
            execute(plan, run, home, observer)
        finally:
            assert observer.thread
            observer.thread.join()
        return run, observer


def test_a_store_that_another_process_holds_for_long_is_waited_for(driver, home, monkeypatch):
    run, observer = locked_run(1.5, 60.0, home, monkeypatch)
    assert (run.status, len(run.done())) == ("finished", 3)
    assert any("in use by another process" in text for text in observer.messages)


def test_a_store_that_stays_locked_ends_the_run_with_how_to_resume_it(
    driver, home, monkeypatch, golden
):
    with pytest.raises(StoreError) as caught:
        locked_run(2.0, 0.2, home, monkeypatch)
    golden(str(caught.value))
    assert "sudo vtax resume s-1" in caught.value.hint
