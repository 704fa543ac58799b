"""Warnings are merged: each once, with its range, its places and how often. Figures here are invented."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from a_run import DECLARED, begin, fill, trial
from shown import drawn, english, page, sentence, terminal, view

from vtax.counters.host import HostSample, host_warnings
from vtax.report.analysis import Row, analyse
from vtax.report.analysis.warnings import STATISTICS, merged_texts
from vtax.report.answers.result.show_notes import notes_under
from vtax.report.document import Count, Number, Range, Share, Warning
from vtax.report.parts.first_screen import caution_line


@pytest.mark.parametrize(
    ("code", "changes", "data", "message"),
    [
        (
            "host-busy",
            [{"user": 9.0, "system": 3.0, "idle": 8.0}, {"user": 9.0, "system": 9.0, "idle": 2.0}],
            {"cpus": Range(Number(0.5, 2), Number(1.1, 2))},
            "other programs used 0.50 to 1.1 CPUs during trials",
        ),
        (
            "host-steal",
            [{"user": 9.4, "idle": 10.0, "steal": 0.6}, {"user": 9.0, "idle": 9.0, "steal": 2.0}],
            {"share": Range(Share(0.03, "whole"), Share(0.1, "whole"))},
            "CPU steal of 3\N{NO-BREAK SPACE}% to 10\N{NO-BREAK SPACE}%",
        ),
        (
            "host-memory",
            [{"memory_stall_s": 0.5}, {"memory_stall_s": 3.0}],
            {"share": Range(Share(0.05, "whole"), Share(0.3, "whole"))},
            "programs on the host waited for memory 5\N{NO-BREAK SPACE}% to 30\N{NO-BREAK SPACE}% of the time",
        ),
        (
            "host-swap",
            [{"swapped_pages": 7.0}, {"swapped_pages": 12345.0}],
            {"pages": Range(Count(7), Count(12345))},
            "the host swapped 7 to 12345 pages during the trial",
        ),
        (
            "host-frequency",
            [{"frequency_hz": 1.5e9}, {"frequency_hz": 2.2e9}],
            {"change": Range(Share(-0.25, "change"), Share(0.1, "change"))},
            "the CPU frequency changed by \N{MINUS SIGN}25\N{NO-BREAK SPACE}% to +10\N{NO-BREAK SPACE}% "
            "from before the trial to after it",
        ),
        (
            "host-throttled",
            [{"throttled": 2.0}, {"throttled": 9.0}],
            {"times": Range(Count(2), Count(9))},
            "a CPU was slowed 2 to 9 times because it was hot",
        ),
    ],
)
def test_what_the_host_warns_of_has_typed_data(store, code, changes, data, message):
    before = HostSample(
        0.0, dict.fromkeys(("user", "system", "idle", "steal"), 0.0), 0.0, 0.0, 0.0, 2e9, 0.0
    )
    run = begin(store)
    for block, changed in enumerate(changes):
        spent = {kind: changed.get(kind, 0.0) for kind in before.cpu_s}
        others = {name: value for name, value in changed.items() if name not in spent}
        after = replace(before, monotonic_s=10.0, cpu_s=spent, **others)
        given = host_warnings(before, after, 7.0)
        made = tuple(each for each in given if each.code == code)
        run.add_trial(trial(run.cells[0], block=block, position=block, warnings=made))
    (warning,) = [w for w in analyse(store).warnings if w.code == code]
    assert warning.data == data
    assert sentence(warning) == message


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("2 of 5 values", "1 of 5 values"), "1 to 2 of 5 values"),
        (
            ("drift by +3.0 % (p = 0.001)", "drift by -12.5 % (p = 2e-05)"),
            "drift by -12.5 to +3.0 % (p = 2e-05 to 0.001)",
        ),
        (("eth0 is down", "eth1 is down"), "eth0 is down (and 1 like it with other numbers)"),
        (("no 198.18.0.1", "no 198.18.0.2"), "no 198.18.0.1 (and 1 like it with other numbers)"),
        (("once",), "once"),
    ],
)
def test_texts_that_differ_in_numbers_are_reported_as_one_with_the_range(texts, message):
    warning = Warning(
        "code", "warning", {"text": merged_texts(texts)}, tuple({"text": text} for text in texts)
    )
    assert sentence(warning) == message


def test_an_outlier_of_one_trial_per_block_is_reported_once_and_apart_from_other_metrics(store):
    run = begin(store)
    native, docker = (next(c for c in run.cells if c.key == f"c-{p}") for p in ("native", "docker"))
    for block in range(12):
        for cell in (native, docker):
            value = 1000.0 + block % 3 + (500 if (block, cell) == (7, docker) else 0)
            values = {"events": value, "latency": 1000 / value}
            run.add_trial(
                trial(cell, block=block, position=2 * block + (cell is docker), values=values)
            )
    run.finish("finished", "", 2.0)
    analysis = analyse(store)
    found = [w for w in analysis.warnings if w.code == "outliers"]
    text = "1 of 12 values lies far from the others; it is flagged, and kept in the figures"
    assert [
        (sentence(w), w.is_primary, [english(place.inline) for place in w.places]) for w in found
    ] == [
        (text, True, ["docker, sysbench-cpu events"]),
        (text, False, ["docker, sysbench-cpu latency"]),
    ]
    listed = " ".join(drawn(view("warnings", analysis)).split())
    assert "kept in the figures docker, sysbench-cpu events" in listed
    assert "kept in the figures (of secondary metrics) docker, sysbench-cpu latency" in listed
    ratio = next(r.ratio for r in analysis.primary[0].points[0].rows if r.platform.name == "docker")
    assert ratio.outliers == (7,)


def test_an_interval_without_1_beside_undecided_is_explained_under_its_table(store):
    fill(begin(store))
    analysis = analyse(store)
    first, *others = analysis.primary
    of_equivalent, *of_first = (english(note) for note in notes_under(first, analysis))
    assert of_equivalent.startswith("equivalent: 8 blocks can miss a slow phase")
    assert of_first == [
        "percents are geometric means of the ratios within blocks, not of the two means",
        "a block has several trials: its ratio is that of the averages of its trials",
    ]
    said = [english(note) for each in others for note in notes_under(each, analysis)]
    assert all(note.startswith("equivalent: ") for note in said)

    def corrected(row: Row) -> Row:
        if row.platform.name != "docker" or row.ratio is None or row.verdict is None:
            return row
        verdict = replace(row.verdict, kind="undecided", p_difference=0.06)
        return replace(row, ratio=replace(row.ratio, low=1.01, high=2.0), verdict=verdict)

    points = tuple(replace(p, rows=tuple(map(corrected, p.rows))) for p in first.points)
    changed = replace(analysis, sections=(replace(first, points=points), *analysis.sections[1:]))
    message = "an interval may exclude 100 % and still be undecided: the verdict allows for"
    assert terminal(changed, 140).count(f"{message} 3") == 1
    assert "corrected for" not in "".join(
        english(note) for each in others for note in notes_under(each, changed)
    )


def test_a_run_with_nothing_measured_shows_no_empty_tables(store, use_home):
    use_home(Path("/nowhere/to/write"))
    run = begin(store)
    run.finish("failed", "no guest has kernal", 2.0)
    analysis = analyse(store)
    shown = terminal(analysis, 140)
    for text in (shown.casefold(), page(analysis).casefold()):
        assert "nothing was measured" in text
        assert "no guest has kernal" in text
        assert "no answer" not in text
        assert 'class="result"' not in text
    assert "not measured" not in shown
    assert "mean," not in shown


@pytest.mark.parametrize(
    ("stop", "failed", "said"),
    [
        ("open", (), []),
        ("fixed", (), ["2 of 8 blocks are missing and were left out"]),
        ("open", (7,), ["1 of 6 blocks is missing and was left out"]),
        ("open", (5, 7), ["3 of 8 blocks are missing and were left out"]),
    ],
)
def test_blocks_of_which_a_cell_was_left_out_since_it_was_decided_are_not_missing(
    store, stop, failed, said
):
    """docker is not in blocks 5 and 6 of 0 to 7, unless it fails there."""
    declared = {**DECLARED, "design": {**DECLARED["design"], "stop": stop}}
    run = begin(store, declared=declared)
    native, docker = (next(c for c in run.cells if c.key == f"c-{p}") for p in ("native", "docker"))
    for position, (block, cell) in enumerate(product(range(8), (native, docker))):
        is_failed = cell is docker and block in failed
        if is_failed or cell is native or block not in (5, 6):
            values = {} if is_failed else {"events": 1000.0 + block % 3}
            status = "failed" if is_failed else "ok"
            run.add_trial(trial(cell, block=block, position=position, status=status, values=values))
    run.finish("finished", "", 2.0)
    assert [sentence(w) for w in analyse(store).warnings if w.code == "missing"] == said


def test_cautions_that_change_a_reading_come_first(store):
    run = begin(store)
    run.finish("finished", "", 2.0)
    codes = {
        "assumes-independence": {"correlation": Number(0.5, 2)},
        "outliers": {"count": Count(2), "total": Count(9), "what": "values", "limit": "3.5"},
        "host-busy": {"cpus": Number(1.0, 2)},
        "unequal-noise": {"times": Number(3.0, 2)},
        "client-saturated": {"tool": "redis", "share": Share(0.99, "whole"), "count": Count(1)},
    }
    kinds = {
        "outliers": STATISTICS,
        "unequal-noise": STATISTICS,
        "assumes-independence": STATISTICS,
    }
    given = [
        Warning(code, "warning", data, times=9 - n, kind=kinds.get(code, code))
        for n, (code, data) in enumerate(codes.items())
    ]
    found = replace(analyse(store), warnings=tuple(given))
    shown = []
    while found.warnings:
        (caution,) = caution_line(found)
        first = next(
            w for w in found.warnings if english(caution.text).startswith(f"Caution: {sentence(w)}")
        )
        shown.append(first.code)
        found = replace(found, warnings=tuple(w for w in found.warnings if w is not first))
    assert shown == [
        "client-saturated",
        "unequal-noise",
        "host-busy",
        "assumes-independence",
        "outliers",
    ]
