"""`vtax export --format`: the formats of others hold the figures of the run. Figures here are invented."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import output_of
from pyarrow import parquet
from synthetic_run import DECLARED, PLATFORMS, begin, fill, trial

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.report.measurements import COLUMNS, SQL_COLUMNS
from vtax.store.records import CellRecord, MetricRecord
from vtax.store.store import Store

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a store of three runs: a whole one, one without a trial, one of hostile names."""
    directory = tmp_path_factory.mktemp("formats")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_HOME", str(directory))
        patch.delenv("VTAX_STORE", raising=False)
        patch.chdir(directory)
        with Store.open(f"sqlite:///{directory / 'store.sqlite'}") as store:
            fill(begin(store), blocks=4)
            begin(store, "empty-1").finish("failed", "the host went away", 1.7e9)
            cell = CellRecord("k", "p", "native", SCRIPT, SCRIPT, levels={"size": "a/b c\n-4"})
            metric = MetricRecord(SCRIPT, "time it", SCRIPT, "CPU s/GB", "lower", True)
            declared = {**DECLARED, "title": SCRIPT, "question": SCRIPT}
            run = begin(store, "odd-1", cells=[cell], metrics=[metric], declared=declared, platforms=PLATFORMS[:1])
            for block in range(2):
                run.add_trial(trial(cell, block=block, position=block, values={"time it": 1.5 + block}))
            run.finish("finished", SCRIPT, 1.7e9)
        yield directory


def export(place: Path, run: str, kind: str) -> str:
    """The file of a run in a format."""
    file = place / f"{run}.{kind}"
    output_of("export", run, "--format", kind, "-o", str(file))
    return file.read_text()


def refused(*arguments: str) -> str:
    """What is said about wrong input."""
    found = CliRunner().invoke(group, ["export", *arguments])
    if isinstance(found.exception, BadInput):
        return str(found.exception)
    assert found.exit_code == 2
    return found.output


def test_columns_of_parquet_hold_their_meaning(place):
    output_of("export", "tour-1", "--format", "parquet", "-o", str(place / "tour.parquet"))
    schema = parquet.read_schema(place / "tour.parquet")
    known = {field.name: field for field in COLUMNS}
    assert "factor_direction" in schema.names
    for name in schema.names:
        field = known["factor_NAME" if name.startswith("factor_") else name]
        found = {key.decode(): value.decode() for key, value in schema.field(name).metadata.items()}
        assert {key: found[key] for key in ("kind", "unit", "meaning")} == {
            "kind": field.kind, "unit": field.unit, "meaning": field.meaning,
        }  # fmt: skip


@pytest.mark.parametrize("kind", ["bundle", "openmetrics"])
def test_json_names_the_file_with_its_hash(place, kind):
    found = json.loads(output_of("export", "tour-1", "--format", kind, "--json"))
    assert found["format"] == kind
    assert found["bytes"] == Path(found["file"]).stat().st_size
    assert len(found["sha256"]) == 64


def test_a_run_without_a_value_is_refused(place):
    found = refused("empty-1", "--format", "openmetrics")
    assert "empty-1 has no measured trial that went well" in found
    assert not list(place.glob("empty-1*"))


def test_options_of_other_formats_are_refused(place):
    assert "'bundle', 'csv', 'parquet'" in refused("tour-1", "--format", "xml")
    assert "--anonymize is for bundles" in refused("tour-1", "--format", "csv", "--anonymize")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kind", ["csv", "json", "openmetrics", "markdown"])
def test_a_dash_is_standard_output(kind):
    """And nothing but the file: no path, and no file of the name `-`."""
    text = output_of("export", "tour-1", "--format", kind, "-o", "-")
    output_of("export", "tour-1", "--format", kind, "-o", "same")
    assert text == Path("same").read_text()
    assert not Path("-").exists()


def test_openmetrics_holds_means_and_ratios_with_their_bounds(place):
    lines = export(place, "tour-1", "openmetrics").splitlines()
    assert lines[-1] == "# EOF"
    sample = re.compile(r'^(vtax_\w+)\{((?:\w+="(?:[^"\\\n]|\\.)*",?)+)\} (-?[0-9.e+-]+)$')
    families: dict[str, int] = {}
    for line in lines[:-1]:
        if not line.startswith("#"):
            found = sample.fullmatch(line)
            assert found is not None, line
            families[found[1]] = families.get(found[1], 0) + 1
    assert families["vtax_ratio_bound"] == 2 * families["vtax_ratio"] > 0
    assert families["vtax_mean"] > families["vtax_ratio"]
    assert "\\n" not in export(place, "tour-1", "openmetrics")
    assert 'factor_size="a/b c\\n-4"' in export(place, "odd-1", "openmetrics")


def test_the_sql_view_has_the_columns_of_the_reference_and_the_rows_of_the_export(place):
    with sqlite3.connect(place / "store.sqlite") as database:
        cursor = database.execute("SELECT * FROM measurements WHERE run = 'tour-1'")
        assert {column[0] for column in cursor.description} == {field.name for field in SQL_COLUMNS}
        rows = cursor.fetchall()
        (send,) = database.execute(
            "SELECT DISTINCT point FROM measurements WHERE json_extract(levels, '$.direction') = 'send'"
        ).fetchone()
        (failed,) = database.execute("SELECT count(*) FROM measurements WHERE status = 'failed'").fetchone()
    output_of("export", "tour-1", "--format", "csv", "-o", "tour.csv")
    assert len(rows) == len(list(csv.DictReader(StringIO((place / "tour.csv").read_text()))))
    assert (send, failed) == ("s", 1)
