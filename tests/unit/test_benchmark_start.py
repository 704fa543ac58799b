"""start: what the runner writes of each start, and the figures of it."""

import json
import subprocess
import sys

import pytest

from vtax.benchmarks.base import Context
from vtax.benchmarks.start import Start, StartParameters
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

BENCHMARK = Start()

CONTEXT = Context(vcpus=1, memory_bytes=2**28)


def parse(lines, **parameters):
    """lines: of guests that start alone, or lists of those that start at once."""
    bursts = [line if isinstance(line, list) else [line] for line in lines]
    text = "".join(json.dumps(burst) + "\n" for burst in bursts)
    result = CommandResult(("vtax", "start"), 0, text, "", 1.0, 1.0)
    return BENCHMARK.parse(StartParameters(**parameters), CONTEXT, {"single": result})


def test_a_figure_is_the_median_and_every_start_is_a_sample():
    starts = [
        {"executing": 0.1 * n, "agent_ready": 0.2 * n, "server_answer": 0.3 * n} for n in (1, 2, 9)
    ]
    outcome = parse(starts, repetitions=3, image="cold")
    assert outcome.values == pytest.approx(
        {
            "executing": 0.2,
            "agent_ready": 0.4,
            "server_answer": 0.6,
            "server_answer_p95": 2.7,
            "server_answer_p99": 2.7,
            "started": 100,
        }
    )
    assert list(outcome.samples["server_answer"]) == pytest.approx([0.3, 0.6, 2.7])
    assert outcome.effective == {"image": "cold", "starts": 3, "stagger_s": 0.0}
    assert outcome.warnings == ()


def answered(answer_s):
    return {"agent_ready": answer_s / 2, "server_answer": answer_s}


def test_of_guests_at_once_those_that_did_not_start_are_a_share_and_a_warning():
    bursts = [[answered(1.0), answered(3.0)], [{"error": "no memory"}, answered(2.0)]]
    outcome = parse(bursts, repetitions=2, stagger_s=0.5)
    assert outcome.values["started"] == 75
    assert outcome.values["server_answer"] == 2.0
    assert outcome.values["server_answer_p99"] == 3.0
    assert outcome.histograms["server_answer"] == [1.0, 1.0, 2.0, 1.0, 3.0, 1.0]
    assert outcome.effective == {"image": "warm", "starts": 3, "stagger_s": 0.5}
    assert outcome.warnings == (Note("starts-failed", failed=1, total=4, reason="no memory"),)


def test_more_starts_than_a_trial_may_store_have_percentiles_and_no_samples():
    outcome = parse([[answered(1.0 + n) for n in range(301)]] * 2, repetitions=2)
    assert outcome.samples == {}
    assert outcome.values["server_answer_p95"] == 286.0


def test_a_stage_that_the_platform_does_not_show_is_left_out():
    outcome = parse([{"agent_ready": 1.0, "server_answer": 2.0}] * 2, repetitions=2)
    assert "executing" not in outcome.values
    assert outcome.values["agent_ready"] == 1.0


def test_page_faults_are_a_figure_where_every_start_has_them():
    stages = {"agent_ready": 1.0, "server_answer": 2.0}
    outcome = parse(
        [stages | {"host_faults": count} for count in (90_000, 100_000, 300_000)], repetitions=3
    )
    assert outcome.values["host_faults"] == 100_000
    assert list(outcome.samples["host_faults"]) == [90_000, 100_000, 300_000]
    assert "host_faults" not in parse([stages | {"host_faults": 1}, stages], repetitions=2).values


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"agent_ready": 1.0, "server_answer": 2.0}], "1 starts were timed where 2"),
        ([{"agent_ready": 1.0}] * 2, "no time of server_answer"),
        ([{"agent_ready": 1.0, "server_answer": -2.0}] * 2, "-2.0 s of server_answer"),
        ([{"agent_ready": 1.0, "server_answer": "2"}] * 2, "'2' s of server_answer"),
        ([{"agent_ready": 10**400, "server_answer": 2.0}] * 2, "s of agent_ready"),
        ([{"agent_ready": 1.0, "server_answer": 2.0, "host_faults": -1}] * 2, "-1 host_faults"),
        ([[], []], "not described as objects"),
        ([[1], [2]], "not described as objects"),
        ([[answered(1.0)] * 2, [answered(1.0)]], "2 starts were timed where 2"),
        ([[{"error": "no memory"}] * 2] * 2, "none of 4 guests started: no memory"),
    ],
)
def test_starts_that_cannot_be_are_refused(lines, words):
    with pytest.raises(BenchmarkError, match=words):
        parse(lines, repetitions=2)


def test_the_server_answers_its_client(tmp_path):
    (command,) = BENCHMARK.commands(StartParameters(), Context(1, 1, scratch=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, *command.argv[1:]], timeout=30, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []
