"""Measurements as one table, for CSV and Parquet: one row per measurement, nothing left out.

A failed trial has a row too, with its error and without a value, so that a reader of the file cannot take the rest
for the whole. Warm-up trials are marked, not removed.

A spreadsheet takes a text that begins with `=`, `+`, `-`, `@`, a tab or a line break for a formula, which may start
programs. In CSV such a text gets an apostrophe before it, unless it is a number; Parquet holds every text as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vtax.described import Field
from vtax.store.query import RunData
from vtax.store.records import CellRecord

_BATCH_ROWS = 1 << 16
_LAST_MOMENT = 253_402_300_800  # Unix time of the year 10000, for which there is no text
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class _Rows:
    """The rows of a table: of each its trial, its metric (-1 for none) and its value."""

    data: RunData
    in_force: Mapping[int, str]
    trial: Any
    metric: Any
    value: Any

    def of_cell(self, text_of: Callable[[CellRecord], str | None]) -> Any:
        """Return a text of the cell of every row."""
        return _coded(
            [text_of(cell) for cell in self.data.run.cells], self.data.trials.cell[self.trial]
        )

    def of_trial(self, name: str) -> Any:
        """Return a column of the trials."""
        column = getattr(self.data.trials, name)[self.trial]
        if column.dtype.kind == "i":
            column = column.astype(np.int64)
        return pa.array(column, from_pandas=True)

    def of_metric(self, name: str) -> Any:
        """Return a text of the metric of every row."""
        return _coded([getattr(metric, name) for metric in self.data.run.metrics], self.metric)


def _json(name: str) -> Callable[[_Rows], Any]:
    return lambda rows: rows.of_cell(
        lambda cell: json.dumps(getattr(cell, name), ensure_ascii=False)
    )


def _cell(name: str) -> Callable[[_Rows], Any]:
    return lambda rows: rows.of_cell(lambda cell: str(getattr(cell, name)))


def _trial(name: str) -> Callable[[_Rows], Any]:
    return lambda rows: rows.of_trial(name)


def _metric(name: str) -> Callable[[_Rows], Any]:
    return lambda rows: rows.of_metric(name)


FACTOR = Field(
    "factor_NAME",
    "text",
    "",
    "level of the factor NAME, a column each; empty where the cell has no such factor",
)
_COLUMNS: tuple[tuple[Field, Callable[[_Rows], Any]], ...] = (
    (
        Field("run", "text", "", "name of the run"),
        lambda rows: _repeated(rows.data.run.name, rows.trial.size),
    ),
    (
        Field("study", "text", "", "name of its study"),
        lambda rows: _repeated(rows.data.run.study, rows.trial.size),
    ),
    (Field("platform", "text", "", "platform of the guest"), _cell("platform")),
    (Field("benchmark", "text", "", "benchmark"), _cell("benchmark")),
    (
        Field(
            "label",
            "text",
            "",
            "name of the study's benchmark table: the benchmark's, unless the study has its own",
        ),
        _cell("label"),
    ),
    (
        Field(
            "tool_version",
            "text",
            "",
            "version of the benchmark's tool; empty when it is not known",
        ),
        _cell("tool_version"),
    ),
    (
        Field("topology", "text", "", "topology of the lab; empty without a network"),
        _cell("topology"),
    ),
    (
        Field(
            "parameters", "JSON", "", "parameters of the benchmark, its factors' levels included"
        ),
        _json("parameters"),
    ),
    (Field("link", "JSON", "", "requested settings of the links"), _json("link")),
    (
        Field("cell", "text", "", "key of the cell: platform, benchmark and all settings"),
        _cell("key"),
    ),
    (
        Field("point", "text", "", "key of the cell's settings, the same on every platform"),
        _cell("point"),
    ),
    (FACTOR, lambda rows: rows),
    (
        Field("block", "integer", "", "block, from 1"),
        lambda rows: pc.add(rows.of_trial("block"), 1),
    ),
    (
        Field(
            "session",
            "integer",
            "",
            "session of the run, from 1: its boot of the host, and its hour",
        ),
        _trial("session"),
    ),
    (
        Field(
            "number", "integer", "", "trial of the cell within the block, from 0, warm-up included"
        ),
        _trial("number"),
    ),
    (
        Field("position", "integer", "", "place of the trial in the order of the run, from 0"),
        _trial("position"),
    ),
    (
        Field("is_warmup", "flag", "", "whether it is a warm-up trial, which no figure uses"),
        _trial("is_warmup"),
    ),
    (
        Field("status", "text", "", "`ok` or `failed`"),
        lambda rows: _coded(["failed", "ok"], rows.data.trials.is_ok[rows.trial].astype(np.int64)),
    ),
    (
        Field("error", "text", "", "why a trial failed; empty for one that did not"),
        lambda rows: _errors(rows.data, rows.trial),
    ),
    (
        Field("started", "time", "", "start of the trial"),
        lambda rows: _moments(rows.data.trials.started_at, rows.trial),
    ),
    (
        Field(
            "outside_s",
            "number",
            "s",
            "duration of the tool by the controller's monotonic clock; empty when not known",
        ),
        _trial("outside_s"),
    ),
    (
        Field("inside_s", "number", "s", "the same by the guest's clock; empty when not known"),
        _trial("inside_s"),
    ),
    (
        Field(
            "effective",
            "JSON",
            "",
            "effective settings, as far as the trial came: socket buffers, MSS, offloads",
        ),
        lambda rows: _effective(rows.data, rows.in_force, rows.trial),
    ),
    (
        Field("metric", "text", "", "metric of the value; empty in the row of a failed trial"),
        _metric("name"),
    ),
    (
        Field(
            "value",
            "number",
            "unit",
            "measured value, unscaled; empty in the row of a failed trial",
        ),
        lambda rows: pa.array(rows.value, from_pandas=True),
    ),
    (Field("unit", "text", "", "unit of the value"), _metric("unit")),
    (
        Field("better", "text", "", "`higher` or `lower`: which values of the metric are better"),
        _metric("better"),
    ),
)
COLUMNS = tuple(field for field, _ in _COLUMNS)
"""The columns of CSV and Parquet in their order: a row per measurement, and one per failed trial."""
SQL_COLUMNS = (
    *(field for field in COLUMNS if field.name not in ("factor_NAME", "started")),
    Field("started_at", "number", "s", "start of the trial as Unix time"),
    Field("levels", "JSON", "", "factor -> level, of what varies"),
)
"""The columns of the SQL view `measurements`."""


def column(name: str) -> Field:
    """Return the column of that name in CSV and Parquet. Raises KeyError."""
    known = {field.name: field for field in COLUMNS}
    return replace(FACTOR, name=name) if name.startswith("factor_") else known[name]


def meaning(name: str) -> dict[str, str]:
    """Return kind, unit and meaning of a column of CSV and Parquet. Raises KeyError."""
    known = column(name)
    return {"kind": known.kind, "unit": known.unit, "meaning": known.meaning}


def tidy(data: RunData, in_force: Mapping[int, str]) -> pa.Table:
    """Return one row per measurement and one per failed trial, in the order they happened.

    in_force: see store.query.effective.
    """
    measurements = data.measurements
    without = np.flatnonzero(~np.isin(np.arange(data.trials.id.size), measurements.trial))
    trial = np.concatenate([measurements.trial, without])
    metric = np.concatenate([measurements.metric, np.full(without.size, -1)])
    value = np.concatenate([measurements.value, np.full(without.size, np.nan)])
    order = np.lexsort((metric, data.trials.position[trial]))
    rows = _Rows(data, in_force, trial[order], metric[order], value[order])
    columns: dict[str, Any] = {}
    for field, values_of in _COLUMNS:
        columns |= _factors(rows) if field is FACTOR else {field.name: values_of(rows)}
    return pa.table(columns)


def _level(factor: str, cell: CellRecord) -> str | None:
    return str(cell.levels[factor]) if factor in cell.levels else None


def _factors(rows: _Rows) -> dict[str, Any]:
    """Return a column for every factor of the run."""
    cells = rows.data.run.cells
    return {
        f"factor_{factor}": rows.of_cell(partial(_level, factor))
        for factor in dict.fromkeys(factor for cell in cells for factor in cell.levels)
    }


def _moments(seconds: Any, index: Any) -> Any:
    """Unix times as timestamps of UTC; null for what is no time."""
    is_time = (seconds >= 0) & (seconds < _LAST_MOMENT)
    milliseconds = np.where(is_time, np.round(np.where(is_time, seconds, 0) * 1000), 0).astype(
        "datetime64[ms]"
    )
    return pa.array(milliseconds, pa.timestamp("ms", "UTC"), mask=~is_time).take(pa.array(index))


def _effective(data: RunData, in_force: Mapping[int, str], trial: Any) -> Any:
    distinct: dict[str, int] = {}
    codes = [
        distinct.setdefault(in_force[t], len(distinct)) if t in in_force else -1
        for t in data.trials.id.tolist()
    ]
    return _coded(list(distinct), np.array(codes, np.int64)[trial])


def _errors(data: RunData, trial: Any) -> Any:
    texts = {(f.cell, f.block, f.number): f.error for f in data.failures}
    failed_trials = np.flatnonzero(~data.trials.is_ok)
    of_trial = np.full(data.trials.id.size, -1)
    of_trial[failed_trials] = np.arange(failed_trials.size)
    error_texts = [
        texts.get(
            (int(data.trials.cell[t]), int(data.trials.block[t]), int(data.trials.number[t])), ""
        )
        for t in failed_trials
    ]
    return _coded(error_texts, of_trial[trial])


def _coded(texts: list[Any], index: Any) -> Any:
    """Return a text column of few different values; index -1 and None are null."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    places: dict[str | None, int] = {text: place for place, text in enumerate(distinct)}
    places[None] = -1
    codes = np.array([places[text] for text in (*texts, None)], np.int32)[index]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0), pa.array(distinct, pa.string())
    )


def _repeated(text: str, rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([text]))


def write_tables(tables: Iterable[pa.Table], file_format: str, path: Path) -> None:
    """Write tables of the same columns, one at least, as one of `csv` or `parquet`. Raises OSError."""
    (_write_csv if file_format == "csv" else _write_parquet)(tables, path)


def _write_csv(tables: Iterable[pa.Table], path: Path) -> None:
    from pyarrow.csv import CSVWriter

    with ExitStack() as stack:
        writer = None
        for table in tables:
            texts = pa.table({field.name: _as_text(table[field.name]) for field in table.schema})
            plain_schema = pa.schema([_plain(field) for field in texts.schema])
            writer = writer or stack.enter_context(CSVWriter(path, plain_schema))
            for batch in texts.to_batches(_BATCH_ROWS):
                writer.write_table(pa.Table.from_batches([batch]).cast(plain_schema))


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column for CSV: times in ISO 8601, and texts that a spreadsheet takes for texts."""
    if pa.types.is_timestamp(column.type):
        from pyarrow import compute

        return compute.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    if not pa.types.is_dictionary(column.type):
        return column
    texts = [
        pa.array([no_formula(text) for text in chunk.dictionary.to_pylist()], pa.string())
        for chunk in column.chunks
    ]
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(c.indices, t)
            for c, t in zip(column.chunks, texts, strict=True)
        ],
        column.type,
    )


def no_formula(text: str) -> str:
    """Return a text that no spreadsheet evaluates: with an apostrophe before it if it would, unless it is a
    number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def _write_parquet(tables: Iterable[pa.Table], path: Path) -> None:
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as stack:
        writer = None
        for table in tables:
            described_fields = [field.with_metadata(meaning(field.name)) for field in table.schema]
            schema = pa.schema(described_fields)
            writer = writer or stack.enter_context(ParquetWriter(path, schema, compression="zstd"))
            writer.write_table(table.cast(schema))
