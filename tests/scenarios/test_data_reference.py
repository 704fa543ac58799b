"""docs/data.md names every column of the exports, and the exports have no other. Figures here are invented."""

from __future__ import annotations

import csv
import json
import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from a_run import DECLARED, begin, fill

from vtax.described import moment, tables_of
from vtax.report.answers.result.exported import ExportedResult
from vtax.report.files import write
from vtax.report.measurements import COLUMNS
from vtax.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
TIME = r"2023-11-14T22:13:2[01]\.000Z"
OPEN = {
    "settings",
    "declared",
    "host",
    "levels",
    "parameters",
    "link",
    "identity",
    "data",
    "filter",
}  # objects with any keys


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exports")
    with Store.open(f"sqlite:///{directory / 'store.sqlite'}") as store:
        design = {**DECLARED["design"], "blocks": 10, "trials": 3}
        fill(begin(store, declared={**DECLARED, "design": design}), blocks=10, trials=3)
        for kind in ("csv", "parquet", "json"):
            write(store, "last", kind, directory / f"run.{kind}")
    return directory


def test_the_reference_is_current():
    """Otherwise: run .ci/data."""
    assert (ROOT / "docs/data.md").read_text() == runpy.run_path(str(ROOT / ".ci/data"))["page"]()


def test_csv_and_parquet_have_the_columns_of_the_reference_in_its_order(exports):
    with (exports / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [
        "factor_direction" if field.name == "factor_NAME" else field.name for field in COLUMNS
    ]
    assert list(rows[0]) == expected == pyarrow.parquet.read_schema(exports / "run.parquet").names
    assert all(re.fullmatch(TIME, row["started"]) for row in rows)


def keys(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, key) of every object within a value."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield path, key
            if key not in OPEN:
                yield from keys(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from keys(each, f"{path}[]")


def test_json_has_the_keys_of_the_reference_and_no_other(exports):
    value = json.loads((exports / "run.json").read_text())
    described = {
        (path, field.name) for path, fields in tables_of(ExportedResult) for field in fields
    }
    rows = "results[].points[].rows[]"
    undecided = ("next_step", "next_step.decides[]", "next_step.left[]", f"{rows}.verdict.needed")
    of_sessions = (f"{rows}.ratio.nesting[]", f"{rows}.ratio.of_these_hosts")
    absent = (
        "filter",
        "not_tested[]",
        "also_differs[]",
        f"{rows}.timeouts",
        *undecided,
        *of_sessions,
    )  # of the invented run
    assert set(keys(value)) == {(path, key) for path, key in described if path not in absent}
    assert re.fullmatch(TIME, value["started"])


def test_what_is_no_time_has_no_text():
    assert moment(1_700_000_000.25) == "2023-11-14T22:13:20.250Z"
    assert [moment(each) for each in (None, float("nan"), float("inf"), 1e18)] == [None] * 4
