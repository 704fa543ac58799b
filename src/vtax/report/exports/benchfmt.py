"""Go's benchmark format (golang.org/design/14313-benchmark-format), which benchstat reads: one line a trial.

What a trial was made on is in configuration keys: `platform`, `block`, `guest`, `host`, `session`. The name of a
result is the label of its benchmark table and its levels; the number after its last dash is that of the vCPUs. A unit
is the name of its metric and its base unit, `throughput-bit/s`: a line has every unit once. Values have at most ten
significant digits, which leaves out the noise of binary fractions.

Lines are ordered by platform, the baseline first, since benchstat compares with what it reads first. Within a
platform they are in the order of the trials.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vtax.foreign_text import one_line
from vtax.report.analysis.source import Source
from vtax.report.exports import check_is_measured
from vtax.store.query import guests_of_trials
from vtax.store.records import CellRecord, MetricRecord

COMPARE = "benchstat -col platform -ignore block,guest,session"
"""The command that compares the platforms of a file."""
_BASE = {
    "s": ("sec", 1.0), "ms": ("sec", 1e-3), "us": ("sec", 1e-6), "µs": ("sec", 1e-6), "ns": ("sec", 1e-9),
    "B": ("B", 1.0), "KB": ("B", 1e3), "kB": ("B", 1e3), "MB": ("B", 1e6), "GB": ("B", 1e9),
    "KiB": ("B", 2.0**10), "MiB": ("B", 2.0**20), "GiB": ("B", 2.0**30),
    "bit": ("bit", 1.0), "kbit": ("bit", 1e3), "Mbit": ("bit", 1e6), "Gbit": ("bit", 1e9),
    "Mflop": ("flop", 1e6), "Gflop": ("flop", 1e9),
}  # fmt: skip
_SEPARATORS = re.compile(r"[\s/]+")


def text(source: Source) -> str:
    """Return the run in Go's benchmark format. Raises BadInput when it has no value, StoreError."""
    check_is_measured(source.analysis)
    return "".join(f"{line}\n" for line in _lines(source))


def base_unit(unit: str) -> tuple[str, float]:
    """Return a unit without prefix, and the factor to it: `Mbit/s` is 1e6 `bit/s`. What has no known prefix stays."""
    numerator, slash, denominator = unit.partition("/")
    base, factor = _BASE.get(numerator, (numerator, 1.0))
    return _SEPARATORS.sub("_", base) + slash + _SEPARATORS.sub("_", denominator), factor


def _lines(source: Source) -> Iterator[str]:
    data, run = source.data, source.data.run
    yield f"# {COMPARE} FILE compares the platforms. It takes trials of one guest for independent; vtax does not."
    yield from _keys(
        {"vtax": run.vtax_version, "run": run.name, "study": run.study, "status": run.status}
    )
    units = [f"{_word(metric.name)}-{base_unit(metric.unit)[0]}" for metric in run.metrics]
    yield from _directions(run.metrics, units)
    factors = [base_unit(metric.unit)[1] for metric in run.metrics]
    names = [_name(cell, run.declared) for cell in run.cells]
    place = {
        platform.name: (not platform.is_baseline, n) for n, platform in enumerate(run.platforms)
    }
    guests = guests_of_trials(source.store.engine, run) if source.store else {}
    sessions = {session.number: session for session in run.sessions}
    trials, known_keys = data.trials, dict[str, str]()
    measured_trials = np.flatnonzero(trials.is_ok & ~trials.is_warmup)
    starts, ends = (
        np.searchsorted(data.measurements.trial, measured_trials, side)
        for side in ("left", "right")
    )
    spans = {int(t): slice(a, b) for t, a, b in zip(measured_trials, starts, ends, strict=True)}
    for trial in sorted(
        spans, key=lambda t: (*place[run.cells[trials.cell[t]].platform], trials.position[t])
    ):
        metrics = data.measurements.metric[spans[trial]].tolist()
        if not metrics:
            continue
        cell, number = run.cells[trials.cell[trial]], int(trials.session[trial])
        host = sessions[number].host if number in sessions else run.host
        keys = {
            "platform": cell.platform,
            "host": host.get("machine_id"),
            "cpu": host.get("cpu_model"),
            "kernel": host.get("kernel"),
            "session": number,
            "block": int(trials.block[trial]) + 1,
            "guest": guests.get(int(trials.id[trial])),
        }
        yield from _keys(keys, known_keys)
        values = data.measurements.value[spans[trial]].tolist()
        pairs = [
            f"{value * factors[m]:.10g} {units[m]}"
            for m, value in zip(metrics, values, strict=True)
        ]
        yield f"Benchmark{names[trials.cell[trial]]} 1 {' '.join(pairs)}"
    failed_count = int((~trials.is_ok & ~trials.is_warmup).sum())
    yield f"# {failed_count} failed trials have no line"


def _keys(values: Mapping[str, Any], known_keys: dict[str, str] | None = None) -> Iterator[str]:
    """Yield lines of configuration keys, of those that changed. A key without a value is deleted by an empty one."""
    for key, value in values.items():
        value_text = "" if value is None else one_line(str(value))
        if known_keys is None or known_keys.get(key, "") != value_text:
            yield f"{key}: {value_text}".rstrip()
        if known_keys is not None:
            known_keys[key] = value_text


def _directions(metrics: Sequence[MetricRecord], units: Sequence[str]) -> Iterator[str]:
    """Yield which values of a unit are better, unless metrics of one name disagree."""
    better: dict[str, set[str]] = {}
    for metric, unit in zip(metrics, units, strict=True):
        better.setdefault(unit, set()).add(metric.better)
    for unit, ways in better.items():
        if len(ways) == 1:
            yield f"Unit {unit} better={ways.pop()}"


def _name(cell: CellRecord, study: Mapping[str, Any]) -> str:
    """`Iperf3/direction=send-1`: a name does not begin with a lower-case letter; `-1` is the number of vCPUs."""
    label = _word(cell.label)
    parts = [
        label[:1].upper() + label[1:],
        *(f"{_word(k)}={_word(str(v))}" for k, v in cell.levels.items()),
    ]
    guest = study.get("guest")
    vcpus = guest.get("vcpus", 1) if isinstance(guest, Mapping) else 1
    return f"{'/'.join(parts)}-{vcpus if isinstance(vcpus, int) else 1}"


def _word(text: str) -> str:
    return _SEPARATORS.sub("_", one_line(text)) or "_"
