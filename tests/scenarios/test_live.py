"""A run that is watched: its events, the state they add up to, and `vtax watch`. The platform is scripted."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from a_run import begin as begin_synthetic
from a_run import fill
from scripted import executed, plan_of, store_each_trial, study

from vtax.cli.watch import command
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.live import state as live_state
from vtax.live.events import EventReader, RunProgress
from vtax.live.state import LiveRun, LiveState
from vtax.live.view import document, estimates, happened, progress, widths
from vtax.report.analysis import analyse
from vtax.report.renderers.format import english
from vtax.runner import event_log
from vtax.runner.begin import begin
from vtax.runner.event_log import EventLog
from vtax.runner.events import EndedTrial, Observer, Progress
from vtax.runner.session import execute
from vtax.store.store import Store

PROGRESS = Progress(1, 5, 3, 12, 20.0, 60.0)


class Seen(Observer):
    """Looks at the run after every trial, as somebody who watches would."""

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.states: list[LiveState] = []

    def guest_ready(self, platform: str, ready_s: float) -> None:
        self.states.append(self.live.state())

    def trial_starting(self, platform: str, label: str, levels: str) -> None:
        self.states.append(self.live.state())


def place(home: Home) -> str:
    return f"sqlite:///{home.root / 'store.sqlite'}"


@pytest.mark.usefixtures("driver", "measuring")
def test_block_guest_and_trial_are_seen_while_they_run_without_a_query(store, home, monkeypatch):
    store_each_trial(monkeypatch)
    plan = plan_of(study(design={"blocks": 2, "seed": 7}))
    run = begin(store, plan, vtax_version="test")
    seen = Seen(LiveRun(place(home), home))
    with monkeypatch.context() as patched:
        patched.setattr(Store, "existing", lambda *_: pytest.fail("the store was read"))
        execute(plan, run, home, seen)
    assert {(s.progress.block, s.progress.platform) for s in seen.states} == {
        (b, p) for b in (0, 1) for p in ("native", "other")
    }
    trials = [s.progress.trial for s in seen.states if s.progress.trial]
    assert len(trials) == 12
    last = seen.states[-1]
    assert (last.progress.done_trials, last.progress.total_trials, last.progress.blocks) == (
        11,
        12,
        2,
    )
    assert last.progress.left_s is not None
    ended = seen.live.state()
    assert (ended.status, ended.progress.done_trials, ended.progress.failed_trials) == (
        "finished",
        12,
        0,
    )
    assert english(happened(ended.events[-1])).startswith("finished: ")


@pytest.mark.usefixtures("driver")
def test_the_file_is_readable_as_the_store_and_replaced_by_the_next_run(store, home):
    executed(plan_of(study()), store, home)
    first = EventReader(home.events).read()
    executed(plan_of(study()), store, home)
    second = EventReader(home.events).read()
    assert (first.run, second.run) == ("s-1", "s-2")
    assert (
        home.events.stat().st_mode & 0o777
        == (home.root / "store.sqlite").stat().st_mode & 0o777
        == 0o644
    )
    assert second.ended == ("finished", store.open_run("s-2").stopped_because)


@pytest.mark.usefixtures("driver")
def test_a_file_that_cannot_be_written_does_not_fail_the_run(store, home):
    home.events.mkdir()
    assert executed(plan_of(study()), store, home).status == "finished"


def test_a_umask_that_keeps_the_store_private_keeps_the_events_private(tmp_path):
    before = os.umask(0o077)
    try:
        EventLog(tmp_path / "events", "r-1", "id").guest_starting("podman", 0)
    finally:
        os.umask(before)
    assert (tmp_path / "events").stat().st_mode & 0o777 == 0o600


class FullDisk:
    """The module `os`, whose `write` finds room for half a line."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, line: bytes) -> int:
        return os.write(descriptor, line[: len(line) // 2])


@pytest.mark.usefixtures("driver")
def test_a_disk_that_fills_ends_the_file_and_not_the_run(store, home, monkeypatch):
    monkeypatch.setattr(event_log, "os", FullDisk())
    assert executed(plan_of(study()), store, home).status == "finished"
    assert not home.events.exists()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_has_no_events(tmp_path, make):
    make(tmp_path / "events")
    assert EventReader(tmp_path / "events").read().run == ""


def test_failed_trials_are_those_of_all_sessions(store):
    run = begin_synthetic(store)
    fill(run)
    assert [run.failed_trials()] == [each.failed for each in store.runs()] == [1]


def test_a_reader_follows_a_file_that_began_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(event_log, "MAX_BYTES", 2000)
    log, reader = EventLog(tmp_path / "events", "r-1", "id"), EventReader(tmp_path / "events")
    log.guest_starting("podman", 3)
    log.guest_ready("podman", 0.5)
    for number in range(1, 100):
        log.trial_starting("podman", "cpu", "")
        found = reader.read().progress
        assert (found.platform, found.guest, found.block, found.done_trials) == (
            "podman",
            "ready",
            3,
            number - 1,
        )
        log.trial_ended(
            EndedTrial(
                "podman",
                "cpu",
                "",
                (1.5, "s"),
                "",
                Progress(3, 5, number, 100, 1.0, 2.0, False, number // 2),
            )
        )
        found = reader.read().progress
        assert (found.trial, found.done_trials, found.failed_trials) == (None, number, number // 2)
    assert reader.read().run == "r-1"
    assert (tmp_path / "events").stat().st_size < 2500


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[1]",
        '{"event": "trial_ended", "block": "x", "left_s": 1e999}',
        '{"event": "no"}',
        "[" * 9000,
    ],
)
def test_a_line_that_is_no_event_is_passed_over(tmp_path, line):
    file = tmp_path / "events"
    file.write_text(
        f'{{"event": "run", "run": "r", "identity": "i", "id": "1"}}\n{line}\n{{"event": "mess'
    )
    found = EventReader(file).read()
    assert (found.run, found.progress.block, found.progress.left_s) == ("r", None, None)


def test_escape_sequences_of_tools_do_not_come_through(tmp_path):
    log = EventLog(tmp_path / "events", "r-1", "id")
    log.trial_ended(EndedTrial("podman", "cpu", "", None, "\x1b[2Jbroken", PROGRESS))
    event = EventReader(tmp_path / "events").read().events[-1]
    assert "\x1b" not in english(happened(event))
    assert "broken" in english(happened(event))


@pytest.mark.usefixtures("measuring")
def test_a_run_of_another_host_is_shown_from_the_store(store, home, monkeypatch):
    run = begin_synthetic(store)
    guest = run.begin_guest("docker", 0, "", 1.0)
    live = LiveRun(place(home), home)
    state = live.state()
    at = state.progress
    assert (state.status, at.platform, at.block, at.total_trials) == (
        "running",
        "docker",
        0,
        12 * 2 * 8,
    )
    run.end_guest(guest, ready_s=1.0, clock_offset_s=0.0, facts={}, notes=[])
    fill(run)
    assert live.state() == state
    monkeypatch.setattr(live_state, "STORE_PAUSE_S", 0.0)
    assert english(progress(live.state())) == "finished, 8 blocks, 192 trials, 1 failed"


@pytest.mark.usefixtures("measuring")
def test_the_store_is_read_seldom_and_trials_are_counted_where_there_are_new_ones(
    store, home, monkeypatch
):
    fill(begin_synthetic(store), finishes=False)
    live = LiveRun(place(home), home)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "open_read_only", lambda *_: pytest.fail("the store was read"))
        assert len({live.state().change for _ in range(20)}) == 1
    monkeypatch.setattr(live_state, "STORE_PAUSE_S", 0.0)
    monkeypatch.setattr(live_state, "counts_of", lambda *_: pytest.fail("the trials were counted"))
    assert live.state().is_running


def test_a_killed_run_is_not_shown_as_running(store, home):
    run = begin_synthetic(store)
    EventLog(home.events, run.name, run.identity).guest_starting("docker", 0)
    state = LiveRun(place(home), home).state()
    assert (state.status, state.because) == ("interrupted", "vtax was killed")


def test_an_unknown_run_and_no_store_are_bad_input(store, home, tmp_path):
    begin_synthetic(store)
    with pytest.raises(BadInput, match="no run 'tuor-1'"):
        LiveRun(place(home), home, "tuor-1")
    with pytest.raises(BadInput, match="no run yet"):
        LiveRun(f"sqlite:///{tmp_path / 'nothing.sqlite'}", home)


def test_intervals_stand_beside_those_of_the_block_before(store):
    run = begin_synthetic(store)
    fill(run, blocks=3)
    before = widths(analyse(store))
    fill(other := begin_synthetic(store, "tour-2"), blocks=8)
    table = estimates(analyse(store, other.name), before)
    rows = [[english(cell) for cell in row.cells] for group in table.groups for row in group.rows]
    assert len(rows) == 9
    now, ago = (sum(float(row[column].strip("± %")) for row in rows) for column in (3, 4))
    assert now < ago
    assert estimates(analyse(store, begin_synthetic(store, "tour-3").name), {}) is None


@pytest.mark.usefixtures("driver", "measuring")
def test_watch_prints_lines_and_ends_with_the_run(store, home, capsys, use_home, monkeypatch):
    use_home(home.root)
    monkeypatch.setattr(
        "vtax.live.scheduling.set_idle", lambda is_idle: None
    )  # the tests of this process are not
    plan = plan_of(study(design={"blocks": 3, "seed": 7}))
    run = begin(store, plan, vtax_version="test")
    assert command.callback is not None
    thread = threading.Thread(target=command.callback, args=("s-1",))
    thread.start()
    execute(plan, run, home, Observer())
    thread.join(20)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "s-1: finished, 3 blocks, 18 trials"
    assert "s-1: finished: 3 of 3 blocks are made" in lines
    assert len([line for line in lines if ": script size=" in line and ", 1.500 x/s" in line]) == 18


def test_the_document_of_a_run_says_where_it_is():
    at = RunProgress(
        1, 5, 3, 1, 12, 20.0, 61.0, "podman", "ready", 0.25, ("iperf3", "direction=send")
    )
    state = LiveState("r-1", "s", "running", progress=at)
    made = document(state, None, {})
    assert (
        english(made.title)
        == "r-1: running, block 2 of 5, 3 of 12 trials, 1 failed, about 1 min 01 s left"
    )
