"""Units and versions in the headings of result tables. Figures are invented."""

from __future__ import annotations

from dataclasses import replace

import pytest
from a_run import a_run
from command_line import output_of

from vtax.report.analysis import analyse
from vtax.report.parts.shared import tool_of
from vtax.store.records import CellRecord, MetricRecord
from vtax.store.store import Store

METRIC = MetricRecord("paths", "time", "time of one operation", "ns", "lower", True)


def stored(store: Store, name: str, times_ns: dict[str, float]) -> None:
    """A run of two blocks on native, with an operation for each time."""

    def time_ns(cell: CellRecord, block: int, number: int) -> float:
        return times_ns[cell.levels["operation"]] * (1 + block / 100)

    run = a_run(name).platforms("native").benchmark("paths", levels={"operation": list(times_ns)})
    run.metric("time", "ns", "lower").blocks(2).values(time_ns).stored(store)


def test_points_of_other_magnitudes_have_units_of_their_own(store):
    stored(store, "far-1", {"syscall": 133.0, "fork_exec": 1.12e6})
    shown = output_of("show", "far-1", "--all")
    assert "operation=syscall, ns" in shown
    assert "operation=fork_exec, ms" in shown
    assert "0.000133" not in shown
    assert "134" in shown


def test_points_of_one_magnitude_share_the_unit_of_the_table(store):
    stored(store, "near-1", {"syscall": 133.0, "fault": 990.0})
    lines = output_of("show", "near-1").splitlines()
    assert "operation=syscall" in [line.strip() for line in lines]
    assert any(line.split()[:2] == ["platform", "ns"] for line in lines)


@pytest.mark.parametrize(
    ("tool", "version", "shown"),
    [
        ("python3", "Python 3.13.5", "python3 3.13.5"),
        ("redis-server", "8.0.2", "redis-server 8.0.2"),
        ("nginx", "1.26.3 with h2load nghttp2", "nginx 1.26.3 with h2load nghttp2"),
        ("tool", "tool", "tool tool"),
        ("vtax-stream", "1.0 (gcc 14.2.0; -O3 -fopenmp)", "vtax-stream 1.0 (gcc 14.2.0)"),
    ],
)
def test_a_version_that_begins_with_the_name_of_its_tool_is_shown_once(store, tool, version, shown):
    stored(store, "one-1", {"syscall": 133.0})
    (section,) = analyse(store, "one-1").sections
    assert tool_of(replace(section, tool=tool, tool_version=version)) == shown
    other = replace(section, label="mine", tool=tool, tool_version=version)
    assert tool_of(other) == f"{section.benchmark} ({shown})"  # which its title does not name
