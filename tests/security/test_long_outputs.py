"""Long outputs of few kinds of characters: no parser needs more than 2 s for 8 MiB, and none holds up a run."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tool_reports import CONTEXT, ERRORS, REPORTS, texts_of

from vtax.benchmarks import registry
from vtax.benchmarks.base import Benchmark, Role
from vtax.conformance.fillings import NAMES, filling
from vtax.counters import guest
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.bounded_calls import BoundedCalls, CallEnded
from vtax.host.waiting import wait_until
from vtax.runner.parsers import Parsers

WHOLE = 8 << 20  # characters kept of one output
SHORT = 1 << 20
LONGEST_S = 2.0  # CPU time for WHOLE
FORK_S = 0.5  # of the process, and for what it receives
Report = tuple[Benchmark, dict[str, Any], dict[str, str]]


def reports() -> list[Report]:
    """Every benchmark there is, with real outputs by role where tests have some."""
    known = [
        (registry.get(name), parameters, texts_of(files)) for name, parameters, files in REPORTS
    ]
    names = {benchmark.name for benchmark, _, _ in known}
    return known + [
        (each, {}, {}) for name, each in registry.benchmarks().items() if name not in names
    ]


def printed(
    benchmark: Benchmark, parameters: Any, texts: dict[str, str], status: int
) -> dict[Role, CommandResult]:
    """Results of every program of a trial."""
    roles = [command.role for command in benchmark.commands(parameters, CONTEXT)]
    return {
        role: CommandResult(
            (benchmark.tool,), status, texts[role], texts[role + ERRORS], 100.0, 100.0, 1.0
        )
        for role in roles
    }


def cpu_s() -> float:
    """CPU time of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(report: Report, texts: dict[str, str], status: int, size: int) -> None:
    """Parse outputs; fails for a parser that needs too long for so many characters."""
    benchmark, values, _ = report
    parameters = benchmark.Parameters(**values)
    before = cpu_s()
    with Parsers([(benchmark, parameters)]) as parsers:
        for call in (
            lambda: parsers.outcome(
                benchmark,
                parameters,
                CONTEXT,
                printed(benchmark, parameters, texts, status),
                10 * LONGEST_S,
            ),
            lambda: parsers.version(benchmark, next(iter(texts.values()))),
        ):
            try:
                call()
            except BenchmarkError as error:
                if isinstance(error.__cause__, CallEnded):
                    pytest.fail(f"{benchmark.name}: {error}")
    used = cpu_s() - before
    assert used <= LONGEST_S * (size / WHOLE) + FORK_S, f"{benchmark.name}: {used:.2f} s of CPU"


def filled(report: Report, name: str, size: int) -> dict[str, str]:
    """The filling of a name for both outputs of every program."""
    benchmark, values, real = report
    roles = [
        command.role for command in benchmark.commands(benchmark.Parameters(**values), CONTEXT)
    ]
    outputs = [role + stream for role in roles for stream in ("", ERRORS)]
    return {output: kept(filling(name, size, real.get(output, "")), size) for output in outputs}


def kept(text: str, size: int) -> str:
    """As much of an output as the controller keeps: bytes, not characters."""
    return text if text.isascii() else text.encode()[:size].decode(errors="ignore")


@pytest.mark.parametrize("name", NAMES)
def test_every_parser_is_linear_in_every_filling(name):
    for report in reports():
        read(report, filled(report, name, SHORT), 0, SHORT)


@pytest.mark.whole(2_000)
def test_every_parser_is_linear_in_parts_of_its_report(campaign, pytestconfig):
    every, size = reports(), SHORT if pytestconfig.getoption("--attacks") is None else WHOLE

    def attack(random: Random) -> None:
        report = random.choice(every)
        texts = filled(report, random.choice(NAMES), size)
        for output in texts if random.random() < 0.8 else ():
            real = report[2].get(output, "")
            start = random.randrange(len(real)) if real else 0
            if part := real[start : start + random.choice((3, 10, 30, 100))]:
                part = part.replace("\n", " ") if random.random() < 0.7 else part
                before = real[: random.choice((0, start))]
                texts[output] = kept(
                    before + part * (size // len(part)) + random.choice(("", real[start:])), size
                )
        read(report, texts, random.choice((0, 0, 0, 1)), size)

    campaign(60, attack)


@pytest.mark.parametrize("name", NAMES)
def test_counters_are_linear_in_what_a_kernel_counts(name):
    text = filling(
        name, 1 << 18, "cpu0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14\nTcp: a 1\nTcp: 1 1\n"
    ).encode()
    before = time.process_time()
    guest.parse(dict.fromkeys(guest.PATHS, text))
    assert time.process_time() - before < LONGEST_S


HOSTILE = "import re; re.match('(a+)+$', 'a' * 5000 + '!')"


def test_memory_and_crashes_of_a_parser_end_the_call_and_the_next_one_works():
    with BoundedCalls(eval, memory_bytes=64 << 20) as calls:
        with pytest.raises(CallEnded, match="needed more than 64 MiB of memory"):
            calls.call("len(bytes(1 << 30))", timeout_s=20.0)
        with pytest.raises(CallEnded, match=r"ended with signal 11 \(SIGSEGV\)"):
            calls.call("__import__('os').kill(__import__('os').getpid(), 11)", timeout_s=20.0)
        with pytest.raises(CallEnded, match=r"took more than 0\.5 s"):
            calls.call(f"exec({HOSTILE!r})", timeout_s=0.5)
        with pytest.raises(CallEnded, match="raised ZeroDivisionError"):
            calls.call("1 / 0", timeout_s=20.0)
        with pytest.raises(CallEnded, match="returned more than 16 MiB"):
            calls.call("bytes(20 << 20)", timeout_s=20.0)
        assert calls.call("6 * 7", timeout_s=20.0) == 42
        assert calls.call("__import__('os').listdir('/proc/self/fd')", timeout_s=20.0) <= list(
            "012345"
        )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_end_vtax_while_a_parser_runs_and_nothing_is_left(number):
    code = f"""
from vtax.host.bounded_calls import BoundedCalls
from vtax.host.interrupts import stop_requests
with stop_requests(print), BoundedCalls(exec) as calls:
    print(calls._pid, flush=True)
    calls.call({HOSTILE!r}, timeout_s=300.0)
"""
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    child = Path("/proc", running.stdout.readline().decode().strip())
    time.sleep(0.5)
    assert child.exists()
    running.send_signal(number)
    assert running.wait(20) != 0
    wait_until(
        lambda: not child.exists(), 5.0, 0.05, otherwise=lambda: AssertionError(f"{child} is left")
    )
    running.stdout.close()
