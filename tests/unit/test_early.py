"""What lies beyond doubt is decided after three blocks, and not measured again: runner, result and gate agree."""

import math
from pathlib import Path

import numpy as np
import pytest
from a_run import a_run
from shown import drawn

from vtax.benchmarks.base import Outcome
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.report import document as doc
from vtax.report.analysis import every_row
from vtax.report.analysis.next_step import next_step_of
from vtax.report.answers.gate.compute import check
from vtax.report.answers.recommend.compute import recommend
from vtax.report.answers.recommend.view import document_of as recommended
from vtax.report.answers.result.show_notes import notes_under
from vtax.report.parts.first_screen import left_early_line
from vtax.report.renderers.format import english
from vtax.runner.plan import make_plan
from vtax.runner.stopping import Stopping
from vtax.stats.early import FACTOR, LATER_FACTOR, decided_early
from vtax.stats.judge import Contrast, analyse
from vtax.stats.rules import RULES, Decision
from vtax.stats.stopping import within_reach
from vtax.stats.terms import Conditions
from vtax.study.load import LoadedStudy, validate

NOISE = (0.0, 0.04, -0.04, 0.02, -0.02, 0.03, -0.03, 0.01, -0.01, 0.02)
LEAVING = {"open", "verdict", "budget"}
SLOW = 1 / 15
PLATFORMS = ("native", "docker", "slow")
SPEED = {"native": 1.0, "docker": 1.0, "slow": SLOW}


def speed(platform: str, block: int) -> float:
    noise = {"native": 0.0, "docker": NOISE[block], "slow": NOISE[-1 - block]}[platform]
    return 100 * SPEED[platform] * math.exp(noise)


def stopping(stop: str, blocks: int, budget: str = "10h") -> Stopping:
    counted = {"blocks": 30} if RULES[stop].is_counted else {}
    declared = {
        "name": "s",
        "platforms": list(PLATFORMS),
        "design": {"stop": stop, "seed": 7, "budget": budget, **counted},
        "platform": [{"name": "slow", "driver": "podman"}],
        "benchmark": [{"name": "sysbench-cpu"}],
    }
    plan = make_plan(
        LoadedStudy(validate(declared, "test"), "test"),
        image=Image("key", Path("/nowhere")),
        probes={name: Probe(True) for name in PLATFORMS},
    )
    already = []
    for cell in plan.cells:
        for block in range(blocks):
            value = speed(cell.platform.name, block)
            already.append((cell.key, block, "events_per_s", value, 0.0))
    return Stopping(plan, already)


@pytest.mark.parametrize("stop", RULES)
@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_a_platform_beyond_doubt_leaves_after_three_blocks(stop, blocks):
    found = stopping(stop, blocks)
    decision = found.decide(blocks, elapsed_s=1.0)
    held = {cell.platform.name for cell in found._plan.cells if cell.key in found.pending(decision)}
    leaves = stop in LEAVING and blocks >= 3
    assert held == {"native", "docker", *(() if leaves else ("slow",))}
    assert not decision.stop


@pytest.mark.parametrize("stop", RULES)
def test_its_verdict_stands_on_three_blocks_in_the_result_and_at_the_gate(stop):
    """The others have eight."""
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()

    def trial(cell, block, number):
        if cell.platform == "slow" and block >= 3:
            return None
        return {"values": {"speed": speed(cell.platform, block)}}

    analysis = run.design(stop=stop, blocks=8, budget=60.0, margin=0.02).trials(trial).analysis()
    (rows,) = [point.rows for point in analysis.sections[0].points]
    (row,) = [row for row in rows if row.platform.name == "slow"]
    codes = {note.code for note in row.verdict.warnings}
    outcomes = {
        one.pair.treatment.platform.name: one.outcome
        for one in check(None, analysis, Conditions({"speed": 0.05})).comparisons
    }
    if stop in LEAVING:
        assert (row.ratio.n_blocks, row.verdict.kind, codes) == (3, "slower", set())
        assert outcomes["slow"] == "slower"
    else:
        assert (row.verdict.kind, codes) == ("undecided", {"few-blocks"})
        assert outcomes["slow"] == "undecided"


@pytest.mark.parametrize("stop", RULES)
@pytest.mark.parametrize(("made", "factor"), [(3, "2"), (6, "1.5")])
def test_the_answer_says_what_left_and_when_where_all_else_is_in_every_block(stop, made, factor):
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()

    def trial(cell, block, number):
        if cell.platform == "slow" and block >= made:
            return None
        return {"values": {"speed": speed(cell.platform, block)}}

    run = run.design(stop=stop, blocks=8, budget=60.0, margin=0.02).trials(trial)
    said = [drawn(doc.Document("", (part,)), 200) for part in left_early_line(run.analysis())]
    line = f"Left early: slow after {made} of 8 blocks (1 comparison beyond a factor of {factor})"
    assert [text.strip() for text in said] == ([line] if stop == "budget" else [])


def test_a_ranking_says_who_left_and_from_how_many_blocks_its_intervals_are():
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()

    def trial(cell, block, number):
        if cell.platform == "slow" and block >= 3:
            return None
        return {"values": {"speed": speed(cell.platform, block)}}

    run = run.design(stop="budget", blocks=8, budget=60.0, margin=0.02).trials(trial)
    text = drawn(recommended(recommend(run.analysis())), 200)
    assert "intervals are from 8 blocks; those of slow from 3, having left early\n" in text


@pytest.mark.parametrize(("status", "lines"), [("interrupted", 0), ("finished", 1)])
def test_what_a_stopped_run_had_yet_to_measure_in_its_last_block_did_not_leave(
    store, status, lines
):
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()

    def trial(cell, block, number):
        if cell.platform != "native" and block == 7:
            return None
        return {"values": {"speed": speed(cell.platform, block)}}

    run = run.design(stop="budget", blocks=8, budget=60.0, margin=0.02).trials(trial)
    said = list(left_early_line(run.ending(status).analysed(store)))
    assert len(said) == lines


def test_further_blocks_are_not_said_to_decide_the_cost_of_what_left():
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()
    run = run.metric("host_cpu_per_event", "s", "lower")

    def trial(cell, block, number):
        if cell.platform == "slow" and block >= 3:
            return None
        cost = 1 + 0.3 * (-1) ** block * (cell.platform == "slow")
        value = speed(cell.platform, block) * (
            1 + 0.2 * (cell.platform == "docker") * (-1) ** block
        )
        return {"values": {"speed": value, "host_cpu_per_event": cost}}

    analysis = (
        run.design(stop="budget", blocks=8, budget=60.0, margin=0.02).trials(trial).analysis()
    )
    undecided = set()
    for section, _, row in every_row(analysis.answered):
        if row.verdict is not None and row.verdict.kind == "undecided":
            undecided.add((row.platform.name, section.metric.name))
    assert undecided == {("docker", "speed"), ("slow", "host_cpu_per_event")}
    step = next_step_of(analysis)
    assert step is not None
    assert {each.row.platform.name for each in (*step.decides, *step.left)} == {"docker"}


@pytest.mark.parametrize("stop", sorted(LEAVING))
def test_a_word_once_given_stands(stop):
    """Whatever later blocks show: those of a cell that another metric keeps in the run."""
    first = math.log(SLOW) + 0.01 * np.array([0.0, 1.0, -1.0])
    later = np.concatenate([first, 5.0 * np.array([1, -1, 1, -1, 1])])
    rule = RULES[stop](budget_s=60.0)
    for blocks in (3, 4, 8):
        answer = analyse(rule, {"a": Contrast(later[:blocks], "higher")})["a"]
        assert (answer.is_early, answer.verdict.kind) == (True, "slower")


def test_nothing_below_a_factor_of_two_is_decided_early():
    near = np.log(1 / FACTOR) + 1e-6 * np.array([1.0, 0.0, -1.0])
    assert decided_early(near + 0.01, 0.01) is None
    assert decided_early(near - 0.01, 0.01) == "below"
    assert decided_early(0.01 - near, 0.01) == "above"
    assert decided_early(near - 0.01, 0.01, step=0.05) is None


def test_a_noisy_one_is_asked_again_from_five_blocks_on_only_where_no_other_rule_looks():
    noisy = math.log(SLOW) + 0.4 * np.array([1.0, -1, 0.8, -0.9, 0.5, -0.6, 0.7, -0.7, 0.1, 0.0])
    assert decided_early(noisy, 0.004) is None
    assert decided_early(noisy[:4], 0.004, goes_on=True) is None
    assert decided_early(noisy, 0.004, goes_on=True) == "below"


def test_five_blocks_need_a_smaller_factor_and_only_where_no_other_rule_looks():
    near = np.log(1 / LATER_FACTOR) + 1e-6 * np.array([1.0, 0.0, -1.0, 0.5, -0.5])
    assert decided_early(near - 0.01, 0.01, goes_on=True) == "below"
    assert decided_early(near + 0.01, 0.01, goes_on=True) is None
    assert decided_early((near - 0.01)[:4], 0.01, goes_on=True) is None
    assert decided_early(near - 0.01, 0.01) is None


def noisy_and_quiet(stop: str, budget: str, blocks: int = 6) -> set[str]:
    """Return the platforms that the next block holds, of which one is far too noisy to be decided."""
    found = stopping(stop, 0, budget=budget)
    noise = {"native": 0.0, "docker": 0.02, "slow": 0.6}
    for cell in found._plan.cells:
        for block in range(blocks):
            shift = noise[cell.platform.name] * (1, -1, 0.9, -0.8, 0.7, -0.9)[block]
            found.add(cell, block, Outcome({"events_per_s": 100 * math.exp(shift)}))
    decision = found.decide(blocks, elapsed_s=60.0)
    held = found.pending(decision)
    return {cell.platform.name for cell in found._plan.cells if cell.key in held}


@pytest.mark.parametrize("stop", RULES)
def test_what_the_time_left_would_hardly_decide_leaves_it_to_others(stop):
    held = noisy_and_quiet(stop, "100s")
    assert ("slow" in held) == (stop not in {"open", "verdict"})
    assert {"native", "docker"} <= held


def test_where_nothing_is_within_reach_everything_stays():
    goal = Decision(False, False, "", ("a", "b"))
    assert within_reach(goal, {"a": 0.01, "b": 0.02}).open == ("a", "b")
    assert within_reach(goal, {"a": 0.01, "b": 0.06}).open == ("b",)
    assert within_reach(goal, {"b": 0.01}).open == ("a",)


def test_the_result_says_how_long_what_was_left_out_would_take():
    run = a_run().platforms(*PLATFORMS).benchmark("tool").metric("speed").blocks(8).with_guests()

    def trial(cell, block, number):
        if cell.platform == "slow" and block >= 5:
            return None
        shift = {"native": 0.0, "docker": 0.02, "slow": 0.6}[cell.platform]
        return {"values": {"speed": 100 * math.exp(shift * (1, -1, 0.9, -0.8, 0.7)[block % 5])}}

    run = run.design(stop="verdict", max_blocks=30, budget=60.0, margin=0.02).trials(trial)
    analysis = run.analysis()
    notes = [english(note) for note in notes_under(analysis.sections[0], analysis)]
    assert any("slow about" in note and "docker" not in note for note in notes)
