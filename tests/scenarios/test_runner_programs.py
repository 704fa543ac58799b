"""Programs that a study declares, in scripted guests: what is run, read, kept, and refused when it changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import StopAfter, install

from vtax.errors import BadInput, RunInterrupted
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.messages import Note
from vtax.runner import resume
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.plan import Plan, host_programs, make_plan
from vtax.runner.session import execute
from vtax.store.query import load as load_run
from vtax.store.query import outputs
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate

IMAGE = Image("key", Path("/nowhere"))
SCRIPT = '#!/bin/sh\necho "$# arguments: $1"\necho "took $2 s" >&2\nexit ${3:-0}\n'
METRIC = {
    "name": "time",
    "unit": "s",
    "better": "lower",
    "pattern": "took ([0-9]+) s",
    "output": "stderr",
}


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch_in) -> None:
    install(monkeypatch)
    scratch_in(tmp_path / "scratch")


@pytest.fixture
def store(private_home: Home) -> Iterator[Store]:
    with Store.open(private_home.store_url) as opened:
        yield opened


def loaded(tmp_path: Path, arguments: list[str], **changes: Any) -> LoadedStudy:
    (tmp_path / "tool.sh").write_text(SCRIPT)
    program = {
        "name": "own",
        "argv": {"guest": ["{files}/tool.sh", *arguments]},
        "files": [str(tmp_path / "tool.sh")],
        "parameters": {"size": 1},
        "metric": [METRIC],
        "expected_duration": 0.1,
        **changes,
    }
    declared = {
        "name": "s",
        "platforms": ["native", "other"],
        "design": {"blocks": 1, "seed": 7},
        "program": [program],
        "benchmark": [{"name": "own", "factors": {"size": [1, 2]}}],
    }
    return LoadedStudy(validate(declared, "s.toml"), "s.toml", "12ab")


def plan_of(study: LoadedStudy) -> Plan:
    return make_plan(study, image=IMAGE, consented=host_programs(study))


def executed(study: LoadedStudy, store: Store, home: Home) -> RunHandle:
    plan = plan_of(study)
    run = begin(store, plan, vtax_version="test")
    execute(plan, run, home, Observer())
    return store.open_run(run.name)


def test_a_program_runs_with_its_files_and_nothing_is_a_shells(tmp_path, private_home, store):
    study = loaded(tmp_path, ["a b; $(touch /nowhere) {size}", "{size}"])
    run = executed(study, store, private_home)
    data = load_run(store.engine, run)
    assert data.trials.is_ok.all()
    assert sorted(data.measurements.value.tolist()) == [1.0, 1.0, 2.0, 2.0]
    assert {output.stdout for output in outputs(store.engine, run)} == {
        f"2 arguments: a b; $(touch /nowhere) {size}\n" for size in (1, 2)
    }
    assert {cell.tool_version[:7] for cell in run.cells} == {"sha256:"}
    assert list((tmp_path / "scratch").iterdir()) == []


def test_files_are_written_once_in_a_guest_and_removed_with_it(
    tmp_path, private_home, store, monkeypatch
):
    written: list[str] = []
    put = Guest.put

    def noted(self: Guest, path: str, data: bytes, **how: Any) -> None:
        written.append(path)
        put(self, path, data, **how)

    monkeypatch.setattr(Guest, "put", noted)
    run = executed(loaded(tmp_path, ["x", "{size}"]), store, private_home)
    assert (
        load_run(store.engine, run).trials.is_ok.tolist() == [True] * 4
    )  # two trials in each of two guests
    assert written == [f"{tmp_path}/scratch/vtax-own-guest-0/tool.sh"] * 2
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_pattern_that_never_matches_fails_the_trial_and_keeps_the_output(
    tmp_path, private_home, store
):
    study = loaded(tmp_path, ["x", "{size}"], metric=[{**METRIC, "pattern": "needed ([0-9]+) s"}])
    run = executed(study, store, private_home)
    data = load_run(store.engine, run)
    assert not data.trials.is_ok.any()
    assert "matches nothing in stderr: took" in data.failures[0].error
    assert {output.stderr for output in outputs(store.engine, run)} == {"took 1 s\n", "took 2 s\n"}


def test_a_program_that_fails_or_takes_too_long_fails_the_trial(tmp_path, private_home, store):
    run = executed(loaded(tmp_path, ["x", "{size}", "3"]), store, private_home)
    assert "failed with status 3: took" in load_run(store.engine, run).failures[0].error
    argv = {"guest": ["sleep", "{size}0"]}
    slow = loaded(tmp_path, [], argv=argv, files=[], version=["true"], timeout=0.3)
    run = executed(slow, store, private_home)
    failure = load_run(store.engine, run).failures[0]
    assert str(Note("killed-after", program="sleep", limit=0.3)) in failure.error


def test_without_consent_nothing_runs_and_a_changed_file_is_not_resumed(
    tmp_path, private_home, store, image_found, golden
):
    image_found(IMAGE)
    study = loaded(tmp_path, ["x", "{size}"])
    with pytest.raises(BadInput, match="program own"):
        make_plan(study, image=IMAGE)
    consented = host_programs(study)
    run = begin(store, plan_of(study), vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan_of(study), run, private_home, StopAfter(1))
    (kept,) = [
        warning.note
        for warning in load_run(store.engine, run).warnings
        if warning.code == "trusted-file"
    ]
    assert "tool.sh" in kept
    assert resume.rebuild_plan(run, private_home, consented).programs == consented
    (tmp_path / "tool.sh").write_text(SCRIPT + "#\n")
    with pytest.raises(BadInput, match="program own"):
        resume.rebuild_plan(run, private_home, consented)
    now = host_programs(resume.stored_study(run))
    with pytest.raises(BadInput) as caught:
        resume.rebuild_plan(run, private_home, now)
    golden(str(caught.value))
