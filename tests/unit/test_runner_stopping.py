"""Whether a run has enough blocks is judged on the averages and in the families that its tables show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.runner.plan import Plan, make_plan
from vtax.runner.stopping import Stopping
from vtax.study.load import LoadedStudy, validate


def plan_of(benchmarks: list[dict[str, Any]], **design: Any) -> Plan:
    platforms = ["native", "docker"]
    declared = {"name": "s", "platforms": platforms, "design": {"seed": 7, **design}, "benchmark": benchmarks}
    loaded = LoadedStudy(validate(declared, "test"), "test")
    return make_plan(loaded, image=Image("key", Path("/nowhere")), probes={name: Probe(True) for name in platforms})


def test_rates_over_fixed_work_are_averaged_harmonically() -> None:
    values = {"native": ((100.0, 300.0), (150.0, 150.0), (120.0, 200.0)), "docker": ((150.0, 150.0),) * 3}
    reached = {}
    for parameters in ({"events": 900}, {}):
        plan = plan_of(
            [{"name": "sysbench-cpu", "parameters": parameters}], stop="precision", precision=0.01, min_blocks=3
        )
        already = [
            (cell.key, block, "events_per_s", value)
            for cell in plan.cells
            for block, trials in enumerate(values[cell.platform.name])
            for value in trials
        ]
        reached[bool(parameters)] = Stopping(plan, already).decide(3, elapsed_s=1).reached
    assert reached == {True: True, False: False}


def test_verdicts_are_judged_in_the_families_of_the_result() -> None:
    """A contrast that is decided alone, and not yet in a family of two: each of two tables holds one."""
    tables = [{"name": "sysbench-cpu"}, {"name": "sysbench-cpu", "label": "again", "parameters": {"events": 9}}]
    plan = plan_of(tables, stop="verdict")
    noise = (0.0, 7.2, -7.2, 4.8, -4.8)
    already = [
        (cell.key, block, "events_per_s", 100.0 if cell.platform.name == "native" else 85.0 + noise[block])
        for cell in plan.cells
        for block in range(5)
    ]
    both = Stopping(plan, already).decide(5, elapsed_s=1)
    alone = Stopping(plan_of(tables[:1], stop="verdict"), already).decide(5, elapsed_s=1)
    assert alone.reached
    assert both.reached


def test_a_primary_metric_that_a_tool_does_not_give_with_its_parameters_is_not_waited_for() -> None:
    """netperf gives a throughput or transactions, as its test is."""
    plan = plan_of([{"name": "netperf", "parameters": {"test": "tcp_rr"}}], stop="precision")
    already = [(cell.key, block, "transactions", 100.0) for cell in plan.cells for block in range(5)]
    found = Stopping(plan, already).decide(5, elapsed_s=1)
    assert (found.reached, found.reason) == (
        True,
        "the contrast has an interval within ±2\N{NO-BREAK SPACE}% after 5 blocks",
    )
    assert not Stopping(plan, []).decide(5, elapsed_s=1).reached
