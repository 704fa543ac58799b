"""`vtax reparse`: stored outputs read again, in scripted guests: which figures change, and that nothing else does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scripted import ProcessGuest, ScriptBenchmark, executed, install, plan_of, study
from sqlalchemy import delete, insert, select

from vtax.benchmarks.base import DiskWork, Outcome
from vtax.cli.main import group
from vtax.errors import BadInput, BenchmarkError
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.messages import quoted
from vtax.runner.plan import host_programs, make_plan
from vtax.store import schema
from vtax.store.database import writing
from vtax.store.query import load as load_run
from vtax.store.query import samples
from vtax.store.reparse import Revision, stored_trials, write
from vtax.store.store import RunHandle, Store
from vtax.study.load import load


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    monkeypatch.setattr(ProcessGuest, "scratch", str(tmp_path / "scratch"), raising=False)


@pytest.fixture
def store(private_home: Home) -> Iterator[Store]:
    with Store.open(private_home.store_url) as opened:
        yield opened


@pytest.fixture
def run(private_home: Home, store: Store) -> RunHandle:
    return executed(plan_of(study()), store, private_home)


def reparse(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["reparse", *arguments])


def figures(store: Store, run: RunHandle) -> list[float]:
    return sorted(load_run(store.engine, run).measurements.value.tolist())


def parse_with(monkeypatch: pytest.MonkeyPatch, corrected: Any) -> None:
    def parse(self: object, parameters: Any, context: Any, results: Mapping[Any, Any]) -> Outcome:
        return Outcome({"figure": corrected(results["single"].stdout), "unknown": 1.0})

    monkeypatch.setattr(ScriptBenchmark, "parse", parse)


def test_the_same_parser_changes_nothing(store, run):
    before = figures(store, run)
    result = reparse(run.name, "--write")
    assert "12 trials read again, 0 figures changed" in result.stdout
    assert figures(store, run) == before
    assert load_run(store.engine, run).warnings == ()


def test_a_corrected_parser_changes_figures_only_with_write(store, run, monkeypatch):
    parse_with(monkeypatch, lambda text: 2 * float(text))
    shown = reparse()
    assert "12 trials read again, 12 figures changed" in shown.stdout
    assert "--write" in shown.stderr
    assert figures(store, run) == [1.5] * 12
    changes = json.loads(reparse("--json").stdout)["changes"]
    assert {(each["metric"], each["unit"], each["old"], each["new"]) for each in changes} == {
        ("figure", "x/s", 1.5, 3.0)
    }
    assert json.loads(reparse("--json", "--write").stdout)["written"]
    assert figures(store, run) == [3.0] * 12
    (warning,) = load_run(store.engine, run).warnings
    assert warning.code == "reparsed"
    assert "12 figures and " in warning.note
    assert "0 figures changed" in reparse("--write").stdout


def test_a_stricter_parser_fails_trials(store, run, monkeypatch):
    def refuse(text: str) -> float:
        raise BenchmarkError("1.5 was never a figure")

    parse_with(monkeypatch, refuse)
    assert "cannot be read any more: 1.5 was never a figure" in reparse(run.name, "--write").stdout
    data = load_run(store.engine, run)
    assert not data.trials.is_ok.any()
    assert figures(store, run) == []
    assert data.failures[0].error == "1.5 was never a figure"


def test_a_trial_that_failed_before_its_output_was_read_stays_failed(store, run):
    first, second, third, *_ = stored_trials(store.engine, run)
    lost = [Revision(each.id, "script", {}, "it fell silent") for each in (first, second)]
    write(store.engine, run, lost, quoted("test"))
    with writing(store.engine) as connection:
        connection.execute(delete(schema.counter).where(schema.counter.c.trial_id == first.id))
        connection.execute(delete(schema.output).where(schema.output.c.trial_id == third.id))
    result = json.loads(reparse(run.name, "--json").stdout)
    assert {each["position"]: each["reason"] for each in result["kept"]} == {
        first.position: "it failed before its output was read",
        third.position: "it has no output",
    }
    assert [(each["position"], each["old"], each["new"]) for each in result["changes"]] == [
        (second.position, None, 1.5)
    ]


def test_a_write_that_fails_changes_nothing(store, run):
    before = figures(store, run)
    trials = stored_trials(store.engine, run)
    revisions = [Revision(trials[0].id, "script", {}, "x"), Revision(trials[1].id, "script", {"unknown": 1.0}, "")]
    with pytest.raises(KeyError):
        write(store.engine, run, revisions, quoted("test"))
    assert figures(store, run) == before
    assert load_run(store.engine, run).trials.is_ok.all()


def test_a_benchmark_that_is_gone_leaves_its_trials(store, run, monkeypatch):
    monkeypatch.setattr("vtax.benchmarks.registry.benchmarks", dict)
    assert "12 trials left as stored: there is no benchmark 'script'" in reparse(run.name).stdout


def test_a_run_that_runs_is_refused(store, run, monkeypatch):
    monkeypatch.setattr("vtax.store.store.is_measuring", lambda: True)
    run.reopen()
    assert "still runs" in str(reparse(run.name).exception)


def own(directory: Path, pattern: str, unit: str = "s") -> str:
    path = directory / "own.toml"
    path.write_text(
        'name = "s"\nplatforms = ["native"]\n[design]\nblocks = 1\n[[program]]\nname = "own"\nversion = ["true"]\n'
        'argv.guest = ["echo", "took 7 s"]\n'
        f'metric = [{{ name = "time", unit = "{unit}", better = "lower", pattern = "{pattern}" }}]\n'
        '[[benchmark]]\nname = "own"\n'
    )
    return str(path)


def test_a_corrected_pattern_is_taken_from_a_study_file(tmp_path, private_home, store):
    loaded = load(own(tmp_path, "needed ([0-9]+) s"))
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), consented=host_programs(loaded))
    run = executed(plan, store, private_home)
    assert figures(store, run) == []
    assert "0 figures changed" in reparse(run.name).stdout
    corrected = own(tmp_path, "took ([0-9]+) s")
    assert "1 figure changed" in reparse(run.name, "--study", corrected, "--write").stdout
    assert figures(store, run) == [7.0]
    assert load_run(store.engine, run).trials.is_ok.all()
    (text,) = [each.note for each in load_run(store.engine, run).warnings if each.code == "reparsed-study"]
    assert corrected in text
    other = reparse(run.name, "--study", own(tmp_path, "took ([0-9]+) s", unit="ms")).exception
    assert isinstance(other, BadInput)
    assert "no metric time of own in ms" in other.what


def test_settings_samples_and_warnings_follow_the_parser(store, run, monkeypatch):
    def parse(self: object, parameters: Any, context: Any, results: Mapping[Any, Any]) -> Outcome:
        value = float(results["single"].stdout)
        return Outcome({"figure": value}, {"threads": 2}, ("it warns now",), {"figure": [value, 2 * value]})

    monkeypatch.setattr(ScriptBenchmark, "parse", parse)
    shown = json.loads(reparse("--json").stdout)
    assert shown["changes"] == []
    first = [each for each in shown["differences"] if each["position"] == 0]
    assert [(each["what"], each["name"], each["old"], each["new"]) for each in first] == [
        ("effective", "threads", None, 2),
        ("samples", "figure", None, [1.5, 3.0]),
        ("warning", "", None, "it warns now"),
    ]
    assert load_run(store.engine, run).warnings == ()  # nothing was written
    assert "0 figures changed, 36 other differences" in reparse("--write").stdout
    data = load_run(store.engine, run)
    assert {warning.note for warning in data.warnings if warning.code == "tool-said"} == {"it warns now"}
    assert {tuple(found["figure"]) for found in samples(store.engine, run).values()} == {(1.5, 3.0)}
    assert json.loads(reparse("--json").stdout)["differences"] == []  # it is settled


def test_a_warning_that_a_parser_no_longer_gives_goes(store, run, monkeypatch):
    def warning(*texts: str) -> Any:
        return lambda *_: Outcome({"figure": 1.5}, warnings=texts)

    monkeypatch.setattr(ScriptBenchmark, "parse", warning("old"))
    reparse("--write")
    monkeypatch.setattr(ScriptBenchmark, "parse", warning())
    assert "old" in reparse("--write").stdout
    assert [each.code for each in load_run(store.engine, run).warnings if each.code == "tool-said"] == []


def test_the_figures_of_several_guests_are_read_again_together(store, private_home, monkeypatch):
    declared = study(design={"blocks": 1}, benchmark=[{"name": "script", "guests": [2]}])
    several = executed(plan_of(declared), store, private_home)
    assert json.loads(reparse(several.name, "--json").stdout)["changes"] == []
    parse_with(monkeypatch, lambda text: 2 * float(text))
    changes = json.loads(reparse(several.name, "--json").stdout)["changes"]
    assert {(each["metric"], each["old"], each["new"]) for each in changes} == {
        ("figure", 1.5, 3.0), ("figure_sum", 3.0, 6.0),
    }  # fmt: skip


def test_what_the_disks_of_the_host_did_is_judged_again(store, run, monkeypatch):
    """The warnings of a trial depend on what was counted beside its tool, which the store has."""
    counter = schema.counter
    with writing(store.engine) as connection:
        trials = list(connection.scalars(select(schema.trial.c.id).where(schema.trial.c.run_id == run.id)))
        connection.execute(delete(counter).where(counter.c.name.like("disk_%")))
        rows = [
            {"trial_id": trial, "place": "host", "name": name, "value": value}
            for trial in trials
            for name, value in {"disk_read_bytes": 40.0, "disk_writes": 0.0, "disk_written_bytes": 0.0}.items()
        ]
        connection.execute(insert(counter), rows)
    disk = DiskWork(100, is_direct=True)
    monkeypatch.setattr(ScriptBenchmark, "parse", lambda *_: Outcome({"figure": 1.5}, disk=disk))
    assert "0 figures changed, 24 other differences" in reparse("--write").stdout
    (note,) = {each.note for each in load_run(store.engine, run).warnings if each.code == "disks-direct"}
    assert note.data == {"share": 0.4}
    assert {trial.effective["host_disk_ratio"] for trial in stored_trials(store.engine, run)} == {0.4}


def test_trials_that_cannot_be_read_any_more_are_named_with_their_hint_once(store, run, monkeypatch):
    def parse(self: object, parameters: Any, context: Any, results: Mapping[Any, Any]) -> Outcome:
        raise BenchmarkError("no figure", hint="correct the pattern")

    monkeypatch.setattr(ScriptBenchmark, "parse", parse)
    shown = reparse().stdout
    assert [f"trial {position} cannot be read any more: no figure" in shown for position in (0, 9, 10)] == [
        True, True, False,
    ]  # fmt: skip
    assert "and 2 more trials; --json lists all" in shown
    assert shown.count("hint: correct the pattern") == 1
