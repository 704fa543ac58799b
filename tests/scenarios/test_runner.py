"""The runner's whole specification: order, commitment, failure, stopping and resumption.

The platform is scripted: guests are the real agent as a plain process, benchmarks are tiny programs. No platform is
shown to work here.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from scripted import (
    ProcessGuest,
    ScriptedDriver,
    ScriptedOptions,
    StopAfter,
    executed,
    plan_of,
    store_each_trial,
    study,
)
from sqlalchemy import select

from vtax.benchmarks.base import Metric, Outcome
from vtax.errors import BadInput, RunInterrupted, VtaxError
from vtax.guest.guest import Guest
from vtax.host.resources import Tree
from vtax.image import contents
from vtax.image.image import Image
from vtax.messages import Note, part_of
from vtax.platforms.base import GuestSpec
from vtax.runner import plan as planning
from vtax.runner.begin import begin
from vtax.runner.counting import own_cpu_s
from vtax.runner.events import EndedTrial, Observer, Progress
from vtax.runner.open_guest import OpenGuest
from vtax.runner.resume import check_host
from vtax.runner.session import execute
from vtax.runner.stopping import Stopping
from vtax.runner.trial import combine_flows
from vtax.store import schema
from vtax.store.query import load as load_run
from vtax.store.query import outputs, samples
from vtax.store.store import RunHandle


def exact(values):
    """Values as a run has them, of a tool without a smallest step."""
    return [(*value, 0.0) for value in values]


def test_every_block_holds_every_cell_once_on_a_fresh_guest(driver, store, home):
    run = executed(plan_of(study()), store, home)
    trials = load_run(store.engine, run).trials
    assert run.status == "finished"
    assert len(trials.id) == 2 * 2 * 3
    assert (
        len({(c, b) for c, b in zip(trials.cell.tolist(), trials.block.tolist(), strict=True)})
        == 12
    )
    assert trials.is_ok.all()
    assert len(driver.started) == 2 * 2
    assert list(home.guests.iterdir()) == []
    assert list(home.journal.iterdir()) == []


def test_the_order_is_random_seeded_and_the_same_again(driver):
    def order(seed: int) -> list[list[tuple[str, list[str]]]]:
        plan = plan_of(study(design={"blocks": 9, "seed": seed}))
        return [
            [(s.platform.name, [c.key for c in s.cells]) for s in plan.guests(b)] for b in range(9)
        ]

    assert order(7) == order(7)
    assert order(7) != order(8)
    assert len({str(block) for block in order(7)}) > 4
    assert all(sorted(name for name, _ in block) == ["native", "other"] for block in order(7))


def test_the_papers_order_runs_everything_as_it_is_written(driver):
    plan = plan_of(study(design={"blocks": 3, "order": "sequential"}))
    for block in range(3):
        assert [s.platform.name for s in plan.guests(block)] == ["native", "other"]
        assert [c.point.levels["size"] for c in plan.guests(block)[0].cells] == [1, 2, 3]


def test_what_the_image_held_is_kept_with_the_run_and_its_session(driver, store, home, tmp_path):
    image = Image("key", tmp_path / "image")
    image.tree.mkdir(parents=True)
    contents.record(image)
    run = begin(store, replace(plan_of(study()), image=image), vtax_version="test")
    digest = contents.digest(image)
    assert (run.host["image_digest"], run.session.host["image_digest"]) == (digest, digest)
    changed = check_host(run, {**run.host, "image_digest": "f" * 64})
    assert "image_digest" in changed


def test_warm_up_trials_are_kept_and_marked(driver, store, home):
    run = executed(plan_of(study(design={"blocks": 1, "warmup": 1, "trials": 2})), store, home)
    trials = load_run(store.engine, run).trials
    assert len(trials.id) == 2 * 3 * 3
    assert (trials.is_warmup == (trials.number == 0)).all()


def test_values_within_a_trial_are_kept_with_it(driver, store, home):
    table = {"name": "script", "factors": {"code": ["echo 2", "echo 1 3 2"]}}
    run = executed(plan_of(study(benchmark=[table])), store, home)
    kept = samples(store.engine, run)
    trials = load_run(store.engine, run).trials
    assert len(kept) == len(trials.id) // 2
    assert set(kept) < set(trials.id.tolist())
    assert all(values == {"figure": [1.0, 3.0, 2.0]} for values in kept.values())


def test_a_failing_tool_fails_its_trial_with_its_output_kept_and_the_run_goes_on(
    driver, store, home
):
    table = {"name": "script", "factors": {"code": ["echo 2", "echo broken tool >&2; exit 1"]}}
    run = executed(plan_of(study(benchmark=[table])), store, home)
    data = load_run(store.engine, run)
    assert run.status == "finished"
    assert len(data.trials.id) == 8
    assert [f.error for f in data.failures] == ["the script failed"] * 4


def test_a_parser_that_stumbles_fails_the_trial_and_the_run_goes_on(driver, store, home):
    table = {"name": "script", "factors": {"code": ["echo 2", "echo garbage", "echo nan", "echo"]}}
    design = {"blocks": 1}
    run = executed(
        plan_of(study(platforms=["native"], benchmark=[table], design=design)), store, home
    )
    data = load_run(store.engine, run)
    assert run.status == "finished"
    assert data.trials.is_ok.sum() == 1
    errors = [f.error.partition(": ")[0] for f in data.failures]
    assert sorted(errors) == [
        "python3 reports figure nan x/s, which is no number",
        "python3's output could not be parsed",
        "python3's output could not be parsed",
    ]
    assert {output.stdout for output in outputs(store.engine, run)} == {
        "2\n",
        "garbage\n",
        "nan\n",
        "\n",
    }


def test_what_a_trial_did_until_its_timeout_ended_it_is_counted(driver, store, home):
    table = {"name": "script", "parameters": {"code": "while :; do :; done"}}
    design = {"blocks": 1, "timeout": "100ms"}
    run = executed(
        plan_of(study(platforms=["native"], benchmark=[table], design=design)), store, home
    )
    (failure,) = load_run(store.engine, run).failures
    assert part_of(failure.error, "killed-after").data["limit"] == 0.1
    with store.engine.connect() as connection:
        counted = {
            row.name: row.value
            for row in connection.execute(select(schema.counter))
            if row.place == "guest"
        }
    assert counted["cpu_user_s"] + counted["cpu_idle_s"] > 0


def test_a_guest_that_dies_fails_one_trial_and_is_replaced(driver, store, home):
    kill = "kill -KILL $PPID"
    table = {"name": "script", "factors": {"code": ["echo 2", kill]}}
    run = executed(plan_of(study(benchmark=[table], design={"blocks": 3, "seed": 1})), store, home)
    data = load_run(store.engine, run)
    assert len(data.trials.id) == 3 * 2 * 2
    assert len(data.failures) == 3 * 2
    assert data.trials.is_ok.sum() == 6
    assert len(driver.started) > 6


def test_a_platform_that_cannot_run_here_is_noted_not_dropped(driver, store, home):
    run = executed(plan_of(study(platforms=["native", "absent"])), store, home)
    assert [(p.name, p.available, p.reason) for p in run.platforms] == [
        ("native", True, ""),
        ("absent", False, "it is not installed"),
    ]


def test_a_request_to_stop_keeps_everything_and_resuming_completes_the_same_plan(
    driver, store, home, monkeypatch
):
    store_each_trial(monkeypatch)
    plan = plan_of(study())
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(5))
    assert store.open_run(run.name).status == "interrupted"
    kept = load_run(store.engine, run).trials.id.tolist()
    assert len(kept) == 5
    assert list(home.journal.iterdir()) == []
    assert all(guest.process.poll() is not None for guest in driver.started)

    execute(plan, store.open_run(run.name), home, Observer())
    trials = load_run(store.engine, store.open_run(run.name)).trials
    assert store.open_run(run.name).status == "finished"
    assert trials.id.tolist()[:5] == kept
    assert sorted(trials.position.tolist()) == list(range(12))
    assert len(set(zip(trials.cell.tolist(), trials.block.tolist(), strict=True))) == 12


class StopAtStart(Observer):
    """Asks vtax to stop before the second trial is measured, and notes what the store has when trials are reported."""

    def __init__(self, run):
        self.run, self.starting, self.stored = run, 0, []

    def trial_starting(self, *_):
        self.starting += 1
        if self.starting == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    def trial_ended(self, *_):
        self.stored.append(len(self.run.done()))


def test_short_trials_are_stored_with_their_guest_and_reported_afterwards(driver, store, home):
    plan = plan_of(study())
    run = begin(store, plan, vtax_version="test")
    watching = StopAtStart(run)
    watching.starting = 2  # ask for nothing
    execute(plan, run, home, watching)
    assert watching.stored == [3] * 3 + [6] * 3 + [9] * 3 + [12] * 3


def test_a_request_to_stop_keeps_short_trials_that_were_measured(driver, store, home):
    plan = plan_of(study())
    run = begin(store, plan, vtax_version="test")
    watching = StopAtStart(run)
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, watching)
    assert watching.stored == [1]
    assert load_run(store.engine, run).guests[0].ready_s is not None


@pytest.mark.parametrize(("spent_s", "trials"), [(60.0, 12), (90.0, 11)])
def test_a_budget_of_a_resumed_run_need_not_hold_again_what_is_made(
    driver, store, home, monkeypatch, spent_s, trials
):
    store_each_trial(monkeypatch)
    plan = plan_of(study(design={"blocks": 2, "budget": 92, "seed": 7}))
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(11))
    monkeypatch.setattr(RunHandle, "spent_s", lambda run: spent_s)
    run = store.open_run(run.name)
    execute(plan, run, home, Observer())
    assert len(load_run(store.engine, run).trials.id) == trials
    assert ("time budget" in run.stopped_because) == (trials == 11)


def test_a_request_to_stop_in_the_middle_of_a_trial_ends_it_at_once_and_owes_it_again(
    driver, store, home
):
    code = f"kill -TERM {os.getpid()}; exec sleep 60"
    plan = plan_of(study(benchmark=[{"name": "script", "parameters": {"code": code}}]))
    run = begin(store, plan, vtax_version="test")
    started_at = time.monotonic()
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, Observer())
    assert time.monotonic() - started_at < 30
    assert run.status == "interrupted"
    assert len(load_run(store.engine, run).trials.id) == 0
    assert all(guest.process.poll() is not None for guest in driver.started)


class Recording(Observer):
    """Keeps every progress and message."""

    def __init__(self) -> None:
        self.progress: list[Progress] = []
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def trial_ended(self, trial: EndedTrial) -> None:
        self.progress.append(trial.progress)


@pytest.mark.parametrize("warmup", [0, 2])
def test_progress_counts_the_trials_that_the_list_of_runs_counts(driver, store, home, warmup):
    design = {"blocks": 2, "trials": 2, "warmup": warmup, "seed": 7}
    plan = plan_of(study(design=design, benchmark=[{"name": "script"}]))
    run = begin(store, plan, vtax_version="test")
    watching = Recording()
    execute(plan, run, home, watching)
    (listed,) = store.runs()
    last = watching.progress[-1]
    assert last.done_trials == last.total_trials == listed.trials == 2 * 2 * 2
    assert {progress.total_trials for progress in watching.progress} == {8}
    assert last.left_s == 0
    warmups = [p for p in watching.progress if p.is_warmup]
    assert len(watching.progress) - len(warmups) == 8
    assert len(warmups) == len(load_run(store.engine, run).trials.id) - 8


def test_progress_within_a_time_goes_by_the_last_block(driver, store, home, tmp_path):
    """The first block takes longer, as where lengths of trials are found out."""
    code = f"if [ -e {tmp_path}/made ]; then sleep 0.02; else sleep 1; touch {tmp_path}/made; fi; echo 1"
    benchmark = {"name": "script", "parameters": {"code": code}}
    plan = plan_of(
        study(design={"stop": "budget", "budget": "7s", "seed": 7}, benchmark=[benchmark])
    )
    run = begin(store, plan, vtax_version="test")
    watching = Recording()
    execute(plan, run, home, watching)
    last = watching.progress[-1]
    third = [progress for progress in watching.progress if progress.block == 2]
    made = last.block + 1
    assert made > 6
    assert all(0.6 * made <= progress.blocks <= 1.6 * made for progress in third)
    assert all(progress.total_trials == 2 * progress.blocks for progress in third)
    assert all(progress.elapsed_s + progress.left_s <= 7.2 for progress in third)


def test_a_resumed_run_goes_on_counting(driver, store, home):
    class StopAfterFour(Recording):
        def trial_ended(self, trial: EndedTrial) -> None:
            super().trial_ended(trial)
            if len(self.progress) == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    plan = plan_of(
        study(design={"blocks": 3, "warmup": 1, "seed": 7}, benchmark=[{"name": "script"}])
    )
    run = begin(store, plan, vtax_version="test")
    first, second = StopAfterFour(), Recording()
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, first)
    execute(plan, store.open_run(run.name), home, second)
    measured = [p.done_trials for p in (*first.progress, *second.progress) if not p.is_warmup]
    assert measured == list(range(1, 7))


def test_a_boot_counts_the_trials_of_those_before_it(driver, store, home):
    plan = plan_of(study(design={"blocks": 3, "seed": 7}, benchmark=[{"name": "script"}]))
    run, watching = begin(store, plan, vtax_version="test"), Recording()
    first, *others = (cell.key for cell in plan.cells)
    for cells in ([first], others):
        execute(plan, store.open_run(run.name), home, watching, cells)
    assert [progress.done_trials for progress in watching.progress] == list(range(1, 7))
    assert {progress.total_trials for progress in watching.progress} == {6}
    assert [progress.left_s for progress in watching.progress][2::3] == [0.0, 0.0]


@pytest.mark.parametrize(
    "reason", [BrokenPipeError(32, "Broken pipe"), ValueError("closed file"), SystemExit(1)]
)
def test_an_observer_that_fails_does_not_fail_the_run(driver, store, home, reason):
    class Broken(Observer):
        def trial_ended(self, *_: Any) -> None:
            raise reason

        def message(self, text: str) -> None:
            raise reason

        def guest_ready(self, platform: str, ready_s: float) -> None:
            raise reason

    run = begin(store, plan := plan_of(study(benchmark=[{"name": "script"}])), vtax_version="test")
    execute(plan, run, home, Broken())
    assert run.status == "finished"
    assert load_run(store.engine, run).trials.is_ok.sum() == 4


@pytest.mark.parametrize(("seen", "notes"), [("goes on", 0), ("goes back 4000 ns", 1)])
def test_a_clock_that_goes_back_between_cpus_is_a_warning_of_its_platform(
    driver, store, home, facts_by, seen, notes
):
    facts_by(lambda guest, programs: {"clock_between_cpus": seen})
    run = executed(plan_of(study(platforms=["native"], design={"blocks": 2})), store, home)
    warnings = [warning.note for warning in load_run(store.engine, run).warnings]
    expected = Note("clock-goes-back", platform="native", what=seen)
    assert warnings.count(expected) == notes
    assert [note.code for note in warnings].count("clock-goes-back") == notes


def test_a_guest_that_dies_during_its_audit_fails_its_trials_and_the_run_ends(
    driver, store, home, facts_by
):
    audit, times = Guest.facts, 0

    def dying(guest: Guest, programs: Any) -> Any:
        nonlocal times
        times += 1
        if times == 2:
            driver.started[-1].process.kill()
            driver.started[-1].process.wait()
        return audit(guest)

    facts_by(dying)
    run = executed(plan_of(study()), store, home)
    data = load_run(store.engine, run)
    assert run.status == "finished"
    assert len(driver.started) == len(data.guests) == 4
    assert len(data.trials.id) == 12
    assert len(data.failures) == 3
    assert {failure.error.code for failure in data.failures} == {"guest-not-started"}
    assert [bool(guest.error) for guest in data.guests] == [False, True, False, False]
    assert all(guest.process.poll() is not None for guest in driver.started)


def test_files_of_a_guest_are_removed_beside_the_next_start_and_beside_no_trial(
    driver, store, home, monkeypatch
):
    removed, measured, remove, measure = [], [], Tree.remove, OpenGuest.measure

    def slow(tree: Tree) -> bool:
        began = time.monotonic()
        time.sleep(0.05)
        existed = remove(tree)
        removed.append((began, time.monotonic(), threading.current_thread()))
        return existed

    def timed(opened: OpenGuest, *arguments: Any) -> Any:
        began = time.monotonic()
        result = measure(opened, *arguments)
        measured.append((began, time.monotonic()))
        return result

    monkeypatch.setattr(Tree, "remove", slow)
    monkeypatch.setattr(OpenGuest, "measure", timed)
    executed(plan_of(study()), store, home)
    assert len([thread for _, _, thread in removed if thread != threading.main_thread()]) == 4
    for began, ended, _ in removed:
        assert all(end <= began or ended <= start for start, end in measured)
    assert list(home.guests.iterdir()) == []


@pytest.mark.parametrize("reason", [VtaxError("it is busy"), OSError(errno.EBUSY, "it is busy")])
def test_what_stays_behind_is_reported_and_kept_with_the_run(
    driver, store, home, monkeypatch, reason
):
    def fail(tree: Tree) -> bool:
        raise reason

    monkeypatch.setattr(Tree, "remove", fail)
    run = begin(store, plan := plan_of(study(platforms=["native"])), vtax_version="test")
    watching = Recording()
    execute(plan, run, home, watching)
    assert run.status == "finished"
    assert any(text.startswith("leaked: files ") for text in watching.messages)
    warnings = [
        warning.note
        for warning in load_run(store.engine, run).warnings
        if warning.code == "left-behind"
    ]
    assert len(warnings) == 2
    assert all("is busy (hint: sudo vtax clean)" in text for text in warnings)


def test_a_driver_that_meets_errors_of_the_host_fails_its_trials_and_the_run_goes_on(
    driver, store, home
):
    def start(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        if len(driver.started) == 1:
            driver.started.append(ProcessGuest(spec))
            driver.started[-1].stop()
            raise OSError(errno.ENOSPC, "No space left on device", str(spec.directory))
        return ScriptedDriver.start(driver, options, spec)

    driver.start = start
    run = executed(plan_of(study()), store, home)
    data = load_run(store.engine, run)
    assert run.status == "finished"
    assert data.trials.is_ok.sum() == 9
    assert all("No space left" in failure.error for failure in data.failures)


def test_a_request_to_stop_while_cleaning_up_waits_for_the_end_of_it(
    driver, store, home, monkeypatch
):
    def start(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        """Makes what lasts as long as the run, as a daemon of one's own does."""
        for name in ("a", "b"):
            shared = home.root / name
            spec.journal.register(Tree(str(shared)))
            shared.mkdir(exist_ok=True)
        return ScriptedDriver.start(driver, options, spec)

    remove = Tree.remove

    def interrupted(tree: Tree) -> bool:
        if tree.path == str(home.root / "b"):
            os.kill(os.getpid(), signal.SIGINT)
        return remove(tree)

    driver.start = start
    monkeypatch.setattr(Tree, "remove", interrupted)
    design = {"blocks": 1}
    run = begin(
        store, plan := plan_of(study(platforms=["native"], design=design)), vtax_version="test"
    )
    watching = Recording()
    execute(plan, run, home, watching)
    assert run.status == "finished"
    assert watching.messages == ["cleaning up, please wait ..."]
    assert not (home.root / "a").exists()
    assert not (home.root / "b").exists()
    assert list(home.journal.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "what", "where"),
    [
        (
            {"platforms": ["native", "othr"]},
            "there is no platform 'othr'; did you mean other?",
            "test: key platforms",
        ),
        (
            {"benchmark": [{"name": "scrpt"}]},
            "there is no benchmark 'scrpt'; did you mean script?",
            "number 1 (scrpt), key name",
        ),
        (
            {"benchmark": [{"name": "script", "parameters": {"sise": 1}}]},
            "unknown parameter 'sise'; did you mean",
            "parameters.sise",
        ),
        (
            {"benchmark": [{"name": "script", "factors": {"size": [1, "big"]}}]},
            "size is 'big'; it must be a whole",
            "factors.size",
        ),
        (
            {"benchmark": [{"name": "script", "parameters": {"size": 101}}]},
            "size is at most 100",
            "number 1 (script)",
        ),
        ({"guest": {"vcpus": 4096}}, "4096 vCPUs are requested", "[guest], key vcpus"),
        (
            {
                "design": {"timeout": "40ms"},
                "benchmark": [{"name": "script", "parameters": {"duration_s": 0.05}}],
            },
            "a trial of script measures for 0.05 s, and the timeout ends it after 0.04 s",
            "test: [design], key timeout",
        ),
        ({"guest": {"memory": "64TiB"}}, "64 TiB of memory are requested", "[guest], key memory"),
        (
            {"platforms": ["absent"], "baseline": "absent"},
            "the baseline absent does not run here",
            "test: key baseline",
        ),
        (
            {"benchmark": [{"name": "script", "topology": "router"}]},
            "uses no network",
            "(script), key topology",
        ),
        (
            {"benchmark": [{"name": "script", "link": {"mtu": 500}}]},
            "uses no network",
            "(script), key link.mtu",
        ),
        (
            {"benchmark": [{"name": "wired", "link": {"mut": 9}}]},
            "setting 'mut'; did you mean mtu?",
            "test: [[benchmark]] number 1 (wired), key link.mut",
        ),
        (
            {"benchmark": [{"name": "wired", "link_factors": {"mtu": [500, 1]}}]},
            "setting mtu",
            "key link_factors.mtu",
        ),
        (
            {"benchmark": [{"name": "wired", "link": {"rate_mbit_s": 0.01}}]},
            "setting rate_mbit_s",
            "key link.rate_mbit_s",
        ),
        (
            {"benchmark": [{"name": "wired", "topology": "ruoter"}]},
            "did you mean router?",
            "key topology",
        ),
        (
            {"platforms": ["native", "mine"], "platform": [{"name": "mine", "driver": "nil"}]},
            "no driver 'nil'",
            "[[platform]] number 1 (mine), key driver",
        ),
        (
            {
                "platforms": ["native", "mine"],
                "platform": [{"name": "mine", "driver": "scripted", "available": "?"}],
            },
            "option available",
            "[[platform]] number 1 (mine)",
        ),
        (
            {"platform": [{"name": "native", "driver": "scripted"}]},
            "there is a platform native already",
            "[[platform]] number 1 (native), key name",
        ),
        (
            {"platforms": ["native", "mien"], "platform": [{"name": "mine", "driver": "scripted"}]},
            "no platform 'mien'; did you mean mine",
            "test: key platforms",
        ),
    ],
)
def test_what_a_study_gets_wrong_is_refused_before_anything_starts(driver, changes, what, where):
    with pytest.raises(BadInput) as caught:
        plan_of(study(**changes))
    assert what in caught.value.what
    assert where in caught.value.where
    assert caught.value.hint
    assert driver.started == []


def test_cell_keys_change_with_what_defines_the_cell_and_with_nothing_else(driver):
    def keys(**changes: Any) -> set[str]:
        return {cell.key for cell in plan_of(study(**changes)).cells}

    assert keys() == keys(design={"blocks": 9, "seed": 1}, title="another")
    assert keys().isdisjoint(keys(guest={"vcpus": 1, "memory": "1GiB"}))
    assert keys() & keys(platforms=["native"]) == keys(platforms=["native"])


def test_guests_get_the_last_cpus_and_the_rest_is_for_everything_else(set_cpus):
    set_cpus({0, 1, 2, 3})
    assert planning.split_cpus(1) == ((3,), (0, 1, 2))
    assert planning.split_cpus(4) == ((0, 1, 2, 3), (0, 1, 2, 3))


def test_guests_that_differ_where_they_must_match_are_refused_before_the_first_trial(
    driver, store, home, facts_by
):
    kernels = iter(["6.1", "6.12"] * 5)
    facts = {"mitigation.mds": "Not affected"}
    facts_by(lambda guest, programs: {**facts, "kernel_release": next(kernels)})
    executed(plan_of(study(must_match=["mitigation"])), store, home)
    with pytest.raises(BadInput, match=r"kernel_release: \w+ 6.1, \w+ 6.12"):
        executed(plan_of(study(must_match=["kernel_release"])), store, home)
    with pytest.raises(
        BadInput, match=r"audit has mitigation.mdss or hash; did you mean mitigation"
    ):
        executed(plan_of(study(must_match=["mitigation.mdss", "mitigation", "hash"])), store, home)
    assert store.open_run("last").is_refused()
    assert not store.open_run(store.runs()[0].name).is_refused()
    assert len(load_run(store.engine, store.open_run("last")).trials.id) == 0


def test_tuning_makes_cells_and_fresh_guests_of_its_own_and_leaves_others_keys_alone(driver):
    untuned, tuned = plan_of(study()), plan_of(study(tuning=["default", "pinned"]))
    assert len(tuned.cells) == 2 * len(untuned.cells)
    assert {cell.key for cell in tuned.cells}.isdisjoint({cell.key for cell in untuned.cells})
    assert {cell.key for cell in plan_of(study(tuning=[])).cells} == {
        cell.key for cell in untuned.cells
    }
    for block in range(5):
        sessions = tuned.guests(block)
        assert sorted((s.platform.name, s.tuning) for s in sessions) == [
            ("native", "default"),
            ("native", "pinned"),
            ("other", "default"),
            ("other", "pinned"),
        ]
        assert all(
            {cell.point.tuning for cell in s.cells} == {s.tuning} and len(s.cells) == 3
            for s in sessions
        )


def test_a_platform_is_compared_with_the_baseline_of_its_own_tuning(driver):
    cells = plan_of(study(tuning=["default", "pinned"])).cells
    by_point: dict[str, set[tuple[str, str]]] = {}
    for cell in cells:
        by_point.setdefault(cell.point.key, set()).add((cell.platform.name, cell.point.tuning))
    assert all(
        len(found) == 2 and len({level for _, level in found}) == 1 for found in by_point.values()
    )
    assert {cell.point.levels["tuning"] for cell in cells} == {"default", "pinned"}


def test_every_guest_is_given_what_its_level_says_and_the_host_is_as_before(
    driver, store, home, monkeypatch, tmp_path, set_cpus, policy_in
):
    set_cpus({0, 1, 2, 3})
    enabled = tmp_path / "enabled"
    enabled.write_text("always [madvise] never\n")
    policy_in(tmp_path)
    policies: list[str] = []
    started_at = ProcessGuest.__init__
    monkeypatch.setattr(
        ProcessGuest,
        "__init__",
        lambda self, *words: (policies.append(enabled.read_text()), started_at(self, *words))[1],
    )
    levels = ["default", "pinned", "pinned+hugepages"]
    plan = plan_of(
        study(tuning=levels, design={"blocks": 1, "order": "sequential"}, platforms=["native"])
    )
    run = executed(plan, store, home)
    default, pinned, huge = driver.given
    assert (default.cpus, default.time.count, default.huge_pages) == ((0, 1, 2, 3), 1, False)
    assert (pinned.cpus, pinned.time.count, pinned.huge_pages) == ((3,), None, False)
    assert (huge.cpus, huge.time.count, huge.huge_pages) == ((3,), None, True)
    assert [policy.strip() for policy in policies] == ["always [madvise] never"] * 2 + ["always"]
    assert enabled.read_text() == "madvise"
    guests = load_run(store.engine, run).guests
    assert [guest.facts["tuning"] for guest in guests] == levels
    assert {guest.facts["isolation"] for guest in guests} == {driver.isolation(None)}


def test_must_match_compares_guests_of_one_tuning(driver, store, home, set_cpus, facts_by):
    facts_by(lambda guest, programs: {"cpus_allowed": driver.given[-1].cpus})
    set_cpus({0, 1})
    run = executed(
        plan_of(study(must_match=["cpus_allowed"], tuning=["default", "pinned"])), store, home
    )
    assert run.status == "finished"


def test_the_papers_order_makes_all_blocks_of_a_platform_in_a_row_and_is_warned_about(
    driver, store, home
):
    run = executed(plan_of(study(design={"blocks": 2, "order": "sequential"})), store, home)
    data = load_run(store.engine, run)
    made = [
        (run.cells[cell].platform, block)
        for cell, block in zip(data.trials.cell, data.trials.block, strict=True)
    ]
    assert made == [
        (platform, block) for platform in ("native", "other") for block in (0, 1) for _ in range(3)
    ]
    assert run.stopped_because == "2 of 2 blocks are made"
    assert [w.code for w in data.warnings if w.cell is None] == ["sequential-order"]


@pytest.mark.parametrize(
    ("design", "platforms", "where", "what"),
    [
        ({"stop": "budget"}, ["native", "other"], "key budget", "the rule 'budget' needs a time"),
        ({"stop": "verdict"}, ["native"], "key stop", r"nothing to compare with native\n"),
        (
            {"stop": "verdict"},
            ["native", "absent"],
            "key stop",
            r"nothing to compare with native here \(absent: it is not installed\)",
        ),
    ],
)
def test_a_rule_without_what_it_judges_by_is_refused_before_the_run(
    driver, design, platforms, where, what
):
    with pytest.raises(BadInput, match=what) as caught:
        plan_of(study(design=design, platforms=platforms))
    assert caught.value.where == f"test: [design], {where}"
    assert caught.value.hint


def test_flows_that_run_at_once_are_added_up_or_averaged_as_each_metric_declares():
    metrics = (
        Metric("throughput", "Mbit/s", "higher", primary=True, over_flows="sum"),
        Metric("latency", "us", "lower"),
        Metric("loss", "%", "lower"),
    )
    flows = [
        Outcome(
            {"throughput": 100.0, "latency": 2.0, "loss": 1.0},
            samples={"throughput": [99.0, 101.0]},
        ),
        Outcome({"throughput": 50.0, "latency": 4.0}),
    ]
    assert combine_flows(flows, metrics).values == {"throughput": 150.0, "latency": 3.0}
    assert combine_flows(flows, metrics).samples == {}
    assert combine_flows(flows[:1], metrics) is flows[0]


def test_the_labs_own_switch_is_no_other_program_that_keeps_the_host_busy():
    counted = {
        ("layer", "host_cpu_s"): 1.0,
        ("peer", "host_cpu_s"): 0.5,
        ("link", "switch.cpu_s"): 2.0,
        ("link", "lab.eth0.rx_bytes"): 9e9,
        ("layer", "under_test_cpu_s"): 1.0,
    }
    assert own_cpu_s(counted, guests=2) == 3.5
    assert own_cpu_s(counted, guests=3) is None
    del counted["link", "switch.cpu_s"]
    assert own_cpu_s(counted, guests=2) == 1.5


def test_an_adaptive_rule_spends_further_blocks_only_where_its_target_is_missed(
    driver, store, home
):
    noisy = "echo $((1 + $(date +%-N) % 97))"
    table = {"name": "script", "factors": {"code": ["echo 2", noisy]}}
    design = {"stop": "precision", "precision": 0.01, "min_blocks": 3, "max_blocks": 6, "seed": 3}
    run = executed(plan_of(study(benchmark=[table], design=design)), store, home)
    trials = load_run(store.engine, run).trials
    blocks_of = {
        (cell.platform, cell.levels["code"]): sorted(trials.block[trials.cell == index].tolist())
        for index, cell in enumerate(run.cells)
    }
    for platform in ("native", "other"):
        assert blocks_of[platform, "echo 2"] == [0, 1, 2]
        assert blocks_of[platform, noisy] == [0, 1, 2, 3, 4, 5]
    assert "miss" in run.stopped_because


@pytest.mark.parametrize("stop", ["verdict", "open"])
def test_blocks_hold_what_is_undecided_and_a_platform_without_such_cells_leaves(
    driver, store, home, stop
):
    """The baseline stays as long as any platform does; time is what the cells that are left take."""
    limit = {"max_blocks": 8} if stop == "verdict" else {"blocks": 8}
    own = {
        "platforms": ["native", "other", "slow"],
        "platform": [{"name": "slow", "driver": "scripted"}],
    }
    plan = plan_of(study(**own, design={"stop": stop, "budget": 100, **limit}))
    noise = {"native": 0.0, "other": 0.3, "slow": 0.001}
    mean = {"native": 10, "other": 10, "slow": 5}
    already = [
        (cell.key, block, "figure", mean[name] * (1 + noise[name] * (-1) ** block + 1e-4 * block))
        for cell in plan.cells
        for name in [cell.platform.name]
        for block in range(5)
    ]
    stopping = Stopping(plan, exact(already))
    decision = stopping.decide(5, elapsed_s=10)
    left = stopping.pending(decision)
    assert {cell.platform.name for cell in plan.cells if cell.key in left} == {"native", "other"}
    made = 5 * len(plan.cells)
    last_s = 100 / (1 + len(left) / made)  # a further block ends when the budget does
    assert not stopping.decide(5, elapsed_s=last_s - 0.1).stop
    assert stopping.decide(5, elapsed_s=last_s + 0.1).stop


def test_a_wrong_clock_ends_a_run_that_waits_for_a_verdict(driver, store, home, monkeypatch):
    monkeypatch.setattr(
        "vtax.runner.counting.clock_warnings",
        lambda *_: (Note("clock-rate", rate=1.1, error=0.001, margin=0.02),),
    )
    design = {
        "stop": "verdict",
        "min_blocks": 5,
        "max_blocks": 8,
        "trials": 1,
        "warmup": 0,
        "seed": 1,
    }
    plan = plan_of(
        study(benchmark=[{"name": "script", "parameters": {"code": "echo 100"}}], design=design)
    )
    run = executed(plan, store, home)
    assert run.cells_warned_of("clock-rate") == {cell.key for cell in plan.cells}
    assert run.cells_warned_of("other") == set()
    assert run.stopped_because.code == "contrast-withheld"
    assert len({block for _, block, *_ in run.primary_values()}) == 5
