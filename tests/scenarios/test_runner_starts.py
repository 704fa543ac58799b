"""Trials that start guests, with guests that are plain processes: what is stored, and what it costs to fail."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from scripted import ProcessGuest, ScriptedOptions, executed, plan_of, study

from vtax.errors import BadInput, PlatformError, RunInterrupted
from vtax.host import page_cache
from vtax.host.guest_memory import GuestMemory
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import GuestSpec
from vtax.report.analysis.source import source_of
from vtax.report.answers.pivot.compute import Axes, PivotCell, pivot
from vtax.report.answers.pivot.values import Quantity
from vtax.store.query import load, samples
from vtax.study.load import LoadedStudy

BOTH = {"name": "start", "parameters": {"repetitions": 2}, "factors": {"image": ["warm", "cold"]}}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, scratch_in) -> None:
    scratch_in(tmp_path)


def test_every_start_of_every_trial_is_kept(driver, store, home):
    run = executed(plan_of(study(benchmark=[BOTH])), store, home)
    data = load(store.engine, run)
    assert data.failures == ()
    assert len(data.trials.id) == 2 * 2 * 2
    # a session starts one guest to audit it; a warm trial one more to warm the image up
    assert len(driver.started) == 2 * 2 * (1 + 3 + 2)
    assert all(guest.process.poll() is not None for guest in driver.started)
    for found in samples(store.engine, run).values():
        assert [len(values) for values in found.values()] == [2, 2]
        assert all(a < b for a, b in zip(found["agent_ready"], found["server_answer"], strict=True))
    assert list(home.guests.iterdir()) == []


def test_percentiles_are_over_all_starts_of_a_cell(driver, store, home):
    run = executed(plan_of(study(benchmark=[BOTH])), store, home)
    source = source_of(store)

    def table(quantity: Quantity, to: str = "") -> dict[tuple[str, str], PivotCell]:
        axes = Axes(columns="image", panels="metric")
        found = pivot(
            source, axes, quantity, to=to, every_metric=True, where=["metric=agent_ready"]
        )
        return {(row, column): cell for (_, row, column), cell in found.cells.items()}

    trials, cell = load(store.engine, run).trials, source.data.run.cells.index
    kept = samples(store.engine, run)
    medians = table("p50")
    assert list(medians) == [
        (name, image) for image in ("warm", "cold") for name in ("native", "other")
    ]
    for found in medians.values():
        of_cell = [
            t
            for t, index in zip(trials.id.tolist(), trials.cell, strict=True)
            if index == cell(found.row.cell)
        ]
        values = [value for t in of_cell for value in kept[t]["agent_ready"]]
        assert len(values) == 4
        assert found.value.value == pytest.approx(
            np.quantile(values, 0.5, method="median_unbiased")
        )
        assert found.blocks == 2
    assert all(
        found.value.high is None for found in table("p99").values()
    )  # four starts bound no 99th percentile
    ratio = table("p50", "platform=native")["other", "warm"].value.value
    assert ratio == pytest.approx(
        medians["native", "warm"].value.value / medians["other", "warm"].value.value
    )


def test_starts_share_no_guest_with_other_benchmarks(driver):
    sessions = plan_of(study(benchmark=[BOTH, {"name": "script"}])).guests(0)
    assert all(
        len({cell.point.benchmark.name for cell in session.cells}) == 1 for session in sessions
    )


def test_a_start_that_fails_fails_its_trial_and_leaves_no_guest(driver, store, home):
    start = driver.start

    def third_fails(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if len(driver.started) == 3:
            raise PlatformError("no memory for a guest")
        return start(options, spec)

    driver.start = third_fails
    declared = study(
        platforms=["native"], benchmark=[{"name": "start", "parameters": {"repetitions": 3}}]
    )
    data = load(store.engine, executed(plan_of(declared | {"design": {"blocks": 1}}), store, home))
    assert [failure.error for failure in data.failures] == ["no memory for a guest"]
    assert all(guest.process.poll() is not None for guest in driver.started)


def bursts(guests: int, **parameters: float) -> LoadedStudy:
    table = {"name": "start", "parameters": {"repetitions": 2, **parameters}, "guests": [guests]}
    return study(platforms=["native"], design={"blocks": 1}, benchmark=[table])


def test_guests_at_once_are_all_there_before_the_first_one_ends(driver, store, home, monkeypatch):
    account = GuestMemory(pss_bytes=3 << 20, cgroup_bytes=None)
    monkeypatch.setattr(ProcessGuest, "host_memory", lambda _: account, raising=False)
    run = executed(plan_of(bursts(3)), store, home)
    data = load(store.engine, run)
    assert [failure.error for failure in data.failures] == []
    assert len(driver.started) == 1 + 1 + 2 * 3  # audited, to warm up, and two bursts of three
    assert len({guest.process.pid for guest in driver.started}) == len(driver.started)
    names = [data.run.metrics[metric].name for metric in data.measurements.metric]
    measured = dict(zip(names, data.measurements.value.tolist(), strict=True))
    assert measured["started"] == 100
    assert measured["memory_pss"] == 3.0
    assert measured["server_answer_p99"] >= measured["server_answer"]
    (kept,) = samples(store.engine, run).values()
    assert len(kept["server_answer"]) == 6
    assert all(guest.process.poll() is not None for guest in driver.started)
    assert list(home.guests.iterdir()) == []


def test_guests_that_start_at_once_meet_and_staggered_ones_come_in_turn(driver, store, home):
    requested: list[float] = []
    start, together = driver.start, Barrier(3, timeout=20)

    def meets(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        requested.append(time.monotonic())
        if len(requested) > 2:
            together.wait()
        return start(options, spec)

    driver.start = meets
    data = load(store.engine, executed(plan_of(bursts(3, stagger_s=0.5)), store, home))
    assert data.failures == ()
    for first in (2, 5):
        moments = sorted(requested[first : first + 3])
        assert moments[1] - moments[0] > 0.25
        assert moments[2] - moments[1] > 0.25


def test_of_guests_at_once_one_that_fails_lowers_the_share_and_leaves_nothing(driver, store, home):
    start, calls = driver.start, count(1)

    def fourth_fails(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if next(calls) == 4:
            raise PlatformError("no memory for a guest")
        return start(options, spec)

    driver.start = fourth_fails
    data = load(store.engine, executed(plan_of(bursts(2)), store, home))
    assert data.failures == ()
    notes = [warning.note for warning in data.warnings if warning.code == "starts-failed"]
    assert notes == [Note("starts-failed", failed=1, total=4, reason="no memory for a guest")]
    assert all(guest.process.poll() is not None for guest in driver.started)
    assert list(home.guests.iterdir()) == []


def test_what_nobody_foresaw_in_one_of_them_fails_the_trial_after_all_have_ended(
    driver, store, home
):
    start, calls, together = driver.start, count(1), Barrier(3, timeout=20)

    def third_breaks(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        call = next(calls)
        if call > 2:
            together.wait()
        if call == 3:
            raise KeyError("cpus")
        return start(options, spec)

    driver.start = third_breaks
    data = load(store.engine, executed(plan_of(bursts(3)), store, home))
    assert ["KeyError" in failure.error for failure in data.failures] == [True]
    assert len(driver.started) == 1 + 1 + 2
    assert all(guest.process.poll() is not None for guest in driver.started)


def test_a_request_to_stop_waits_for_those_on_their_way_and_requests_no_more(driver, store, home):
    start, calls = driver.start, count(1)

    def third_asks_to_stop(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)  # the main thread is told meanwhile
        return start(options, spec)

    driver.start = third_asks_to_stop
    plan = plan_of(bursts(2, stagger_s=0.5))
    with pytest.raises(RunInterrupted):
        executed(plan, store, home)
    assert len(driver.started) == 1 + 1 + 1
    assert all(guest.process.poll() is not None for guest in driver.started)
    assert list(home.guests.iterdir()) == []


def test_a_request_to_stop_while_they_are_handed_out_requests_none(
    driver, store, home, monkeypatch
):
    submit = ThreadPoolExecutor.submit

    def stopped_within(pool: ThreadPoolExecutor, *given: Any) -> Future[Any]:
        submitted = submit(pool, *given)
        if given[0].__name__ == "_requested":
            time.sleep(0.2)  # its thread runs meanwhile, and nobody has heard of it yet
            os.kill(os.getpid(), signal.SIGTERM)
        return submitted

    monkeypatch.setattr(ThreadPoolExecutor, "submit", stopped_within)
    with pytest.raises(RunInterrupted):
        executed(plan_of(bursts(2)), store, home)
    assert len(driver.started) == 1 + 1
    assert list(home.guests.iterdir()) == []


def test_files_that_stay_in_the_cache_are_a_warning(driver, store, home, monkeypatch):
    monkeypatch.setattr(page_cache, "resident_bytes", lambda _: 7 << 20)
    declared = study(
        platforms=["native"],
        design={"blocks": 1},
        benchmark=[{"name": "start", "parameters": {"repetitions": 2, "image": "cold"}}],
    )
    data = load(store.engine, executed(plan_of(declared), store, home))
    assert [warning.code for warning in data.warnings if warning.code == "cold-image"] == [
        "cold-image"
    ]


def test_a_cold_start_is_not_tested_where_the_image_is_elsewhere(driver):
    driver.image_files = lambda image: None if isinstance(image, Image) else image
    warm_only = study(benchmark=[{"name": "start", "parameters": {"image": "warm"}}])
    assert plan_of(warm_only).untested == ()
    with pytest.raises(BadInput) as refused:
        plan_of(study(benchmark=[BOTH]))  # the baseline cannot either, so the study is refused
    assert str(Note("image-in-daemon", name="native")) in refused.value.what
