"""LINPACK by the reference algorithm and by OpenBLAS: commands, real reports, and the check of the solution."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from vtax.benchmarks import linpack, linpack_openblas
from vtax.benchmarks.base import Context, NeedsPackages, SameEverywhere
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "fixtures" / "linpack"
CONTEXT = Context(vcpus=2, memory_bytes=2**29)
DOUBLE = {"order": 100, "precision": "double", "repetitions": 1000}
BLAS = {"order": 500, "precision": "double", "repetitions": 3}
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
        (linpack_openblas, "1.0-openblas-0.3.29.txt", BLAS),
        (
            linpack_openblas,
            "1.0-openblas-0.3.21.txt",
            {"order": 300, "precision": "single", "repetitions": 5, "threads": 1},
        ),
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


def test_what_was_in_force_is_recorded_with_the_kernel_of_openblas():
    effective = parse(linpack_openblas, read("1.0-openblas-0.3.29.txt"), **BLAS).effective
    assert (effective["kernel"], effective["threads"], effective["solver"]) == ("Haswell", 2, "openblas")
    assert effective["scaled_residual"] < 16
    assert parse(linpack, read("1.0-100-double.txt"), **DOUBLE).effective["kernel"] == "reference"


def test_platforms_must_agree_in_the_kernel():
    assert isinstance(linpack_openblas.BENCHMARK, SameEverywhere)
    assert linpack_openblas.BENCHMARK.same_everywhere == ("kernel",)
    assert isinstance(linpack_openblas.BENCHMARK, NeedsPackages)
    assert not isinstance(linpack.BENCHMARK, NeedsPackages)


def test_another_kernel_than_the_requested_one_is_a_warning():
    text = read("1.0-openblas-0.3.29.txt")
    (warning,) = parse(linpack_openblas, text, kernel="Zen", **BLAS).warnings
    assert warning == "OpenBLAS used its kernel Haswell where Zen was requested"
    assert parse(linpack_openblas, text, kernel="haswell", **BLAS).warnings == ()


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


def test_a_library_that_is_missing_is_named_with_its_package():
    with pytest.raises(BenchmarkError, match=r"status 2: no OpenBLAS \(Debian package libopenblas0-pthread\)"):
        parse(
            linpack_openblas, read("1.0-no-openblas.txt"), status=2, stderr=read("1.0-no-openblas.err"),
            order=100, repetitions=3,
        )  # fmt: skip


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


def test_threads_that_openblas_did_not_use_fail_the_trial():
    with pytest.raises(BenchmarkError, match="used 2 threads where 1 were requested"):
        parse(linpack_openblas, read("1.0-openblas-0.3.29.txt"), threads=1, **BLAS)


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
        command(linpack_openblas, order=9000)
    assert command(linpack_openblas, order=7000).argv[1] == "7000"


def test_arguments_threads_and_kernel_reach_the_program():
    assert command(linpack).argv == ("vtax-linpack", "100", "double", "reference", "1456")
    assert command(linpack, order=1000, precision="single").argv[-1] == "1"
    made = command(linpack_openblas, threads=3, kernel="Haswell", repetitions=4)
    assert made.argv == ("vtax-linpack", "1000", "double", "openblas", "4")
    assert made.environment == {"OPENBLAS_NUM_THREADS": "3", "OPENBLAS_CORETYPE": "Haswell"}
    assert command(linpack_openblas).environment == {"OPENBLAS_NUM_THREADS": "2"}


@pytest.mark.parametrize("parameters", [{"order": 1}, {"precision": "half"}, {"repetitions": 0}, {"threads": 2}])
def test_senseless_parameters_are_refused(parameters):
    with pytest.raises(ValidationError):
        linpack.LinpackParameters(**parameters)


def test_a_kernel_is_a_name():
    with pytest.raises(ValidationError):
        linpack_openblas.LinpackOpenblasParameters(kernel="a b")


def test_versions_name_compiler_and_library():
    assert linpack.BENCHMARK.version_of(read("1.0-version.txt")) == "1.0 (gcc 14.2.0; -O3)"
    for release, compiler in (("0.3.21", "12.2.0"), ("0.3.29", "14.2.0")):
        found = linpack_openblas.BENCHMARK.version_of(read(f"1.0-openblas-{release}-version.txt"))
        assert found == f"1.0 (OpenBLAS {release}; gcc {compiler}; -O3)"
