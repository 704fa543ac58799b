"""How long a trial is: by the time that its tool is given, or by the count of what it does.

A study that asks for trials of equal time (`trial_time`) gives every platform its own count. What such trials measure
must not depend on that count: `Metric.is_per_unit` says of each metric whether it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from vtax.benchmarks.base import SHORTEST_S, Benchmark, Context, Metric, Parameters, WorkParameter
from vtax.errors import BadInput
from vtax.stats.means import TRIAL_TIME

DURATION = "duration_s"


def given_time(benchmark: Benchmark, parameters: Parameters, trial_time_s: float) -> Parameters:
    """Return the parameters with the time of a trial, of a tool that takes it; else as they were.

    Raises BadInput for a benchmark that can measure neither for such a time nor a count of work, and where the study
    also gives what the time decides.
    """
    work = benchmark.counted(parameters)
    field = benchmark.Parameters.model_fields.get(DURATION)
    takes_time = field is not None and _takes(field, trial_time_s)
    decided = {DURATION}
    if work is not None and not takes_time:
        decided.add(work.parameter)
    for name in sorted(decided & parameters.model_fields_set):
        raise BadInput(
            f"trial_time decides {name} of {benchmark.name}, which the study gives too",
            hint=f"keep one of the two, trial_time or {name}",
        )
    if takes_time:
        return _with_value(parameters, DURATION, trial_time_s)
    if work is None:
        raise _no_trial_time(benchmark, field, trial_time_s)
    return parameters


def with_count(parameters: Parameters, work: WorkParameter, count: float) -> Parameters:
    """Return parameters of a trial that does so much, in whole steps."""
    steps = max(round(count / work.step), math.ceil(work.least / work.step))
    return _with_value(parameters, work.parameter, steps * work.step)


def with_least_work(benchmark: Benchmark, parameters: Parameters) -> Parameters | None:
    """Return parameters of a trial that does hardly more than start and end.

    None where there are none.
    """
    work = benchmark.counted(parameters)
    field = benchmark.Parameters.model_fields.get(DURATION)
    try:
        if DURATION not in parameters.model_fields_set and work is not None:
            return with_count(parameters, work, work.least)
        if field is not None and _takes(field, SHORTEST_S):
            return _with_value(parameters, DURATION, SHORTEST_S)
    except ValidationError:
        return None
    return None


def expected_s(
    benchmark: Benchmark, parameters: Parameters, context: Context, trial_time_s: float | None
) -> float:
    """Return about how long a trial takes. trial_time_s: that a count of work is to last; None where none is sought."""
    if trial_time_s is None:
        return benchmark.expected_s(parameters, context)
    least_parameters = with_least_work(benchmark, parameters) or parameters
    return benchmark.expected_s(least_parameters, context) + trial_time_s


def stored_parameters(
    parameters: Parameters, work: WorkParameter, trial_time_s: float
) -> dict[str, Any]:
    """Return the parameters of a cell as a run keeps them, until the count of its trials is known."""
    values = parameters.model_dump(mode="json")
    return {**values, work.parameter: None, TRIAL_TIME: trial_time_s}


def read_parameters(benchmark: Benchmark, stored: Mapping[str, Any]) -> Parameters:
    """Return the parameters that a run has of a cell. Raises ValidationError for those of another version of vtax."""
    values = {name: value for name, value in stored.items() if name != TRIAL_TIME}
    if TRIAL_TIME in stored:
        values = {name: value for name, value in values.items() if value is not None}
        values.pop(DURATION, None)
    return benchmark.Parameters.model_validate(values)


def found_count(benchmark: Benchmark, stored: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the parameter and the count that a platform found for trials of equal time; None where there is none."""
    if TRIAL_TIME not in stored:
        return None
    try:
        work = benchmark.counted(read_parameters(benchmark, stored))
    except ValidationError:  # of another version of vtax
        return None
    if work is None or stored.get(work.parameter) is None:
        return None
    return work.parameter, stored[work.parameter]


def comparable_metrics(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Return the metrics that trials of unlike counts have in common."""
    return tuple(metric for metric in metrics if metric.is_per_unit)


def _with_value(parameters: Parameters, name: str, value: float) -> Parameters:
    """Return parameters with another value of one of them, checked like those of a study."""
    values = parameters.model_dump(exclude_unset=True)
    return type(parameters).model_validate({**values, name: value})


def _takes(field: FieldInfo, time_s: float) -> bool:
    """Return whether a tool's time may be so long: many take whole seconds alone."""
    return field.annotation is float or (field.annotation is int and time_s == round(time_s))


def _no_trial_time(benchmark: Benchmark, field: FieldInfo | None, trial_time_s: float) -> BadInput:
    if field is not None and field.annotation is int:
        return BadInput(
            f"{benchmark.name} measures for whole seconds, and trial_time is {trial_time_s:g} s",
            hint="trial_time = '1s', or another tool: vtax benchmarks lists them",
        )
    why = benchmark.no_count or "what it does is one piece of work"
    return BadInput(
        f"{benchmark.name} takes no trial_time: {why}",
        hint=f"take trial_time out; vtax benchmarks {benchmark.name} explains every parameter",
    )
