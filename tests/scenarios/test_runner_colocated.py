"""Several guests at once and neighbours, with guests that are plain processes: what is stored, and who fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import ProcessGuest, ScriptedOptions, executed, plan_of, study
from sqlalchemy import select

from vtax.errors import BadInput, PlatformError
from vtax.host.guest_memory import GuestMemory
from vtax.messages import Note
from vtax.platforms.base import GuestSpec
from vtax.report.analysis.source import source_of
from vtax.report.answers.pivot.compute import Axes, pivot
from vtax.runner import density, neighbour
from vtax.runner.plan import cpus_of, split_cpus
from vtax.store import schema
from vtax.store.query import RunData, load, outputs

COUNT = (
    "d={}; mkdir -p $d; i=1; while ! mkdir $d/$i 2>/dev/null; do i=$((i+1)); done; "
    "while [ ! -d $d/{} ]; do sleep .01; done; echo $i"
)
"""Takes the next number, waits until so many have one (so all must run at once), and prints its own."""


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch_in) -> None:
    scratch_in(tmp_path)
    monkeypatch.setattr(neighbour, "_SETTLED_S", 0.05)


def counting(tmp_path: Path, guests: int) -> dict[str, Any]:
    code = COUNT.format(tmp_path / "numbers", guests)
    return study(
        platforms=["native"],
        design={"blocks": 1, "timeout": 20},
        benchmark=[{"name": "script", "parameters": {"code": code}, "guests": [guests]}],
    )


def values(data: RunData) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for metric, value in zip(data.measurements.metric, data.measurements.value, strict=True):
        found.setdefault(data.run.metrics[metric].name, []).append(float(value))
    return found


def test_the_benchmark_runs_in_all_guests_at_once(driver, store, home, tmp_path, monkeypatch):
    account = GuestMemory(pss_bytes=3 << 20, cgroup_bytes=None)
    monkeypatch.setattr(ProcessGuest, "host_memory", lambda _: account, raising=False)
    run = executed(plan_of(counting(tmp_path, 3)), store, home)
    data = load(store.engine, run)
    assert [failure.error for failure in data.failures] == []
    assert values(data) == {
        "figure": [2.0],  # the mean of 1, 2 and 3
        "figure_sum": [6.0],
        "figure_fairness": [pytest.approx(36 / (3 * 14))],
        "figure_lowest_share": [pytest.approx(1 / 3)],
        "memory_pss": [3.0],  # MiB; what the host does not know is left out
    }
    assert [row.role for row in outputs(store.engine, run)] == ["single", "single.1", "single.2"]
    assert sorted(float(row.stdout) for row in outputs(store.engine, run)) == [1.0, 2.0, 3.0]
    assert len(driver.started) == 3
    assert all(guest.process.poll() is not None for guest in driver.started)


def test_guests_take_the_next_host_cpus_and_then_the_first_again(
    driver, store, home, tmp_path, set_cpus
):
    set_cpus({0, 1, 2, 3})
    assert [cpus_of(number, 2) for number in range(3)] == [(2, 3), (0, 1), (2, 3)]
    assert [cpus_of(number, 3) for number in range(3)] == [(1, 2, 3), (0, 2, 3), (0, 1, 3)]
    assert cpus_of(0, 3) == split_cpus(3)[0]
    executed(plan_of(counting(tmp_path, 5)), store, home)
    assert [resources.cpus for resources in driver.given] == [(3,), (2,), (1,), (0,), (3,)]


def test_more_vcpus_than_host_cpus_are_a_warning(driver, store, home, tmp_path, set_cpus):
    set_cpus({0, 1})
    data = load(store.engine, executed(plan_of(counting(tmp_path, 3)), store, home))
    texts = [warning.note for warning in data.warnings if warning.code == "overcommit"]
    assert texts == [Note("overcommit", guests=3, count=1, total=2)]
    assert density.overcommit(2, 1, 2) == ()


def test_a_guest_that_dies_fails_the_trial_by_its_number_and_the_rest_are_replaced(
    driver, store, home, tmp_path
):
    ends = f"mkdir {tmp_path}/dead 2>/dev/null && kill -9 $PPID; sleep .2; echo 1"
    declared = study(
        platforms=["native"],
        design={"blocks": 1, "trials": 2},
        benchmark=[{"name": "script", "parameters": {"code": ends}, "guests": [3]}],
    )
    run = executed(plan_of(declared), store, home)
    data = load(store.engine, run)
    (failure,) = data.failures
    assert failure.error.startswith("guest ")
    assert " of 3: " in failure.error
    assert data.trials.is_ok.tolist() == [False, True]
    assert len(driver.started) == 6
    assert list(home.guests.iterdir()) == []


def test_a_tool_that_fails_in_one_guest_names_it(driver, store, home, tmp_path):
    fails = f"mkdir {tmp_path}/one 2>/dev/null && exit 3; echo 1"
    declared = study(
        platforms=["native"],
        design={"blocks": 1},
        benchmark=[{"name": "script", "parameters": {"code": fails}, "guests": [2]}],
    )
    data = load(store.engine, executed(plan_of(declared), store, home))
    assert data.failures[0].error[:12] in ("guest 1 of 2", "guest 2 of 2")


def test_a_further_guest_that_does_not_start_is_named(driver, store, home, tmp_path):
    start = driver.start

    def second_fails(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if len(driver.started) == 1:
            raise PlatformError("no memory for a guest")
        return start(options, spec)

    driver.start = second_fails
    with pytest.raises(PlatformError):  # no guest starts any more
        executed(plan_of(counting(tmp_path, 2) | {"design": {"blocks": 5}}), store, home)
    assert driver.started[0].process.poll() is not None


def test_points_beyond_the_memory_of_the_host_are_not_tested_here(driver, store, home, host_memory):
    host_memory(3 << 30)
    declared = study(guest={"memory": "1GiB"}, benchmark=[{"name": "script", "guests": [1, 2, 4]}])
    plan = plan_of(declared)
    assert {cell.point.levels["guests"] for cell in plan.cells} == {1, 2}
    assert [each.platform.name for each in plan.untested] == ["native", "other"]
    refused = plan.untested[0].error.what
    assert refused.code == "guests-memory"
    assert (refused.data["guests"], refused.data["size"], refused.data["total"]) == (
        4,
        "1 GiB",
        "4 GiB",
    )
    assert "3 GiB" in refused.data["available"]
    run = executed(plan, store, home)
    assert load(store.engine, run).failures == ()
    with pytest.raises(BadInput):
        plan_of(study(guest={"memory": "1GiB"}, benchmark=[{"name": "script", "guests": [4]}]))


def loads(levels: list[str], code: str = "sleep .3; echo 1") -> dict[str, Any]:
    return study(
        platforms=["native"],
        design={"blocks": 1},
        benchmark=[{"name": "script", "parameters": {"code": code}, "neighbour": levels}],
    )


def test_a_neighbour_loads_while_the_benchmark_runs(driver, store, home):
    run = executed(plan_of(loads(["none", "cpu", "memory", "disk"])), store, home)
    data = load(store.engine, run)
    assert [failure.error for failure in data.failures] == []
    assert len(driver.started) == 2  # one guest and its neighbour serve all levels
    with store.engine.connect() as connection:
        rows = [
            row.effective["neighbour"]
            for row in connection.execute(select(schema.trial.c.effective))
        ]
    by_load = {row["load"]: row for row in rows}
    assert set(by_load) == {"none", "cpu", "memory", "disk"}
    assert "rate" not in by_load["none"]
    assert by_load["cpu"]["unit"] == "loops/s"
    assert all(by_load[load]["rate"] > 0 for load in ("cpu", "memory", "disk"))


def test_a_neighbour_that_stops_loading_fails_the_trial(
    driver, store, home, monkeypatch, scratch_in
):
    scratch_in("/nowhere/at/all")
    monkeypatch.setattr("vtax.guest.guest.Guest.put", lambda *_, **__: None)
    data = load(store.engine, executed(plan_of(loads(["none", "disk"])), store, home))
    assert [failure.error[:14] for failure in data.failures] == ["the neighbour:"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "script", "guests": [0]}, "guests"),
        ({"name": "script", "guests": [2, 2]}, "names a level twice"),
        ({"name": "script", "neighbour": ["cpu"]}, "needs the level 'none'"),
        ({"name": "script", "neighbour": ["none", "gpu"]}, "neighbour"),
        (
            {"name": "wired", "topology": "guest-to-guest", "guests": [2]},
            "a number of guests of its own",
        ),
        ({"name": "start", "neighbour": ["none"]}, "starts guests of its own"),
    ],
)
def test_what_has_no_meaning_is_refused(driver, table, words):
    with pytest.raises(BadInput, match=words):
        plan_of(study(benchmark=[table]))


def test_guests_of_other_points_are_not_disturbed(driver):
    plan = plan_of(
        study(
            benchmark=[
                {"name": "script", "label": "a"},
                {"name": "script", "label": "b", "guests": [1, 2]},
            ]
        )
    )
    kinds = {
        tuple(sorted({cell.point.colocation.guests for cell in s.cells})) for s in plan.guests(0)
    }
    assert kinds == {(1,), (2,)}
    keys = {point.label: point.key for point in plan.points}
    assert keys["a"] not in (keys["b"],)


def test_a_pivot_shows_what_density_and_neighbours_cost(driver, store, home):
    declared = study(
        design={"blocks": 2},
        benchmark=[
            {"name": "script", "label": "a", "parameters": {"code": "echo 6"}, "guests": [1, 2]},
            {
                "name": "script",
                "label": "b",
                "parameters": {"code": "echo 3"},
                "neighbour": ["none", "cpu"],
            },
        ],
    )
    executed(plan_of(declared), store, home)
    source = source_of(store)

    def shown(factor: str, **given: Any) -> dict[tuple[str, str], tuple[float, int]]:
        found = pivot(source, Axes(columns=factor), "mean", **given)
        return {
            (row, column): (cell.value.value, cell.blocks)
            for (_, row, column), cell in found.cells.items()
        }

    sums = shown("guests", metric="figure_sum")
    assert [sums["other", n][0] for n in ("1", "2")] == [6.0, 12.0]
    assert shown("guests", metric="figure_fairness")["other", "2"] == (1.0, 2)
    dense = shown("guests", to="guests=1")
    assert dense["other", "2"] == (pytest.approx(1), 2)
    assert dense["native", "1"] == (1.0, 2)
    beside = shown("neighbour", to="neighbour=none")
    assert list(beside) == [
        (name, load) for load in ("none", "cpu") for name in ("native", "other")
    ]
    assert beside["other", "cpu"] == (pytest.approx(1), 2)
