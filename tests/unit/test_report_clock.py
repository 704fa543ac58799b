"""A guest's clock of a wrong rate forbids `equivalent` for figures in its time, and nothing else."""

from dataclasses import replace

import pytest
from a_run import kinds, measured, noisy
from claimed_run import NOTES

from vtax.benchmarks.base import is_timed
from vtax.counters import table
from vtax.counters.table import GUEST
from vtax.report.analysis import analyse_data
from vtax.runner.counting import clock_warnings
from vtax.store.query import WarningRow
from vtax.store.records import MetricRecord


def with_warning(data, *cells, code="clock-rate"):
    warnings = tuple(WarningRow(NOTES[code], cell, 1) for cell in cells)
    return replace(data, warnings=warnings)


def cell(data, platform, size):
    return next(
        n
        for n, c in enumerate(data.run.cells)
        if c.platform == platform and c.levels["size"] == size
    )


def test_the_cell_with_the_wrong_clock_is_not_equivalent(alike):
    analysis = analyse_data(with_warning(alike, cell(alike, "first", 64)))
    assert {key for key, kind in kinds(analysis).items() if kind != "equivalent"} == {("first", 64)}
    rows = [
        row
        for s in analysis.sections
        for p in s.points
        for row in p.rows
        if row.platform.name == "first"
    ]
    [note] = [w for w in rows[0].warnings if getattr(w, "code", "") == "withheld-clock"]
    assert "no verdict" in note
    assert {"clock-rate", "withheld-clock"} <= {warning.code for warning in analysis.warnings}


def test_a_wrong_clock_of_the_baseline_forbids_it_on_all_platforms_of_the_point(alike):
    analysis = analyse_data(with_warning(alike, cell(alike, "native", 1500)))
    wrong = {key for key, kind in kinds(analysis).items() if kind == "undecided"}
    assert wrong == {("first", 1500), ("second", 1500)}


def test_other_warnings_and_figures_that_are_no_times_are_judged_as_ever(alike):
    analysis = analyse_data(with_warning(alike, 0, code="clock-skew"))
    assert set(kinds(analysis).values()) == {"equivalent"}
    size = MetricRecord("tool", "size", "size", "MiB", "lower", True)
    data = with_warning(alike, *range(len(alike.run.cells)))
    data.run.metrics = [size]
    try:
        assert set(kinds(analyse_data(data)).values()) == {"equivalent"}
    finally:
        data.run.metrics = [MetricRecord("tool", "speed", "speed", "1/s", "higher", True)]


def test_a_platform_that_is_slower_stays_slower():
    def value(platform, size, block, trial):
        return (0.5 if platform == "first" else 1.0) * noisy(0.002, 0.002)(
            platform, size, block, trial
        )

    data, _ = measured(value, blocks=12)
    analysis = analyse_data(with_warning(data, *range(len(data.run.cells))))
    assert kinds(analysis)["first", 64] == "slower"


@pytest.mark.parametrize(
    "unit", ["s", "ms", "ns", "events/s", "Mbit/s", "MB/s", "1/s", "Mflop/s", "IOPS"]
)
def test_times_and_rates_are_known_by_their_unit(unit):
    assert is_timed("x", unit)


@pytest.mark.parametrize(
    ("name", "unit"), [("x", "MiB"), ("x", "%"), ("x", ""), ("cpu_per_gigabyte", "s/GB")]
)
def test_what_is_no_time_of_the_guest(name, unit):
    assert not is_timed(name, unit)


def counted(rate, error):
    return {(GUEST, table.CLOCK_RATE.name): rate, (GUEST, table.CLOCK_RATE_ERROR.name): error}


def test_a_rate_is_wrong_only_beyond_margin_and_error():
    (note,) = clock_warnings(counted(1.03, 0.005), 0.02)
    assert note.code == "clock-rate"
    assert "1.03 times" in note
    assert clock_warnings(counted(0.97, 0.005), 0.02)
    assert clock_warnings(counted(1.03, 0.015), 0.02) == ()
    assert clock_warnings(counted(1.01, 0.0), 0.02) == ()
    assert clock_warnings({}, 0.02) == ()
