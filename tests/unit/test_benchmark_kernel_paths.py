"""Kernel paths: one operation of the kernel, timed on the controller's clock, with its distribution."""

from pathlib import Path

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.kernel_paths import BENCHMARK, DEFAULT_LOOPS, OPERATIONS, KernelPathsParameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.image.recipe import data

FIXTURES = Path(__file__).parent / "fixtures" / "kernel-paths"
CONTEXT = Context(vcpus=1, memory_bytes=2**29)


def read(name):
    return (FIXTURES / name).read_text()


def parse(text, *, status=0, stderr="", outside_s=1.2, inside_s=1.15, user_s=0.1, **parameters):
    result = CommandResult(("vtax-kernel-paths",), status, text, stderr, outside_s, inside_s, user_s=user_s)
    return BENCHMARK.parse(KernelPathsParameters(**parameters), CONTEXT, {"single": result})


def test_the_time_is_the_one_outside_without_the_start_of_the_program():
    values = parse(read("1.0-fork_exec.txt"), operation="fork_exec", loops=300).values
    loops_s = 1.027764823
    assert values["time"] == pytest.approx((1.2 - (1.15 - loops_s)) * 1e9 / 300)
    assert values["mean"] == pytest.approx(loops_s * 1e9 / 300)
    assert (values["min"], values["max"]) == (655407.999, 31059122.0)
    assert values["min"] < values["p50"] < values["p95"] < values["p99"] < values["max"]


def test_a_timer_is_late_by_what_is_above_its_interval():
    values = parse(read("1.0-timer.txt"), outside_s=0.42, inside_s=0.419, operation="timer", loops=300).values
    late_s = 0.42 - (0.419 - 0.409168576) - 300 * 1e-3
    assert values["time"] == pytest.approx(late_s * 1e9 / 300)
    assert values["min"] == 26242.0


def test_a_timer_that_ends_early_is_a_wrong_clock():
    with pytest.raises(BenchmarkError, match="woke up before its 1 ms were over"):
        parse(read("1.0-timer.txt"), outside_s=0.25, inside_s=0.41, operation="timer", loops=300)


def test_short_loops_and_sides_on_two_cpus_are_warnings():
    text = read("1.0-syscall.txt")
    (warning,) = parse(text, outside_s=0.01, inside_s=0.009, user_s=0, loops=300).warnings
    assert "raise loops" in warning
    futex = text.replace("operation syscall", "operation futex")
    assert any("on two, without switches" in w for w in parse(futex, operation="futex", loops=300).warnings)
    both = futex.replace("one_cpu 0", "one_cpu 1")
    assert not any("two" in w for w in parse(both, operation="futex", loops=300).warnings)


def test_a_path_that_fails_fails_the_trial_with_its_words():
    with pytest.raises(
        BenchmarkError, match=r"status 1: vtax-kernel-paths: exec of /proc/self/exe: Exec format error"
    ):
        parse(read("1.0-no-exec.txt"), status=1, stderr=read("1.0-no-exec.err"), operation="fork_exec", loops=300)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("operation syscall", "operation mmap"), "'operation': 'mmap'"),
        (("loops 300", "loops 299"), "'loops': '299'"),
        (("\ncomplete", ""), "not complete"),
        (("min_ns 159.998", "min_ns -1"), "its clock stands still"),
        (("p50_ns", "p51_ns"), "it has no p50_ns"),
        (("seconds 0.000051307", "seconds 0.0"), "no time passed"),
        (("seconds 0.000051307", "seconds 7.0"), "reports 7 s of loops"),
    ],
)
def test_another_or_an_impossible_report_fails_the_trial(change, message):
    text = read("1.0-syscall.txt").replace(*change)
    assert text != read("1.0-syscall.txt")
    with pytest.raises(BenchmarkError, match=message):
        parse(text, loops=300)


def test_more_cpu_time_than_the_cpus_have_is_impossible():
    with pytest.raises(BenchmarkError, match="of CPU time"):
        parse(read("1.0-syscall.txt"), user_s=9.0, loops=300)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_one_of_the_program_with_loops_of_its_own(operation):
    assert f'{{"{operation}", ' in data("kernel_paths.c").decode()
    (command,) = BENCHMARK.commands(KernelPathsParameters(operation=operation), CONTEXT)
    assert command.argv == ("vtax-kernel-paths", operation, str(DEFAULT_LOOPS[operation]))
    (command,) = BENCHMARK.commands(KernelPathsParameters(operation=operation, loops=7), CONTEXT)
    assert command.argv[2] == "7"
