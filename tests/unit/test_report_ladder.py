"""Ladders: every rung is judged against the rung below, and what is undecided is bounded together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from a_run import a_run, platform
from shown import page, terminal, view

from vtax.report.analysis import Analysis
from vtax.report.answers.ladder.compute import Ladder, ladders, largest
from vtax.report.answers.ladder.orders import both_orders
from vtax.report.answers.ladder.view import _divided
from vtax.report.renderers.json import as_json
from vtax.stats.ratio import ratio_of_logs

RUNGS: Sequence[Mapping[str, str]] = (
    {"platform": "native", "adds": "nothing", "remedy": ""},
    {"platform": "spaces", "adds": "namespaces", "remedy": ""},
    {"platform": "filtered", "adds": "filter", "remedy": "leave the filter out"},
    {"platform": "layered", "adds": "layer", "remedy": "use a volume"},
    {"platform": "podman", "adds": "podman itself", "remedy": "", "choice": "take podman"},
)
LAYER = {
    "mechanism": "layer",
    "whole": "podman",
    "alone": "layer-alone",
    "without": "without-layer",
    "taking": "",
}
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
    speeds = dict(zip(NAMES, [1.0, 0.995, 0.99, 0.8, 0.796], strict=False))
    speed = of_speed(measured(speeds))
    assert len(speed.decided) == 1
    shown = " ".join(terminal(measured(speeds), 200).split())
    assert speed.rest.at_least > 0
    assert "slower and at most" in shown


def test_where_no_rung_is_decided_the_total_says_it_of_all_of_them():
    shown = " ".join(terminal(measured(dict.fromkeys(NAMES, 1.0)), 200).split())
    assert "] in all; no rung is decided alone" in shown
    assert "all rungs together" not in shown


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
    assert "layer 89.83 % of the rung below [89.26, 90.40]" in shown
    assert "namespaces, filter and podman itself together at most" in shown
    assert "layer costs: use a volume" in shown
    assert "filter costs: leave the filter out" in shown


def test_of_what_gains_the_answer_says_how_it_is_had():
    shown = " ".join(terminal(measured({**SPEED, "podman": 1.0}), 200).split())
    assert "podman itself gains: take podman" in shown
    assert "podman itself costs" not in shown


def test_the_ladder_is_shown_in_place_of_the_table_of_its_platforms():
    shown = terminal(measured(), 200)
    assert "rung adds" in shown
    assert "±95 %" not in shown


def test_the_report_draws_a_waterfall_and_programs_read_each_step():
    analysis = measured()
    assert "what each rung adds" in page(analysis)
    speed, _ = as_json(view("ladder", analysis))["ladders"]
    assert speed["of"] == "podman"
    [layer] = [step for step in speed["steps"] if step["adds"] == ["layer"]]
    assert (layer["platform"], layer["below"]) == ("layered", "filtered")
    assert layer["verdict"]["kind"] == "slower"


def in_both_orders(speed: Mapping[str, float], **order: str) -> Analysis:
    """A run of the ends, and of what has the layer alone and all but the layer."""
    ends = {name: SPEED[name] for name in ("native", "podman")}
    return measured({**ends, **speed}, rung=[], both_orders=[{**LAYER, **order}])


@pytest.mark.parametrize(
    ("alone", "is_shown", "words"),
    [(0.9, False, "no difference is shown"), (0.96, True, "mechanisms act on each other")],
)
def test_what_is_added_first_is_compared_with_what_is_left_out_last(alone, is_shown, words):
    analysis = in_both_orders({"layer-alone": alone, "without-layer": 1.0})
    speed, _ = both_orders(analysis)
    assert speed.first.ratio.estimate == pytest.approx(alone, rel=0.02)
    assert speed.last.ratio.estimate == pytest.approx(0.9, rel=0.02)
    assert speed.first.verdict.kind == speed.last.verdict.kind == "slower"
    assert speed.interaction.estimate == pytest.approx(0.9 / alone, rel=0.02)
    assert (speed.interaction.high < 1) == is_shown
    shown = " ".join(terminal(analysis, 200).split())
    assert words in shown
    assert "left out of podman last" in shown
    [order, _] = as_json(view("ladder", analysis))["both_orders"]
    assert (order["of"], order["mechanism"]) == ("podman", "layer")
    assert order["last"]["below"] == "without-layer"


def test_an_order_that_does_not_exist_is_said():
    analysis = in_both_orders({"layer-alone": 0.9}, without="")
    speed, _ = both_orders(analysis)
    assert (speed.last, speed.interaction) == (None, None)
    shown = " ".join(terminal(analysis, 200).split())
    assert "added to native first 9" in shown
    assert "not left out of podman, which cannot be without it" in shown


def test_what_else_is_left_out_is_said_and_no_interaction_is_claimed():
    speeds = {"layer-alone": 0.96, "without-layer": 1.0}
    shown = " ".join(terminal(in_both_orders(speeds, taking="a filter"), 200).split())
    assert "left out of podman last, with a filter" in shown
    assert "which has more in it" in shown
    assert "act on each other" not in shown


def test_the_largest_rungs_are_decided_ones_with_one_mechanism():
    found = ladders(measured())
    assert largest(found) == {"layered": ["nginx"], "filtered": ["nginx"]}
    assert largest(ladders(measured(without=["filtered"]))) == {}
    assert largest(ladders(measured(dict.fromkeys(NAMES, 1.0)))) == {"filtered": ["nginx"]}


def test_of_a_time_the_orders_are_divided_as_they_are_told():
    ratio = ratio_of_logs(np.log([1.06, 1.05, 1.07]), 0.95)
    time = SimpleNamespace(metric=SimpleNamespace(role="speed"), better="lower")
    share = _divided(ratio, SimpleNamespace(section=time))
    assert share.estimate == pytest.approx(1.06, rel=0.001)
    assert share.low < 1.06 < share.high
