"""What is offered for runs that were not finished: to resume those that can be, and why the others cannot."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest
from a_run import begin, trial
from command_line import output_of
from planned_run import KEY, STUDY, begin_planned
from sqlalchemy import update

from vtax.cli import resume
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.messages import Note
from vtax.runner.plan import Plan
from vtax.store import schema
from vtax.store.records import REFUSED
from vtax.store.run import RunHandle
from vtax.store.store import Store

pytestmark = pytest.mark.usefixtures("unmade_home")
OFFER = "resume with: sudo vtax resume"


@pytest.fixture
def home() -> Home:
    return Home.from_environment().ensure()


@pytest.fixture
def store(home: Home) -> Store:
    return Store.open(home.store_url)


def interrupted(store: Store, home: Home, **changes: object) -> RunHandle:
    run = begin_planned(store, home, **changes)
    run.finish("interrupted", "stopped on request (SIGINT)", 1_700_000_300.0)
    return run


def offered(name: str = "tour-1") -> bool:
    """Whether the list and `show` offer to resume a run; both must say the same."""
    listed, shown = output_of("list"), output_of("show", name)
    (plain,) = (run for run in json.loads(output_of("list", "--json")) if run["name"] == name)
    assert f"{name} was not finished: " in listed
    is_offered = f"{OFFER} {name}\n" in listed
    assert is_offered == (plain["resume_hint"] == f"{OFFER} {name}")
    assert shown.endswith(plain["resume_hint"] + "\n")
    assert is_offered != ("it cannot be resumed: " in listed)
    return is_offered


def reason(name: str = "tour-1") -> str:
    assert not offered(name)
    return output_of("list").partition("it cannot be resumed: ")[2]


def changed(store: Store, **values: object) -> None:
    with store.engine.begin() as connection:
        connection.execute(update(schema.run).values(values))


def test_an_interrupted_run_whose_plan_can_be_made_again_is_offered(store, home):
    interrupted(store, home)
    assert offered()


def test_a_run_that_failed_for_a_reason_of_the_host_is_offered(store, home):
    begin_planned(store, home).finish("failed", "the disk is full", 3.0)
    assert offered()


def test_a_finished_run_and_a_running_one_have_no_hint(store, home):
    begin_planned(store, home).finish("finished", "all blocks", 3.0)
    assert "resume" not in output_of("list") + output_of("show")
    assert json.loads(output_of("list", "--json"))[0]["resume_hint"] == ""


def test_not_one_of_another_machine(store, home, golden):
    interrupted(store, home)
    changed(store, host={"machine_id": "elsewhere"})
    golden(reason())


def test_not_one_whose_image_is_gone_or_in_another_home(store, home, golden):
    interrupted(store, home)
    shutil.rmtree(home.images / KEY)
    assert KEY in reason()
    golden(reason())


def test_one_whose_guests_never_started_is_offered_once_that_is_put_right(store, home):
    run = begin_planned(store, home)
    for block in range(3):
        guest = run.begin_guest("native", block, "", 1.0)
        run.end_guest(
            guest, ready_s=None, clock_offset_s=None, facts={}, notes=(), error="no such program"
        )
    run.finish("failed", "the last 3 guests did not start, on any platform: no such program", 3.0)
    assert offered()
    assert "no such program" in output_of("list")


def test_one_of_whose_first_guest_a_full_disk_stored_no_end_is_offered(store, home):
    run = begin_planned(store, home)
    guest = run.begin_guest("native", 0, "", 1.0)
    run.add_trial(replace(trial(run.cells[0]), guest_id=guest, values={}))
    run.finish("failed", "the disk of the store is full; everything stored before is kept", 3.0)
    assert offered()


def test_not_one_that_its_study_ended(store, home, golden):
    run = begin_planned(store, home)
    run.add_warning(Note(REFUSED, reason="the guests differ"))
    run.finish("failed", "the guests differ", 3.0)
    golden(reason())
    run.finish(
        "interrupted", "stopped on request (SIGINT)", 4.0
    )  # it was resumed, and came further
    assert offered()


@pytest.mark.parametrize(
    "values",
    [
        {
            "declared": {
                **STUDY,
                "benchmark": [{"name": "sysbench-cpu", "parameters": {"threads": 9}}],
            }
        },
        {"declared": {**STUDY, "benchmark": [{"name": "a-plug-in-of-theirs"}]}},
        {"declared": {**STUDY, "no_such_key": 1}},
        {"declared": {**STUDY, "guest": {"vcpus": 4096}}},
    ],
)
def test_not_one_whose_plan_would_be_refused(store, home, values):
    interrupted(store, home)
    changed(store, **values)
    assert reason()


def test_not_one_that_is_damaged(store, home):
    interrupted(store, home)
    begin(store, "whole-1", started_at=1.0).finish("finished", "", 2.0)
    changed(store, host=[])
    assert "it cannot be resumed: the store is damaged" in output_of("list")


def test_who_may_not_see_the_images_is_offered_it(store, home, monkeypatch):
    interrupted(store, home)
    access = os.access
    monkeypatch.setattr(
        "os.access", lambda path, mode, **how: path != home.images and access(path, mode, **how)
    )
    assert offered()


def test_nothing_is_started_to_find_out(store, home, monkeypatch, probe_by):
    interrupted(store, home)
    probe_by(lambda *_: pytest.fail("probed"))
    monkeypatch.setattr(Plan, "guests", lambda *_: pytest.fail("planned a guest"))
    assert offered()


def test_a_paused_run_is_offered_its_next_session_and_nothing_else(
    store, home, taken_for_root, golden
):
    run = begin_planned(store, home, design={"stop": "fixed", "blocks": 2, "sessions": 2})
    run.finish("paused", "session 1 of 2 is complete: 1 of 1 blocks is made", 1_700_000_300.0)
    hint = "start the next session with: sudo vtax resume tour-1 --session\n"
    assert output_of("list").endswith(f"session 1 of 2 is complete: 1 of 1 blocks is made; {hint}")
    assert output_of("show").endswith(hint)
    with pytest.raises(BadInput) as caught:
        output_of("resume")
    golden(str(caught.value))
    run.finish("interrupted", "killed", 1_700_000_300.0)
    with pytest.raises(BadInput, match="session 1 of tour-1 is not complete"):
        output_of("resume", "--session")


@pytest.mark.parametrize(("design", "has_way"), [({}, True), ({"order": "sequential"}, False)])
def test_a_finished_run_is_refused_with_the_way_to_more_blocks_where_there_is_one(
    store, home, monkeypatch, design, has_way
):
    run = begin_planned(store, home)
    run.finish("finished", "", 1_700_000_300.0)
    loaded = resume.stored_study(run)
    study = loaded.study.model_copy(
        update={"design": loaded.study.design.model_copy(update=design)}
    )
    monkeypatch.setattr(resume, "stored_study", lambda _: replace(loaded, study=study))
    with pytest.raises(BadInput) as refused:
        resume._check_status(store.open_run(run.name), session=False, more_s=None)
    assert (f"vtax resume {run.name} --budget 10min adds blocks" in refused.value.hint) == has_way
