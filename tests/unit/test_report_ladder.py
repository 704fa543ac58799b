"""Ladders: every rung is judged against the rung below, and what is undecided is bounded together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from a_run import a_run, platform
from shown import page, terminal, view

from vtax.report.analysis import Analysis
from vtax.report.answers.ladder.compute import Ladder, ladders
from vtax.report.renderers.json import as_json

RUNGS: Sequence[Mapping[str, str]] = (
    {"platform": "native", "adds": "nothing", "remedy": ""},
    {"platform": "spaces", "adds": "namespaces", "remedy": ""},
    {"platform": "filtered", "adds": "filter", "remedy": "leave the filter out"},
    {"platform": "layered", "adds": "layer", "remedy": "use a volume", "alone": "layer-alone"},
    {"platform": "podman", "adds": "podman itself", "remedy": ""},
)
NAMES = [rung["platform"] for rung in RUNGS]
SPEED = {"native": 1.0, "spaces": 1.0, "filtered": 1.0, "layered": 0.9, "podman": 0.9}
CPU = {"native": 1.0, "spaces": 1.0, "filtered": 1.05, "layered": 1.05, "podman": 1.05}


def measured(
    speed: Mapping[str, float] = SPEED, *, without: Sequence[str] = (), **tables: Any
) -> Analysis:
    """A run of nginx on the rungs, with noise of 1 % a block."""
    random = np.random.default_rng(7)

    def values(cell: Any, block: int, number: int) -> dict[str, float]:
        noise = random.normal(0, 0.01, 2)
        return {
            "requests": 1000 * speed[cell.platform] * math.exp(noise[0]),
            "host_cpu_per_request": 1e-5 * CPU.get(cell.platform, 1) * math.exp(noise[1]),
        }

    names = [name for name in speed if name not in without]
    run = a_run().platforms(*map(platform, names))
    run = run.benchmark("nginx").metric("requests", "requests/s")
    run = run.metric("host_cpu_per_request", "s/request", "lower")
    return run.declared(**{"rung": list(RUNGS), **tables}).blocks(20).values(values).analysis()


def of_speed(analysis: Analysis) -> Ladder:
    found = ladders(analysis)
    assert [ladder.metric.name for ladder in found] == ["requests", "host_cpu_per_request"]
    return found[0]


def test_a_planted_cost_is_found_at_its_rung_and_at_no_other():
    speed, cpu = ladders(measured())
    assert [(step.adds, step.verdict.kind) for step in speed.decided] == [(("layer",), "slower")]
    assert [(step.adds, step.verdict.kind) for step in cpu.decided] == [(("filter",), "costs-more")]
    assert speed.decided[0].ratio.estimate == pytest.approx(0.9, rel=0.02)
    assert [step.below.platform.name for step in speed.steps] == NAMES[:-1]
    assert speed.family == len(NAMES) - 1
    assert speed.total.estimate == pytest.approx(0.9, rel=0.02)


def test_steps_multiply_to_the_ratio_of_the_top_to_the_ground():
    speed = of_speed(measured())
    total = sum(step.ratio.mean_log for step in speed.steps)
    assert total == pytest.approx(speed.total.mean_log, abs=1e-12)


def test_undecided_steps_are_bounded_together():
    speed = of_speed(measured())
    assert [step.adds for step in speed.undecided] == [
        ("namespaces",),
        ("filter",),
        ("podman itself",),
    ]
    assert 0 < speed.rest.at_most < 0.03
    alone = of_speed(measured(dict.fromkeys(NAMES, 1.0)))
    assert alone.decided == ()
    assert alone.rest.at_most > 0


def test_undecided_steps_that_cost_something_together_have_both_bounds():
    speeds = dict(zip(NAMES, [1.0, 0.995, 0.99, 0.985, 0.98], strict=False))
    speed = of_speed(measured(speeds))
    shown = " ".join(terminal(measured(speeds), 200).split())
    assert speed.rest.at_least > 0
    assert "slower and at most" in shown


def test_where_no_rung_is_decided_the_answer_bounds_all_of_them():
    shown = " ".join(terminal(measured(dict.fromkeys(NAMES, 1.0)), 200).split())
    assert "no rung is decided alone; all rungs together at most" in shown


def test_a_rung_that_was_not_measured_adds_to_the_next_one():
    speed = of_speed(measured(without=["filtered"]))
    assert [step.adds for step in speed.steps] == [
        ("namespaces",),
        ("filter", "layer"),
        ("podman itself",),
    ]
    assert speed.steps[1].below.platform.name == "spaces"
    assert speed.steps[1].remedies == ("leave the filter out", "use a volume")


def test_a_run_without_rungs_has_no_ladder():
    analysis = measured(rung=[])
    assert ladders(analysis) == ()
    assert "of the rung below" not in terminal(analysis)


def test_the_answer_names_the_layer_its_share_the_rest_and_the_remedy():
    shown = " ".join(terminal(measured(), 200).split())
    assert "podman · nginx · requests" in shown
    assert "layer 89.83 % [89.26, 90.40] of the rung below" in shown
    assert "namespaces, filter and podman itself together at most" in shown
    assert "layer: use a volume" in shown
    assert "filter: leave the filter out" in shown


def test_the_report_draws_a_waterfall_and_programs_read_each_step():
    analysis = measured()
    assert "what each rung adds" in page(analysis)
    speed, _ = as_json(view("ladder", analysis))["ladders"]
    assert speed["of"] == "podman"
    [layer] = [step for step in speed["steps"] if step["adds"] == ["layer"]]
    assert (layer["platform"], layer["below"]) == ("layered", "filtered")
    assert layer["verdict"]["kind"] == "slower"


@pytest.mark.parametrize(
    ("alone", "is_said", "words"),
    [(0.9, False, "so no difference is shown"), (0.96, True, "so mechanisms act on each other")],
)
def test_what_a_step_costs_alone_is_compared_with_its_place(alone, is_said, words):
    analysis = measured({**SPEED, "layer-alone": alone})
    [step] = [step for step in of_speed(analysis).steps if step.alone is not None]
    assert step.adds == ("layer",)
    assert step.interaction.estimate == pytest.approx(0.9 / alone, rel=0.02)
    assert (step.interaction.high < 1) == is_said
    shown = " ".join(terminal(analysis, 200).split())
    assert words in shown
    assert "--alone layered" not in shown


def test_the_answer_says_how_to_measure_the_largest_steps_alone():
    shown = " ".join(terminal(measured(), 200).split())
    assert "the same command with --alone layered --alone filtered" in shown
