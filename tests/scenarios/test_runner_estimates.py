"""A plan's estimated time: from the costs of the newest stored run of the same cells on this host."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from scripted import ScriptBenchmark, executed, plan_of, study

from vtax.cli.plan import announce, as_json
from vtax.runner.estimates import with_costs
from vtax.runner.plan import Plan


def planned(**design: object) -> Plan:
    return plan_of(study(design={"blocks": 3, "seed": 3, **design}))


def announced(plan: Plan) -> str:
    lines: list[str] = []
    announce(plan, lines.append)
    return "\n".join(lines)


def test_a_stored_run_estimates_the_time_of_the_next(driver, store, home):
    plan = planned()
    by_default = plan.expected_block_s()
    assert with_costs(plan, store) is plan
    assert "in total; a rough estimate" in announced(plan)
    assert as_json(plan)["block_s_from"] is None
    first, second = executed(plan, store, home), executed(plan, store, home)
    estimated = with_costs(plan, store)
    assert f"in total; estimated from run {second.name}" in announced(estimated)
    assert as_json(estimated)["block_s_from"] == f"run {second.name}"
    duration_s = store.runs()[-1].duration_s
    assert duration_s is not None
    assert estimated.expected_block_s() * 3 == pytest.approx(duration_s, rel=0.5, abs=0.5)
    off, off_by_default = (
        abs(block_s * 3 - duration_s) for block_s in (estimated.expected_block_s(), by_default)
    )
    assert off < off_by_default / 2
    assert first.name != second.name


def test_a_budget_is_divided_by_the_stored_cost(driver, store, home):
    executed(planned(), store, home)
    plan = with_costs(plan_of(study(design={"stop": "budget", "budget": "60s", "seed": 3})), store)
    fitting = int(60 / plan.expected_block_s())
    assert f"fits about {fitting} whole blocks by that estimate" in announced(plan)


def with_emulated(stop: str, platforms: tuple[str, ...], budget_s: float) -> Plan:
    """A plan in which the platform `slow` is emulated."""
    declared = study(
        design={"stop": stop, "budget": f"{budget_s}s", "seed": 3},
        platforms=list(platforms),
        platform=[{"name": "slow", "driver": "scripted"}],
    )
    plan = plan_of(declared)
    marked = []
    for entry in plan.platforms:
        is_slow = entry.platform.name == "slow"
        probe = replace(entry.probe, marks=("emulated",) if is_slow else ())
        marked.append(replace(entry, probe=probe))
    return replace(plan, platforms=tuple(marked))


def test_a_budget_holds_more_blocks_where_an_emulated_platform_leaves_early(driver):
    plan = with_emulated("budget", ("native", "other", "slow"), 600)
    block_s, later_s = plan.expected_block_s(), plan.expected_block_s(without=("slow",))
    assert later_s < block_s / 2
    blocks = 5 + int((600 - 5 * block_s) / later_s)
    assert blocks > 600 / block_s
    assert plan.expected_s(blocks) <= 600 < plan.expected_s(blocks + 1)
    said = f"fits about {blocks} whole blocks by that estimate, about 5 of them with slow (emulated"
    assert said in announced(plan)
    assert plan.blocks_within(3.5 * block_s) == 3


@pytest.mark.parametrize(
    ("stop", "platforms"),
    [("precision", ("native", "other", "slow")), ("budget", ("native", "slow"))],
)
def test_nothing_is_expected_to_leave_where_it_stays_or_the_run_ends_with_it(
    driver, stop, platforms
):
    plan = with_emulated(stop, platforms, 600)
    assert plan.leaving_early == ()
    assert plan.blocks_within(600) == int(600 / plan.expected_block_s())
    assert "leaves early" not in announced(plan)


def test_a_budget_for_fewer_blocks_than_a_verdict_needs_says_which_would_do(driver):
    block_s = plan_of(study(design={"seed": 3})).expected_block_s()
    text = announced(
        plan_of(study(design={"stop": "budget", "budget": f"{int(2 * block_s) + 1}s", "seed": 3}))
    )
    needed = re.search(r"; a verdict needs 5 blocks: --budget (\d+)(s|min)$", text, re.MULTILINE)
    assert needed is not None
    needed_s = int(needed[1]) * {"s": 1, "min": 60}[needed[2]]
    assert 5 * block_s <= needed_s < 5 * block_s + 60
    assert "a verdict" not in announced(
        plan_of(study(design={"stop": "budget", "budget": f"{needed_s}s", "seed": 3}))
    )


def test_runs_of_another_host_estimate_nothing(driver, store, home, monkeypatch):
    plan = planned()
    executed(plan, store, home)
    monkeypatch.setattr("vtax.runner.estimates.machine_id", lambda: "another")
    assert with_costs(plan, store) is plan


def test_other_cells_are_estimated_from_the_same_benchmarks_as_vtax_new_does(
    driver, store, home, monkeypatch
):
    monkeypatch.setattr("vtax.runner.estimates.find_benchmark", {"script": ScriptBenchmark()}.get)
    plan = planned()
    run = executed(plan, store, home)
    other = replace(
        plan, cells=tuple(replace(cell, key=f"other {cell.key}") for cell in plan.cells)
    )
    estimated = with_costs(other, store)
    assert f"; estimated from the same benchmarks in run {run.name}" in announced(estimated)
    same = with_costs(plan, store)
    assert estimated.expected_block_s() == pytest.approx(same.expected_block_s(), rel=0.5)
