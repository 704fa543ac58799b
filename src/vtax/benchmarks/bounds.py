"""Physical bounds of what tools report: one table for every benchmark, checked on every outcome in one place.

A tool that lost its server, a counter that overflowed or a clock that went backwards still prints a number, with
status 0. So no parser checks what holds for every tool: a share is from 0 to 100 %, nothing takes longer than its
trial, a rate of something that was done is above 0, and no more arrives than was sent. What contradicts one of these
fails the trial, and the error names value and bound.

What a tool says of itself beside the result (`Metric.is_aside`) is left out where it is impossible, with a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeGuard

from vtax.benchmarks.base import Benchmark, Context, Metric, Outcome, Role, metrics_of
from vtax.benchmarks.words import complaint_of
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Units of time: nothing that a trial timed took longer than the trial."""
LARGEST: Mapping[str, float] = {"Mbit/s": 1e7, "MB/s": 1e8, "Mflop/s": 1e9, "IOPS": 1e9}
"""Rates beyond every machine there is, by unit."""
_LARGEST_RATE = 1e12  # a second, of anything else: several a cycle of every CPU
# the tool's clock is the guest's, the trial's the controller's
_CLOCK_ROOM, _CLOCK_ROOM_S = 1.01, 0.1
_CPU_ROOM = 1.2  # a tool reads the CPU time and the time at different moments
_RATE_ROOM = 1.05  # both ends time themselves
_LATENCY_ROOM = 1.15  # percentiles are those of the bins of a histogram
_IN_BUFFERS_BYTES = 16 << 20  # sent before the time that is counted, and arrived in it
_IN_QUEUES_BYTES = 2 << 20
"""Bytes of datagrams that are sent within the time, and have neither arrived nor are lost at its end."""
_LOSS_ROOM = 0.1


@dataclass(frozen=True)
class PossibleValues:
    """The values that a metric can have, from zero.

    high: the upper bound.
    is_open: whether zero itself is impossible.
    reason: what the upper bound is, in words.
    """

    high: float
    is_open: bool = False
    reason: str = ""

    def refusal_of(self, value: float) -> str:
        """Return why a value is impossible; empty where it is possible."""
        if not math.isfinite(value):
            return "is no number"
        if value < 0:
            return "is below 0"
        if value == 0 and self.is_open:
            return "is not above 0: nothing was done"
        if value <= self.high:
            return ""
        return (
            f"is above {self.high:.6g}, {self.reason}"
            if self.reason
            else f"is above {self.high:.6g}"
        )


def bounds_of(metric: Metric, context: Context, trial_s: float) -> PossibleValues:
    """Return the bounds of a metric, by its unit. trial_s: how long the tool ran, 0 unknown."""
    is_open = metric.better == "higher" and not metric.may_be_zero
    is_of_cpus = metric.most == "cpus"
    cpus = _cpus(context, trial_s) if is_of_cpus else 1.0
    if metric.most == "unknown":
        return PossibleValues(math.inf, is_open)
    if metric.unit == "%" and is_of_cpus:
        return PossibleValues(100.0 * cpus * _CPU_ROOM, is_open, f"all of {cpus:.3g} CPUs")
    if metric.unit == "%":
        return PossibleValues(100.0, is_open)
    if metric.unit in SECONDS:
        longest_s = trial_s * _CLOCK_ROOM + _CLOCK_ROOM_S if trial_s else math.inf
        high = longest_s * cpus / SECONDS[metric.unit]
        return PossibleValues(high, is_open, f"the {trial_s:.6g} s that the tool ran")
    rate = _LARGEST_RATE if metric.unit.endswith("/s") else math.inf
    return PossibleValues(LARGEST.get(metric.unit, rate), is_open)


def _cpus(context: Context, trial_s: float) -> float:
    """Return how many CPUs the guest or its peer can have kept busy for the whole of a trial."""
    cpus = float(max(context.vcpus, context.peer_vcpus))
    if context.cpu_room_s:
        cpus += context.cpu_room_s / trial_s if trial_s else math.inf
    return cpus


def check_outcome(
    benchmark: Benchmark,
    context: Context,
    results: Mapping[Role, CommandResult],
    outcome: Outcome,
) -> Outcome:
    """Return an outcome in which every value is possible, without those beside the result that are not.

    Raises BenchmarkError naming the value and its bound.
    """
    foreground = results.get("single") or results.get("client")
    trial_s = foreground.outside_s if foreground else 0.0
    values, warnings = dict(outcome.values), list(outcome.warnings)
    for metric in metrics_of(benchmark):
        bounds = bounds_of(metric, context, trial_s)
        refusals = list(_refusals(metric, outcome, bounds))
        if not refusals:
            continue
        if not (metric.is_aside and math.isfinite(values[metric.name])):
            raise BenchmarkError(
                f"{benchmark.tool} reports {refusals[0]}",
                where=complaint_of(foreground) if foreground else "",
                hint=benchmark.hint_of_zero if _is_zero(metric, outcome) else "",
            )
        warnings.append(Note("figure-left-out", text=refusals[0]))
        del values[metric.name]
    contradictions = list(_contradictions(values, trial_s))
    if contradictions:
        raise BenchmarkError(f"{benchmark.tool} reports {contradictions[0]}")
    for name, value in outcome.effective.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BenchmarkError(f"{benchmark.tool} reports {value} for {name}, which is no number")
    return replace(outcome, values=values, warnings=tuple(warnings))


def _refusals(metric: Metric, outcome: Outcome, bounds: PossibleValues) -> Iterator[str]:
    """Yield what is impossible of a metric: its value, and values within the trial, of which some may be 0."""
    value = outcome.values.get(metric.name)
    if _is_number(value):
        why = bounds.refusal_of(value)
        if why:
            yield f"{metric.name} {value:.6g} {metric.unit}, which {why}"
    sample_bounds = replace(bounds, is_open=False)
    for sample in filter(_is_number, outcome.samples.get(metric.name, ())):
        why = sample_bounds.refusal_of(sample)
        if why:
            yield f"{metric.name} {sample:.6g} {metric.unit} within the trial, which {why}"


def _is_zero(metric: Metric, outcome: Outcome) -> bool:
    return outcome.values.get(metric.name) == 0


def _is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value can be compared; what cannot is refused as no outcome."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contradictions(values: Mapping[str, float], trial_s: float) -> Iterator[str]:
    """Yield what is impossible of values together."""
    yield from _more_than_sent(values, trial_s)
    yield from _contradicted_loss(values, trial_s)
    yield from _contradicted_order(values)


def _more_than_sent(values: Mapping[str, float], trial_s: float) -> Iterator[str]:
    received, sent = values.get("throughput"), values.get("sent")  # Mbit/s, as all below
    if received is None or sent is None:
        return
    maximum = sent * _RATE_ROOM + _mbit_s(_IN_BUFFERS_BYTES, trial_s)
    if received > maximum:
        yield (
            f"throughput {received:.6g} Mbit/s at the receiver, which is above {maximum:.6g} Mbit/s: "
            f"{sent:.6g} Mbit/s were sent"
        )


def _contradicted_loss(values: Mapping[str, float], trial_s: float) -> Iterator[str]:
    """Yield a loss that does not explain what did not arrive. Only tools of datagrams report one."""
    received, sent = values.get("throughput"), values.get("sent")
    loss_percent = values.get("loss")
    if received is None or sent is None or loss_percent is None or trial_s <= 0:
        return
    minimum = sent * (1 - loss_percent / 100 - _LOSS_ROOM) - _mbit_s(_IN_QUEUES_BYTES, trial_s)
    if received < minimum:
        yield (
            f"loss {loss_percent:.6g} %, which contradicts its rates: of {sent:.6g} Mbit/s that were sent "
            f"{received:.6g} Mbit/s arrived, and at least {minimum:.6g} Mbit/s must have"
        )


def _mbit_s(size_bytes: int, trial_s: float) -> float:
    return size_bytes * 8 / 1e6 / trial_s if trial_s > 0 else math.inf


_STATISTIC = re.compile(r"(?P<of>(?:.*_)?)(?P<name>min|avg|mean|max|p\d+)(?P<job>(?:\..*)?)")


def _contradicted_order(values: Mapping[str, float]) -> Iterator[str]:
    """Yield statistics of the same quantity in an order that none can have, such as a mean above the maximum."""
    families: dict[tuple[str, str], dict[str, str]] = {}
    for name in values:
        match = _STATISTIC.fullmatch(name)
        if match:
            family = families.setdefault((match["of"], match["job"]), {})
            family[match["name"]] = name
    for family in families.values():
        percentiles = [statistic for statistic in family if statistic.startswith("p")]
        percentiles.sort(key=lambda percentile: float(f"0.{percentile[1:]}"))
        for order in (
            ("min", "avg", "max"),
            ("min", "mean", "max"),
            ("min", *percentiles, "max"),
        ):
            names = [family[statistic] for statistic in order if statistic in family]
            for smaller, larger in pairwise(names):
                if values[smaller] > values[larger] * _LATENCY_ROOM:
                    yield f"{smaller} {values[smaller]:.6g}, which is above {larger} {values[larger]:.6g}"
