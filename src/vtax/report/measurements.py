"""Measurements as one table, for CSV and Parquet: one row per measurement, nothing left out.

A failed trial has a row too, with its error and without a value, so that a reader of the file cannot take the rest
for the whole. Warm-up trials are marked, not removed.

A spreadsheet takes a text that begins with `=`, `+`, `-`, `@`, a tab or a line break for a formula, which may start
programs. In CSV such a text gets an apostrophe before it, unless it is a number; Parquet holds every text as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vtax.report.columns import meaning
from vtax.store.query import RunData

_BATCH_ROWS = 1 << 16
_LAST_MOMENT = 253_402_300_800  # Unix time of the year 10000, for which there is no text
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def tidy(data: RunData, in_force: Mapping[int, str]) -> pa.Table:
    """Return one row per measurement and one per failed trial, in the order they happened.

    in_force: see store.query.effective.

    Its columns are those of columns.MEASUREMENTS, with a `factor_NAME` for every factor.
    """
    run, trials, measured = data.run, data.trials, data.measurements
    without = np.flatnonzero(~np.isin(np.arange(trials.id.size), measured.trial))
    trial = np.concatenate([measured.trial, without])
    metric = np.concatenate([measured.metric, np.full(without.size, -1)])
    value = np.concatenate([measured.value, np.full(without.size, np.nan)])
    order = np.lexsort((metric, trials.position[trial]))
    trial, metric, value = trial[order], metric[order], value[order]
    cell = trials.cell[trial]
    columns: dict[str, Any] = {"run": _repeated(run.name, trial.size), "study": _repeated(run.study, trial.size)}
    for name in ("platform", "benchmark", "label", "tool_version", "topology"):
        columns[name] = _coded([str(getattr(c, name)) for c in run.cells], cell)
    for name in ("parameters", "link"):
        columns[name] = _coded([json.dumps(getattr(c, name), ensure_ascii=False) for c in run.cells], cell)
    columns["cell"], columns["point"] = (
        _coded([getattr(c, name) for c in run.cells], cell) for name in ("key", "point")
    )
    for factor in dict.fromkeys(factor for c in run.cells for factor in c.levels):
        columns[f"factor_{factor}"] = _coded(
            [str(c.levels[factor]) if factor in c.levels else None for c in run.cells], cell
        )
    columns |= {
        "block": pa.array(trials.block[trial] + 1),
        "session": pa.array(trials.session[trial]),
        "number": pa.array(trials.number[trial]),
        "position": pa.array(trials.position[trial]),
        "is_warmup": pa.array(trials.is_warmup[trial]),
        "status": _coded(["failed", "ok"], trials.is_ok[trial].astype(np.int64)),
        "error": _errors(data, trial),
        "started": _moments(trials.started_at, trial),
        **{name: pa.array(getattr(trials, name)[trial], from_pandas=True)
           for name in ("outside_s", "inside_s")},
        "effective": _effective(data, in_force, trial),
        "metric": _coded([m.name for m in run.metrics], metric),
        "value": pa.array(value, from_pandas=True),
        "unit": _coded([m.unit for m in run.metrics], metric),
        "better": _coded([m.better for m in run.metrics], metric),
    }  # fmt: skip
    return pa.table(columns)


def _moments(seconds: Any, index: Any) -> Any:
    """Unix times as texts of ISO 8601; null for what is no time."""
    is_time = (seconds >= 0) & (seconds < _LAST_MOMENT)
    whole = np.where(is_time, np.round(np.where(is_time, seconds, 0) * 1000), 0).astype("datetime64[ms]")
    return pa.array(np.datetime_as_string(whole, timezone="UTC"), mask=~is_time).take(pa.array(index))


def _effective(data: RunData, in_force: Mapping[int, str], trial: Any) -> Any:
    distinct: dict[str, int] = {}
    codes = [
        distinct.setdefault(in_force[t], len(distinct)) if t in in_force else -1 for t in data.trials.id.tolist()
    ]
    return _coded(list(distinct), np.array(codes, np.int64)[trial])


def _errors(data: RunData, trial: Any) -> Any:
    texts = {(f.cell, f.block, f.number): f.error for f in data.failures}
    failed = np.flatnonzero(~data.trials.is_ok)
    of_trial = np.full(data.trials.id.size, -1)
    of_trial[failed] = np.arange(failed.size)
    found = [
        texts.get((int(data.trials.cell[t]), int(data.trials.block[t]), int(data.trials.number[t])), "")
        for t in failed
    ]
    return _coded(found, of_trial[trial])


def _coded(texts: list[Any], index: Any) -> Any:
    """Return a text column of few different values; index -1 and None are null."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    codes = np.array([-1 if text is None else distinct.index(text) for text in texts] + [-1], np.int32)[index]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(distinct, pa.string()))


def _repeated(text: str, rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([text]))


def write_table(table: pa.Table, file_format: str, path: Path) -> None:
    """Write a table as `csv` or `parquet`. Raises OSError."""
    (_write_csv if file_format == "csv" else _write_parquet)(table, path)


def _write_csv(table: pa.Table, path: Path) -> None:
    from pyarrow.csv import CSVWriter

    table = pa.table({field.name: _without_formulas(table[field.name]) for field in table.schema})
    plain = pa.schema(
        [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    )  # fmt: skip
    with CSVWriter(path, plain) as writer:
        for batch in table.to_batches(_BATCH_ROWS):
            writer.write_table(pa.Table.from_batches([batch]).cast(plain))


def _without_formulas(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose texts a spreadsheet takes for texts; numbers are as they were."""
    if not pa.types.is_dictionary(column.type):
        return column
    texts = [
        pa.array([no_formula(text) for text in chunk.dictionary.to_pylist()], pa.string()) for chunk in column.chunks
    ]
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(c.indices, t) for c, t in zip(column.chunks, texts, strict=True)], column.type
    )


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet evaluates: with an apostrophe before it if it would, unless it is a
    number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _write_parquet(table: pa.Table, path: Path) -> None:
    from pyarrow import parquet

    described = [field.with_metadata(meaning(field.name)) for field in table.schema]
    parquet.write_table(table.cast(pa.schema(described)), path, compression="zstd")
