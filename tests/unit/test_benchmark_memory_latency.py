"""Memory latency: sizes and pages of the working set, and what real reports of the pointer chase mean."""

import pytest
from tool_under_test import Tool

from vtax.messages import Note

TOOL = Tool("memory-latency", outside_s=1.0, inside_s=0.98)
read, parse, command = TOOL.read, TOOL.parse, TOOL.command
SMALL = {"working_set": "1MiB", "loads": 1_000_000}
HUGE = {"working_set": "4MiB", "loads": 1_000_000, "pages": "huge"}


def test_the_time_is_the_one_outside_without_building_the_chain():
    outcome = parse(read("1.0-1-mib-small.txt"), **SMALL)
    loops_s = 0.015789342
    assert outcome.values["latency"] == pytest.approx((1.0 - (0.98 - loops_s)) * 1e3)
    assert outcome.values["mean"] == pytest.approx(loops_s * 1e3)
    assert (outcome.values["min"], outcome.values["p50"], outcome.values["p99"]) == (
        6.510,
        7.432,
        75.593,
    )
    assert outcome.effective == {
        "working_set": 2**20,
        "loads": 10**6,
        "pages": "small",
        "huge_bytes": 0,
    }


def test_huge_pages_that_were_not_given_are_a_warning_with_both_sizes():
    text = read("1.0-4-mib-huge.txt")
    (warning,) = parse(text, **HUGE).warnings
    assert warning == Note("huge-pages-missing", part="0 B", size="4 MiB")
    assert parse(text.replace("huge_bytes 0", f"huge_bytes {4 * 2**20}"), **HUGE).warnings == ()


def test_a_kernel_that_does_not_say_is_a_warning_where_huge_pages_were_requested():
    parameters = {"working_set": "32KiB", "loads": 1_000_000}
    outcome = parse(read("1.0-no-smaps.txt"), **parameters)
    assert outcome.effective["huge_bytes"] is None
    assert not any("huge" in warning for warning in outcome.warnings)
    warnings = parse(read("1.0-no-smaps.txt"), pages="huge", **parameters).warnings
    assert Note("huge-pages-unknown") in warnings


def test_short_chases_are_a_warning():
    assert any(
        "raise loads" in w
        for w in parse(read("1.0-1-mib-small.txt"), outside_s=0.99, **SMALL).warnings
    )


def test_size_loads_and_pages_reach_the_program():
    assert command().argv == ("vtax-memory-latency", str(64 * 2**20), "10000000", "small")
    assert command(working_set="32KiB", pages="huge").argv == (
        "vtax-memory-latency",
        "32768",
        "100000000",
        "huge",
    )
    assert command(loads=5000).argv[2] == "5000"
