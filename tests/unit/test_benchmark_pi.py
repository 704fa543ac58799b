"""π by CLN and by FLINT: commands, real reports, and digits that are computed anew."""

from functools import cache
from math import isqrt

import pytest
from tool_under_test import Tool

from vtax.benchmarks import pi_digits
from vtax.benchmarks.base import Context

CONTEXT = Context(vcpus=2, memory_bytes=2**29, flow=1)
CLN, FLINT = (Tool(name, CONTEXT, outside_s=2.0, inside_s=1.9) for name in ("pi", "pi-flint"))


@cache
def chudnovsky(digits):
    """The last digits of π by the series of the Chudnovsky brothers (1988): another algorithm."""
    cube = 640320**3 // 24

    def split(a, b):
        if b - a == 1:
            p = (6 * a - 5) * (2 * a - 1) * (6 * a - 1) if a else 1
            q = a**3 * cube if a else 1
            t = p * (13591409 + 545140134 * a)
            return p, q, -t if a % 2 else t
        middle = (a + b) // 2
        p1, q1, t1 = split(a, middle)
        p2, q2, t2 = split(middle, b)
        return p1 * p2, q1 * q2, q2 * t1 + p1 * t2

    _, q, t = split(0, digits // 14 + 2)
    guard = 20
    root = isqrt(10005 * 10 ** (2 * (digits + guard)))
    last = (q * 426880 * root // t) // 10**guard % 10**pi_digits.SHOWN
    return f"{last:0{pi_digits.SHOWN}d}"


def test_computed_digits_are_those_of_another_algorithm():
    for digits in (100, 101, 1000, 3000):
        assert pi_digits.last_digits(digits) == chudnovsky(digits)
    assert pi_digits.last_digits(100).endswith("3421170679")


@pytest.mark.slow
def test_the_table_is_right_where_it_can_be_computed_again():
    assert pi_digits.KNOWN[100_000] == chudnovsky(100_000)
    assert all(len(last) == pi_digits.SHOWN for last in pi_digits.KNOWN.values())


@pytest.mark.parametrize(
    ("fixture", "digits"), [("cln-1.3.6.txt", 1000), ("cln-1.3.7.txt", 100_000)]
)
def test_the_time_of_cln_is_the_one_outside(fixture, digits):
    outcome = CLN.parse(CLN.read(fixture), digits=digits)
    assert outcome.values == {"time": 2.0, "cpu_time": 0.1}
    assert outcome.effective["last_digits"] == chudnovsky(digits)
    assert outcome.warnings == ()


@pytest.mark.parametrize(
    ("fixture", "digits", "threads"),
    [("flint-3.1.0.txt", 100_000, 2), ("flint-3.1.0-1-thread.txt", 1000, 1)],
)
def test_flint_reports_the_time_of_computing_beside_it(fixture, digits, threads):
    text = CLN.read(fixture)
    outcome = FLINT.parse(text, digits=digits, threads=threads)
    assert outcome.values["time"] == 2.0
    assert f"computed_s {outcome.values['computing_time']:.6f}" in text
    assert (outcome.effective["threads"], outcome.warnings) == (threads, ())


def test_digits_that_vtax_does_not_know_are_a_warning():
    text = CLN.read("flint-3.1.0.txt").replace("digits 100000", "digits 100007")
    (warning,) = FLINT.parse(text, digits=100_007).warnings
    assert (warning.code, warning.data["limit"]) == ("digits-not-verified", 20000)
    assert 100_000 in warning.data["known"]


def test_many_digits_need_a_large_guest():
    large = Context(vcpus=2, memory_bytes=2**34)
    assert FLINT.command(large, digits=500_000_000).argv == ("vtax-pi", "500000000", "2")


def test_the_digits_of_cln_stay_in_a_file_that_is_removed():
    made = CLN.command(digits=1000)
    assert made.argv[-2:] == ("1001", "/scratch/vtax-pi-1")
    assert made.makes == ("/scratch/vtax-pi-1",)
    assert CLN.command().argv[-2] == str(2**22 + 1)
