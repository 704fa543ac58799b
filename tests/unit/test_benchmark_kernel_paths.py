"""Kernel paths: one operation of the kernel, timed on the controller's clock, with its distribution."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks.kernel_paths import DEFAULT_LOOPS, OPERATIONS
from vtax.image.recipe import data

TOOL = Tool("kernel-paths", outside_s=1.2, inside_s=1.15)
read, parse, command = TOOL.read, TOOL.parse, TOOL.command


def codes(outcome):
    return [warning.code for warning in outcome.warnings]


def test_the_time_is_the_one_outside_without_the_start_of_the_program():
    values = parse(read("1.0-fork_exec.txt"), operation="fork_exec", loops=300).values
    loops_s = 1.027764823
    assert values["time"] == pytest.approx((1.2 - (1.15 - loops_s)) * 1e9 / 300)
    assert values["mean"] == pytest.approx(loops_s * 1e9 / 300)
    assert (values["min"], values["max"]) == (655407.999, 31059122.0)
    assert values["min"] < values["p50"] < values["p95"] < values["p99"] < values["max"]


def test_a_timer_is_late_by_what_is_above_its_interval():
    values = parse(
        read("1.0-timer.txt"), outside_s=0.42, inside_s=0.419, operation="timer", loops=300
    ).values
    late_s = 0.42 - (0.419 - 0.409168576) - 300 * 1e-3
    assert values["time"] == pytest.approx(late_s * 1e9 / 300)
    assert values["min"] == 26242.0


def test_short_loops_and_sides_on_two_cpus_are_warnings():
    text = read("1.0-syscall.txt")
    (warning,) = parse(text, outside_s=0.01, inside_s=0.009, cpu_s=0, loops=300).warnings
    assert warning.code == "loops-short"
    futex = text.replace("operation syscall", "operation futex")
    assert "two-cpus" in codes(parse(futex, operation="futex", loops=300))
    both = futex.replace("one_cpu 0", "one_cpu 1")
    assert "two-cpus" not in codes(parse(both, operation="futex", loops=300))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_one_of_the_program_with_loops_of_its_own(operation):
    assert f'{{"{operation}", ' in data("kernel_paths.c").decode()
    assert command(operation=operation).argv == (
        "vtax-kernel-paths",
        operation,
        str(DEFAULT_LOOPS[operation]),
    )
    assert command(operation=operation, loops=7).argv[2] == "7"
