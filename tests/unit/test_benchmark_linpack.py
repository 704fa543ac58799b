"""LINPACK by the reference algorithm: commands, real reports, and the check of the solution."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context

TOOL = Tool("linpack", Context(vcpus=2, memory_bytes=2**29), outside_s=3.0)
read, parse, command = TOOL.read, TOOL.parse, TOOL.command
DOUBLE = {"order": 100, "precision": "double", "repetitions": 1000}
PUBLISHED_RESIDUAL, PUBLISHED_NORMALIZED = (
    7.41628980e-14,
    1.67005097,
)  # of LINPACK's 100 x 100, double precision


def test_the_residual_of_100_by_100_is_the_one_that_linpack_publishes():
    text = read("1.0-100-double.txt")
    assert f"residual {PUBLISHED_RESIDUAL:.8e}" in text
    effective = parse(text, **DOUBLE).effective
    assert effective["normalized_residual"] == pytest.approx(PUBLISHED_NORMALIZED, rel=1e-8)


@pytest.mark.parametrize(
    ("fixture", "parameters"),
    [
        ("1.0-100-double.txt", DOUBLE),
        ("1.0-100-single.txt", {**DOUBLE, "precision": "single"}),
    ],
)
def test_rates_are_operations_over_time(fixture, parameters):
    text = read(fixture)
    lines = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    values = parse(text, **parameters).values
    operations = 2 / 3 * parameters["order"] ** 3 + 2 * parameters["order"] ** 2
    each_s = float(lines["seconds"]) / parameters["repetitions"]
    assert values["time"] == pytest.approx(each_s)
    assert values["rate"] == pytest.approx(operations / each_s / 1e6)
    assert values["best_rate"] == pytest.approx(operations / float(lines["best_s"]) / 1e6)
    assert values["best_rate"] > values["rate"] > 100


def test_what_was_in_force_is_recorded():
    effective = parse(read("1.0-100-double.txt"), **DOUBLE).effective
    assert (effective["kernel"], effective["threads"], effective["solver"]) == (
        "reference",
        1,
        "reference",
    )
    assert effective["scaled_residual"] < 16


def test_arguments_reach_the_program():
    assert command().argv == ("vtax-linpack", "100", "double", "1456")
    assert command(order=1000, precision="single").argv[-1] == "1"
