"""Text of tools, guests and studies stays text in every file of a report: no markup, no script, no formula."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from a_run import begin, cells, fill, trial
from pyarrow import parquet
from shown import page as page_of

from vtax.errors import BadInput
from vtax.foreign_text import clean
from vtax.report.analysis import analyse
from vtax.report.files import write
from vtax.store.store import Store

FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "-")
NUMBERS = ("-5", "+3.5e-4", "-.5", "7")


@pytest.fixture
def store(tmp_path: Path, use_home) -> Iterator[Store]:
    use_home(tmp_path)
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def test_a_level_can_neither_end_nor_hide_the_script_of_the_figures(store):
    evil = "<!--<script>\u2028&amp;</script>"
    named = [replace(cell, levels={"direction": evil}) if cell.levels else cell for cell in cells()]
    fill(begin(store, cells=named), blocks=2, trials=1, warmup=0)
    page = page_of(analyse(store, "tour-1"))
    (specs,) = re.findall(
        r'<script type="application/json" id="specs">(.*?)</script>\n', page, re.S
    )
    assert not set(specs) & set("<>&\u2028\u2029")
    (*_, (_, spec), _) = json.loads(specs)
    drawn = [
        *spec.get("datasets", {}).values(),
        *(layer["data"].get("values", []) for layer in spec["layer"]),
    ]
    headings = [value["text"] for values in drawn for value in values if "text" in value]
    assert f"direction={clean(evil)}" in headings


@pytest.mark.parametrize("text", [*FORMULAS, *NUMBERS])
def test_no_text_in_a_csv_is_a_formula_and_numbers_are_numbers(store, tmp_path, text):
    named = [replace(cell, levels={"direction": text}, tool_version=text) for cell in cells()]
    run = begin(store, cells=named)
    run.add_trial(trial(named[0], status="failed", error=text, values={}))
    run.add_trial(trial(named[0], position=1, number=1, values={"events": -5.5, "latency": -1e-9}))
    write(store, "tour-1", "csv", tmp_path / "run.csv")
    write(store, "tour-1", "parquet", tmp_path / "run.parquet")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    printed = text if text in NUMBERS else f"'{text}"
    assert (
        {row["factor_direction"] for row in rows}
        == {row["tool_version"] for row in rows}
        == {printed}
    )
    assert [row["error"] for row in rows if row["status"] == "failed"] == [printed]
    assert sorted(float(row["value"]) for row in rows if row["value"]) == [-5.5, -1e-9]
    assert set(parquet.read_table(tmp_path / "run.parquet")["tool_version"].to_pylist()) == {text}


def test_no_report_takes_the_place_of_what_is_no_file(store, tmp_path):
    fill(begin(store), blocks=2, trials=1, warmup=0)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "stdout").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "stdout"):
        with pytest.raises(BadInput, match="cannot be written: Is not a file"):
            write(store, "tour-1", "csv", tmp_path / name)
        assert (tmp_path / name).is_fifo()
