"""The store keeps what it was given, on SQLite and on PostgreSQL alike, and forgets nothing it has committed."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import a_run
import numpy as np
import pytest
from a_run import begin, cells, fill, trial
from fleet import measure, merged
from sqlalchemy import func, select, update

from vtax.errors import BadInput, StoreError
from vtax.messages import Note, quoted
from vtax.store import schema
from vtax.store.annotations import Annotations, annotate
from vtax.store.campaigns import add_session, measured_sessions
from vtax.store.counts import counts_of
from vtax.store.database import reading
from vtax.store.merging import merge
from vtax.store.query import counters, load, outputs
from vtax.store.records import OutputRecord
from vtax.store.store import Store
from vtax.store.transfer import rows_of


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


def test_a_run_comes_back_as_it_began(store):
    begun = begin(store)
    found = store.open_run("tour-1")
    assert found.id == begun.id
    assert (found.seed, found.status, found.declared) == (
        2**40 + 7,
        "running",
        a_run.DECLARED,
    )
    assert found.platforms == a_run.PLATFORMS
    assert found.cells == tuple(cells())
    assert found.metrics == a_run.METRICS


def test_a_run_lasted_the_time_it_was_carried_out_not_the_pause_before_it_was_resumed(
    store, monkeypatch
):
    clock = [1000.0]
    monkeypatch.setattr("vtax.store.run.time.monotonic", lambda: clock[0])
    run = begin(store)
    run.reopen()
    assert store.open_run("tour-1").duration_s is None
    clock[0] += 7
    run.finish("interrupted", "stopped on request", run.started_at + 7)
    clock[0] += 90_000
    resumed = store.open_run("tour-1")
    resumed.reopen()
    clock[0] += 5
    resumed.add_trial(trial(run.cells[0], values={}))
    clock[0] += 3
    store.close_orphans(["tour-1"], run.started_at + 200_000)  # killed after its trial
    assert store.open_run("tour-1").duration_s == 12
    (listed,) = store.runs()
    assert listed.duration_s == 12


def test_a_run_whose_active_time_was_not_kept_lasted_from_start_to_end(store):
    begin(store).finish("finished", "", 1_700_000_060.0)
    assert store.open_run("tour-1").duration_s == 60
    assert store.runs()[0].duration_s == 60


def test_run_names_count_up_within_a_study(store):
    assert store.next_run_name("tour") == "tour-1"
    begin(store, "tour-9")
    begin(store, "tour-2-5")
    assert store.next_run_name("tour") == "tour-10"
    assert store.next_run_name("tour-2") == "tour-2-6"


def test_a_taken_run_name_is_bad_input(store):
    begin(store)
    with pytest.raises(BadInput, match="there is a run 'tour-1' already"):
        begin(store)
    assert [run.name for run in store.runs()] == ["tour-1"]


def test_an_unknown_run_is_refused_with_near_names(store):
    with pytest.raises(BadInput, match="there is no run yet"):
        store.open_run("last")
    begin(store)
    for name, hint in (
        ("tuor-1", "did you mean tour-1?"),
        ("nope", "the latest are tour-1; see vtax list"),
    ):
        with pytest.raises(BadInput) as caught:
            store.open_run(name)
        assert caught.value.hint == hint


def test_last_is_the_run_that_began_last(store):
    begin(store, "tour-1", started_at=200.0)
    begin(store, "tour-2", started_at=100.0)
    assert store.open_run("last").name == "tour-1"


def test_several_runs_are_opened_as_each_alone_in_the_order_of_their_names(store, monkeypatch):
    monkeypatch.setattr("vtax.store.store._RUNS_AT_ONCE", 2)
    for number, seed in enumerate((5, 6, 7), start=1):
        begin(store, f"tour-{number}", seed=seed, started_at=100.0 * number)
    names = ["tour-2", "last", "tour-1"]
    runs = store.open_runs(names)
    assert [run.seed for run in runs] == [6, 7, 5]
    for run, name in zip(runs, names, strict=True):
        alone = store.open_run(name)
        assert (run.cells, run.platforms, run.sessions) == (
            alone.cells,
            alone.platforms,
            alone.sessions,
        )
    with pytest.raises(BadInput, match="there is no run 'tour-4'"):
        store.open_runs(["tour-1", "tour-2", "tour-4"])


def test_the_newest_runs_are_those_of_a_machine_that_can_be_read(store):
    for number in range(1, 13):
        host = {"machine_id": "here" if number % 2 else "there"}
        begin(
            store,
            f"tour-{number}",
            started_at=100.0 * number,
            host=host,
            study=f"study-{number % 3}",
        )
    with (
        store.engine.connect().execution_options(vtax_writes=True) as connection,
        connection.begin(),
    ):
        connection.execute(
            update(schema.run).where(schema.run.c.name == "tour-9").values(declared={"design": 1})
        )
    assert [run.name for run in store.newest("here")] == ["tour-11", "tour-7", "tour-5", "tour-3"]
    assert [run.name for run in store.newest("here", "study-1")] == ["tour-7", "tour-1"]
    assert [run.name for run in store.newest("")] == []


def test_a_trial_is_there_with_all_it_left(store):
    run = begin(store)
    cell = run.cells[0]
    guest = run.begin_guest("native", 0, "", 1.0)
    run.end_guest(
        guest, ready_s=0.25, clock_offset_s=-0.5, facts={"kernel": "6.1"}, notes=["no memory limit"]
    )
    message = OutputRecord("single", ("sysbench", "cpu"), 1, "out \0 \ud800 ü", "err")
    run.add_trial(
        trial(
            cell,
            guest_id=guest,
            outputs=(message,),
            values={"events": 12.5, "latency": 0.1},
            counters={("guest", "ctxt"): 3.0, ("host", "steal_s"): math.nan},
            warnings=(quoted("late"), quoted("late")),
        )
    )
    data = load(store.engine, run)
    assert data.trials.is_ok.tolist() == [True]
    assert data.trials.outside_s.tolist() == [1.01]
    measured = zip(data.measurements.metric, data.measurements.value, strict=True)
    assert {run.metrics[metric].name: value for metric, value in measured} == {
        "events": 12.5,
        "latency": 0.1,
    }
    (kept,) = outputs(store.engine, run)
    assert (kept.argv, kept.status, kept.stdout, kept.stderr) == (
        message.argv,
        1,
        message.stdout,
        message.stderr,
    )
    assert counters(store.engine, run) == {(0, "guest", "ctxt"): (3.0, 1)}
    assert [(w.code, w.note, w.cell, w.times) for w in data.warnings] == [
        ("tool-said", "late", 0, 2)
    ]
    assert (data.guests[0].ready_s, data.guests[0].facts, data.guests[0].notes) == (
        0.25,
        {"kernel": "6.1"},
        ("no memory limit",),
    )


def test_a_failed_trial_keeps_its_error_and_its_unknown_times(store):
    run = begin(store)
    run.add_trial(
        trial(
            run.cells[0],
            status="failed",
            error="bad \0 byte",
            values={},
            outside_s=None,
            inside_s=None,
        )
    )
    data = load(store.engine, run)
    assert np.isnan(data.trials.outside_s).all()
    assert [(f.cell, f.error) for f in data.failures] == [(0, "bad � byte")]
    assert data.measurements.value.size == 0


def test_a_value_that_is_no_number_fails_its_trial(store):
    run = begin(store)
    run.add_trial(
        trial(
            run.cells[0], values={"events": math.inf, "latency": 1.0}, effective={"rate": math.nan}
        )
    )
    data = load(store.engine, run)
    assert [f.error for f in data.failures] == [Note("not-finite", names=("events",))]


def test_a_metric_the_benchmark_does_not_have_is_refused_whole(store):
    run = begin(store)
    with pytest.raises(StoreError, match="no metric 'speed'"):
        run.add_trial(trial(run.cells[0], values={"speed": 1.0}))
    assert run.done() == set()


def test_the_same_trial_twice_is_refused_and_leaves_the_first(store):
    run = begin(store)
    run.add_trial(trial(run.cells[0], values={"events": 1.0}))
    with pytest.raises(StoreError):
        run.add_trial(trial(run.cells[0], values={"events": 2.0}))
    assert load(store.engine, run).measurements.value.tolist() == [1.0]


def test_a_resumed_run_knows_what_is_done_and_where_to_go_on(store):
    run = begin(store)
    assert run.next_position() == 0
    run.add_trial(trial(run.cells[0], position=4, is_warmup=True))
    run.add_trial(trial(run.cells[0], position=5, number=1, values={"events": 7.0, "latency": 1.0}))
    run.add_trial(trial(run.cells[1], position=6, block=1, status="failed", values={}))
    run.finish("interrupted", "stopped on request", 9.0)
    again = store.open_run("tour-1")
    assert again.status == "interrupted"
    assert again.done() == {("c-native", 0, 0), ("c-native", 0, 1), ("s-native", 1, 0)}
    assert again.next_position() == 7
    assert again.primary_values() == [("c-native", 0, "events", 7.0, 0.0)]
    again.reopen()
    assert store.open_run("tour-1").status == "running"


def test_a_warning_about_the_run_is_kept_once(store):
    run = begin(store)
    for _ in range(2):
        run.add_warning(quoted("the governor is powersave"))
        run.add_warning(quoted("about a cell"), "c-native")
    assert [(w.note, w.cell, w.times) for w in load(store.engine, run).warnings] == [
        ("the governor is powersave", None, 1),
        ("about a cell", 0, 1),
    ]


def test_the_list_counts_measured_trials_and_failures(store):
    fill(begin(store), blocks=4, trials=2, warmup=1)
    (summary,) = store.runs()
    assert (summary.blocks, summary.cells, summary.trials, summary.failed) == (4, 12, 4 * 12 * 2, 1)
    assert summary.platforms == tuple(p.name for p in a_run.PLATFORMS if p.available)


def test_runs_stored_side_by_side_do_not_mix(store):
    one, two = begin(store, "tour-1"), begin(store, "tour-2")
    for block in range(3):
        one.add_trial(trial(one.cells[0], block=block, values={"events": 1.0}))
        two.add_trial(trial(two.cells[0], block=block, values={"events": 2.0}))
    for run, value in ((one, 1.0), (two, 2.0)):
        data = load(store.engine, run)
        assert data.measurements.value.tolist() == [value] * 3
        assert data.trials.block[data.measurements.trial].tolist() == [0, 1, 2]


def test_a_removed_run_is_gone_and_the_others_are_whole(store):
    fill(begin(store, "tour-1"), blocks=2)
    kept = begin(store, "tour-2")
    fill(kept, blocks=2)
    before = load(store.engine, kept).measurements.value
    store.remove_runs("tour-1")
    assert [run.name for run in store.runs()] == ["tour-2"]
    assert np.array_equal(load(store.engine, kept).measurements.value, before)
    with store.engine.connect() as connection:
        for table in schema.metadata.tables.values():
            if "run_id" in table.c:
                count = connection.execute(
                    select(func.count()).where(table.c.run_id != kept.id)
                ).scalar()
                assert count == 0, table.name


def test_what_add_trial_returned_from_survives_sigkill(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    script = (
        "import sys; from a_run import begin, trial; from vtax.store.store import Store\n"
        f"run = begin(Store.open({url!r}))\n"
        "for block in range(1000):\n"
        "    run.add_trial(trial(run.cells[0], block=block, position=block))\n"
        "    print(block, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(a_run.__file__).parent)},
    )
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) == 20:
            child.send_signal(signal.SIGKILL)
            break
    printed = [20, *(int(line) for line in child.stdout if line.strip().isdigit())]
    child.wait()
    with Store.open(url) as store:
        done = store.open_run("last").done()
    assert {("c-native", block, 0) for block in range(max(printed) + 1)} <= done
    assert len(done) <= max(printed) + 2


def test_two_processes_may_write_at_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    script = (
        "import sys; from a_run import begin, trial; from vtax.store.store import Store\n"
        f"run = begin(Store.open({url!r}), sys.argv[1])\n"
        "for block in range(30): run.add_trial(trial(run.cells[0], block=block, position=block))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(a_run.__file__).parent)}
    children = [
        subprocess.Popen([sys.executable, "-c", script, name], env=environment)
        for name in ("tour-1", "tour-2")
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0]
    with Store.open(url) as store:
        assert sorted((run.name, run.trials) for run in store.runs()) == [
            ("tour-1", 30),
            ("tour-2", 30),
        ]


def test_platform_order_is_the_studys(store):
    turned = tuple(reversed(a_run.PLATFORMS))
    run = begin(
        store, platforms=turned, cells=[replace(c, key=f"x{i}") for i, c in enumerate(cells())]
    )
    assert store.open_run(run.name).platforms == turned


def test_a_campaign_refers_to_its_runs_once(store):
    first, second = (
        fill(begin(store, name=name), blocks=1) or store.open_run(name)
        for name in ("tour-1", "tour-2")
    )
    begin(store, name="tour-3")
    for _ in range(2):
        add_session(store.engine, "mine-1a2b", "b", 1, first.identity)
        add_session(store.engine, "mine-1a2b", "a", 1, second.identity)
        add_session(store.engine, "mine-1a2b", "a", 2, store.open_run("tour-3").identity)
        add_session(store.engine, "mine-1a2b", "a", 3, "0" * 32)
        add_session(store.engine, "other", "a", 1, first.identity)
    noted = [("a", 1, "tour-2"), ("b", 1, "tour-1")]
    assert [
        (each.host, each.session, each.run) for each in measured_sessions(store.engine, "mine-1a2b")
    ] == noted
    third = begin(store, name="tour-4")
    fill(third, blocks=1)
    add_session(store.engine, "mine-1a2b", "a", 1, third.identity)  # begun anew, after a failure
    found = {
        (each.host, each.session): each.run for each in measured_sessions(store.engine, "mine-1a2b")
    }
    assert found == {("a", 1): "tour-4", ("b", 1): "tour-1"}
    store.remove_runs("tour-4")
    assert [each.run for each in measured_sessions(store.engine, "mine-1a2b")] == ["tour-1"]
    assert [each.run for each in measured_sessions(store.engine, "other")] == ["tour-1"]


def test_later_sessions_of_a_campaign_are_added_to_its_merged_run(store):
    runs = measure(store, ("a", "b"), sessions=3, blocks=2)
    store.remove_runs("a-s2")
    runs["a"].remove("a-s2")  # ids of runs are not in one piece
    late = begin(store, name="late")
    fill(late, blocks=1)
    at_once = merge(store, [each for names in runs.values() for each in names])
    whole = load(store.engine, store.open_run(at_once))
    printed = len(outputs(store.engine, whole.run))
    store.remove_runs(at_once)
    name = merged(store, {host: names[:1] for host, names in runs.items()})
    assert merged(store, runs) == name
    found = load(store.engine, store.open_run(name))
    assert found.run.identity == whole.run.identity
    assert found.run.provenance["campaign"]["hosts"][1]["sessions"] == [2, 3, 5]
    by_start = []
    for data in (found, whole):
        trials = {
            session.started_at: np.unique(
                data.trials.session[data.trials.session == session.number]
            ).size
            and data.measurements.value[
                data.trials.session[data.measurements.trial] == session.number
            ].tolist()
            for session in data.run.sessions
        }
        by_start.append(trials)
        assert np.unique(data.trials.position).size == data.trials.id.size
        assert {
            len({*data.trials.session[data.trials.block == block].tolist()}) for block in range(10)
        } == {1}
    assert by_start[0] == by_start[1]
    assert len(by_start[0]) == 5
    assert all(by_start[0].values())
    assert [each.version for each in found.run.platforms] == [
        each.version for each in whole.run.platforms
    ]
    assert len(outputs(store.engine, found.run)) == printed
    before = store.open_run("b-s3")
    begin(store, name="after").add_trial(
        trial(before.cells[0], values={})
    )  # its id follows those that were taken


def test_a_merged_run_that_is_merged_again_is_what_its_runs_make_at_once(store):
    names = [each for of in measure(store, ("a", "b", "c"), blocks=2).values() for each in of]
    at_once = merge(store, names)
    with reading(store.engine) as connection:
        whole = list(rows_of(connection, store.open_run(at_once).id))
    store.remove_runs(at_once)
    name = merge(store, names[:2])
    annotate(store.engine, store.open_run(name).id, lambda _: Annotations(("mine",), ("seen",)))
    assert merge(store, names, again=store.open_run(name)) == name
    with reading(store.engine) as connection:
        again = list(rows_of(connection, store.open_run(name).id))
    assert again[1:] == whole[1:]
    assert again[0][1]["identity"] == whole[0][1]["identity"]
    assert (again[0][1]["tags"], again[0][1]["notes"]) == (["mine"], ["seen"])


def test_a_run_that_others_are_made_of_is_not_removed(store):
    names = [each for of in measure(store, ("a", "b"), 1, blocks=2).values() for each in of]
    name = merge(store, names)
    figures = load(store.engine, store.open_run(name)).measurements.value.tolist()
    with pytest.raises(BadInput, match=f"a-s1 cannot be removed: it is part of {name}"):
        store.remove_runs("a-s1")
    assert load(store.engine, store.open_run(name)).measurements.value.tolist() == figures
    store.remove_runs("a-s1", name)
    assert [run.name for run in store.runs()] == ["b-s1"]
    store.remove_runs("b-s1")
    with reading(store.engine) as connection:
        for table in schema.metadata.sorted_tables:
            assert connection.execute(select(func.count()).select_from(table)).scalar() == 0


def test_the_sums_of_a_merged_run_are_those_of_its_runs(store):
    names = [each for of in measure(store, ("a", "b"), 2, blocks=2).values() for each in of]
    name = merge(store, names)
    runs = {run.name: run for run in store.runs()}
    assert (runs[name].blocks, runs[name].trials) == (8, sum(runs[each].trials for each in names))
    assert runs[name].failed == sum(runs[each].failed for each in names)
    with reading(store.engine) as connection:
        assert counts_of(connection, store.open_run(name).id).blocks == 8


def test_sessions_that_were_planned_after_a_look_are_a_warning(store):
    measured = measure(store, ("a", "b"), sessions=2, blocks=2)
    name = merged(store, {host: runs[:1] for host, runs in measured.items()})
    assert merged(store, {host: runs[:1] for host, runs in measured.items()}) == name
    assert "session-added" not in [
        each.note.code for each in load(store.engine, store.open_run(name)).warnings
    ]
    assert merged(store, measured) == name
    (added,) = (
        each.note
        for each in load(store.engine, store.open_run(name)).warnings
        if each.note.code == "session-added"
    )
    assert (added.data["session"], added.data["count"]) == (2, 1)


def test_sessions_after_a_planned_change_are_no_look_at_those_before(store):
    measured = measure(store, ("a", "b"), sessions=2, blocks=2)
    merged(store, {host: runs[:1] for host, runs in measured.items()})
    name = merged(store, measured, change={"what": "kernel", "first": ["a"], "at": 1.0})
    codes = {each.note.code for each in load(store.engine, store.open_run(name)).warnings}
    assert "session-added" not in codes
