"""`vtax compare RUN,RUN RUN,RUN`: several runs a side, and ratios of ratios. Figures here are invented."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from a_run import DECLARED, PLATFORMS, begin, cells, trial
from command_line import output_of, refusal, refusals
from scipy import stats
from shown import drawn, english

from vtax.messages import Note
from vtax.report.answers.compare.compute import contrast
from vtax.report.answers.compare.show import document_of
from vtax.report.document import Relative, Table, Titled
from vtax.stats.sessions import unpaired_over_sessions
from vtax.store.run import RunHandle
from vtax.store.store import Store

pytestmark = pytest.mark.slow

BLOCKS = 5
RANDOM = np.random.default_rng(3)
EFFECTS = {
    "a-1": 0.00,
    "a-2": 0.03,
    "a-3": -0.02,
    "b-1": 0.31,
    "b-2": 0.34,
    "b-3": 0.29,
}  # of all platforms of a run
OVERHEAD = {"native": 0.0, "docker": -0.05, "qemu-tcg": -2.0}


def _fill(run: RunHandle, effect: float, docker: float = 0.0) -> dict[str, list[float]]:
    """Blocks of one session; returns log-values by platform."""
    first = 0 if run.next_position() == 0 else 1 + max(block for _, block, _ in run.done())
    logs: dict[str, list[float]] = {}
    for block in range(first, first + BLOCKS):
        shared = 0.02 * RANDOM.standard_normal()
        for cell in run.cells:
            own = OVERHEAD[cell.platform] + (docker if cell.platform == "docker" else 0.0)
            log = effect + shared + own + 0.003 * RANDOM.standard_normal()
            logs.setdefault(cell.platform, []).append(log)
            values = {"events": 1000 * float(np.exp(log))}
            run.add_trial(trial(cell, block=block, position=run.next_position(), values=values))
    return logs


def _begin(store: Store, name: str, **changes: Any) -> RunHandle:
    chosen = [
        cell for cell in cells() if cell.benchmark == "sysbench-cpu" and cell.platform in OVERHEAD
    ]
    return begin(
        store, name, cells=chosen, platforms=[p for p in PLATFORMS if p.name in OVERHEAD], **changes
    )


LOGS: dict[str, dict[str, list[float]]] = {}


@pytest.fixture(scope="module", autouse=True)
def store(module_store: Store) -> Store:
    """Three runs a side, b about 36 % above a; two runs of two sessions each."""
    for number, (name, effect) in enumerate(EFFECTS.items(), 1):
        run = _begin(module_store, name, started_at=float(number))
        LOGS[name] = _fill(run, effect, docker=-0.04 if name.startswith("b") else 0.0)
        run.finish("finished", "all blocks", 1_700_000_300.0)
    for name in ("two-1", "two-2"):
        run = _begin(module_store, name, started_at=20.0)
        _fill(run, 0.0)
        run.begin_session("b" * 32, run.host, 30.0)
        _fill(run, 0.05)
        run.finish("finished", "all blocks", 1_700_000_300.0)
    return module_store


def test_the_run_is_the_unit_of_several_runs_a_side(store):
    found = contrast(store, "b-1,b-2,b-3", "a-1,a-2,a-3")
    assert found.family == 3
    (native,) = (each for each in found.pairs if each.treatment.platform.name == "native")
    means = [[np.mean(LOGS[f"{side}-{n}"]["native"]) for n in (1, 2, 3)] for side in "ba"]
    expected = stats.ttest_ind(*means, equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert native.ratio.n_sessions == 3
    assert (native.ratio.low, native.ratio.high) == pytest.approx(
        (np.exp(interval.low), np.exp(interval.high))
    )
    assert native.ratio.p_value == pytest.approx(expected.pvalue)
    assert native.treatment.summary.n == 3
    (emulated,) = (each for each in found.pairs if each.treatment.platform.name == "qemu-tcg")
    assert {native.verdict.kind, emulated.verdict.kind} == {"faster"}
    words = " ".join(output_of("compare", "b-1,b-2,b-3", "a-1,a-2,a-3").split())
    assert "two samples of sessions" in words
    assert "measured once" not in words
    assert "these sessions" not in words
    assert "over 3 contrasts" in words


def test_the_next_sessions_stand_beside_the_ratio_that_they_are_of(store):
    made = document_of(contrast(store, "b-1,b-2", "a-1,a-2"))
    tables = {part.key: part.parts[0] for part in made.parts if isinstance(part, Titled)}
    following, relative = tables["next-sessions"], tables["ratio-of-ratios"]
    assert isinstance(following, Table)
    assert isinstance(relative, Table)
    assert [column.key for column in following.columns] == [
        "platform",
        "metric",
        "sessions",
        "percent",
        "next",
    ]
    assert [column.key for column in relative.columns] == ["platform", "metric", "ratio_of_ratios"]
    for table, names in (
        (following, ["native", "docker", "qemu-tcg (emulated)"]),
        (relative, ["docker", "qemu-tcg (emulated)"]),
    ):
        assert [english(row.cells[0]) for group in table.groups for row in group.rows] == names
    for row in following.groups[0].rows:
        ratio, interval = row.cells[3:]
        assert isinstance(ratio, Relative)
        assert isinstance(interval, Relative)
        assert (ratio.shows, interval.shows) == ("estimate", "interval")
        assert interval.low * interval.high == pytest.approx(ratio.estimate**2)


@pytest.mark.parametrize(
    ("sides", "several"),
    [(("b-1", "a-1"), ""), (("b-1,b-2", "a-1"), "b-1, b-2"), (("a-1", "two-1"), "two-1")],
)
def test_of_one_session_a_side_there_is_no_verdict_and_the_table_says_so(sides, several):
    words = " ".join(output_of("compare", *sides).split())
    assert "no verdict: a side was measured once" in words
    assert "of these sessions" in words
    for wrong in ("undecided", "Holm", "within ±", "one run", "two sessions"):
        assert wrong not in words
    assert words.count("no interval shows what a reboot") == 1
    note = f"± of {several} is over sessions, the interval of the percent over blocks"
    assert (note in words) == bool(several)
    plain = json.loads(output_of("compare", *sides, "--json"))
    assert plain["family"] == 0
    for each in plain["contrasts"]:
        assert each["verdict"] is None
        assert each["reason"] == Note("one-session")
        assert each["ratio"]["low"] < each["ratio"]["estimate"] < each["ratio"]["high"]
    codes = [each["code"] for each in plain["coded_warnings"]]
    assert sorted({"session-effects", "ratio-of-ratios"} & {*codes}) == [
        "ratio-of-ratios",
        "session-effects",
    ]
    assert not {"across-runs", "one-session", "few-blocks"} & {*codes}


def test_verdicts_are_corrected_for_those_of_several_sessions_alone(store):
    """A second session of native alone: docker has one on a side."""
    chosen = [cell for cell in cells() if cell.key in ("c-native", "c-docker")]
    design = DECLARED["design"]
    for side in "cd":
        for number in (1, 2):
            which = chosen if number == 1 else chosen[:1]
            run = begin(
                store,
                f"{side}-{number}",
                cells=which,
                platforms=PLATFORMS[:2],
                started_at=40.0,
                declared={**DECLARED, "design": design},
            )
            _fill(run, 0.01 * number)
            run.finish("finished", "all blocks", 1_700_000_300.0)
    found = contrast(store, "c-1,c-2", "d-1,d-2")
    verdicts = {each.treatment.platform.name: each.verdict for each in found.pairs}
    assert verdicts["docker"] is None
    assert verdicts["native"].family == found.family == 1
    made = document_of(found)
    (warning,) = (each for each in made.data["coded_warnings"] if each.code == "session-effects")
    assert [place.platform for place in warning.places] == ["docker"]
    words = " ".join(drawn(made, 160).split())
    assert "measured once on docker on sysbench-cpu" in words
    assert "over 1 contrast" in words


def test_one_run_a_side_has_no_verdict_but_a_ratio_of_ratios(store):
    found = {each.treatment.platform.name: each for each in contrast(store, "b-1", "a-1").pairs}
    assert all(each.verdict is None for each in found.values())
    assert found["native"].relative is None  # it is the baseline
    docker = found["docker"]
    logs = [np.subtract(LOGS[run]["docker"], LOGS[run]["native"]) for run in ("b-1", "a-1")]
    expected = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert (docker.relative.low, docker.relative.high) == pytest.approx(
        (np.exp(expected.low), np.exp(expected.high))
    )
    assert docker.relative.low < np.exp(-0.04) < docker.relative.high
    assert docker.ratio.high - docker.ratio.low > 2 * (docker.relative.high - docker.relative.low)
    text = " ".join(output_of("compare", "b-1:docker", "a-1:docker").split())
    assert "Relative to native" in text
    assert "common to a platform and to native cancel" in text
    assert "does to one platform alone" in text


def test_the_ratio_of_ratios_of_several_runs_is_over_runs(store):
    plain = json.loads(output_of("compare", "b-1,b-2:docker", "a-1,a-2:docker", "--json"))
    assert (plain["treatment"]["runs"], plain["baseline"]["runs"]) == (
        ["b-1", "b-2"],
        ["a-1", "a-2"],
    )
    (entry,) = plain["contrasts"]
    labels = np.repeat([1, 2], BLOCKS)
    logs = [
        np.concatenate(
            [np.subtract(LOGS[f"{s}-{n}"]["docker"], LOGS[f"{s}-{n}"]["native"]) for n in (1, 2)]
        )
        for s in "ba"
    ]
    expected = unpaired_over_sessions((logs[0], labels), (logs[1], labels))
    assert entry["ratio_of_ratios"]["n_sessions"] == 2
    assert entry["ratio_of_ratios"]["low"] == pytest.approx(expected.low)
    assert entry["ratio"]["predicted_low"] < entry["ratio"]["low"]


def test_sessions_of_one_run_a_side_are_units_too(store):
    found = contrast(store, "two-1", "two-2")
    assert all(each.ratio is not None and each.ratio.n_sessions == 2 for each in found.pairs)
    assert all(each.verdict is not None for each in found.pairs)
    assert all("measured once" not in " ".join(each.warnings) for each in found.pairs)
    (within,) = contrast(store, "two-1:docker", "two-1:qemu-tcg").pairs
    assert within.ratio.n_sessions == 2


def test_runs_that_cannot_be_sides_are_refused(capsys, golden):
    assert (
        refusal("compare", "a-1,zzz", "b-1").what == "there is no run 'zzz'"
    )  # its hint has the latest of this file
    golden(
        refusals(
            capsys,
            "compare",
            "a-1,a-1 b-1",
            "a-1,a-2 a-2,b-1",
            "a-1,a-2 a-2,a-1",
            "a-1 a-1",
            "a-1,a-2 b-1:docker",
            "a-1,a-2:docker a-1:docker",
        )
    )
