"""The example of docs/add-a-benchmark.md is a working benchmark."""

import subprocess
import sys
from dataclasses import replace

import pytest
from doc_examples import module_of
from pydantic import ValidationError

from vtax.benchmarks.base import Context
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

TIMEIT = module_of("add-a-benchmark.md", "doc_timeit").Timeit()
CONTEXT = Context(vcpus=1, memory_bytes=512 << 20)


@pytest.fixture(scope="module")
def parameters():
    return TIMEIT.Parameters(keys=10, loops=200, repetitions=3)


@pytest.fixture(scope="module")
def result(parameters):
    """What the tool really prints here."""
    (command,) = TIMEIT.commands(parameters, CONTEXT)
    argv = [sys.executable, *command.argv[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return CommandResult(
        command.argv, done.returncode, done.stdout, done.stderr, outside_s=0.1, inside_s=0.1
    )


def test_it_measures(parameters, result):
    outcome = TIMEIT.parse(parameters, CONTEXT, {"single": result})
    assert outcome.values.keys() == {metric.name for metric in TIMEIT.metrics}
    assert 10 < outcome.values["time"] < 1e9
    assert outcome.effective == {"loops": 200, "repetitions": 3, "documents": 600}


@pytest.mark.parametrize(
    "broken", [{"status": 1}, {"stdout": ""}, {"stdout": "2000 laps, fastest of 5: 7 usec"}]
)
def test_a_failed_tool_and_unknown_output_are_errors(parameters, result, broken):
    with pytest.raises(BenchmarkError):
        TIMEIT.parse(parameters, CONTEXT, {"single": replace(result, **broken)})


def test_units_are_nanoseconds(parameters, result):
    slow = replace(result, stdout="200 loops, best of 3: 1.25 msec per loop\n")
    assert TIMEIT.parse(parameters, CONTEXT, {"single": slow}).values == {"time": 1.25e6}


def test_its_version_is_found():
    assert TIMEIT.version_of("Python 3.13.5\n") == "3.13.5"
    with pytest.raises(BenchmarkError):
        TIMEIT.version_of("command not found")


def test_unknown_parameters_are_refused():
    with pytest.raises(ValidationError):
        TIMEIT.Parameters(kees=3)
