"""Whether a run has enough blocks is judged on the averages and in the families that its tables show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, begin, trial

from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import Probe
from vtax.report.analysis import analyse
from vtax.report.renderers.format import english
from vtax.runner.plan import Plan, make_plan
from vtax.runner.stopping import Stopping
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate


def exact(values):
    """Values as a run has them, of a tool without a smallest step."""
    return [(*value, 0.0) for value in values]


def plan_of(
    benchmarks: list[dict[str, Any]], platforms: Sequence[str] = ("native", "docker"), **design: Any
) -> Plan:
    declared = {
        "name": "s",
        "platforms": list(platforms),
        "design": {"seed": 7, **design},
        "benchmark": benchmarks,
    }
    loaded = LoadedStudy(validate(declared, "test"), "test")
    return make_plan(
        loaded,
        image=Image("key", Path("/nowhere")),
        probes={name: Probe(True) for name in platforms},
    )


def test_rates_over_fixed_work_are_averaged_harmonically():
    values = {
        "native": tuple((rate, 1 / (2 / 150 - 1 / rate)) for rate in (113.7, 149.0, 121.3)),
        "docker": ((150.0, 150.0),) * 3,
    }
    reached = {}
    for parameters in ({"events": 900}, {}):
        plan = plan_of(
            [{"name": "sysbench-cpu", "parameters": parameters}],
            stop="precision",
            precision=0.01,
            min_blocks=3,
        )
        already = [
            (cell.key, block, "events_per_s", value)
            for cell in plan.cells
            for block, trials in enumerate(values[cell.platform.name])
            for value in trials
        ]
        reached[bool(parameters)] = Stopping(plan, exact(already)).decide(3, elapsed_s=1).reached
    assert reached == {True: True, False: False}


def test_verdicts_are_judged_in_the_families_of_the_result():
    """A contrast that is decided alone, and not yet in a family of two: each of two tables holds one."""
    tables = [
        {"name": "sysbench-cpu"},
        {"name": "sysbench-cpu", "label": "again", "parameters": {"events": 9}},
    ]
    plan = plan_of(tables, stop="verdict")
    noise = (0.0, 7.2, -7.2, 4.8, -4.8)
    already = [
        (
            cell.key,
            block,
            "events_per_s",
            100.0 if cell.platform.name == "native" else 85.0 + noise[block],
        )
        for cell in plan.cells
        for block in range(5)
    ]
    both = Stopping(plan, exact(already)).decide(5, elapsed_s=1)
    alone = Stopping(plan_of(tables[:1], stop="verdict"), exact(already)).decide(5, elapsed_s=1)
    assert alone.reached
    assert both.reached


@pytest.mark.parametrize("stop", ["precision", "verdict"])
@pytest.mark.parametrize("wrong", [(0.0, 0.0), (-1.0, -1.0), (0.0, 200.0)])
def test_runner_and_report_agree_on_values_that_have_no_ratio(tmp_path, stop, wrong):
    """Blocks whose mean is not positive spoil the contrast for both, where half are; a zero in a positive mean for
    neither."""
    plan = plan_of([{"name": "sysbench-cpu"}], stop=stop, precision=0.05)
    values = {
        (cell.key, block, number): wrong[number]
        if cell.platform.name == "docker" and block in (2, 3, 4)
        else 100.0
        for cell in plan.cells
        for block in range(6)
        for number in range(2)
    }
    already = [(key, block, "events_per_s", value) for (key, block, _), value in values.items()]
    decision = Stopping(plan, exact(already)).decide(6, elapsed_s=1)
    platforms = tuple(
        PlatformRecord(name, {}, True, is_baseline=name == "native")
        for name in ("native", "docker")
    )
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        run = begin(
            store,
            platforms=platforms,
            cells=[
                CellRecord(c.key, "p", c.platform.name, "sysbench-cpu", "sysbench-cpu")
                for c in plan.cells
            ],
            metrics=[MetricRecord("sysbench-cpu", "events_per_s", "events", "1/s", "higher", True)],
            declared={
                **DECLARED,
                "design": {**DECLARED["design"], "stop": stop, "precision": 0.05},
            },
        )
        for position, ((key, block, number), value) in enumerate(values.items()):
            cell = next(cell for cell in run.cells if cell.key == key)
            given = {"values": {"events_per_s": value}}
            run.add_trial(trial(cell, block=block, number=number, position=position, **given))
        run.finish("finished", decision.reason, 2.0)
        analysis = analyse(store)
    (row,) = [r for r in analysis.sections[0].points[0].rows if not r.platform.is_baseline]
    if sum(wrong) > 0:
        assert decision.reached
        assert row.ratio is not None
        assert analysis.missed_targets == ()
        return
    assert (decision.stop, decision.reached) == (True, False)
    assert decision.reason == Note("contrast-refused")
    assert row.reason == Note("not-positive", what="values of the platform")
    assert row.target_missed
    wanted = "no interval, requested ±5\N{NO-BREAK SPACE}%" if stop == "precision" else "no verdict"
    assert tuple(map(english, analysis.missed_targets)) == (
        f"{wanted}: docker, sysbench-cpu events_per_s",
    )


@pytest.mark.parametrize("events", [900, None])
def test_a_platform_alone_with_a_value_that_has_no_logarithm_is_not_said_to_be_precise(events):
    """A zero among rates over fixed work is one that never ended."""
    parameters = {"events": events} if events else {}
    plan = plan_of(
        [{"name": "sysbench-cpu", "parameters": parameters}], stop="precision", platforms=["native"]
    )
    (cell,) = plan.cells
    already = [
        (cell.key, block, "events_per_s", 0.0 if block == 1 else 100.0) for block in range(6)
    ]
    found = Stopping(plan, exact(already)).decide(6, elapsed_s=1)
    assert (found.stop, found.reached) == (True, False)


def test_a_primary_metric_that_a_tool_does_not_give_with_its_parameters_is_not_waited_for():
    """netperf gives a throughput or transactions, as its test is."""
    plan = plan_of([{"name": "netperf", "parameters": {"test": "tcp_rr"}}], stop="precision")
    already = [
        (cell.key, block, "transactions", 100.0) for cell in plan.cells for block in range(5)
    ]
    found = Stopping(plan, exact(already)).decide(5, elapsed_s=1)
    assert (found.reached, found.reason) == (
        True,
        Note("all-have", what="an interval within ±2\N{NO-BREAK SPACE}%", blocks=5, count=1),
    )
    assert not Stopping(plan, []).decide(5, elapsed_s=1).reached


@pytest.mark.parametrize("wrong", ["native", "docker"])
def test_a_verdict_that_a_wrong_clock_withholds_ends_the_run_without_reaching_its_target(wrong):
    tables = [
        {"name": "sysbench-cpu"},
        {"name": "sysbench-cpu", "label": "slow", "parameters": {"events": 9}},
    ]
    plan = plan_of(tables, stop="verdict")
    noise = (0.0, 0.02, 0.01, 0.03, 0.0, 0.01, 0.02, 0.0, 0.03, 0.01, 0.0, 0.02)
    docker = {"sysbench-cpu": 100.0, "slow": 50.0}
    already = [
        (
            cell.key,
            block,
            "events_per_s",
            docker[cell.point.label] + shift if cell.platform.name == "docker" else 100.0,
        )
        for cell in plan.cells
        for block, shift in enumerate(noise)
    ]
    cells = [cell.key for cell in plan.cells if cell.platform.name == wrong]
    assert Stopping(plan, exact(already)).decide(12, elapsed_s=1).reached
    found = Stopping(plan, exact(already), wrong_clocks=cells).decide(12, elapsed_s=1)
    assert (found.stop, found.reached) == (True, False)
    assert found.reason == (Note("contrasts-withheld", count=1, total=2))
    counted = Stopping(plan, exact(already))
    for cell in plan.cells:
        if cell.key in cells:
            counted.distrust_clock(cell)
    assert counted.decide(12, elapsed_s=1) == found


@pytest.mark.parametrize(("step", "is_reached"), [(1.0, True), (3.0, False)])
def test_figures_in_coarse_steps_do_not_end_a_run_with_its_target_reached(step, is_reached):
    plan = plan_of([{"name": "sysbench-cpu"}], stop="verdict")
    equal = [
        (cell.key, block, "events_per_s", 100.0, step) for cell in plan.cells for block in range(8)
    ]
    assert Stopping(plan, equal).decide(8, elapsed_s=1).reached is is_reached


def test_times_on_a_timer_of_the_client_do_not_end_a_run_with_its_target_reached():
    plan = plan_of([{"name": "sysbench-cpu"}], stop="verdict")
    ticks = (4, 5, 4, 6, 4, 5, 6, 4)
    on_timer = [
        (cell.key, block, "events_per_s", 1000 / number, 0.0)
        for cell in plan.cells
        for block, number in enumerate(ticks)
    ]
    assert not Stopping(plan, on_timer).decide(8, elapsed_s=1).reached


def test_a_benchmark_is_settled_by_its_own_margin():
    plan = plan_of(
        [{"name": "sysbench-cpu"}, {"name": "stream", "margin": 0.2}],
        stop="verdict",
        min_blocks=5,
        max_blocks=8,
        margin=0.001,
    )
    already = []
    for cell in plan.cells:
        metric = "events_per_s" if cell.point.label == "sysbench-cpu" else "triad"
        for block, noise in enumerate((0.01, -0.01, 0.02, 0.0, -0.02)):
            value = 100 + (1 if cell.platform.name == "docker" else -1) * noise * 100
            already.append((cell.key, block, metric, value))
    decision = Stopping(plan, exact(already)).decide(5, 1.0)
    assert {name.split()[1] for name in decision.open} == {"sysbench-cpu"}
