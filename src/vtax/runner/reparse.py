"""Stored raw outputs, read again by today's parsers: which figures change, and what trials are to be then.

Settings in force, samples and warnings of the tool follow the parser, too. A setting that it no longer gives stays,
since the store does not say which settings came from it; what it reads of the host, it reads of this one.

The store keeps what programs printed, their exit status and their durations. It keeps no CPU time of a program, so a
figure that needs it (`cpu_per_1000_events`, `cpu_per_gigabyte`) stays as it is, and what a parser would refuse by the
rate of a link or by CPU time was refused in the trial already. A trial that failed counts now only when reading its
output is what failed then.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vtax.benchmarks import registry
from vtax.benchmarks.base import Benchmark, Context, Outcome, Parameters, Role, metrics_of
from vtax.benchmarks.program import Program
from vtax.errors import BadInput, BenchmarkError
from vtax.foreign_text import clean
from vtax.guest.results import CommandResult
from vtax.messages import quoted
from vtax.platforms.cpu_limits import BOUNDED
from vtax.runner.cold_cache import LEFT, with_cold_cache
from vtax.runner.density import over_guests
from vtax.runner.disks import on_host
from vtax.runner.parsers import Parsers
from vtax.runner.resume import stored_study
from vtax.runner.trial import combined
from vtax.store.query import OutputRow, outputs_of_each
from vtax.store.records import HISTOGRAMS, LISTS, SAMPLES, CellRecord
from vtax.store.reparse import Revision, StoredTrial, stored_trials
from vtax.store.store import RunHandle, Store
from vtax.study.model import Study
from vtax.study.refusals import validated

GUESTS = "guests"  # the factor of several guests at once
_ROLES: tuple[Role, ...] = ("single", "client", "server")


@dataclass(frozen=True)
class Change:
    """A figure that is another one now. old, new: None where there is none. error: why there is none now."""

    position: int
    block: int
    cell: CellRecord
    metric: str
    unit: str
    old: float | None
    new: float | None
    error: str = ""


@dataclass(frozen=True)
class Difference:
    """Something else of a trial that is another now. what: `effective`, `samples` or `warning`.

    name: of the setting or the metric; empty for a warning. old, new: JSON values, None where there is none.
    """

    position: int
    block: int
    cell: CellRecord
    what: str
    name: str
    old: Any
    new: Any


@dataclass
class Reparsed:
    """What reading a run again gives. read: trials read. kept: (position, why) of those that stay as they are."""

    read: int = 0
    changes: list[Change] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    kept: list[tuple[int, str]] = field(default_factory=list)


def reparse(store: Store, run: RunHandle, declared: Study | None = None) -> Reparsed:
    """Read every stored output of a run again. Writes nothing.

    declared: a study whose [[program]] tables stand in for those of the run. Raises BadInput when these do not fit
    the run, StoreError.
    """
    study = stored_study(run).study
    programs = {table.name: Program(table) for table in study.program}
    if declared is not None:
        programs |= _corrected(run, declared, programs)
    context = Context(study.guest.vcpus, study.guest.memory)
    unbounded = {each.name for each in study.platform if each.options.get("cpu_limit", "cpuset") not in BOUNDED}
    readers = {
        cell.key: _reader(run, cell, programs, replace(context, bounded=cell.platform not in unbounded))
        for cell in run.cells
    }
    result = Reparsed()
    known = [(each.benchmark, each.parameters) for each in readers.values() if not isinstance(each, str)]
    with Parsers(known) as parsers:
        trials = stored_trials(store.engine, run)
        each_output = outputs_of_each(store.engine, run, [trial.position for trial in trials])
        for trial, found in zip(trials, each_output, strict=True):
            reader = readers[trial.cell]
            if why := reader if isinstance(reader, str) else _why_kept(trial, found):
                result.kept.append((trial.position, why))
            elif not isinstance(reader, str):
                _read_again(result, trial, found, reader, parsers)
    return result


@dataclass(frozen=True)
class _Reader:
    """What reads the trials of a cell. units: by metric of the run."""

    cell: CellRecord
    benchmark: Benchmark
    parameters: Parameters
    context: Context
    units: Mapping[str, str]


def _corrected(run: RunHandle, declared: Study, programs: Mapping[str, Program]) -> dict[str, Program]:
    """The programs of another study that the run has. Raises BadInput unless their metrics are those of the run."""
    found = {table.name: Program(table) for table in declared.program if table.name in programs}
    if not found:
        raise BadInput(
            f"the study declares no program of {run.name}", hint=f"its programs: {', '.join(programs) or 'none'}"
        )
    known = {(metric.benchmark, metric.name): (metric.unit, metric.better) for metric in run.metrics}
    for name, program in found.items():
        for metric in program.metrics:
            if known.get((name, metric.name), ()) != (metric.unit, metric.better):
                raise BadInput(
                    f"{run.name} has no metric {metric.name} of {name} in {metric.unit}, {metric.better} is better",
                    hint="change patterns, pointers and outputs only; start a new run for other metrics",
                )
    return found


def _reader(run: RunHandle, cell: CellRecord, programs: Mapping[str, Program], context: Context) -> _Reader | str:
    """What reads a cell's trials, or why nothing does today."""
    try:
        benchmark: Benchmark = programs.get(cell.benchmark) or registry.get(cell.benchmark)
        parameters = validated(benchmark.Parameters, cell.parameters, "parameter")
    except BadInput as error:
        return error.what
    units = {metric.name: metric.unit for metric in run.metrics if metric.benchmark == cell.benchmark}
    congestion = str(cell.link.get("congestion") or "")
    on_link = replace(context, mtu=cell.link.get("mtu"), congestion=congestion)
    return _Reader(cell, benchmark, parameters, on_link, units)


def _why_kept(trial: StoredTrial, found: Sequence[OutputRow]) -> str:
    """Why a trial cannot be read again; empty when it can."""
    if not any(each.role in ("single", "client") for each in found):
        return "it has no output"
    if trial.is_truncated:
        return "its output is longer than what was kept"
    if not trial.is_ok and (not trial.is_counted or " failed with status " in trial.error):
        return "it failed before its output was read"
    return ""


def _read_again(
    result: Reparsed, trial: StoredTrial, found: Sequence[OutputRow], reader: _Reader, parsers: Parsers
) -> None:
    """Read one trial, and note what is another figure or another outcome now."""
    result.read += 1
    cell, units = reader.cell, reader.units
    values: dict[str, float] = {}
    error, outcome = "", None
    try:
        outcome = _outcome(trial, found, reader, parsers)
        values = {**trial.values, **{name: value for name, value in outcome.values.items() if name in units}}
    except BenchmarkError as failure:
        error = clean(str(failure))
    if error and not trial.is_ok:
        return
    changes = [
        Change(trial.position, trial.block, cell, name, unit, trial.values.get(name), values.get(name), error)
        for name, unit in units.items()
        if trial.values.get(name) != values.get(name)
    ]
    differences = list(_differences(trial, cell, outcome, set(values))) if outcome else []
    result.changes += changes
    result.differences += differences
    if outcome and differences:
        effective = _effective(trial, outcome, set(values))
        warnings = tuple(dict.fromkeys(map(quoted, outcome.warnings)))
        result.revisions.append(Revision(trial.id, cell.benchmark, values, error, effective, warnings))
    elif changes:
        result.revisions.append(Revision(trial.id, cell.benchmark, values, error))


def _effective(trial: StoredTrial, outcome: Outcome, known: Collection[str]) -> dict[str, Any]:
    """Settings and samples of a trial with those of its outcome, in the form that the store gives back.

    known: metrics of the run.
    """
    samples = {name: list(values) for name, values in outcome.samples.items() if name in known}
    histograms = {name: list(values) for name, values in outcome.histograms.items()}
    lists = {SAMPLES: samples, HISTOGRAMS: histograms}
    merged = {**_settings(trial.effective), **outcome.effective, **{key: each for key, each in lists.items() if each}}
    found: dict[str, Any] = json.loads(json.dumps(merged))
    return found


def _differences(
    trial: StoredTrial, cell: CellRecord, outcome: Outcome, known: Collection[str]
) -> Iterator[Difference]:
    """Yield what differs from what is stored, besides figures. A trial that failed had no samples."""
    new = _effective(trial, outcome, known)
    for what, before, now in (
        ("effective", _settings(trial.effective), _settings(new)),
        *((key, trial.effective.get(key, {}), new.get(key, {})) for key in LISTS),
    ):
        for name in dict.fromkeys((*before, *now)):
            if before.get(name) != now.get(name):
                yield Difference(trial.position, trial.block, cell, what, name, before.get(name), now.get(name))
    warnings = tuple(dict.fromkeys(map(quoted, outcome.warnings)))
    for text in dict.fromkeys((*trial.warnings, *warnings)):
        old, given = (text if text in texts else None for texts in (trial.warnings, warnings))
        if old != given:
            yield Difference(trial.position, trial.block, cell, "warning", "", old, given)


def _settings(effective: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in effective.items() if name not in LISTS}


def _outcome(trial: StoredTrial, found: Sequence[OutputRow], reader: _Reader, parsers: Parsers) -> Outcome:
    """What the parser makes of all flows, or all guests, of a trial, beside what was counted of the host's disks.

    Raises BenchmarkError.
    """
    benchmark, parameters = reader.benchmark, reader.parameters
    lanes: dict[str, dict[Role, CommandResult]] = {}
    for output in found:
        role, _, flow = output.role.partition(".")
        for known in _ROLES:
            if role == known:
                durations = (trial.outside_s or 0.0, trial.inside_s or 0.0)
                result = CommandResult(output.argv, output.status, output.stdout, output.stderr, *durations)
                lanes.setdefault(flow, {})[known] = result
    outcomes = [parsers.outcome(benchmark, parameters, reader.context, each) for each in lanes.values()]
    metrics = metrics_of(benchmark, parameters)
    whole = over_guests(outcomes, metrics) if GUESTS in reader.cell.levels else combined(outcomes, metrics)
    left = trial.effective.get(LEFT)
    return on_host(with_cold_cache(whole, left if isinstance(left, int) else None), trial.host)
