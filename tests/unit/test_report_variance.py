"""Noise, ranks and drift of a run: an answer where there is one, else its reason. Figures are invented."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from a_run import SIZES, Value, begin, fill, measured, noisy, trial
from command_line import output_of
from hypothesis import given, settings
from hypothesis import strategies as st
from shown import drawn, english

from vtax.report.answers.variance.compute import Hardest, hardest, variance
from vtax.report.answers.variance.view import blocks_range, document_of
from vtax.report.document import WarnedPlace
from vtax.report.renderers.json import as_json
from vtax.stats.variance import Replication


def test_shares_of_noise_follow_where_it_was_made():
    for cell in variance(*measured(noisy(0.05, 0.001), blocks=12)):
        assert cell.between_blocks is not None
        assert cell.between_blocks > 0.95
        assert cell.within_trial is None


def test_noise_of_trials_is_reported_from_noise_of_blocks():
    shares = [cell.between_trials for cell in variance(*measured(noisy(0.0, 0.05), blocks=20))]
    assert np.mean([share for share in shares if share is not None]) > 0.85


def test_noise_within_trials_is_reported_where_every_trial_of_a_cell_has_samples():
    data, analysis = measured(noisy(0.0, 0.0), blocks=10)
    random = np.random.default_rng(5)
    first = {i for i, c in enumerate(data.run.cells) if c.platform == "first"}
    second = {i for i, c in enumerate(data.run.cells) if c.platform == "second"}
    kept = {
        int(trial): {"speed": (100.0 * np.exp(random.normal(0, 0.1, 10))).tolist()}
        for trial, cell, number in zip(
            data.trials.id, data.trials.cell, data.trials.number, strict=True
        )
        if cell in first or (cell in second and number)
    }
    found = variance(data, analysis, samples=kept)
    for point in {cell.point.key for cell in found}:
        shares = {
            cell.row.platform.name: cell.within_trial for cell in found if cell.point.key == point
        }
        assert shares["first"] is not None
        assert shares["first"] > 0.9
        assert shares["native"] is shares["second"] is None


def test_what_blocks_share_does_not_enter_the_plan():
    own = noisy(0.0, 0.002)
    data, analysis = measured(lambda p, s, b, n: own(p, s, b, n) * (1 + 0.3 * (b % 2)))
    for cell in variance(data, analysis):
        assert cell.between_blocks is not None
        assert cell.between_blocks > 0.95
        if not cell.row.platform.is_baseline:
            assert (cell.plan.trials, cell.plan.blocks) == (1, 5)


def test_the_plan_reaches_its_precision_and_counts_the_time_of_both_sides():
    data, analysis = measured(noisy(0.03, 0.03), blocks=10)
    cell = next(c for c in variance(data, analysis) if c.row.platform.name == "first")
    assert cell.plan.half_width <= 0.02 < (cell.half_width or 0.0)
    assert cell.plan.blocks > 10
    block_s = 1.0 / len(SIZES)  # a guest of 1 s serves both sizes
    assert cell.time_s == pytest.approx(2 * 10 * (block_s + 3 * 2.0))
    assert cell.plan.time_s == pytest.approx(
        2 * cell.plan.blocks * (block_s + cell.plan.trials * 2.0)
    )
    top = hardest(variance(data, analysis))
    assert top.plan.time_s >= cell.plan.time_s


def test_the_longest_plan_is_named_rather_than_that_of_most_blocks():
    data, analysis = measured(noisy(0.03, 0.0), blocks=10, trials=1)
    cells = variance(data, analysis)
    shared: Any = {"half_width": 0.02, "blocks_low": 5, "blocks_high": None, "warnings": ()}
    many, long = (
        Replication(trials=1, blocks=780, time_s=10.0, **shared),
        Replication(trials=100, blocks=8, time_s=20.0, **shared),
    )
    planned = (cells[0], replace(cells[1], plan=many), replace(cells[2], plan=long))
    assert hardest(planned) == Hardest(WarnedPlace("second", "tool speed", (("size", "64"),)), long)
    text = " ".join(drawn(document_of(planned, analysis)).split())
    assert "the longest of them 20 s (second, tool speed, size=64)." in text


def test_plans_fit_a_narrow_terminal_with_names_whole():
    data, analysis = measured(noisy(0.3, 0.0), blocks=3, trials=1)
    text = drawn(document_of(variance(data, analysis), analysis), 80)
    assert "…" not in text
    plans = text.partition("ratio to")[2].partition("Summary")[0].splitlines()
    assert sum(line.startswith(("  first ", "  second ")) for line in plans) == 4
    assert "interval" in " ".join(plans)


def test_too_few_blocks_to_plan_well_are_said_to_be_in_the_summary():
    data, analysis = measured(noisy(0.03, 0.0), blocks=2, trials=1)
    cells = variance(data, analysis)
    top = hardest(cells)
    assert top.unsure is not None
    where, plan = top.unsure
    assert plan.blocks_high is None or plan.blocks_high > 40 * plan.blocks_low
    text = " ".join(drawn(document_of(cells, analysis)).split())
    assert f"{english(where.inline)} may need {english(blocks_range(plan))}." in text
    settled = hardest(variance(*measured(noisy(0.03, 0.0), blocks=5, trials=1)))
    assert settled.unsure is None


def test_plans_are_made_at_the_level_their_rule_judges_at():
    rules: dict[str, dict[str, Any]] = {
        "fixed": {},
        "budget": {"budget": 300.0},
        "precision": {},
        "verdict": {},
    }
    planned = {}
    for stop, more in rules.items():
        data, analysis = measured(noisy(0.03, 0.0), blocks=8, trials=1, stop=stop, **more)
        (cell, *_) = [cell for cell in variance(data, analysis) if cell.plan]
        assert cell.half_width is not None
        assert cell.plan.half_width <= 0.02
        planned[stop] = cell.plan.blocks
    assert planned["fixed"] == planned["budget"] < planned["precision"] < planned["verdict"]


def test_an_effective_size_that_was_not_estimated_is_not_shown():
    for blocks, is_known in ((8, False), (24, True)):
        data, analysis = measured(noisy(0.03, 0.0), blocks=blocks, trials=1)
        cells = variance(data, analysis)
        assert {
            entry["effective_n"] is not None for entry in as_json(document_of(cells, analysis))
        } == {is_known}
        assert ("effective" in drawn(document_of(cells, analysis))) == is_known


def test_one_trial_a_block_is_planned_as_one_trial_though_its_samples_scatter():
    data, analysis = measured(noisy(0.1, 0.0), blocks=3, trials=1)
    random = np.random.default_rng(5)
    kept = {
        int(trial): {"speed": (100 * np.exp(random.normal(0, 0.5, 10))).tolist()}
        for trial in data.trials.id
    }
    plans = [cell.plan for cell in variance(data, analysis, samples=kept)]
    assert [plan for plan in plans if plan] == [
        plan for cell in variance(data, analysis) if (plan := cell.plan)
    ]
    for plan in filter(None, plans):
        assert plan.trials == 1
        assert plan.blocks_low < plan.blocks
        assert plan.blocks_high is not None
        assert plan.blocks_high > 20 * plan.blocks


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far", [1e300, 1e89])
def test_ratios_next_to_what_a_float_holds_have_an_answer_or_a_reason(far):
    own = noisy(0.01, 0.01)
    level = {"native": 1e-300, "first": 1e-250, "second": far}
    data, analysis = measured(
        lambda p, s, b, n: level[p] * own(p, s, b, n) ** (2 if s == 64 else 1) / 1e8
    )
    cells = variance(data, analysis)
    for cell in cells:
        assert cell.plan or cell.reason or cell.row.platform.is_baseline
    drawn(document_of(cells, analysis))


BAD: dict[str, Value] = {
    "all equal": lambda p, s, b, n: 5.0,
    "zeros": lambda p, s, b, n: 0.0,
    "negative": lambda p, s, b, n: -1.0 - b,
    "nothing": lambda p, s, b, n: math.nan,
    "no baseline": lambda p, s, b, n: math.nan if p == "native" else 1.0 + b,
    "no baseline at one level": lambda p, s, b, n: (
        math.nan if (p, s) == ("native", 64) else 1.0 + b + n
    ),
    "no block in common": lambda p, s, b, n: (
        math.nan if (p == "native") == (b % 2 == 0) else 1.0 + b + n
    ),
    "unbalanced": lambda p, s, b, n: (
        math.nan if p == "first" and (b > 2 or n) else 10.0 + b + n + len(p)
    ),
    "some zeros": lambda p, s, b, n: 0.0 if (b, n) == (0, 0) else 1.0 + b,
}


@pytest.mark.parametrize("blocks", [1, 2, 6])
@pytest.mark.parametrize("kind", BAD)
def test_bad_input_has_an_answer_or_a_reason(kind, blocks):
    data, analysis = measured(BAD[kind], blocks=blocks, trials=2)
    cells = variance(data, analysis)
    assert all(cell.plan or cell.reason or cell.row.platform.is_baseline for cell in cells)
    document = document_of(cells, analysis)
    assert json.loads(json.dumps(as_json(document), allow_nan=False)) is not None
    assert "nan" not in drawn(document).lower().replace("nano", "")


@settings(max_examples=15, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.just(math.nan), st.just(0.0), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)),
        min_size=36,
        max_size=36,
    )
)
def test_whatever_is_measured_the_view_does_not_fail(values):
    left = iter(values)
    data, analysis = measured(lambda p, s, b, n: next(left), blocks=3, trials=2)
    drawn(document_of(variance(data, analysis), analysis))


def test_the_command_shows_the_view_as_text_and_as_json(store, golden):
    fill(begin(store), trials=1, warmup=0)
    golden(output_of("show", "--variance"))
    assert "time of one event, 95th percentile" in output_of("show", "--variance", "--all")
    plain = json.loads(output_of("show", "--variance", "--json"))
    assert set(plain) == {"schema", "run", "confidence", "variance"}
    assert {entry["platform"] for entry in plain["variance"]} == {
        "native",
        "docker",
        "lxc",
        "qemu-tcg",
    }
    assert {entry["within_trial"] for entry in plain["variance"]} == {None}


def test_samples_that_are_stored_with_trials_reach_the_command(store):
    run = begin(store)
    for position, (block, cell) in enumerate((b, c) for b in range(3) for c in run.cells):
        used = (
            {"samples": {"throughput": [900.0, 1000.0, 1100.0]}}
            if cell.benchmark == "iperf3"
            else {"a": 1}
        )
        run.add_trial(trial(cell, block=block, position=position, effective=used))
    shown = json.loads(output_of("show", "--variance", "--json"))["variance"]
    found = {entry["benchmark"]: entry["within_trial"] for entry in shown}
    assert found == {"iperf3": pytest.approx(1.0), "sysbench-cpu": None}
