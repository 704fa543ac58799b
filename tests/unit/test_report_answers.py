"""What a summary says of undecided contrasts: what their intervals exclude, and what would decide them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from a_run import a_run, platform
from scipy import special
from shown import drawn, english, page, result

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis import Analysis
from vtax.report.analysis.next_step import BUDGET_S, can_be_extended, next_step_of
from vtax.report.answers.recommend.resources import costs_of
from vtax.report.answers.result.exported import exported
from vtax.report.answers.result.show_notes import notes_under
from vtax.report.document import Paragraph, Share
from vtax.report.document.warnings import WarnedPlace, Warning
from vtax.report.parts.first_screen import answer_line, caution_line, next_line
from vtax.report.parts.sentences import answers, sentence_of
from vtax.report.renderers.json import plain
from vtax.runner.host_sessions import check_more
from vtax.stats.judge import decided_after
from vtax.store.records import CellRecord
from vtax.store.store import Store
from vtax.study.model import DesignTable
from vtax.units import safe_bound

SPACE = "\N{NO-BREAK SPACE}"
KNOWN, WIDE = (
    [0.70, 0.97, 0.74, 1.02, 0.90],
    [0.5, 3.0, 1.0, 2.0, 0.4],
)  # decided by a known number of blocks, or not


def analysed(store: Store, ratios: Mapping[str, Sequence[float]], **design: object) -> Analysis:
    """A finished run with such values."""

    def speed(cell: CellRecord, block: int, number: int) -> float:
        size = str(cell.levels["size"])
        return 1000.0 if cell.platform == "native" else 1000.0 * ratios[size][block]

    run = a_run().platforms("native", "other").benchmark("iperf3", levels={"size": list(ratios)})
    run = run.design(**design).blocks(len(next(iter(ratios.values()))))
    return run.values(speed).analysed(store)


NOISY = [0.93, 1.04, 0.97, 1.06, 0.9, 1.01]
NEAR = {str(size): [0.8 + size / 100, 0.8001 + size / 100] for size in range(5)}
PRINTED: dict[str, tuple[Mapping[str, Sequence[float]], dict[str, Any]]] = {
    "faster and slower for certain": (
        {"1": [1.165, 1.166], "2": [0.8, 0.8001], "3": [3.0, 3.01], "4": [1.0, 1.001]}, {},
    ),
    "the furthest of many": ({**NEAR, "far": [0.02, 0.02001]}, {}),
    "too few blocks": ({"1": [0.5, 3.0]}, {}),
    "sessions to come": ({"1": [0.5, 3.0, 1.0, 2.0, 0.7]}, {"sessions": 3}),
    "known and open numbers of blocks": ({"1": KNOWN, "2": WIDE, "3": WIDE[::-1]}, {}),
    "open numbers of blocks": ({"1": WIDE}, {}),
    "of noise": ({"1": NOISY}, {}),
    "four times slower": ({"1": [0.25, 0.251, 0.249, 0.2505, 0.2495, 0.25]}, {}),
    "a rule that looks": ({"1": KNOWN}, {"stop": "precision", "max_blocks": 30}),
}  # fmt: skip


def lines(analysis: Analysis) -> str:
    """The first lines of a report or a result."""
    return "\n".join(
        english(text)
        for part in (
            *answer_line(analysis),
            *caution_line(analysis),
            *next_line(analysis, next_step_of(analysis)),
        )
        for text in ((part.text,) if isinstance(part, Paragraph) else ())
    )


@pytest.mark.parametrize("name", PRINTED)
def test_an_answer_and_what_comes_next_are_printed(store, name, golden):
    ratios, design = PRINTED[name]
    found = replace(analysed(store, ratios, **design), duration_s=300.0)
    golden(lines(found))


def test_a_withheld_verdict_has_its_reason_in_the_answer_and_the_blocks_that_it_needs(store):
    found = replace(
        analysed(store, {"1": [0.999, 1.0, 1.001, 0.9995, 1.0005] * 2}), duration_s=600.0
    )
    (section,) = found.primary
    (point,) = section.points
    base, row = point.rows
    assert row.verdict is not None
    reason = Note("withheld-noisier", times=45.0, minimum=20)
    verdict = replace(
        row.verdict,
        kind="undecided",
        warnings=(reason,),
        blocks_needed=None,
        blocks_needed_low=None,
    )
    point = replace(point, rows=(base, replace(row, verdict=verdict)))
    section = replace(section, points=(point,))
    found = replace(found, sections=(section,))
    assert "perhaps" not in english(answers(found)[0].text)
    assert "(10 more blocks, about 11 min 00 s), enough blocks for a verdict on other" in lines(
        found
    )
    (note,) = [
        text
        for each in notes_under(section, found)
        if "inside the margin" in (text := english(each))
    ]
    assert (
        note == f"undecided although the interval lies inside the margin: other: {english(reason)}"
    )


def of_blocks(
    store: Store, of: Mapping[str, Sequence[float]], marked: Sequence[str] = ()
) -> Analysis:
    """A finished run of one benchmark. of: platform -> its ratio to the first one in every block."""
    run = a_run().design()
    run = run.platforms(*(platform(name, *("emulated",) * (name in marked)) for name in of))
    run = run.benchmark("iperf3").blocks(len(next(iter(of.values()))))
    return run.values(lambda cell, block, _: 1000.0 * of[cell.platform][block]).analysed(store)


def largest_loss(found: Analysis, *names: str) -> str:
    """The largest bound of the loss of these platforms, as percent."""
    losses = [
        row.loss.at_most
        for s in found.primary
        for p in s.points
        for row in p.rows
        if row.platform.name in names and row.loss and row.loss.at_most
    ]
    return english(Share(safe_bound(max(losses), is_most=True)))


def test_platforms_of_one_kind_stand_together_with_the_largest_loss_that_a_cell_has(
    store,
):
    near, wide = [0.96, 1.05, 0.95, 1.04, 1.0, 1.0], [0.7, 1.5, 0.9, 1.3, 0.8, 1.0]
    found = of_blocks(
        store,
        {"native": [1.0] * 6, "docker": near, "podman": near[::-1], "lxc": wide, "qemu": near},
        ("qemu",),
    )
    assert english(sentence_of(found)) == (
        f"docker, podman, lxc: no difference found; a slowdown of up to {largest_loss(found, 'lxc')} cannot be excluded. "
        f"qemu (emulated): no difference found; a slowdown of up to {largest_loss(found, 'qemu')} cannot be excluded."
    )
    assert largest_loss(found, "lxc") == largest_loss(found, "docker", "podman", "lxc")
    assert f"≤{SPACE}{largest_loss(found, 'lxc')} slower" in drawn(result(found), 120)


def test_platforms_that_are_slower_at_different_places_stand_apart(store):
    slow, same = [0.7, 0.701, 0.699, 0.7, 0.702, 0.7], [1.0, 1.001, 0.999, 1.0, 1.0005, 1.0]
    of = {"native": (same, same), "a": (slow, same), "b": (same, slow), "c": (slow, same)}
    run = a_run().platforms(*of).benchmark("iperf3", "bench0").benchmark("iperf3", "bench1")
    run = run.design().blocks(6)
    run = run.values(lambda cell, block, _: 1000.0 * of[cell.platform][int(cell.label[-1])][block])
    said = english(sentence_of(run.analysed(store)))
    assert f"a, c: at least 42{SPACE}% slower on bench0" in said
    assert f" b: at least 42{SPACE}% slower on bench1" in said


def test_a_withheld_verdict_is_no_perhaps(store):
    def trial(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        if cell.platform == "other" and number == 3:
            return {"values": {}, "status": "timeout"}
        slower = 1.2 if cell.platform == "other" else 1.0
        return {"values": {"throughput": (1000.0 + block + number) * slower}}

    run = a_run().platforms("native", "other").benchmark("iperf3").design().blocks(6, trials=4)
    found = run.trials(trial).analysed(store)
    assert english(sentence_of(found)) == "other: undecided."
    assert any(w.code == "withheld-failures" for w in found.warnings)


def test_what_is_slower_by_its_own_interval_alone_is_perhaps_slower(store):
    low, noisy = [0.961, 0.819, 0.951, 0.819, 0.942, 0.844], [1.0, 1.2, 0.8, 1.1, 0.9, 1.0]
    found = of_blocks(store, {"native": [1.0] * 6, "a": low, **{f"p{n}": noisy for n in range(9)}})
    row = found.primary[0].points[0].rows[1]
    assert row.ratio.high < 1 - row.verdict.margin
    assert row.verdict.kind == "undecided"
    said = english(sentence_of(found))
    assert said.startswith("a: perhaps slower; a slowdown of up to ")
    assert "9 platforms: no difference found; a slowdown of up to " in said


def test_an_hour_of_blocks_is_the_budget_where_no_range_is_known(store):
    near, noisy = [0.9, 1.1, 0.95, 1.05, 0.9, 1.1], [0.5, 3.0, 1.0, 2.0, 0.4, 1.0]
    found = replace(analysed(store, {"1": near, "2": noisy}), duration_s=60.0)
    step = next_step_of(found)
    blocks = int(BUDGET_S / 10 / 1.1)
    chances = [
        decided_after(found.rule, row.verdict, row.ratio, blocks)
        for point in found.primary[0].points
        for row in point.rows[1:]
        if row.verdict and row.ratio
    ]
    assert (step.blocks, step.chances) == (blocks, sum(chances))
    assert step.duration_s <= BUDGET_S
    assert 0 < chances[1] < chances[0] < 1
    assert step.command == "sudo vtax resume tour-1 --budget 60min"
    assert f"Next: {step.command} ({blocks} more blocks, about " in lines(found)
    assert f"would decide about {sum(chances):.0f} of 2 undecided comparisons." in lines(found)
    assert plain(exported(found))["next_step"]["blocks"] == blocks


def test_where_an_hour_would_hardly_decide_any_no_number_of_blocks_is_said(store):
    found = replace(analysed(store, {"1": WIDE}), duration_s=6000.0)
    step = next_step_of(found)
    assert (step.command, step.blocks) == ("", 0)
    assert "no number of blocks within an hour would decide other on iperf3" in lines(found)


def test_a_range_of_blocks_becomes_a_command_with_the_time_that_they_last(store):
    found = analysed(store, {"1": KNOWN, "2": WIDE, "3": WIDE[::-1]})
    found = replace(found, duration_s=300.0)
    step = next_step_of(found)
    assert [each.point.levels["size"] for each in step.decides] == ["1"]
    assert [each.point.levels["size"] for each in step.left] == ["2", "3"]
    assert step.duration_s == pytest.approx(60 * step.blocks * 1.1)
    minutes = math.ceil(step.blocks * 1.1)
    assert step.command == f"sudo vtax resume tour-1 --budget {minutes}min"
    assert f"Next: {step.command} ({step.blocks} more blocks, about " in lines(found)
    ending = "would probably decide other on iperf3; 2 others need a quieter host or a longer run."
    assert lines(found).endswith(ending)


def test_comparisons_of_one_platform_are_counted_in_words(store):
    low = [0.77, 0.98, 0.80, 0.97, 0.86]
    found = replace(analysed(store, {"1": low, "2": low[::-1]}), duration_s=300.0)
    assert "would probably decide other (2 comparisons) on iperf3." in lines(found)


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"status": "interrupted"}, "sudo vtax resume tour-1"),
        ({"status": "running"}, None),
        ({"status": "interrupted", "provenance": {"imported": {}}}, ""),
    ],
)
def test_a_run_that_is_not_finished_is_completed_first(store, changes, command):
    step = next_step_of(replace(analysed(store, {"1": NOISY}), **changes))
    assert (step.command if step else None) == command


def test_a_run_whose_rule_looks_at_figures_is_not_extended(store):
    found = analysed(store, {"1": KNOWN}, stop="precision", max_blocks=30)
    step = next_step_of(replace(found, duration_s=300.0))
    assert (step.command, step.is_new_run) == ("", True)
    assert step.blocks > 5
    assert step.duration_s == pytest.approx(
        60 * step.blocks * 1.1
    )  # of all blocks, those that are there too


def test_an_imported_run_gets_a_new_run_with_its_time(store):
    here = replace(analysed(store, {"1": KNOWN, "2": WIDE, "3": WIDE[::-1]}), duration_s=300.0)
    found = replace(here, provenance={"imported": {}})
    more, step = next_step_of(here), next_step_of(found)
    assert step.blocks == 5 + more.blocks
    assert "resume" not in lines(found)
    assert f"Next: a new run of {step.blocks} blocks (about " in lines(found)


def test_a_merged_run_gets_a_further_run_as_a_session(store, golden):
    found = analysed(store, {"1": NOISY})
    (session,) = found.sessions
    sessions = session, replace(session, number=2)
    found = replace(found, duration_s=300.0, provenance={"merged": []}, sessions=sessions)
    golden(lines(found))


@pytest.mark.parametrize(
    ("status", "command"), [("finished", ""), ("paused", "sudo vtax resume tour-1")]
)
def test_a_run_over_several_boots_has_no_further_sessions(store, status, command):
    """`vtax resume --session` refuses it."""
    found = analysed(store, {"1": NOISY})
    (session,) = found.sessions
    declared = {**found.declared, "boot": [{"name": "linux"}, {"name": "xen"}]}
    found = replace(
        found, status=status, declared=declared, sessions=(session, replace(session, number=2))
    )
    step = next_step_of(found)
    assert (step.command, step.is_new_run) == (command, not command)
    assert ("Next: a further run of the study, merged" in lines(found)) == (not command)


@pytest.mark.parametrize(
    ("design", "expected"),
    [
        ({"stop": "fixed"}, True),
        ({"stop": "fixed", "order": "sequential"}, False),
        ({"stop": "budget", "budget": 60}, True),
        ({"stop": "precision"}, False),
        ({"stop": "verdict"}, False),
    ],
)
def test_a_command_is_offered_only_where_resume_accepts_it(store, design, expected):
    """`vtax resume --budget` itself is asked."""
    found = analysed(store, {"1": KNOWN}, **design)
    (run,) = store.runs()
    handle: Any = SimpleNamespace(
        name=run.name,
        status="finished",
        session=SimpleNamespace(number=1),
        done=lambda: [(0, 4, 0)],
        spent_s=lambda: 5,
    )
    try:
        check_more(handle, DesignTable.model_validate(design), 60.0)
        is_accepted = True
    except BadInput:
        is_accepted = False
    assert can_be_extended(found) == is_accepted == expected


def test_a_decided_run_needs_no_next_step(store):
    found = analysed(store, {"1": [0.5, 0.501, 0.499, 0.5, 0.502]})
    assert next_step_of(found) is None
    assert "Next" not in lines(found)


def test_a_resource_of_one_comparison_has_the_interval_of_its_row(store):
    found = analysed(store, {"1": NOISY})
    (resource,) = costs_of(found)
    row = found.primary[0].points[0].rows[1]
    assert resource.resource == "network"
    assert resource.costs[0].overhead == row.ratio.overhead("higher")


def test_a_resource_of_several_comparisons_has_the_interval_of_their_mean_by_block(store):
    ratios = {"1": [0.8, 0.9, 0.7, 0.85, 0.75], "2": [0.5, 0.4, 0.6, 0.45, 0.55]}
    found = analysed(store, ratios)
    (resource,) = costs_of(found)
    logs = np.log([ratios["1"], ratios["2"]]).mean(axis=0)
    half = special.stdtrit(4, 0.975) * logs.std(ddof=1) / 5**0.5
    cost = resource.costs[0]
    assert cost.comparisons == 2
    assert cost.overhead.estimate == pytest.approx(1 - math.exp(logs.mean()))
    assert cost.overhead.low == pytest.approx(1 - math.exp(logs.mean() + half))
    assert cost.overhead.high == pytest.approx(1 - math.exp(logs.mean() - half))


def test_statistical_cautions_come_first_and_requests_are_none(store):
    place = WarnedPlace("docker", "iperf3")
    busy = Warning("host-busy", "warning", {"text": "busy"}, times=40, places=(place,))
    noted = Warning(
        "statistics", "warning", {"text": "blocks may depend"}, kind="statistics", places=(place,)
    )
    requested = [Warning(code, "warning", {"text": code}) for code in ("study-changed", "trusted")]
    text = lines(replace(analysed(store, {"1": NOISY}), warnings=(busy, *requested, noted)))
    caution = text[text.index("Caution: ") :]
    assert caution.startswith(
        "Caution: blocks may depend (docker, iperf3); busy (40 times, docker, iperf3); "
    )
    assert "study-changed" not in caution
    assert "trusted" not in caution


@pytest.mark.slow
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_time_is_told_by_how_much_longer_it_is(store, better):
    """The others are shares of performance."""
    found = analysed(store, {"64": [1.25, 1.26, 1.24, 1.25, 1.27, 1.25]})
    times = tuple(
        replace(each, metric=replace(each.metric, better=better, unit="ms", role="speed"))
        for each in found.sections
    )
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", "", page(replace(found, sections=times))))
    assert ("25.3 % longer" in text) == (better == "lower")
    assert ("125.3 %" in text) == (better == "higher")


def test_one_bound_for_two_places_does_not_hide_the_larger(store):
    near = [1.0, 1.001, 0.999, 1.0, 1.001]
    ratios = {"1": [each * 0.75 for each in near], "2": [each * 0.95 for each in near], "3": near}
    said = english(sentence_of(analysed(store, ratios)))
    assert "slower in 2 of 3, most on iperf3 size=1 (at least 33" in said
