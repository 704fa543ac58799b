"""Runs in the list, and those that did not finish: one word for them everywhere, and how to go on."""

from __future__ import annotations

import json
import re

import pytest
from a_run import begin, fill, trial
from command_line import ended, output_of
from planned_run import begin_planned

from vtax.cli.list import ListedRun
from vtax.cli.measure import prepare_host
from vtax.described import fields_of
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.store.store import Store

pytestmark = pytest.mark.usefixtures("unmade_home")


def statuses() -> dict[str, str]:
    with Store.open(Home.from_environment().store_url) as store:
        return {run.name: run.status for run in store.runs()}


@pytest.mark.parametrize(
    ("status", "because"), [("interrupted", "stopped on request (SIGINT)"), ("failed", "disk full")]
)
def test_every_run_that_can_be_resumed_says_how(status, because):
    home = Home.from_environment().ensure()
    with Store.open(home.store_url) as store:
        begin_planned(store, home).finish(status, because, 1_700_000_300.0)
        begin(store, "tour-2", started_at=1.0).finish("finished", "all blocks", 2.0)
    how = "resume with: sudo vtax resume tour-1\n"
    assert f"tour-1 was not finished: {because}; {how}" in output_of("list")
    assert output_of("list").count("resume with") == 1
    assert output_of("show", "tour-1").endswith(how)
    assert "resume" not in output_of("show", "tour-2")
    assert "go on" not in output_of("show", "tour-1", "--json")


def test_at_80_columns_the_list_is_a_line_a_run(set_width):
    set_width("80")
    with Store.open(Home.from_environment().ensure().store_url) as store:
        for number in (1, 12):
            run = begin(
                store,
                f"urschei2007-reduced-{number}",
                study="urschei2007-reduced",
                started_at=1.7e9 - 580 * number,
            )
            fill(run, blocks=1)
            run.finish("interrupted", "stopped", 1.7e9)
    first, second = (
        line
        for line in output_of("list").splitlines()
        if line.startswith("urschei") and "24" in line
    )
    assert re.fullmatch(
        r"urschei2007-reduced-12 interrupted 24 +0 +20\d\d-\d\d-\d\d \d\d:\d\d 1 h 56 min", first
    )
    assert second.endswith(" 9 min 40 s")
    assert max(map(len, (first, second))) <= 80


def test_the_json_of_the_list_has_times_as_iso_8601():
    with Store.open(Home.from_environment().ensure().store_url) as store:
        begin(store, "tour-1", started_at=1_700_000_001.25).finish("finished", "", 1_700_000_301.0)
        begin(store, "tour-2", started_at=1_700_000_400.0)
    first, second = json.loads(output_of("list", "--json"))
    assert (first["started"], first["ended"]) == (
        "2023-11-14T22:13:21.250Z",
        "2023-11-14T22:18:21.000Z",
    )
    assert (first["started"], first["ended"]) == (
        "2023-11-14T22:13:21.250Z",
        "2023-11-14T22:18:21.000Z",
    )
    assert first.keys() == {field.name for field in fields_of(ListedRun)}
    assert (second["started"], second["ended"]) == ("2023-11-14T22:20:00.000Z", None)


def test_the_list_tells_the_study_of_a_run_whose_name_does_not():
    with Store.open(Home.from_environment().ensure().store_url) as store:
        begin(store, "tour-1").finish("finished", "", 2.0)
        assert "study" not in output_of("list")
        begin(store, "mine", study="disks").finish("finished", "", 2.0)
    printed = output_of("list")
    assert re.search("^mine +disks +finished ", printed, re.M)
    assert re.search("^tour-1 +tour +finished ", printed, re.M)


def test_clean_writes_down_that_a_killed_run_ended_unless_something_measures(taken_for_root):
    home = Home.from_environment().ensure()
    assert output_of("clean") == "no leaked resources\n"
    assert not (home.root / "store.sqlite").exists()
    with Store.open(home.store_url) as store:
        begin(store, "tour-1")
        begin(store, "tour-2").finish("finished", "all blocks", 2.0)
    with measuring_lock("tour-1"):
        assert output_of("clean") == "no leaked resources\n"
    assert statuses() == {"tour-1": "running", "tour-2": "finished"}
    assert output_of("clean") == "run tour-1 was killed; resume with: sudo vtax resume tour-1\n"
    assert statuses() == {"tour-1": "interrupted", "tour-2": "finished"}
    assert output_of("clean") == "no leaked resources\n"


def test_a_killed_run_is_interrupted_to_whoever_looks_before_anybody_cleans(tmp_path, use_home):
    home = Home.from_environment().ensure()
    with Store.open(home.store_url) as store:
        run = begin_planned(store, home)
        run.add_trial(trial(run.cells[0], values={"events_per_s": 1.0}))
        run.reopen()
    with measuring_lock("tour-1"):
        assert " running " in output_of("list")
        assert "tour-1: running: 1 block, " in output_of("show")
    printed = output_of("list")
    assert re.search("^tour-1 +interrupted ", printed, re.M)
    assert (
        "tour-1 was not finished: vtax was killed; resume with: sudo vtax resume tour-1\n"
        in printed
    )
    (plain,) = json.loads(output_of("list", "--json"))
    assert (plain["status"], plain["stopped_because"]) == ("interrupted", "vtax was killed")
    printed = output_of("show")
    assert "tour-1: interrupted: 1 block, " in printed
    assert "not finished: vtax was killed" in printed
    assert printed.endswith("resume with: sudo vtax resume tour-1\n")
    assert json.loads(output_of("show", "--json"))["status"] == "interrupted"
    assert statuses() == {"tour-1": "running"}
    bundle = tmp_path / "killed.vtax.gz"
    output_of("export", "-o", str(bundle))
    use_home(tmp_path / "elsewhere")
    output_of("import", str(bundle))
    assert statuses() == {"tour-1": "interrupted"}


def test_a_run_of_another_machine_is_not_resumed_here(capsys, taken_for_root):
    with Store.open(Home.from_environment().ensure().store_url) as store:
        begin(store, "tour-1", host={"machine_id": "elsewhere"})
    status, printed = ended(capsys, "resume")
    assert status == 2
    assert "tour-1 was started on another machine" in printed
    assert statuses() == {"tour-1": "running"}


def test_a_new_run_writes_down_that_a_killed_one_ended():
    home = Home.from_environment().ensure()
    with Store.open(home.store_url) as store:
        begin(store, "tour-1")
    prepare_host(home)
    assert statuses() == {"tour-1": "interrupted"}


def names(*conditions: str) -> list[str]:
    """The runs that `vtax list` shows under these conditions."""
    options = [part for condition in conditions for part in ("--where", condition)]
    return [run["name"] for run in json.loads(output_of("list", "--json", *options))]


def test_the_list_shows_the_runs_that_meet_all_conditions():
    with Store.open(Home.from_environment().ensure().store_url) as store:
        begin(store, "tour-1", started_at=1_600_000_000.0).finish("finished", "all blocks", 1.7e9)
        begin(store, "tour-2", started_at=1_700_000_000.0).finish("failed", "disk full", 1.7e9)
        begin(store, "other-1", study="other", started_at=1_700_000_000.0).finish(
            "finished", "all blocks", 1.7e9
        )
    assert names() == ["tour-1", "tour-2", "other-1"]
    assert names("study=tour") == ["tour-1", "tour-2"]
    assert names("study=tour", "study=other", "status=finished") == ["tour-1", "other-1"]
    assert names("since=2023-01-01", "platform=docker") == ["tour-2", "other-1"]
    assert names("platform=doc") == []
    assert output_of("list", "--where", "study=<script>") == "no run with study=<script>\n"


def test_the_platforms_of_a_run_in_the_list_are_those_that_it_could_test():
    with Store.open(Home.from_environment().ensure().store_url) as store:
        begin(store).finish("finished", "all blocks", 2.0)
        (listed,) = store.runs()
        assert [each.name for each in store.open_run("tour-1").platforms if not each.available] == [
            "kvm-virtio"
        ]
    assert listed.platforms == ("native", "docker", "lxc", "qemu-tcg")
    assert "tour-1" in output_of("list", "--where", "platform=lxc")
    assert "tour-1" not in output_of("list", "--where", "platform=kvm-virtio")
