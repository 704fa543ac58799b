"""Trials that are starts of guests, timed by stages on the controller's clock: one after the other, or several at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from vtax.benchmarks.base import Benchmark, Context, Outcome
from vtax.counters.host import HostSample, host_warnings
from vtax.errors import BenchmarkError, VtaxError
from vtax.foreign_text import one_line
from vtax.guest.results import CommandResult
from vtax.host import page_cache
from vtax.messages import Note, quoted
from vtax.runner import density
from vtax.runner.containment import Failure, contained
from vtax.runner.counting import Endpoint
from vtax.runner.parsers import Parsers
from vtax.runner.points import Point
from vtax.runner.trial import TrialResult, bounded_outputs

EXECUTING, AGENT_READY, SERVER_ANSWER = "executing", "agent_ready", "server_answer"
PAGE_FAULTS = "host_faults"
ERROR = "error"
_ALLOWED_RESIDENT = 1 << 20  # bytes: an image is hundreds of megabytes
_MAX_REASON = 300  # characters of why a guest did not start

Stages = Mapping[str, float | str]
"""Seconds from the request to each stage of a guest, and its page faults; or why it did not start."""


def run_starts(
    parsers: Parsers,
    point: Point,
    context: Context,
    start: Callable[[int], Endpoint],
    stop: Callable[[], None],
    image: Path | None,
    timeout_s: float,
) -> TrialResult:
    """Start guests as often as the parameters say: one, or as many at once as the study places side by side.

    start: starts a guest, by its number among those at once, until its agent is ready.
    stop: ends all that were started.
    image: directory of the files that a cold start finds outside the page cache.
    timeout_s: of the whole trial.
    """
    benchmark, parameters, guests = point.benchmark, point.parameters, point.colocation.guests
    started_at, began = time.time(), time.monotonic()
    cold = image if benchmark.is_cold(parameters) else None
    bursts: list[Sequence[Stages]] = []
    memory: Mapping[str, float] = {}
    resident = 0
    failure, outcome, host = Failure(), Outcome({}), HostSample.take()
    with contained(failure), ThreadPoolExecutor(guests) as threads:
        burst = _Burst(benchmark, parameters, context, guests, start, threads)
        if cold is None:
            start(0)
            stop()
        for number in range(benchmark.repetitions(parameters)):
            _refuse_late(number, time.monotonic() - began, timeout_s)
            if cold is not None:
                page_cache.drop(cold)
                resident = max(resident, page_cache.resident_bytes(cold))
            try:
                bursts.append(burst.run())
                if point.colocation.is_counted:
                    memory = density.memory_per_guest(
                        [endpoint.running for endpoint in burst.ready]
                    )
            finally:
                stop()
    result = _as_output(bursts, time.monotonic() - began)
    if not failure:
        with contained(failure):
            outcome = parsers.outcome(benchmark, parameters, context, {"single": result})
            outcome = replace(outcome, values={**outcome.values, **memory})
    results, cut = bounded_outputs({"single": result})
    return TrialResult(
        started_at=started_at,
        outcome=outcome,
        results=results,
        foreground=result,
        counters={},
        warnings=(
            *map(quoted, outcome.warnings),
            *_cache_warnings(resident),
            *host_warnings(host, HostSample.take(), None),
            *cut,
        ),
        error=failure.error,
        traceback=failure.traceback,
    )


class _Burst:
    """Guests that are requested at once, or one some time after the other, each by a thread of its own.

    The threads live until the guests have ended: what a thread started may end with it (bwrap --die-with-parent).

    ready: the guests of the last burst whose server answered.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        parameters: Any,
        context: Context,
        guests: int,
        start: Callable[[int], Endpoint],
        threads: ThreadPoolExecutor,
    ) -> None:
        self._benchmark = benchmark
        self._parameters = parameters
        self._context = context
        self._guests = guests
        self._start = start
        self._threads = threads
        self.ready: list[Endpoint] = []

    def run(self) -> list[Stages]:
        """Start the guests; return the stages of each. Raises what a guest raises that is alone."""
        self.ready = []
        if self._guests == 1:
            return [self._time_stages(0)]
        may_begin, is_over = Event(), Event()
        started: list[Future[Stages]] = []
        try:
            for number in range(self._guests):
                started.append(self._threads.submit(self._requested, number, may_begin, is_over))
            may_begin.set()  # not before all are known here: who stops the run waits for each of them
            return [one.result() for one in started]
        finally:
            is_over.set()
            may_begin.set()
            wait(started)  # a guest that is on its way when the run is stopped would outlive it

    def _requested(self, number: int, may_begin: Event, is_over: Event) -> Stages:
        """Start a guest when it is its turn; return its stages, or why it did not start."""
        may_begin.wait()
        is_over.wait(number * self._benchmark.stagger_s(self._parameters))
        if is_over.is_set():
            return {ERROR: "the run was stopped"}
        try:
            return self._time_stages(number)
        except (VtaxError, OSError) as error:
            return {ERROR: one_line(str(error), _MAX_REASON)}

    def _time_stages(self, number: int) -> Stages:
        """Return seconds from the request to each stage of a guest, and page faults."""
        endpoint = self._start(number)
        requested = endpoint.requested_at
        stages = {}
        agent_ready_s = time.monotonic() - requested
        if endpoint.running.executing_at is not None:
            stages[EXECUTING] = endpoint.running.executing_at - requested
        stages[AGENT_READY] = agent_ready_s
        context = replace(self._context, scratch=endpoint.running.scratch)
        (command,) = self._benchmark.commands(self._parameters, context)
        answer = endpoint.guest.run(command.argv, environment=command.environment)
        stages[SERVER_ANSWER] = time.monotonic() - requested
        page_faults = endpoint.running.page_faults()
        if page_faults is not None:
            stages[PAGE_FAULTS] = page_faults
        if answer.status != 0:
            raise BenchmarkError(f"no server answered in the guest: {answer.stderr.strip()[-300:]}")
        self.ready.append(endpoint)
        return stages


def _refuse_late(number: int, elapsed_s: float, timeout_s: float) -> None:
    if elapsed_s > timeout_s:
        raise BenchmarkError(
            f"guests were started {number} times in {timeout_s:g} s",
            hint="lower repetitions, or raise timeout in [design]",
        )


def _as_output(bursts: Sequence[Sequence[Stages]], outside_s: float) -> CommandResult:
    """Return the stages of all starts as the output of a program: a line of JSON for those at once."""
    text = "".join(json.dumps(stages) + "\n" for stages in bursts)
    return CommandResult(("vtax", "start"), 0, text, "", outside_s, outside_s)


def _cache_warnings(resident: int) -> tuple[Note, ...]:
    if resident <= _ALLOWED_RESIDENT:
        return ()
    return (Note("cold-image", size=resident >> 20),)
