"""LINPACK by the reference algorithm: commands, real reports, and the check of the solution."""

from pathlib import Path

import pytest

from vtax.benchmarks import linpack
from vtax.benchmarks.base import Context
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "fixtures" / "linpack"
CONTEXT = Context(vcpus=2, memory_bytes=2**29)
DOUBLE = {"order": 100, "precision": "double", "repetitions": 1000}
PUBLISHED_RESIDUAL, PUBLISHED_NORMALIZED = 7.41628980e-14, 1.67005097  # of LINPACK's 100 x 100, double precision


def read(name):
    return (FIXTURES / name).read_text()


def parse(module, text, *, status=0, stderr="", outside_s=3.0, user_s=0.1, context=CONTEXT, **parameters):
    result = CommandResult(("vtax-linpack",), status, text, stderr, outside_s, outside_s, user_s=user_s)
    benchmark = module.BENCHMARK
    return benchmark.parse(benchmark.Parameters(**parameters), context, {"single": result})


def command(module, context=CONTEXT, **parameters):
    (only,) = module.BENCHMARK.commands(module.BENCHMARK.Parameters(**parameters), context)
    return only


def test_the_residual_of_100_by_100_is_the_one_that_linpack_publishes():
    text = read("1.0-100-double.txt")
    assert f"residual {PUBLISHED_RESIDUAL:.8e}" in text
    effective = parse(linpack, text, **DOUBLE).effective
    assert effective["normalized_residual"] == pytest.approx(PUBLISHED_NORMALIZED, rel=1e-8)


@pytest.mark.parametrize(
    ("module", "fixture", "parameters"),
    [
        (linpack, "1.0-100-double.txt", DOUBLE),
        (linpack, "1.0-100-single.txt", {**DOUBLE, "precision": "single"}),
    ],
)
def test_rates_are_operations_over_time(module, fixture, parameters):
    text = read(fixture)
    lines = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    values = parse(module, text, **parameters).values
    operations = 2 / 3 * parameters["order"] ** 3 + 2 * parameters["order"] ** 2
    each_s = float(lines["seconds"]) / parameters["repetitions"]
    assert values["time"] == pytest.approx(each_s)
    assert values["rate"] == pytest.approx(operations / each_s / 1e6)
    assert values["best_rate"] == pytest.approx(operations / float(lines["best_s"]) / 1e6)
    assert values["best_rate"] > values["rate"] > 100


def test_what_was_in_force_is_recorded():
    effective = parse(linpack, read("1.0-100-double.txt"), **DOUBLE).effective
    assert (effective["kernel"], effective["threads"], effective["solver"]) == ("reference", 1, "reference")
    assert effective["scaled_residual"] < 16


@pytest.mark.parametrize(
    "old_new", [("\nvalid", "\ninvalid"), ("scaled_residual 2.40229331e-02", "scaled_residual 16")]
)
def test_a_wrong_solution_fails_the_trial(old_new):
    text = read("1.0-100-double.txt").replace(*old_new)
    assert text != read("1.0-100-double.txt")
    with pytest.raises(BenchmarkError, match=r"solution is wrong|scaled residual is 16, not below 16"):
        parse(linpack, text, **DOUBLE)


def test_a_program_without_memory_fails_the_trial_with_its_words():
    with pytest.raises(BenchmarkError, match="status 2: no memory for the matrix: lower the order"):
        parse(linpack, read("1.0-no-memory.txt"), status=2, stderr=read("1.0-no-memory.err"), order=5000)
    with pytest.raises(BenchmarkError, match="not complete"):
        parse(linpack, read("1.0-no-memory.txt"), order=5000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": 101}, "'order': '100'"),
        ({"precision": "single"}, "'precision': 'double'"),
        ({"repetitions": 7}, "'repetitions': '1000'"),
    ],
)
def test_other_work_than_requested_is_refused(changes, message):
    with pytest.raises(BenchmarkError, match=message):
        parse(linpack, read("1.0-100-double.txt"), **{**DOUBLE, **changes})


def test_impossible_times_fail_the_trial():
    text = read("1.0-100-double.txt")
    with pytest.raises(BenchmarkError, match="and the guest counted"):
        parse(linpack, text, outside_s=0.01, user_s=0, **DOUBLE)
    with pytest.raises(BenchmarkError, match="of CPU time"):
        parse(linpack, text, user_s=9.0, **DOUBLE)


def test_a_matrix_beyond_memory_is_refused_with_both_numbers():
    with pytest.raises(BadInput, match=r"order 20000 is 2\.98 GiB, and the guest has 512 MiB") as refused:
        command(linpack, order=20000)
    assert refused.value.where == "linpack: order"
    with pytest.raises(BadInput):
        command(linpack, order=9000)
    assert command(linpack, order=7000).argv[1] == "7000"


def test_arguments_reach_the_program():
    assert command(linpack).argv == ("vtax-linpack", "100", "double", "1456")
    assert command(linpack, order=1000, precision="single").argv[-1] == "1"
