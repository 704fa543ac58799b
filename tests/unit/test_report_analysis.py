"""An analysis uses what was measured, says what was not, and carries every warning. Figures here are invented."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from a_run import DECLARED, FAILED, PLATFORMS, a_run, begin, cells, fill, trial
from shown import english, sentence, source_of, values

from vtax.messages import Note
from vtax.report.analysis import Analysis, Row, analyse
from vtax.report.answers.result import view as result
from vtax.report.answers.variance.compute import variance
from vtax.report.parts.sentences import PlatformAnswer
from vtax.report.parts.sentences import answers as answers_of
from vtax.report.views.base import Options
from vtax.store.query import load
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store


@pytest.fixture
def filled(tour_analysis):
    return tour_analysis


def answers(analysis: Analysis) -> list[PlatformAnswer]:
    """The answers with their texts in English."""
    return [replace(answer, text=english(answer.text)) for answer in answers_of(analysis)]


def missed_targets(analysis: Analysis) -> tuple[str, ...]:
    return tuple(map(english, analysis.missed_targets))


PAIR = (PlatformRecord("native", {}, True, is_baseline=True), PlatformRecord("other", {}, True))


def two_platforms(
    store: Store, better: str, native: list[float], other: list[float], **design: object
) -> Analysis:
    """A run of one cell on two platforms, with one value per block each."""
    sides = {"native": native, "other": other}
    run = a_run().platforms(*sides).benchmark("tool").metric("speed", better=better)
    run = run.design(**design).blocks(max(len(native), len(other)))

    def trial_of(cell: CellRecord, block: int, number: int) -> dict[str, Any] | None:
        side = sides[cell.platform]
        return {"values": {"speed": side[block]}} if block < len(side) else None

    return run.trials(trial_of).analysed(store)


def row(analysis: Analysis, platform: str, section: int = 0, point: int = 0) -> Row:
    return next(
        r for r in analysis.sections[section].points[point].rows if r.platform.name == platform
    )


def test_warmup_and_failed_trials_are_not_in_the_figures_and_failures_are_counted(filled):
    worst = next(
        r for s in filled.sections for p in s.points for r in p.rows if r.cell.key == "r-qemu-tcg"
    )
    assert worst.summary.n == 8 * 2 - 1
    assert worst.failed == 1
    assert "1 failed trial: qemu-tcg, iperf3, direction=receive" in missed_targets(filled)
    (warning,) = [w for w in filled.warnings if w.code == "failed-trial"]
    assert sentence(warning) == FAILED
    assert [english(place.inline) for place in warning.places] == [
        "qemu-tcg, iperf3, direction=receive, block 4"
    ]


def test_the_ratio_is_formed_within_blocks(store):
    drift = [103.0, 197.0, 51.0, 402.0, 119.0, 91.0]
    analysis = two_platforms(store, "higher", drift, [d * 0.9 for d in drift])
    found = row(analysis, "other").ratio
    assert found.estimate == pytest.approx(0.9)
    assert found.high - found.low < 1e-9


@pytest.mark.parametrize(("better", "kind"), [("higher", "slower"), ("lower", "faster")])
def test_which_way_is_better_decides_the_word(store, better, kind):
    noise = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0]
    analysis = two_platforms(
        store, better, [100.0 * n for n in noise], [80.0 * n for n in reversed(noise)]
    )
    verdict = row(analysis, "other").verdict
    assert verdict.kind == kind
    assert row(analysis, "native").verdict is None


def test_the_declared_margin_and_confidence_are_used(store):
    noise = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0]
    analysis = two_platforms(
        store, "higher", noise, [0.95 * n for n in reversed(noise)], margin=0.1, confidence=0.9
    )
    found = row(analysis, "other")
    assert (found.verdict.kind, found.verdict.margin) == ("equivalent", 0.1)
    assert (found.summary.confidence, found.ratio.confidence, english(analysis.level)) == (
        0.9,
        0.9,
        "90\N{NO-BREAK SPACE}%",
    )


def test_a_block_with_one_side_only_is_left_out_of_the_ratio_and_said(store):
    analysis = two_platforms(store, "higher", [1.0, 2.0, 3.0], [0.5, 1.0])
    found = row(analysis, "other")
    assert found.ratio.n_blocks == 2
    assert Note("missing", count=1, total=3, what="blocks") in found.warnings


def test_values_that_have_no_ratio_are_an_answer_too(store):
    analysis = two_platforms(store, "higher", [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    found = row(analysis, "other")
    assert found.ratio is None
    assert found.reason == Note("not-positive", what="values of the platform")
    assert answers(analysis)[0].text == "no result"


def test_a_missed_precision_is_a_missed_target(store):
    analysis = two_platforms(
        store,
        "higher",
        [1.0, 2.0, 1.5, 1.1, 3.0],
        [1.0, 1.0, 1.0, 1.0, 1.0],
        stop="precision",
        precision=0.01,
        min_blocks=2,
        max_blocks=5,
    )
    assert row(analysis, "other").target_missed
    assert any(
        "requested ±1\N{NO-BREAK SPACE}%: other, tool speed" in text
        for text in missed_targets(analysis)
    )


def test_a_missed_verdict_is_a_missed_target(store):
    noisy = [1.0, 2.0, 1.5, 1.1, 3.0]
    analysis = two_platforms(store, "higher", noisy, [1.0] * 5, stop="verdict", max_blocks=5)
    assert row(analysis, "other").target_missed
    (missed,) = missed_targets(analysis)
    assert missed == "no verdict: other, tool speed"


def test_a_reached_verdict_is_no_missed_target(store):
    analysis = two_platforms(
        store, "higher", [1.0, 1.001, 0.999, 1.0, 1.0], [0.5] * 5, stop="verdict"
    )
    assert not row(analysis, "other").target_missed
    assert missed_targets(analysis) == ()


def test_a_verdict_is_a_missed_target_only_of_metrics_the_rule_judges(store):
    fill(
        begin(
            store,
            declared={**DECLARED, "design": {"stop": "verdict", "margin": 1e-6}},
        )
    )
    analysis = analyse(store)
    undecided = {
        s.name
        for s in analysis.sections
        for p in s.points
        for r in p.rows
        if r.verdict and r.verdict.kind == "undecided"
    }
    missed = [
        s.name for s in analysis.sections for p in s.points for r in p.rows if r.target_missed
    ]
    assert "sysbench-cpu latency" in undecided
    assert set(missed) == undecided - {"sysbench-cpu latency"} != set()
    assert f"no verdict in {len(missed)} of " in " ".join(
        missed_targets(analysis)
    )  # named once, and not one by one
    assert "target missed" not in repr(result.VIEW.document(source_of(analysis), Options()).parts)


def one_platform(store: Store, values: list[float], **design: object) -> Analysis:
    run = a_run().platforms("native").benchmark("tool").metric("speed").design(**design)
    run = run.blocks(len(values)).ending("finished", "it ended")
    return run.values(lambda cell, block, _: values[block]).analysed(store)


def test_a_missed_precision_of_a_single_platform_is_a_missed_target(store):
    noisy = [1.0, 2.0, 1.5, 1.1, 3.0]
    missed = one_platform(store, noisy, stop="precision", precision=0.01, max_blocks=5)
    assert row(missed, "native").target_missed
    assert re.fullmatch(
        r"half-width ±\d+\s%, requested ±1\s%: native, tool speed", *missed_targets(missed)
    )


@pytest.mark.parametrize(
    ("made", "design", "missed"),
    [
        ([1.0, 1.001, 0.999, 1.0, 1.0], {"stop": "precision"}, ()),
        (
            [1.0] * 3,
            {"stop": "precision", "budget": 3.0},
            ("3 blocks, at least 5 requested: native, tool speed",),
        ),
        ([1.0, 1.0], {"stop": "fixed", "blocks": 3}, ("2 of 3 blocks are made: it ended",)),
        ([1.0, 2.0], {"stop": "budget", "budget": 3.0}, ()),
        ([], {"stop": "budget", "budget": 3.0}, ("it ended",)),
    ],
)
def test_what_a_rule_missed_on_a_single_platform_is_named_with_the_reason(
    store, made, design, missed
):
    assert missed_targets(one_platform(store, made, **design)) == missed


def test_an_interrupted_run_is_shown_as_such(store):
    run = begin(store)
    run.add_trial(trial(run.cells[0], values={"events": 5.0, "latency": 1.0}))
    run.finish("interrupted", "stopped on request", 5.0)
    analysis = analyse(store)
    (missed,) = missed_targets(analysis)
    assert missed == "the run was not finished: stopped on request"
    assert row(analysis, "docker").reason == Note("not-measured-yet")
    found = variance(load(store.engine, run), analysis)
    assert {cell.reason for cell in found if cell.row.platform.name == "docker"} == {
        Note("not-measured-yet")
    }


def test_a_cell_that_only_failed_is_not_called_unmeasured(store):
    run = begin(store)
    run.add_trial(trial(run.cells[0], values={"events": 5.0, "latency": 1.0}))
    docker = next(cell for cell in run.cells if cell.platform == "docker")
    run.add_trial(trial(docker, status="failed", values={}, error="it fell over", position=1))
    assert row(analyse(store), "docker").reason == Note("no-trial-went-well")


def test_a_cell_that_only_warmed_up_is_not_measured_yet(store):
    run = begin(store)
    docker = next(cell for cell in run.cells if cell.platform == "docker")
    run.add_trial(trial(docker, is_warmup=True, values={"events": 5.0, "latency": 1.0}))
    assert row(analyse(store), "docker").reason == Note("not-measured-yet")


def test_a_run_without_a_single_trial_can_be_analysed(store):
    begin(store)
    analysis = analyse(store)
    assert (analysis.blocks, analysis.trials) == (0, 0)
    json.dumps(values(analysis), allow_nan=False)


def test_trials_are_averaged_as_the_metric_says(store):
    run = a_run().platforms("native").benchmark("tool")
    run = run.metric("rate", "B/s", average="harmonic").blocks(1, trials=2)
    analysis = run.values(lambda cell, block, number: (100.0, 300.0)[number]).analysed(store)
    found = row(analysis, "native").summary
    assert found.mean == pytest.approx(150.0)


def test_a_rate_is_averaged_harmonically_where_a_parameter_fixes_the_work(store):
    run = a_run().platforms("native").blocks(1, trials=2)
    run = run.benchmark("tool", "work", levels={"events": [900]}, parameters={"events": 900})
    run = run.benchmark("tool", "time", parameters={"events": None})
    run = run.metric("rate", fixed_work="events")
    analysis = run.values(lambda cell, block, number: (100.0, 300.0)[number]).analysed(store)
    work, time = (section.points[0].rows[0].summary for section in analysis.sections)
    assert (work.mean, time.mean) == (pytest.approx(150.0), pytest.approx(200.0))


def test_a_family_is_one_metric_of_one_benchmark(filled):
    assert [(s.label, s.metric.name, s.family) for s in filled.sections] == [
        ("sysbench-cpu", "events", 3),
        ("sysbench-cpu", "latency", 3),
        ("iperf3", "throughput", 6),
    ]
    verdicts = [
        r.verdict for p in filled.sections[2].points for r in p.rows if r.verdict is not None
    ]
    assert {v.family for v in verdicts} == {6}


def test_a_run_on_an_emulated_processor_says_so(store):
    fill(begin(store, host={"virtualized": True, "hypervisor": "qemu", "cpu_emulated": True}))
    assert [w.code for w in analyse(store).warnings if w.code == "emulated-host"] == [
        "emulated-host"
    ]


def test_on_an_emulated_processor_native_and_containers_are_marked_too(store):
    fill(begin(store, host={"virtualized": True, "hypervisor": "qemu", "cpu_emulated": True}))
    marks = {platform.name: platform.marks for platform in analyse(store).platforms}
    assert (marks["native"], marks["docker"], marks["qemu-tcg"]) == (
        ("emulated host",),
        ("emulated host",),
        ("emulated",),
    )


def test_every_warning_of_every_row_is_among_those_of_the_run(filled):
    message = {text for warning in values(filled)["warnings"] for text in warning["texts"]}
    codes = {warning["code"] for warning in values(filled)["warnings"]}
    for section in filled.sections:
        for point in section.points:
            for each in point.rows:
                assert {w.code for w in each.warnings if isinstance(w, Note)} <= codes
                assert {w for w in each.warnings if not isinstance(w, Note)} <= message
    assert {Note("no-memory-controller")} <= message


def test_the_answer_names_each_platform_once_and_the_untested_with_the_reason(filled):
    found = {answer.platform: answer.text for answer in answers(filled)}
    assert list(found) == ["docker", "lxc", "qemu-tcg", "kvm-virtio"]
    assert found["docker"].startswith("equivalent within ±2\N{NO-BREAK SPACE}%")
    assert found["qemu-tcg"] == "7.4 to 20 times slower, most on iperf3 direction=send"
    assert f"not tested: {Note('needs-root')}" in found["kvm-virtio"]


def test_of_many_comparisons_the_worst_is_named(store):
    def speed(cell: CellRecord, block: int, number: int) -> float:
        own = 1000.0 if cell.platform == "native" else 100.0 * (cell.levels["size"] + 1)
        return own * (1 + 0.001 * ((block * 7 + len(cell.key)) % 5))

    run = (
        a_run().platforms(PLATFORMS[0], PLATFORMS[3]).benchmark("iperf3", levels={"size": range(8)})
    )
    (answer,) = answers(run.blocks(6).values(speed).analysed(store))
    assert answer.text == "slower everywhere, most on iperf3 size=0 (10 times)"


def test_the_efficiency_of_a_time_is_turned_so_that_higher_is_better(store):
    analysis = two_platforms(store, "lower", [1.0, 1.0, 1.0, 1.0, 1.0], [2.0, 2.1, 1.9, 2.0, 2.0])
    (answer,) = answers(analysis)
    assert answer.text == "at least 91\N{NO-BREAK SPACE}% slower"


def test_the_json_holds_everything_the_table_shows(filled):
    document = json.loads(json.dumps(values(filled), allow_nan=False))
    assert document["schema"] == "vtax.analysis/1"
    assert document["run"] == "tour-1"
    rows = document["results"][0]["points"][0]["rows"]
    assert [r["platform"] for r in rows] == ["native", "docker", "lxc", "qemu-tcg"]
    assert rows[3]["verdict"]["kind"] == "slower"
    assert rows[3]["overhead"]["estimate"] == pytest.approx(1 - rows[3]["efficiency"]["estimate"])
    assert rows[3]["marks"] == ["emulated"]
    assert len(rows[0]["block_means"]) == 8
    assert {w["code"] for w in document["warnings"]} >= {
        "failed-trial",
        "no-memory-controller",
        "clock-skew",
    }


def test_platforms_of_a_point_keep_the_studys_order(store):
    shuffled = sorted(cells(), key=lambda cell: cell.key, reverse=True)
    fill(begin(store, cells=[replace(cell) for cell in shuffled]), blocks=2)
    for section in analyse(store).sections:
        for point in section.points:
            assert [r.platform.name for r in point.rows] == ["native", "docker", "lxc", "qemu-tcg"]
