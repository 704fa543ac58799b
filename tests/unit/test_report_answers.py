"""What a summary says of undecided contrasts: what their intervals exclude, and what would decide them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import synthetic_run
from scipy import special
from shown import drawn, english, result
from synthetic_run import begin, trial

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis import Analysis, analyse
from vtax.report.analysis.answers import answers
from vtax.report.analysis.exported import exported
from vtax.report.analysis.next_step import can_be_extended, next_step_of
from vtax.report.analysis.resources import costs_of
from vtax.report.document import Bullets, Paragraph
from vtax.report.document.warnings import Place, Warning
from vtax.report.parts.first_screen import answer_lines, next_line
from vtax.report.parts.result_notes import notes_under
from vtax.report.renderers.json import plain
from vtax.runner.host_sessions import check_more
from vtax.stats.analysis import decided_after
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store
from vtax.study.model import DesignTable

SPACE = "\N{NO-BREAK SPACE}"
ALONE = "by the interval of one comparison alone, not yet a verdict in its family"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def answer(store: Store, ratios: Mapping[str, Sequence[float]], **design: object) -> str:
    """The answer about a platform. ratios: level of a point -> the throughput of each block, 1000 on the baseline."""
    (found,) = answers(analysed(store, ratios, **design))
    return english(found.text)


def analysed(store: Store, ratios: Mapping[str, Sequence[float]], **design: object) -> Analysis:
    """A finished run with such values."""
    platforms = PlatformRecord("native", {}, True, is_baseline=True), PlatformRecord("other", {}, True)
    cells = [
        CellRecord(f"{p.name}{size}", size, p.name, "iperf3", "iperf3", levels={"size": size})
        for p in platforms for size in ratios
    ]  # fmt: skip
    declared = {**synthetic_run.DECLARED, "design": design}
    run = begin(store, platforms=platforms, cells=cells, declared=declared)
    made = [(block, cell) for block in range(len(next(iter(ratios.values())))) for cell in cells]
    for position, (block, cell) in enumerate(made):
        value = 1000.0 * (1 if cell.platform == "native" else ratios[str(cell.levels["size"])][block])
        run.add_trial(trial(cell, block=block, position=position, values={"throughput": value}))
    run.finish("finished", "", 2.0)
    return analyse(store)


def test_what_is_certain_is_said_of_faster_and_of_slower_contrasts(store):
    text = answer(store, {"1": [1.165, 1.166], "2": [0.8, 0.8001], "3": [3.0, 3.01], "4": [1.0, 1.001]})
    assert f"at least 15.9{SPACE}% faster on iperf3 (size=1)" in text
    assert f"at least 19.9{SPACE}% slower on iperf3 (size=2)" in text
    assert "times faster on iperf3 (size=3), at least" in text
    assert text.count("at least") == 3
    assert text.count(ALONE) == 1


def test_a_withheld_verdict_has_one_reason(store):
    platforms = PlatformRecord("native", {}, True, is_baseline=True), PlatformRecord("other", {}, True)
    cells = [CellRecord(p.name, "1", p.name, "iperf3", "iperf3") for p in platforms]
    run = begin(store, platforms=platforms, cells=cells, declared={**synthetic_run.DECLARED, "design": {}})
    for position, (block, cell, number) in enumerate(product(range(6), cells, range(4))):
        failed, level = cell is cells[1] and number == 3, 1000.0 + block + number
        values = {} if failed else {"throughput": level * (1.2 if cell is cells[1] else 1.0)}
        run.add_trial(trial(cell, block=block, number=number, position=position, values=values,
                            status="timeout" if failed else "ok"))  # fmt: skip
    run.finish("finished", "", 2.0)
    text = english(answers(analyse(store))[0].text)
    assert "not yet a verdict" not in text
    assert "faster on iperf3: the verdict is withheld: it favours the side that more trials failed on" in text
    assert text.count("at least") == 1


def test_the_furthest_contrasts_are_named_wherever_they_stand(store):
    near = {str(size): [0.8 + size / 100, 0.8001 + size / 100] for size in range(5)}
    text = answer(store, {**near, "far": [0.02, 0.02001]})
    assert "times slower on iperf3 (size=far), at least" in text
    assert f"and 2 more {ALONE}" in text
    assert "slower on iperf3 (size=4)" not in text


def test_too_few_blocks_are_blamed_rather_than_noise(store):
    text = answer(store, {"1": [0.5, 3.0]})
    assert text.endswith("; a verdict needs 5 blocks")
    assert "noise" not in text


def test_a_run_with_sessions_to_come_needs_these(store):
    text = answer(store, {"1": [0.5, 3.0, 1.0, 2.0, 0.7]}, sessions=3)
    assert text.endswith("; needs more sessions: 1 of 3 measured")


def test_known_numbers_of_blocks_are_given_beside_open_ones(store):
    known, noisy = [0.70, 0.97, 0.74, 1.02, 0.90], [0.5, 3.0, 1.0, 2.0, 0.4]
    text = answer(store, {"1": known, "2": noisy, "3": noisy[::-1]})
    assert " more blocks would decide iperf3 (size=1); " in text
    assert "; noise of iperf3 (size=2) from block to block (native " in text
    assert re.search(
        r"; of the ratio [\d.]+\s%\): if equal [\d\s]+ to [\d\s]+ blocks in all, to show 5\s% [\d\s]+", text
    )


def test_all_noisy_contrasts_leave_the_number_of_blocks_open(store):
    text = answer(store, {"1": [0.5, 3.0, 1.0, 2.0, 0.4]})
    assert re.search(r"%\): if equal [\d\s]+ to [\d\s]+ blocks in all, to show 5\s% [\d\s]+ to [\d\s]+", text)


def lines(analysis: Analysis) -> str:
    """The first lines of a report or a result."""
    return "\n".join(
        english(text)
        for part in (*answer_lines(analysis), *next_line(analysis))
        for text in (part.items if isinstance(part, Bullets) else (part.text,) if isinstance(part, Paragraph) else ())
    )


NOISY = [0.93, 1.04, 0.97, 1.06, 0.9, 1.01]


def test_a_platform_whose_contrasts_are_undecided_says_what_it_costs_at_most(store):
    found = analysed(store, {"1": NOISY})
    row = found.primary[0].points[0].rows[1]
    assert row.verdict.costs_at_most is not None
    bound = f"{row.verdict.costs_at_most * 100:.1f}{SPACE}% on iperf3 (size=1) (95{SPACE}%)"
    assert english(answers(found)[0].text).startswith(f"shows no difference: it costs at most {bound}")


def test_of_many_undecided_comparisons_the_least_and_the_largest_bound_stand_for_all(store):
    wide = [0.5, 3.0, 1.0, 2.0, 0.4, 1.0]
    found = analysed(store, {str(size): NOISY if size == 3 else wide for size in range(5)})
    bounds = sorted(
        (row.verdict.costs_at_most or 0.0, point.levels["size"])
        for point in found.primary[0].points for row in point.rows[1:] if row.verdict
    )  # fmt: skip
    ends = [f"{bound * 100:.1f}{SPACE}% on iperf3 (size={size})" for bound, size in (bounds[0], bounds[-1])]
    text = english(answers(found)[0].text)
    assert text.startswith(f"shows no difference: it costs at most {ends[0]} to {ends[1]} (95{SPACE}%)")


def test_a_withheld_verdict_has_its_reason_in_the_answer_and_the_blocks_that_it_needs(store):
    found = replace(analysed(store, {"1": [0.999, 1.0, 1.001, 0.9995, 1.0005] * 2}), duration_s=600.0)
    (section,) = found.primary
    (point,) = section.points
    base, row = point.rows
    assert row.verdict is not None
    reason = Note("withheld-noisier", times=45.0, minimum=20)
    verdict = replace(row.verdict, kind="undecided", warnings=(reason,), blocks_needed=None, blocks_needed_low=None)
    point = replace(point, rows=(base, replace(row, verdict=verdict)))
    section = replace(section, points=(point,))
    found = replace(found, sections=(section,))
    text = english(answers(found)[0].text)
    assert text.endswith(f"; {english(reason)}")
    assert "leaves open" not in text
    assert "(10 more blocks, about 11 min 00 s) reaches the fewest blocks of a verdict on other" in lines(found)
    (note,) = [text for each in notes_under(section, found) if "inside the margin" in (text := english(each))]
    assert note == f"undecided beside an interval inside the margin: other: {english(reason)}"


def test_the_smallest_overhead_that_could_be_seen_settles_in_four_of_five_runs(store):
    """Against simulation: a run of that noise, truly slower by so much, gets a verdict with a probability of 0.8."""
    found = analysed(store, {"1": NOISY})
    row = found.primary[0].points[0].rows[1]
    seen = row.detectable_overhead
    assert seen is not None
    sd, blocks = row.ratio.se_log * len(NOISY) ** 0.5, len(NOISY)
    random = np.random.default_rng(7)
    logs = random.normal(math.log(1 - seen), sd, (4000, blocks))
    t = logs.mean(axis=1) / (logs.std(axis=1, ddof=1) / blocks**0.5)
    critical = special.stdtrit(row.ratio.df, 0.975)
    assert 0.74 < float((t < -critical).mean()) < 0.88  # the normal approximation to the power, of six blocks


def test_what_ten_minutes_more_would_decide_is_the_sum_of_the_chances(store):
    near, noisy = [0.98, 1.03, 0.99, 1.02, 0.97, 1.0], [0.5, 3.0, 1.0, 2.0, 0.4, 1.0]
    found = replace(analysed(store, {"1": near, "2": noisy}), duration_s=60.0)
    step = next_step_of(found)
    assert (step.soon.blocks, step.soon.undecided) == (60, 2)
    chances = [
        decided_after(found.rule, row.verdict, row.ratio, 60)
        for point in found.primary[0].points for row in point.rows[1:] if row.verdict and row.ratio
    ]  # fmt: skip
    assert step.soon.decides == sum(chances)
    assert 1 > chances[0] > 0.8 > chances[1] > 0
    assert "10 minutes more (60 blocks) would decide about 1 of 2 undecided comparisons." in lines(found)
    assert plain(exported(found))["next_step"]["soon"]["blocks"] == 60
    slow = next_step_of(replace(found, duration_s=6000.0))
    assert slow.soon is None


def test_a_range_of_blocks_becomes_a_command_with_the_time_that_they_last(store):
    known, noisy = [0.70, 0.97, 0.74, 1.02, 0.90], [0.5, 3.0, 1.0, 2.0, 0.4]
    found = analysed(store, {"1": known, "2": noisy, "3": noisy[::-1]})
    found = replace(found, duration_s=300.0)
    step = next_step_of(found)
    assert [each.point.levels["size"] for each in step.decides] == ["1"]
    assert [each.point.levels["size"] for each in step.left] == ["2", "3"]
    assert step.duration_s == pytest.approx(60 * step.blocks * 1.1)
    minutes = math.ceil(step.blocks * 1.1)
    assert step.command == f"sudo vtax resume tour-1 --budget {minutes}min"
    text = lines(found)
    assert f"Next: {step.command} ({step.blocks_low} to {step.blocks} more blocks, about " in text
    assert "would probably decide other on iperf3." in text
    assert (
        "Many more blocks, longer trials or a quieter host would decide other (2×) on iperf3. 10 minutes more "
        "(10 blocks)" in text
    )


def test_without_a_range_nobody_says_how_many_blocks(store):
    found = analysed(store, {"1": [0.5, 3.0, 1.0, 2.0, 0.4]})
    text = lines(found)
    assert "Next: longer trials or a quieter host; noise from block to block leaves open" in text
    assert "--budget" not in text


def test_too_few_blocks_get_those_of_a_verdict_first(store):
    found = replace(analysed(store, {"1": [0.9, 1.1]}), duration_s=120.0)
    assert "Next: sudo vtax resume tour-1 --budget 4min (3 more blocks, about 3 min 18 s) reaches" in lines(found)


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
    found = analysed(store, {"1": [0.70, 0.97, 0.74, 1.02, 0.90]}, stop="precision", max_blocks=30)
    step = next_step_of(replace(found, duration_s=300.0))
    assert (step.command, step.is_new_run) == ("", True)
    assert step.blocks > 5
    assert step.duration_s == pytest.approx(60 * step.blocks * 1.1)  # of all blocks, those that are there too
    text = lines(replace(found, duration_s=300.0))
    assert f"Next: a new run of {step.blocks_low} to {step.blocks} blocks (about " in text


def test_an_imported_run_gets_a_new_run_with_its_time(store):
    known, noisy = [0.70, 0.97, 0.74, 1.02, 0.90], [0.5, 3.0, 1.0, 2.0, 0.4]
    here = replace(analysed(store, {"1": known, "2": noisy, "3": noisy[::-1]}), duration_s=300.0)
    found = replace(here, provenance={"imported": {}})
    more, step = next_step_of(here), next_step_of(found)
    assert (step.blocks_low, step.blocks) == (5 + more.blocks_low, 5 + more.blocks)
    assert "resume" not in lines(found)
    assert f"Next: a new run of {step.blocks_low} to {step.blocks} blocks (about " in lines(found)


def test_a_merged_run_gets_a_further_run_as_a_session(store):
    found = analysed(store, {"1": NOISY})
    (session,) = found.sessions
    sessions = session, replace(session, number=2)
    found = replace(found, duration_s=300.0, provenance={"merged": []}, sessions=sessions)
    text = lines(found)
    assert "Next: a further run of the study (about " in text
    assert "merged with this one by vtax merge, is another session" in text
    assert "resume" not in text


@pytest.mark.parametrize(("status", "command"), [("finished", ""), ("paused", "sudo vtax resume tour-1 --reboot")])
def test_a_run_over_several_boots_has_no_further_sessions(store, status, command):
    """`vtax resume --session` refuses it."""
    found = analysed(store, {"1": NOISY})
    (session,) = found.sessions
    declared = {**found.declared, "boot": [{"name": "linux"}, {"name": "xen"}]}
    found = replace(found, status=status, declared=declared, sessions=(session, replace(session, number=2)))
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
    found = analysed(store, {"1": [0.70, 0.97, 0.74, 1.02, 0.90]}, **design)
    (run,) = store.runs()
    handle: Any = SimpleNamespace(
        name=run.name, status="finished", session=SimpleNamespace(number=1), done=lambda: [(0, 4, 0)],
        spent_s=lambda: 5,
    )  # fmt: skip
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


def test_what_to_distrust_names_the_gravest_warnings_and_the_scope(store):
    found = analysed(store, {"1": NOISY})
    assert "Caution: " in lines(found)
    assert "measured in one session; results may differ after a reboot" in lines(found)


def test_one_sentence_answers_and_names_the_most_that_is_not_excluded(store):
    found = analysed(store, {"1": NOISY})
    verdict = found.primary[0].points[0].rows[1].verdict
    bound = f"{(verdict.costs_at_most if verdict else None) or 0.0:.1%}".replace("%", f"{SPACE}%")
    assert lines(found).startswith(f"other: no difference shown; cost at most {bound} on iperf3.\n")
    text = " ".join(drawn(result(found)).split())
    assert text.index("equivalent: within") < text.index("no difference shown; cost at most"), "last on a terminal"


def test_what_is_slower_is_so_many_times_slower(store):
    found = analysed(store, {"1": [0.25, 0.251, 0.249, 0.2505, 0.2495, 0.25]})
    assert lines(found).startswith("other: 4.0 times slower.\n")


def test_statistical_cautions_come_first_and_requests_are_none(store):
    place = Place("docker", "iperf3")
    busy = Warning("host-busy", "warning", {"text": "busy"}, times=40, places=(place,))
    noted = Warning("statistics", "warning", {"text": "blocks may depend"}, kind="statistics", places=(place,))
    requested = [Warning(code, "warning", {"text": code}) for code in ("study-changed", "trusted")]
    text = lines(replace(analysed(store, {"1": NOISY}), warnings=(busy, *requested, noted)))
    caution = text[text.index("Caution: ") :]
    assert caution.startswith("Caution: blocks may depend (docker, iperf3); ")
    assert "study-changed" not in caution
    assert "trusted" not in caution
