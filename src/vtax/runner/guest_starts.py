"""Trials that are starts of guests, timed by stages on the controller's clock, one guest after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vtax.benchmarks.base import Benchmark, Context, Outcome
from vtax.counters.host import HostSample, host_warnings
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host import page_cache
from vtax.messages import Note
from vtax.runner.containment import Failure, contained
from vtax.runner.counting import Endpoint
from vtax.runner.parsers import Parsers
from vtax.runner.trial import TrialResult, bounded_outputs

EXECUTING, AGENT_READY, SERVER_ANSWER = "executing", "agent_ready", "server_answer"
PAGE_FAULTS = "host_faults"
_ALLOWED_RESIDENT = 1 << 20  # bytes: an image is hundreds of megabytes


def run_starts(
    parsers: Parsers,
    benchmark: Benchmark,
    parameters: Any,
    context: Context,
    start: Callable[[], Endpoint],
    stop: Callable[[], None],
    image: Path | None,
    timeout_s: float,
) -> TrialResult:
    """Start as many guests as the parameters say, one after the other.

    start: starts a guest until its agent is ready.
    stop: ends it.
    image: directory of the files that a cold start finds outside the page cache.
    timeout_s: of the whole trial.
    """
    started_at, began = time.time(), time.monotonic()
    cold = image if benchmark.is_cold(parameters) else None
    starts: list[dict[str, float]] = []
    resident = 0
    failure, outcome, host = Failure(), Outcome({}), HostSample.take()
    with contained(failure):
        if cold is None:
            start()
            stop()
        for number in range(benchmark.repetitions(parameters)):
            _refuse_late(number, time.monotonic() - began, timeout_s)
            if cold is not None:
                page_cache.drop(cold)
                resident = max(resident, page_cache.resident_bytes(cold))
            try:
                starts.append(_time_stages(benchmark, parameters, context, start()))
            finally:
                stop()
    result = _as_output(starts, time.monotonic() - began)
    if not failure:
        with contained(failure):
            outcome = parsers.outcome(benchmark, parameters, context, {"single": result})
    results, cut = bounded_outputs({"single": result})
    return TrialResult(
        started_at=started_at,
        outcome=outcome,
        results=results,
        foreground=result,
        counters={},
        warnings=(*_cache_warnings(resident), *host_warnings(host, HostSample.take(), None), *cut),
        error=failure.error,
        traceback=failure.traceback,
    )


def _refuse_late(number: int, elapsed_s: float, timeout_s: float) -> None:
    if elapsed_s > timeout_s:
        raise BenchmarkError(
            f"{number} guests were started in {timeout_s:g} s",
            hint="lower repetitions, or raise timeout in [design]",
        )


def _time_stages(
    benchmark: Benchmark, parameters: Any, context: Context, endpoint: Endpoint
) -> dict[str, float]:
    """Return seconds from the request to each stage of a guest whose agent has just become ready, and page faults."""
    requested = endpoint.requested_at
    stages = {}
    agent_ready_s = time.monotonic() - requested
    if endpoint.running.executing_at is not None:
        stages[EXECUTING] = endpoint.running.executing_at - requested
    stages[AGENT_READY] = agent_ready_s
    (command,) = benchmark.commands(parameters, replace(context, scratch=endpoint.running.scratch))
    answer = endpoint.guest.run(command.argv, environment=command.environment)
    stages[SERVER_ANSWER] = time.monotonic() - requested
    page_faults = endpoint.running.page_faults()
    if page_faults is not None:
        stages[PAGE_FAULTS] = page_faults
    if answer.status != 0:
        raise BenchmarkError(f"no server answered in the guest: {answer.stderr.strip()[-300:]}")
    return stages


def _as_output(starts: Sequence[dict[str, float]], outside_s: float) -> CommandResult:
    """Return the stages of all starts as the output of a program, a line of JSON each."""
    text = "".join(json.dumps(stages) + "\n" for stages in starts)
    return CommandResult(("vtax", "start"), 0, text, "", outside_s, outside_s)


def _cache_warnings(resident: int) -> tuple[Note, ...]:
    if resident <= _ALLOWED_RESIDENT:
        return ()
    return (Note("cold-image", size=resident >> 20),)
