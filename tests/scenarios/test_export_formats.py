"""`vtax export --as`: the formats of others hold the figures of the run. Figures here are invented."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sqlite3
import subprocess
import tomllib
import zipfile
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from a_run import PLATFORMS, a_run, begin, cells, fill
from click.testing import CliRunner
from command_line import output_of
from pyarrow import parquet

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.report.analysis import analyse
from vtax.report.exports import bmf
from vtax.report.exports.benchfmt import COMPARE, base_unit
from vtax.report.measurements import COLUMNS, SQL_COLUMNS
from vtax.store.records import CellRecord, MetricRecord
from vtax.store.store import Store
from vtax.study.load import validate

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
            odd = a_run("odd-1").platforms(PLATFORMS[0]).cells([cell]).metrics([metric])
            odd = odd.declared(title=SCRIPT, question=SCRIPT).blocks(2)
            odd = odd.values(lambda cell, block, number: {"time it": 1.5 + block})
            odd.ending("finished", SCRIPT).stored(store)
        yield directory


def export(place: Path, run: str, kind: str, *more: str) -> str:
    """The file of a run in a format."""
    file = place / f"{run}.{kind}"
    output_of("export", run, "--format", kind, "-o", str(file), *more)
    return file.read_text() if kind != "ro-crate" else str(file)


def refused(*arguments: str) -> str:
    """What is said about wrong input."""
    found = CliRunner().invoke(group, ["export", *arguments])
    if isinstance(found.exception, BadInput):
        return str(found.exception)
    assert found.exit_code == 2
    return found.output


def test_every_measured_trial_is_a_line_of_the_benchmark_format(place):
    lines = export(place, "tour-1", "benchfmt").splitlines()
    results = [line.split() for line in lines if line.startswith("Benchmark")]
    assert len(results) == 4 * len(cells()) * 2 - 1  # one failed
    assert "# 1 failed trials have no line" in lines
    assert {row[0] for row in results} == {
        "BenchmarkSysbench-cpu-1",
        "BenchmarkIperf3/direction=send-1",
        "BenchmarkIperf3/direction=receive-1",
    }
    sysbench = next(row for row in results if row[0] == "BenchmarkSysbench-cpu-1")
    assert [sysbench[1], sysbench[3], sysbench[5]] == ["1", "events-events/s", "latency-sec"]
    assert float(sysbench[2]) == pytest.approx(1250, rel=0.2)
    assert float(sysbench[4]) == pytest.approx(0.8e-3, rel=0.2)
    assert lines.index("platform: native") < lines.index(
        "platform: docker"
    )  # what benchstat compares with
    assert {"block: 4", "guest: 1", "Unit latency-sec better=lower"} <= set(lines)


def test_values_of_the_benchmark_format_are_those_of_the_export_in_base_units(place):
    lines = export(place, "tour-1", "benchfmt").splitlines()
    found = sorted(float(line.split()[2]) for line in lines if line.startswith("BenchmarkIperf3"))
    output_of("export", "tour-1", "--format", "csv", "-o", "tour.csv")
    rows = csv.DictReader(StringIO((place / "tour.csv").read_text()))
    values = [
        float(r["value"]) for r in rows if r["metric"] == "throughput" and r["is_warmup"] == "false"
    ]
    assert found == pytest.approx(sorted(value * 1e6 for value in values), rel=6e-10)
    written = [line.split()[2] for line in lines if line.startswith("Benchmark")]
    assert max(len(text.partition("e")[0].replace(".", "").strip("0")) for text in written) == 10


def test_benchstat_compares_the_platforms(place):
    if (program := shutil.which("benchstat")) is None:
        pytest.skip("benchstat is not installed: go install golang.org/x/perf/cmd/benchstat@latest")
    export(place, "tour-1", "benchfmt")
    command = [program, *COMPARE.split()[1:], "-format", "csv", str(place / "tour-1.benchfmt")]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line for line in made.stderr.splitlines() if "need >=" not in line] == []
    rows = list(csv.reader(StringIO(made.stdout)))
    assert [name for name in next(r for r in rows if "docker" in r) if name] == [
        "native",
        "docker",
        "lxc",
        "qemu-tcg",
    ]
    row = next(r for r in rows if r[0] == "Sysbench-cpu-1")
    assert float(row[1]) == pytest.approx(1250, rel=0.1)
    assert any(text.startswith("-86.") for text in row)  # qemu-tcg has 0.135 of native's events


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("Mbit/s", "bit/s", 1e6),
        ("MB/s", "B/s", 1e6),
        ("ms", "sec", 1e-3),
        ("µs", "sec", 1e-6),
        ("%", "%", 1),
        ("events/s", "events/s", 1),
        ("1/s", "1/s", 1),
        ("CPU s/GB", "CPU_s/GB", 1),
        ("MiB", "B", 2**20),
    ],
)
def test_a_base_unit_has_no_prefix_and_no_space(unit, base, factor):
    assert base_unit(unit) == (base, factor)


def test_bencher_gets_means_and_ratios_with_their_intervals(place):
    found = json.loads(export(place, "tour-1", "bmf"))
    with Store.existing(f"sqlite:///{place / 'store.sqlite'}") as store:
        analysis = analyse(store, "tour-1")
    section = next(s for s in analysis.sections if s.metric.name == "throughput")
    point = next(p for p in section.points if p.levels["direction"] == "send")
    row = next(r for r in point.rows if r.platform.name == "docker")
    assert found["docker/iperf3/direction=send"] == {
        "throughput (Mbit/s)": {
            "value": row.summary.mean,
            "lower_value": row.summary.low,
            "upper_value": row.summary.high,
        },
        "throughput (ratio)": {
            "value": row.ratio.estimate,
            "lower_value": row.ratio.low,
            "upper_value": row.ratio.high,
        },
    }
    assert set(found["native/iperf3/direction=send"]) == {"throughput (Mbit/s)"}


def test_a_measure_of_bencher_keeps_its_unit_within_64_characters():
    assert bmf.measure("m" * 80, "u" * 80) == "m" * 41 + f" ({'u' * 20})"


def graph(file: str) -> dict[str, Any]:
    """The entities of an archive by their id."""
    with zipfile.ZipFile(file) as archive:
        value = json.loads(archive.read("ro-crate-metadata.json"))
        entities = {entity["@id"]: entity for entity in value["@graph"]}
        assert len(entities) == len(value["@graph"])
        parts = {each["@id"] for each in entities["./"]["hasPart"]}
        assert parts == set(archive.namelist()) - {"ro-crate-metadata.json"}
        assert all(
            entities[part]["contentSize"] == str(archive.getinfo(part).file_size) for part in parts
        )
    return entities


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"@id"}:
            yield value["@id"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_an_archive_describes_all_of_its_files_and_its_bundle_is_the_run(place, set_locale):
    set_locale("pt_BR")
    terms = "https://creativecommons.org/licenses/by/4.0/"
    file = export(place, "odd-1", "ro-crate", "--license", terms)
    entities = graph(file)
    assert set(references(list(entities.values()))) - set(entities) == {
        "https://w3id.org/ro/crate/1.1"
    }
    assert (entities["./"]["license"], entities["./"]["name"]) == (
        {"@id": terms},
        f"{SCRIPT} (odd-1)",
    )
    with zipfile.ZipFile(file) as archive:
        page = archive.read("report.html").decode()
        assert '<html lang="pt-BR"' in page
        assert SCRIPT not in page
        assert json.loads(archive.read("host.json"))["sessions"][0]["host"]["cpu"] == "Some CPU"
        assert (
            validate(tomllib.loads(archive.read("study.toml").decode()), "study.toml").name
            == "tour"
        )
        (place / "from-archive.vtax.gz").write_bytes(archive.read("run.vtax.gz"))
    assert (
        json.loads(output_of("import", "--json", str(place / "from-archive.vtax.gz")))["name"]
        == "odd-1"
    )


def test_an_archive_says_what_each_column_is(place):
    file = export(place, "tour-1", "ro-crate")
    with zipfile.ZipFile(file) as archive:
        columns = next(csv.reader(StringIO(archive.read("measurements.csv").decode())))
        rows = list(csv.DictReader(StringIO(archive.read("columns.csv").decode())))
    assert [row["column"] for row in rows] == columns
    assert all(row["kind"] and row["meaning"] for row in rows)
    entities = graph(file)
    variables = [entities[each["@id"]] for each in entities["./"]["variableMeasured"]]
    assert [(each["name"], each["description"]) for each in variables] == [
        (r["column"], r["meaning"]) for r in rows
    ]
    assert next(each for each in variables if each["name"] == "inside_s")["unitText"] == "s"


def test_columns_of_parquet_hold_their_meaning(place):
    output_of("export", "tour-1", "--format", "parquet", "-o", str(place / "tour.parquet"))
    schema = parquet.read_schema(place / "tour.parquet")
    known = {field.name: field for field in COLUMNS}
    assert "factor_direction" in schema.names
    for name in schema.names:
        field = known["factor_NAME" if name.startswith("factor_") else name]
        found = {key.decode(): value.decode() for key, value in schema.field(name).metadata.items()}
        assert {key: found[key] for key in ("kind", "unit", "meaning")} == {
            "kind": field.kind,
            "unit": field.unit,
            "meaning": field.meaning,
        }


@pytest.mark.parametrize("kind", ["bundle", "benchfmt", "bmf"])
def test_json_names_the_file_with_its_hash(place, kind):
    found = json.loads(output_of("export", "tour-1", "--format", kind, "--json"))
    assert found["format"] == kind
    assert found["bytes"] == Path(found["file"]).stat().st_size
    assert len(found["sha256"]) == 64


def test_names_of_any_form_are_text(place):
    lines = export(place, "odd-1", "benchfmt").splitlines()
    assert "Benchmark<script>alert(1)<_script>/size=a_b_c_-4-1 1 1.5 time_it-CPU_s/GB" in lines
    found = json.loads(export(place, "odd-1", "bmf"))
    assert found[f"native/{SCRIPT}/size=a/b c\n-4"]["time it (CPU s/GB)"]["value"] == 2.0


@pytest.mark.parametrize("kind", ["benchfmt", "bmf", "github", "openmetrics", "ro-crate"])
def test_a_run_without_a_value_is_refused(place, kind):
    found = refused("empty-1", "--format", kind)
    assert "empty-1 has no measured trial that went well" in found
    assert not list(place.glob("empty-1*"))


def test_options_of_other_formats_are_refused(place, golden):
    assert "'bundle', 'csv', 'parquet'" in refused("tour-1", "--format", "xml")
    golden(
        "\n".join(
            (
                refused("tour-1", "--format", "bmf", "--anonymize"),
                refused("tour-1", "--license", "https://example.org/"),
                refused("tour-1", "--format", "ro-crate", "--license", "CC0"),
            )
        )
    )


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("kind", ["csv", "json", "benchfmt", "github", "openmetrics", "markdown"])
def test_a_dash_is_standard_output(kind):
    """And nothing but the file: no path, and no file of the name `-`."""
    text = output_of("export", "tour-1", "--format", kind, "-o", "-")
    output_of("export", "tour-1", "--format", kind, "-o", "same")
    assert text == Path("same").read_text()
    assert not Path("-").exists()


def test_github_has_a_percentage_of_the_baseline_for_every_comparison(place):
    found = json.loads(export(place, "tour-1", "github"))
    names = [each["name"] for each in found]
    assert len(set(names)) == len(names) > 0
    assert {each["unit"] for each in found} == {"% of native"}
    slow = [each["value"] for each in found if each["name"].startswith("qemu-tcg/")]
    assert slow
    assert all(0 < value < 100 for value in slow)


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
        (failed,) = database.execute(
            "SELECT count(*) FROM measurements WHERE status = 'failed'"
        ).fetchone()
    output_of("export", "tour-1", "--format", "csv", "-o", "tour.csv")
    assert len(rows) == len(list(csv.DictReader(StringIO((place / "tour.csv").read_text()))))
    assert (send, failed) == ("s", 1)
