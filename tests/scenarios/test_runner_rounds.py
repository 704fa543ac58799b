"""Rounds over guests that are alive at once: their order, a lost guest, stopping, and how many pay."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from scripted import (
    ProcessGuest,
    ScriptedDriver,
    ScriptedOptions,
    StopAfter,
    executed,
    plan_of,
    store_each_trial,
    study,
)

from vtax.errors import BadInput, GuestError, RunInterrupted
from vtax.platforms.base import GuestSpec
from vtax.runner import memory
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.lanes import KeptServers
from vtax.runner.open_guest import OpenGuest
from vtax.runner.plan import in_rounds_that_pay
from vtax.runner.run_health import TrialFailures
from vtax.runner.session import execute
from vtax.store.costs import costs
from vtax.store.query import load


def in_rounds(blocks: int = 2, trials: int | None = 4, **changes: Any) -> dict[str, Any]:
    design = {"order": "rounds", "blocks": blocks, "seed": 7}
    if trials is not None:
        design["trials"] = trials
    benchmark = [{"name": "script", "factors": {"size": [1, 2]}}]
    return study(**{"benchmark": benchmark, "design": design, **changes})


def visits_of(store, run) -> list[tuple[int, str, str]]:
    """Return (block, platform, levels) of the trials of a run, in the order they ran."""
    data = load(store.engine, run)
    cells = data.run.cells
    trials = sorted(
        zip(
            data.trials.position.tolist(),
            data.trials.block.tolist(),
            data.trials.cell.tolist(),
            strict=True,
        )
    )
    return [
        (block, cells[cell].platform, str(dict(cells[cell].levels))) for _, block, cell in trials
    ]


def test_every_round_visits_all_guests_once_and_a_block_has_one_guest_of_each(driver, store, home):
    run = executed(plan_of(in_rounds()), store, home)
    visits = visits_of(store, run)
    assert len(visits) == 2 * 2 * 2 * 4
    rounds = list(zip(visits[::2], visits[1::2], strict=True))
    for visit, other in rounds:
        assert {visit[1], other[1]} == {"native", "other"}
        assert (visit[0], visit[2]) == (other[0], other[2])
    points = [(a[0], a[2]) for a, _ in rounds]
    assert sum(a != b for a, b in pairwise(points)) == 2 * 2 - 1  # the rounds of a point in a row
    assert len({first[1] for first, _ in rounds}) == 2  # in changing order
    assert len(driver.started) == 2 * 2
    assert list(home.guests.iterdir()) == []


def test_the_order_of_rounds_is_the_same_again(driver):
    orders = []
    for _ in range(2):
        plan = plan_of(in_rounds())
        trials = plan.rounds(plan.guests(1))
        orders.append([(number, trial.key) for number, trial in trials])
    assert orders[0] == orders[1]
    assert orders[0] != sorted(orders[0])


def test_nothing_of_a_guest_runs_beside_the_trial_of_another(driver, store, home, monkeypatch):
    rested, measured, rest, measure = [], [], OpenGuest.rest, OpenGuest.measure

    def noted_rest(guest: OpenGuest) -> None:
        rested.append(guest)
        rest(guest)

    def noted_measure(guest: OpenGuest, cell: Any) -> Any:
        assert measured == rested[2:]  # the two at their starts
        measured.append(guest)
        return measure(guest, cell)

    monkeypatch.setattr(OpenGuest, "rest", noted_rest)
    monkeypatch.setattr(OpenGuest, "measure", noted_measure)
    executed(plan_of(in_rounds(blocks=1)), store, home)
    assert len(measured) == len(rested) - 2 == 2 * 2 * 4


def test_a_guest_that_dies_leaves_the_rounds_and_another_makes_its_trials(
    driver, store, home, tmp_path, monkeypatch
):
    store_each_trial(monkeypatch)
    dies_once = f"mkdir {tmp_path}/dead 2>/dev/null && kill -KILL $PPID; echo 1"
    benchmark = [{"name": "script", "parameters": {"code": dies_once}}]
    run = executed(plan_of(in_rounds(blocks=1, benchmark=benchmark)), store, home)
    data = load(store.engine, run)
    assert len(data.trials.id) == 2 * 4
    assert len(data.failures) == 1
    assert len(driver.started) == 2 + 1
    assert all(guest.process.poll() is not None for guest in driver.started)


def test_a_platform_whose_guest_does_not_start_fails_alone(driver, store, home):
    run = executed(plan_of(in_rounds(platforms=["native", "broken"])), store, home)
    data = load(store.engine, run)
    assert data.trials.is_ok.sum() == 2 * 2 * 4
    assert len(data.failures) == 2 * 2 * 4


def test_what_is_stopped_within_a_round_is_resumed_to_the_same_trials(
    driver, store, home, monkeypatch
):
    store_each_trial(monkeypatch)
    plan = plan_of(in_rounds())
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(5))
    assert list(home.guests.iterdir()) == []
    execute(plan, store.open_run(run.name), home, Observer())
    again = store.open_run(run.name)
    planned = [
        (block, trial.cell.platform.name, str(dict(trial.cell.point.levels)))
        for block in range(2)
        for _, trial in plan.rounds(plan.guests(block))
    ]
    assert visits_of(store, again) == planned


def test_a_lost_guest_is_gone_before_the_next_trial_of_another(
    driver, store, home, tmp_path, monkeypatch
):
    store_each_trial(monkeypatch)
    spoils_once = f"mkdir {tmp_path}/dead 2>/dev/null && exit 1; echo 1"
    benchmark = [{"name": "script", "parameters": {"code": spoils_once}}]
    running, measure = [], OpenGuest.measure

    def noted(guest: OpenGuest, cell: Any) -> Any:
        running.append(sum(each.process.poll() is None for each in driver.started))
        return measure(guest, cell)

    monkeypatch.setattr(OpenGuest, "measure", noted)
    monkeypatch.setattr(TrialFailures, "spoils_guest", lambda *_, **__: bool(_[2]))
    executed(plan_of(in_rounds(blocks=1, benchmark=benchmark)), store, home)
    assert running == [2, *[1] * 7]


def test_a_guest_that_cannot_rest_is_replaced_and_the_run_goes_on(driver, store, home, monkeypatch):
    calls, stop_but = [], KeptServers.stop_but

    def fails_once(servers: KeptServers, needed: Any) -> None:
        stop_but(servers, needed)
        calls.append(needed)
        if len(calls) == 4:  # after two starts, and before and after the first trial
            raise GuestError("it does not answer")

    monkeypatch.setattr(KeptServers, "stop_but", fails_once)
    run = executed(plan_of(in_rounds(blocks=1)), store, home)
    assert load(store.engine, run).trials.is_ok.sum() == 2 * 2 * 4
    assert len(driver.started) == 2 + 1


def test_rounds_that_pay_leave_a_third_of_the_time_to_starts(driver):
    def planned(sizes: int) -> tuple[str, int]:
        benchmark = [{"name": "script", "factors": {"size": list(range(1, sizes + 1))}}]
        design = in_rounds_that_pay(plan_of(study(benchmark=benchmark))).study.design
        return design.order, design.trials

    assert planned(4) == ("rounds", 5)  # two guests of 0.5 s, and rounds of 8 trials of 0.05 s
    assert planned(1) == ("rounds", 10)
    assert planned(30) == ("randomized", 1)


def test_rounds_that_pay_leave_room_in_a_budget_for_enough_blocks(driver):
    def planned(budget: str) -> tuple[str, int]:
        table = {"name": "script", "factors": {"size": [1, 2]}}
        declared = study(benchmark=[table], design={"stop": "budget", "budget": budget})
        design = in_rounds_that_pay(plan_of(declared)).study.design
        return design.order, design.trials

    assert planned("1min") == ("rounds", 10)
    # ten blocks of two guests of 0.5 s, and rounds of two trials of 0.05 s at two points
    assert planned("15.1s") == ("rounds", 2)
    assert planned("11s") == ("randomized", 1)


def test_guests_that_memory_does_not_hold_at_once_are_refused_and_pay_no_rounds(
    driver, monkeypatch
):
    monkeypatch.setattr(memory, "host_memory", lambda: 5 << 29)
    guest = {"vcpus": 1, "memory": "1GiB"}
    with pytest.raises(BadInput, match="2 guests alive, with 2 GiB of memory"):
        plan_of(in_rounds(guest=guest))
    assert in_rounds_that_pay(plan_of(study(guest=guest))).study.design.order == "randomized"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"benchmark": [{"name": "script", "guests": [1, 2]}]}, "none has others at its side"),
        ({"benchmark": [{"name": "start", "parameters": {"repetitions": 2}}]}, "starts a guest"),
        ({"tuning": ["default", "pinned"]}, "one tuning at a time"),
        ({"trials": None}, "'rounds' are several"),
        (
            {"boot": [{"name": "a", "entry": "a", "platforms": ["native", "other"]}]},
            "never run in one boot",
        ),
    ],
)
def test_what_cannot_have_rounds_is_refused(driver, changes, what):
    with pytest.raises(BadInput, match=what):
        plan_of(in_rounds(**changes))


def test_a_start_in_rounds_costs_its_share_of_the_time_between_blocks(
    driver, store, home, monkeypatch
):
    start = ScriptedDriver.start

    def slow(made: ScriptedDriver, options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        time.sleep(0.3)
        return start(made, options, spec)

    monkeypatch.setattr(ScriptedDriver, "start", slow)
    benchmark = [{"name": "script"}]
    run = executed(plan_of(in_rounds(blocks=3, benchmark=benchmark)), store, home)
    cell_costs = costs(load(store.engine, run), own_time=True)
    for cost in cell_costs.values():
        assert cost.block_s > 0.3
        assert cost.trial_s < 0.3
