"""Numbers are short, of one unit per table, and never say more than is known."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtax.levels import KnownLevels
from vtax.report.document import Factor, Scale, scale_for
from vtax.report.renderers.format import english
from vtax.report.renderers.numbers import (
    mean_and_half_width,
    number,
    percent,
    plain_percent,
    relative,
)

SPACE = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234.56, f"1{SPACE}235"),
        (0.8123, "0.8123"),
        (12.3456, "12.35"),
        (0, "0"),
        (-3.14159, "−3.142"),
        (123456789, f"123{SPACE}500{SPACE}000"),
        (9.9999, "10.00"),
        (1.5e12, "1.500e12"),
        (2e-7, "2.000e−7"),
        (math.nan, "–"),
        (math.inf, "∞"),
    ],
)
def test_numbers_have_four_significant_digits(value, shown):
    assert number(value) == shown


@given(st.floats(min_value=1e-30, max_value=1e30))
def test_a_shown_number_is_within_half_a_digit_of_the_value(value):
    back = float(number(value).replace(SPACE, "").replace("−", "-"))
    assert back == pytest.approx(value, rel=0.5001e-3)


@pytest.mark.parametrize(
    ("unit", "values", "expected"),
    [
        ("Mbit/s", [23_400.0, 310.0], Scale("Gbit/s", 1000.0)),
        ("bit/s", [23.4e9], Scale("Gbit/s", 1e9)),
        ("B/s", [512.0], Scale("B/s", 1.0)),
        ("s", [0.0031], Scale("ms", 1e-3)),
        ("s", [3600.0], Scale("s", 1.0)),
        ("ms", [0.0042], Scale("µs", 1e-3)),
        ("us", [2_500_000.0], Scale("s", 1e6)),
        ("MB/s", [0.4], Scale("kB/s", 1e-3)),
        ("MiB/s", [4000.0], Scale("MiB/s", 1.0)),
        ("events/s", [1e6], Scale("events/s", 1.0)),
        ("ns/operation", [34_200_202.0, 624_000.0], Scale("ms/operation", 1e6)),
        ("B/s", [0.0, math.nan], Scale("B/s", 1.0)),
    ],
)
def test_one_unit_suits_the_largest_value_of_a_table(unit, values, expected):
    found = scale_for(unit, values)
    assert found.unit == expected.unit
    assert found.divisor == pytest.approx(expected.divisor)


def test_a_mean_is_rounded_as_its_half_width_allows():
    plain = Scale("x", 1.0)
    assert mean_and_half_width(24.2213, 0.812, plain) == ("24.22", "±0.81")
    assert mean_and_half_width(24.2213, 3.6, plain) == ("24.2", "±3.6")
    assert mean_and_half_width(24.2213, math.inf, plain) == ("24.22", "")
    assert mean_and_half_width(24.2213, 0.0, plain) == ("24.22", "±0")
    assert mean_and_half_width(24221.3, 812.0, Scale("k", 1e3)) == ("24.22", "±0.81")
    assert mean_and_half_width(100.0, 1e-6, plain)[1] == "±1e−6"


@given(
    st.floats(0.02, 1e6), st.floats(1.0, 100.0), st.booleans()
)  # below it numbers have exponents
def test_both_ends_of_a_share_have_the_digits_of_its_estimate(estimate, factor, is_amount):
    shown, ends, _ = relative(
        estimate, estimate / factor, estimate * factor, of="amount" if is_amount else "performance"
    )
    low, high = ends.strip("[]").split(", ")
    if factor**2 < 9.9:
        assert len({len(text.partition(".")[2]) for text in (shown, low, high)}) == 1
    elif factor**2 > 10.1:  # two digits each: none is rounded away
        assert "0" not in (low, shown, high)
    assert (
        float(low.replace(SPACE, ""))
        <= float(shown.replace(SPACE, ""))
        <= float(high.replace(SPACE, ""))
    )


def test_shares():
    assert percent(0.00834) == "0.83\N{NO-BREAK SPACE}%"
    assert percent(0.123) == "12\N{NO-BREAK SPACE}%"
    assert percent(math.nan) == "–"
    assert plain_percent(0.025) == "2.5\N{NO-BREAK SPACE}%"


def test_an_end_beside_the_baseline_has_digits_of_its_own_only_where_it_is_shown():
    cost = (1.0227541967, 1.0000475602, 1.0459764001)
    assert relative(*cost, of="amount")[:2] == ("102.275", "[100.005, 104.598]")
    assert relative(*cost, of="amount", has_interval=False)[0] == "102.3"


def test_percents_are_never_rounded_to_tens():
    """So that the lowest end of several intervals is the lowest as they are shown."""
    assert relative(1.302, 0.583, 2.811) == ("130", "[58, 281]", "percent")


@pytest.mark.parametrize(
    ("factor", "level", "expected"),
    [
        ("socket_buffer", "262144", "256KiB"),
        ("message_size", "1048576", "1MiB"),
        ("message_size", "1500", "1500B"),
        ("block_size", "4k", "4k"),
        ("length", "1024", "1024"),
        ("threads", "1024", "1024"),
    ],
)
def test_a_level_that_is_a_size_is_written_with_its_unit_and_found_by_it(factor, level, expected):
    assert english(Factor(((factor, level),))) == f"{factor}={expected}"
    known = KnownLevels("run-1", [{factor: level}])
    found = known.find(f"{factor}={expected}", "", "")
    assert found == known.find(f"{factor}={level}", "", "") == (factor, (level,))
