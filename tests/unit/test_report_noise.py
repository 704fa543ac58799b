"""Noise, ranks, factors and drift of a run: an answer where there is one, else its reason. Figures are invented."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import synthetic_run
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from synthetic_run import begin, fill, trial

from vtax.cli.main import group
from vtax.report import views
from vtax.report.analysis import Analysis, analyse_data
from vtax.report.drift import drift_remarks
from vtax.report.factors import factor_effects
from vtax.report.html import html
from vtax.report.noise import CellNoise, drifting, hardest, noise
from vtax.report.ranking import rankings
from vtax.stats.variance import Plan
from vtax.store.query import GuestRow, Measurements, RunData, Trials
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord
from vtax.store.store import Store

NAN = float("nan")
NAMES = ("native", "first", "second")
PLATFORMS = tuple(PlatformRecord(name, {}, True, is_baseline=name == "native") for name in NAMES)
SIZES = (64, 1500)
Value = Callable[[str, int, int, int], float]  # platform, size, block, trial -> value; NaN: a failed trial


def measured(value: Value, blocks: int = 8, trials: int = 3, **design: Any) -> tuple[RunData, Analysis]:
    """A run of one benchmark with the factor `size` on three platforms; trials of 2 s, guests that start in 1 s."""
    cells = [CellRecord(f"{p}-{s}", f"{s}", p, "tool", "tool", levels={"size": s}) for p in NAMES for s in SIZES]
    run: Any = SimpleNamespace(
        name="study-1", study="study", status="finished", stopped_because="", seed=1, vtax_version="0.1.0",
        image_key="4f1d0c77aa31", host={}, started_at=0.0, ended_at=1.0, took_s=1.0, platforms=PLATFORMS, cells=cells,
        metrics=[MetricRecord("tool", "speed", "speed", "1/s", "higher", True)],
        declared={**synthetic_run.DECLARED, "design": {"stop": "fixed", "precision": 0.02, **design}},
    )  # fmt: skip
    order = [(b, c, n) for b in range(blocks) for c in range(len(cells)) for n in range(trials)]
    values = np.array([value(cells[c].platform, int(cells[c].levels["size"]), b, n) for b, c, n in order])
    block, cell, number = (np.array(column) for column in zip(*order, strict=True))
    each, ok = np.arange(len(order)), ~np.isnan(values)
    seconds = np.full(len(order), 2.0)
    no_warmup = np.zeros(len(order), np.bool_)
    return data_and_analysis(
        RunData(
            run,
            Trials(each, cell, block, number, each, no_warmup, ok, each * 2.0, seconds, seconds),
            Measurements(each[ok], np.zeros(int(ok.sum()), np.int64), values[ok]),
            tuple(GuestRow(p, b, "", 1.0, 0.0, {}, (), "") for b in range(blocks) for p in NAMES),
            (),
            (),
        )
    )


def data_and_analysis(data: RunData) -> tuple[RunData, Analysis]:
    """The run and what the report says of it."""
    return data, analyse_data(data)


def noisy(between: float, within: float, seed: int = 1, drift: float = 0.0) -> Value:
    """Log-normal noise: of a guest, of a trial, and a trend per block."""
    random = np.random.default_rng(seed)
    guests: dict[tuple[str, int], float] = {}

    def value(platform: str, size: int, block: int, number: int) -> float:
        guest = guests.setdefault((platform, block), float(random.normal(0, between)))
        return 100.0 * size * math.exp(guest + float(random.normal(0, within)) + drift * block)

    return value


def cells_of(data: RunData, analysis: Analysis) -> list[CellNoise]:
    return [cell for table in noise(data, analysis) for _, cells in table.points for cell in cells]


def text_of(parts: list[RenderableType], width: int = 160) -> str:
    file = io.StringIO()
    views_console = Console(file=file, width=width, highlight=False)
    for part in parts:
        views_console.print(part)
    return file.getvalue()


def test_shares_of_noise_follow_where_it_was_made() -> None:
    for cell in cells_of(*measured(noisy(0.05, 0.001), blocks=12)):
        assert cell.between_blocks is not None
        assert cell.between_blocks > 0.95
        assert cell.within_trial is None


def test_noise_of_trials_is_told_from_noise_of_blocks() -> None:
    shares = [cell.between_trials for cell in cells_of(*measured(noisy(0.0, 0.05), blocks=20))]
    assert np.mean([share for share in shares if share is not None]) > 0.85


def test_noise_within_trials_is_told_where_every_trial_of_a_cell_has_samples() -> None:
    data, analysis = measured(noisy(0.0, 0.0), blocks=10)
    random = np.random.default_rng(5)
    first = {i for i, c in enumerate(data.run.cells) if c.platform == "first"}
    second = {i for i, c in enumerate(data.run.cells) if c.platform == "second"}
    kept = {
        int(trial): {"speed": (100.0 * np.exp(random.normal(0, 0.1, 10))).tolist()}
        for trial, cell, number in zip(data.trials.id, data.trials.cell, data.trials.number, strict=True)
        if cell in first or (cell in second and number)
    }
    (table,) = noise(data, analysis, samples=kept)
    for _, cells in table.points:
        shares = {cell.row.platform.name: cell.within_trial for cell in cells}
        assert shares["first"] is not None
        assert shares["first"] > 0.9
        assert shares["native"] is shares["second"] is None


def test_what_blocks_share_does_not_enter_the_plan() -> None:
    own = noisy(0.0, 0.002)
    data, analysis = measured(lambda p, s, b, n: own(p, s, b, n) * (1 + 0.3 * (b % 2)))
    for cell in cells_of(data, analysis):
        assert cell.between_blocks is not None
        assert cell.between_blocks > 0.95
        if not cell.row.platform.is_baseline:
            assert cell.plan is not None
            assert (cell.plan.trials, cell.plan.blocks) == (1, 5)


def test_the_plan_reaches_its_precision_and_counts_the_time_of_both_sides() -> None:
    data, analysis = measured(noisy(0.03, 0.03), blocks=10)
    cell = next(c for c in cells_of(data, analysis) if c.row.platform.name == "first")
    assert cell.plan is not None
    assert cell.plan.half_width <= 0.02 < (cell.half_width or 0.0)
    assert cell.plan.blocks > 10
    block_s = 1.0 / len(SIZES)  # a guest of 1 s serves both sizes
    assert cell.time_s == pytest.approx(2 * 10 * (block_s + 3 * 2.0))
    assert cell.plan.time_s == pytest.approx(2 * cell.plan.blocks * (block_s + cell.plan.trials * 2.0))
    top = hardest(noise(data, analysis))
    assert top is not None
    assert top[1].time_s >= cell.plan.time_s


def test_the_longest_plan_is_named_rather_than_that_of_most_blocks() -> None:
    data, analysis = measured(noisy(0.03, 0.0), blocks=10, trials=1)
    (table,) = noise(data, analysis)
    ((name, cells), *_) = table.points
    shared: Any = {"half_width": 0.02, "blocks_low": 5, "blocks_high": None, "warnings": ()}
    many, long = Plan(trials=1, blocks=780, time_s=10.0, **shared), Plan(trials=100, blocks=8, time_s=20.0, **shared)
    planned = (cells[0], replace(cells[1], plan=many), replace(cells[2], plan=long))
    tables = (replace(table, points=((name, planned),)),)
    assert hardest(tables) == ("second, tool speed, size=64", long)
    text = " ".join(text_of(views.noise_parts(tables, analysis)).split())
    assert (
        "20 s, 100 trials x 8 blocks, for second, tool speed, size=64; by the noise seen it may as well be 5 or"
        in text
    )


def test_plans_fit_a_narrow_terminal_with_names_whole() -> None:
    data, analysis = measured(noisy(0.3, 0.0), blocks=3, trials=1)
    text = text_of(views.noise_parts(noise(data, analysis), analysis), width=80)
    assert "…" not in text
    plans = text.partition("ratio to")[2].partition("In short")[0].splitlines()
    assert sum(line.startswith(("  first ", "  second ")) for line in plans) == 4
    assert "range" in " ".join(plans)


def test_one_trial_a_block_is_planned_as_one_trial_though_its_samples_scatter() -> None:
    data, analysis = measured(noisy(0.1, 0.0), blocks=3, trials=1)
    random = np.random.default_rng(5)
    kept = {int(trial): {"speed": (100 * np.exp(random.normal(0, 0.5, 10))).tolist()} for trial in data.trials.id}
    plans = [c.plan for table in noise(data, analysis, samples=kept) for _, cells in table.points for c in cells]
    assert [plan for plan in plans if plan] == [plan for cell in cells_of(data, analysis) if (plan := cell.plan)]
    for plan in filter(None, plans):
        assert plan.trials == 1
        assert plan.blocks_low < plan.blocks
        assert plan.blocks_high is not None
        assert plan.blocks_high > 20 * plan.blocks


def test_drift_is_measured_and_warned_of() -> None:
    data, analysis = measured(noisy(0.0, 0.001, drift=0.01), blocks=12)
    found = drifting(noise(data, analysis), 0.05)
    assert len(found) == 6
    drift = found[0][1].drift
    assert drift is not None
    assert drift.low < math.exp(0.11) - 1 < drift.high * 1.05
    (remark,) = [remark for remark in analysis.remarks if remark.code == "drift"]
    assert "drift over the run by +1" in remark.text
    assert len(remark.places) == 6


def test_noise_alone_is_rarely_called_drift() -> None:
    random = np.random.default_rng(3)
    blocks = np.arange(10)
    runs = [[("place", blocks, random.normal(100, 1, 10)) for _ in range(6)] for _ in range(300)]
    assert sum(bool(drift_remarks(run, 0.95)) for run in runs) / 300 <= 0.08


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=1, max_size=14))
def test_the_cheap_look_at_drift_misses_nothing_the_test_finds(values: list[float]) -> None:
    from vtax.stats.steadiness import find_drift

    series = [("place", np.arange(len(values)), np.array(values))]
    assert bool(drift_remarks(series, 0.95)) == (find_drift(values).p_value <= 0.05)


def test_ranks_are_sure_of_what_is_clear_and_split_what_is_equal() -> None:
    factor = {"native": 1.0, "first": 1.0, "second": 0.5}
    _, analysis = measured(lambda p, s, b, n: factor[p] * s)
    for found in rankings(analysis):
        assert found.ranking is not None
        chances = {r.platform.name: p.tolist() for r, p in zip(found.rows, found.ranking.probabilities, strict=True)}
        assert chances == {"native": [0.5, 0.5, 0.0], "first": [0.5, 0.5, 0.0], "second": [0.0, 0.0, 1.0]}
        assert found.words == "native 0.50, first 0.50"
    assert "Probability to be the best" in html(analysis)


def test_a_platform_without_values_is_not_ranked_and_said_to_be_missing() -> None:
    _, analysis = measured(lambda p, s, b, n: NAN if p == "second" else float(s + b))
    (first, _) = rankings(analysis)
    assert [row.platform.name for row in first.rows] == ["native", "first"]
    assert "without values, so not ranked: second" in first.warnings


def test_a_factor_that_changes_the_overhead_is_found_and_one_that_does_not_is_not() -> None:
    own = noisy(0.01, 0.01)
    _, analysis = measured(lambda p, s, b, n: own(p, s, b, n) * (0.5 if (p, s) == ("first", 64) else 1.0))
    (found,) = factor_effects(analysis)
    assert found.effect is not None
    assert found.factor == "size"
    assert found.text.startswith("size changes the overhead, most on first, whose ratio to native at size=1500 is ")
    (term,) = [t for t in found.effect.table if (t.kind, t.platform) == ("interaction", "first")]
    assert term.low < 2.0 < term.high


def test_no_sign_of_a_change_is_not_called_proof() -> None:
    _, analysis = measured(noisy(0.01, 0.01))
    (found,) = factor_effects(analysis)
    assert found.text.startswith("no sign that the overhead depends on size (which is no proof that it does not)")


BAD: dict[str, Value] = {
    "all equal": lambda p, s, b, n: 5.0,
    "zeros": lambda p, s, b, n: 0.0,
    "negative": lambda p, s, b, n: -1.0 - b,
    "nothing": lambda p, s, b, n: NAN,
    "no baseline": lambda p, s, b, n: NAN if p == "native" else 1.0 + b,
    "no baseline at one level": lambda p, s, b, n: NAN if (p, s) == ("native", 64) else 1.0 + b + n,
    "no block in common": lambda p, s, b, n: NAN if (p == "native") == (b % 2 == 0) else 1.0 + b + n,
    "unbalanced": lambda p, s, b, n: NAN if p == "first" and (b > 2 or n) else 10.0 + b + n + len(p),
    "some zeros": lambda p, s, b, n: 0.0 if (b, n) == (0, 0) else 1.0 + b,
}


@pytest.mark.parametrize("blocks", [1, 2, 6])
@pytest.mark.parametrize("kind", BAD)
def test_bad_input_has_an_answer_or_a_reason_in_every_view(kind: str, blocks: int) -> None:
    data, analysis = measured(BAD[kind], blocks=blocks, trials=2)
    tables, ranks, factors = noise(data, analysis), rankings(analysis), factor_effects(analysis)
    for table in tables:
        for _, cells in table.points:
            for cell in cells:
                assert cell.plan or cell.trouble or cell.row.platform.is_baseline
    assert all(found.ranking or found.trouble for found in ranks)
    assert all(bool(found.effect) == bool(found.text) != bool(found.trouble) for found in factors)
    shown = [views.noise_json(tables, analysis), views.ranking_json(ranks), views.factors_json(factors)]
    assert json.loads(json.dumps(shown, allow_nan=False, default=str)) is not None
    parts = [*views.noise_parts(tables, analysis), *views.ranking_parts(ranks)]
    text = text_of([*parts, *views.factor_parts(factors, analysis)])
    assert "nan" not in text.lower().replace("nano", "")


@settings(max_examples=15, deadline=None)
@given(
    values=st.lists(
        st.one_of(st.just(NAN), st.just(0.0), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)), min_size=36, max_size=36
    )
)
def test_whatever_is_measured_no_view_fails(values: list[float]) -> None:
    left = iter(values)
    data, analysis = measured(lambda p, s, b, n: next(left), blocks=3, trials=2)
    text_of(views.noise_parts(noise(data, analysis), analysis))
    text_of(views.ranking_parts(rankings(analysis)))
    text_of(views.factor_parts(factor_effects(analysis), analysis))


def test_the_command_shows_every_view_as_text_and_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with Store.open(url) as store:
        fill(begin(store), trials=1, warmup=0)
    monkeypatch.setenv("VTAX_STORE", url)

    def output(*options: str) -> str:
        result = CliRunner().invoke(group, ["show", *options], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    text = output("--variance", "--ranking", "--interaction")
    for expected in (
        "effective",
        "for ±2\N{NO-BREAK SPACE}%",
        "best",
        "direction changes the overhead, most on qemu-tcg",
    ):
        assert expected in text
    assert "latency" not in text
    assert "95th percentile latency" in output("--ranking", "--all")
    plain = json.loads(output("--variance", "--ranking", "--interaction", "--json"))
    assert set(plain) == {"schema", "run", "confidence", "variance", "ranking", "interaction"}
    assert {entry["platform"] for entry in plain["variance"]} == {"native", "docker", "lxc", "qemu-tcg"}
    (point,) = [entry for entry in plain["ranking"] if entry["levels"] == {"direction": "send"}]
    assert sum(each[0] for each in point["probabilities"].values()) == pytest.approx(1.0)
    assert {entry["shares"]["within_trial"] for entry in plain["variance"]} == {None}


def test_samples_that_are_stored_with_trials_reach_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    with Store.open(url) as store:
        run = begin(store)
        for position, (block, cell) in enumerate((b, c) for b in range(3) for c in run.cells):
            used = {"samples": {"throughput": [900.0, 1000.0, 1100.0]}} if cell.benchmark == "iperf3" else {"a": 1}
            run.add_trial(trial(cell, block=block, position=position, used=used))
    monkeypatch.setenv("VTAX_STORE", url)
    result = CliRunner().invoke(group, ["show", "--variance", "--json"], catch_exceptions=False)
    found = {entry["benchmark"]: entry["shares"]["within_trial"] for entry in json.loads(result.output)["variance"]}
    assert found == {"iperf3": pytest.approx(1.0), "sysbench-cpu": None}
