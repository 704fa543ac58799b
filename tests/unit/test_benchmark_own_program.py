"""Reports of vtax's own programs, and time of loops on the controller's clock."""

import pytest

from vtax.benchmarks.own_program import Report, loops_outside_s, short_warnings
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

TEXT = "vtax-x 1.0\nloops 10\nseconds 0.5\nname some text\ncomplete\n"


def result(text=TEXT, *, outside_s=1.0, inside_s=1.0):
    return CommandResult(("vtax-x",), 0, text, "", outside_s, inside_s)


def report(text=TEXT):
    return Report("vtax-x", {"single": result(text)})


def test_values_are_read_by_their_keys():
    found = report()
    assert (found.integer("loops"), found.number("seconds"), found.text("name")) == (
        10,
        0.5,
        "some text",
    )
    found.matches({"loops": 10, "name": "some text"})


@pytest.mark.parametrize("value", ["nan", "inf", "", "1e999", "three"])
def test_what_is_no_finite_number_is_refused(value):
    changed = report(TEXT.replace("0.5", value))
    with pytest.raises(BenchmarkError, match="where seconds is a number"):
        changed.number("seconds")


def test_loops_are_timed_outside_without_the_rest_of_the_program():
    assert loops_outside_s("x", result(outside_s=1.3, inside_s=1.2), 1.0) == pytest.approx(1.1)
    assert loops_outside_s("x", result(outside_s=1.0, inside_s=1.0), 1.005) == pytest.approx(1.0)


def test_a_guest_clock_at_half_speed_changes_the_time_outside_by_its_error_over_the_start_alone():
    true_loops_s, start_s = 2.0, 0.1
    slow = result(outside_s=true_loops_s + start_s, inside_s=(true_loops_s + start_s) / 2)
    assert loops_outside_s("x", slow, true_loops_s / 2) == pytest.approx(true_loops_s + start_s / 2)


def test_times_that_contradict_each_other_fail_the_trial():
    with pytest.raises(BenchmarkError, match=r"reports 2 s .*counted 1 s"):
        loops_outside_s("x", result(), 2.0)
    with pytest.raises(BenchmarkError, match="loops alone"):
        loops_outside_s("x", result(outside_s=1.0, inside_s=9.0), 1.0)


def test_short_loops_are_a_warning_with_what_to_raise():
    assert short_warnings(0.5, "loops") == []
    assert short_warnings(0.1, "loops") == []  # what a study of short trials asks for
    assert "0.04 s" in short_warnings(0.04, "loops")[0]
    assert short_warnings(0.04, "loads")[0].endswith("raise loads")
