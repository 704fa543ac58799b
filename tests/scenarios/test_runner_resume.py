"""A run is resumed on the same machine only, and reports what changed there meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from a_run import begin
from scripted import StopAfter, install, plan_of, store_each_trial, study
from shown import sentence

from vtax.counters.host import host_facts
from vtax.errors import BadInput, RunInterrupted
from vtax.host.home import Home
from vtax.report.analysis import analyse
from vtax.runner.begin import begin as begin_run
from vtax.runner.resume import check_host, note_resumption
from vtax.runner.session import execute
from vtax.store.query import load

HOST: dict[str, Any] = {
    "machine_id": "a1",
    "kernel": "6.1",
    "cpu_microcode": "0x1",
    "mitigations": {"mds": "Vulnerable", "l1tf": "Not affected"},
    "measured_at": "then",
}


def test_another_machine_cannot_go_on_with_a_run(store, golden):
    run = begin(store, host=HOST)
    with pytest.raises(BadInput) as caught:
        check_host(run, {**HOST, "machine_id": "b2"})
    golden(str(caught.value))
    assert check_host(run, {**HOST, "measured_at": "now"}) == ""


def test_what_changed_on_the_host_is_reported_and_kept_with_the_run(store):
    run = begin(store, host=HOST)
    printed = check_host(
        run, {**HOST, "kernel": "6.12", "mitigations": {"mds": "Mitigation", "new": "Vulnerable"}}
    )
    assert printed.endswith(": kernel (6.1, now 6.12), mitigation mds (Vulnerable, now Mitigation)")
    assert [(warning.code, warning.note) for warning in load(store.engine, run).warnings] == [
        ("host-changed", printed)
    ]


def test_a_run_of_this_host_is_a_run_of_this_host(store):
    facts = host_facts()
    assert len(facts["machine_id"]) == 12
    assert len(facts.get("hardware_id", "x" * 12)) == 12
    assert check_host(begin(store, host=facts), host_facts()) == ""
    assert (
        check_host(begin(store, "before-there-was-an-id", host={"kernel": facts["kernel"]}), facts)
        == ""
    )


@pytest.mark.parametrize(
    ("design", "trials", "printed"),
    [
        ({}, 2, "within block 1 and resumed 2 h 00 min later; its cells on "),
        ({}, 3, "within block 1 and resumed 2 h 00 min later"),
        ({}, 6, "after block 1 and resumed 2 h 00 min later"),
        ({}, 8, "within block 2 and resumed 2 h 00 min later; its cells on "),
        ({"warmup": 1}, 6, "within block 1 and resumed 2 h 00 min later"),
        ({"order": "sequential"}, 17, "within block 1 and resumed 2 h 00 min later; its cells on "),
        ({"stop": "precision"}, 2, "in or after block 1 and resumed 2 h 00 min later"),
    ],
)
def test_where_a_run_was_stopped_and_which_guests_that_parted_is_kept_with_it(
    store, tmp_path, monkeypatch, design, trials, printed
):
    install(monkeypatch)
    store_each_trial(monkeypatch)
    plan, home, watching = plan_of(study(design=design)), Home(tmp_path).ensure(), StopAfter(trials)
    note_resumption(run := begin_run(store, plan, vtax_version="test"), plan)
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, watching)
    run = store.open_run(run.name)
    assert run.ended_at is not None
    monkeypatch.setattr("time.time", lambda at=run.ended_at + 7200: at)
    note_resumption(run, plan)
    (warning,) = [
        warning
        for warning in analyse(store, run.name).warnings
        if warning.code.startswith("resumed")
    ]
    parted = f"{watching.made[-1]} come from two guests" if printed.endswith(" on ") else ""
    assert sentence(warning) == f"the run was stopped {printed}{parted}"
