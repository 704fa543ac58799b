"""What the commands of a campaign say and return of a fleet that answers: go, collect, abort."""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from a_run import begin, fill
from answering_hosts import (
    Counting,
    Fleet,
    Machine,
    Refusing,
    campaign_in,
    controller_of,
    put_in_ansibles_place,
)
from command_line import ended, output_of

from vtax.campaign import controller as module
from vtax.campaign import following, report
from vtax.campaign.change import change_of, missing_sessions
from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import CampaignHost, InventoryHost
from vtax.campaign.settings import Launch
from vtax.cli.campaign_hosts import HostLines
from vtax.cli.main import main
from vtax.errors import BadInput, RunInterrupted
from vtax.store.campaigns import add_session


@pytest.fixture
def fleet() -> Fleet:
    """Six hosts that answer."""
    made = Fleet(**{f"h{i:02}": Machine(f"m{i:02}") for i in range(6)})
    made.now = time.time()
    return made


@pytest.fixture
def commanded(tmp_path, fleet, monkeypatch):
    """A campaign whose commands speak to the fleet; and what loads its bundles."""
    launch = Launch(canary=0, first_percent=0, forks=1)
    campaign = campaign_in(tmp_path / "c", launch=launch, inventory=str(tmp_path / "hosts.yml"))
    campaign.study.parent.mkdir()
    campaign.study.touch()
    campaign.pack.touch()
    put_in_ansibles_place(
        fleet, monkeypatch, lambda: [InventoryHost(each, each) for each in fleet.machines]
    )
    loader: list[Any] = [Counting()]
    monkeypatch.setattr("vtax.cli.campaign._loader", lambda campaign: nullcontext(loader[0]))
    return campaign, loader


def test_abort_holds_back_the_launches_of_another_controller(fleet, commanded, capsys):
    campaign, _ = commanded
    honest, said = fleet.run, []

    def aborted(tasks, variables):
        yield from honest(tasks, variables)
        if any("run" in each["vtax_command"] for each in variables.values()) and not said:
            said.append(ended(capsys, "campaign", "abort", str(campaign.root)))

    fleet.run = aborted
    with campaign.lock(), pytest.raises(BadInput, match="was aborted"):
        controller_of(campaign, fleet).launch()
    assert (said[0][0], "controls this campaign" in said[0][1]) == (75, True)
    assert sum(bool(machine.runs) for machine in fleet.machines.values()) == 4, "no second batch"


def test_an_abort_while_hosts_are_prepared_launches_none(fleet, commanded):
    campaign, _ = commanded
    honest = fleet.run

    def aborted(tasks, given):
        yield from honest(tasks, given)
        campaign.abort()

    fleet.run = aborted
    with pytest.raises(BadInput, match="was aborted"):
        controller_of(Campaign.open(campaign.root), fleet).launch()
    assert not any(machine.runs for machine in fleet.machines.values())


def test_what_asks_is_ended_where_its_answer_cannot_be_kept(fleet, commanded, monkeypatch):
    (campaign, _), closed = commanded, []
    honest = fleet.run

    def asking(tasks, variables):
        try:
            yield from honest(tasks, variables)
        finally:
            closed.append(tasks)

    fleet.run = asking
    monkeypatch.setattr(Campaign, "keep", lambda self, host: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        controller_of(campaign, fleet).launch()
    assert (caught.type, closed) == (ZeroDivisionError, [["prepare", "check"]])


def test_abort_says_how_many_may_measure_still(fleet, commanded, capsys):
    campaign, _ = commanded
    output_of("campaign", "go", str(campaign.root))
    fleet.machines["h03"].is_reachable = False
    status, said = ended(capsys, "campaign", "abort", str(campaign.root))
    assert (status, "1 hosts may measure still" in said) == (1, True)
    fleet.machines["h03"].is_reachable = True
    output_of("campaign", "abort", str(campaign.root))
    assert fleet.machines["h03"].runs == {"mine-1a2b-s1": "interrupted"}


def test_abort_counts_hosts_that_the_inventory_lost_while_they_measured(fleet, commanded, capsys):
    campaign, _ = commanded
    output_of("campaign", "go", str(campaign.root))
    del fleet.machines["h03"]
    status, said = ended(capsys, "campaign", "abort", str(campaign.root))
    assert (status, "1 hosts may measure still" in said) == (1, True)


def test_go_names_who_was_launched_and_does_not_answer(fleet, commanded, capsys):
    campaign, _ = commanded
    output_of("campaign", "go", str(campaign.root))
    fleet.machines["h03"].is_reachable = False
    status, said = ended(capsys, "campaign", "go", str(campaign.root))
    assert (status, "do not answer: h03\n" in said) == (0, True)


def test_an_inventory_is_found_from_the_directory_of_the_campaign(
    tmp_path, fleet, commanded, monkeypatch
):
    campaign, _ = commanded
    campaign.settings.model_copy(update={"inventory": "../hosts.yml"}).write(campaign.root / FILE)
    seen = []
    monkeypatch.setattr(
        module, "Playbook", lambda inventory, *given: seen.append(inventory) or fleet
    )
    monkeypatch.chdir("/")
    with module.controller(Campaign.open(campaign.root), print):
        pass
    assert [path.is_absolute() and path.resolve() for path in seen] == [
        (tmp_path / "hosts.yml").resolve()
    ]


def test_go_says_what_a_planned_change_lacks(fleet, commanded, capsys, monkeypatch):
    campaign, _ = commanded
    fleet.now = time.time() - 3600
    monkeypatch.setattr(module, "Controller", partial(module.Controller, now=lambda: fleet.now))

    def said() -> str:
        status, printed = ended(capsys, "campaign", "go", str(campaign.root))
        assert status == 0
        return printed

    def missing() -> tuple[int, int]:
        opened = Campaign.open(campaign.root)
        found = missing_sessions(change_of(opened), opened.hosts(), opened.settings)
        return len(found.hosts), len(found.spent)

    assert "change" not in said()
    output_of("campaign", "change", str(campaign.root), "--what", "kernel")
    assert (missing(), "6 of 6" in said()) == ((6, 0), True)
    for machine in [*fleet.machines.values()][1:]:
        machine.end()
    assert "1 of 6 hosts without a session before it" in said()
    for machine in fleet.machines.values():
        machine.end()
    assert ("--now" in said(), missing()) == (True, (0, 6)), "no session is left for after it"
    output_of("campaign", "change", str(campaign.root), "--now")
    Campaign.open(campaign.root).settings.model_copy(update={"sessions": 2, "every": "0s"}).write(
        campaign.root / FILE
    )
    fleet.now = time.time() + 1
    assert ("6 of 6" in said(), missing()) == (True, (6, 0))
    for machine in fleet.machines.values():
        machine.end()
    assert ("report" in said(), missing()) == (True, (0, 0))


def test_a_bundle_that_is_refused_is_not_counted_and_said(fleet, commanded, capsys):
    campaign, loader = commanded
    output_of("campaign", "go", str(campaign.root))
    fleet.machines["h03"].end()
    loader[0] = Refusing()
    with pytest.raises(SystemExit) as stopped:
        main(["campaign", "collect", str(campaign.root)])
    printed = capsys.readouterr()
    assert (stopped.value.code, "bundles loaded: 0" in printed.out) == (1, True)
    assert "bundles not loaded: 1" in printed.err
    assert "it is cut off" in output_of("campaign", "status", str(campaign.root))
    loader[0] = Counting()
    assert "bundles loaded: 1" in output_of("campaign", "collect", str(campaign.root))


def test_retry_comes_after_what_is_known_and_brought(fleet, commanded):
    campaign, loader = commanded
    output_of("campaign", "go", str(campaign.root))
    fleet.machines["h03"].end("failed")
    output_of("campaign", "go", str(campaign.root), "--retry")
    assert loader[0].loaded == [("h03", "mine-1a2b-s1")], "the bundle of the failed one came before"
    assert fleet.machines["h03"].runs == {"mine-1a2b-s1": "failed", "mine-1a2b-s1.1": "running"}


def test_a_run_that_two_names_of_a_host_have_is_reported_once(commanded, store, monkeypatch):
    campaign, _ = commanded
    for name in ("tour-1", "tour-2"):
        fill(begin(store, name=name), blocks=1)
    for host, run in (("old", "tour-1"), ("new", "tour-1"), ("other", "tour-2")):
        add_session(store.engine, "mine-1a2b", host, 1, store.open_run(run).identity)
        if host != "other":  # whose file was lost
            campaign.keep(CampaignHost(host, state="collected"))
    merged: list[str] = []
    named: list[str] = []

    def merge(_: object, runs: dict[str, str], record: dict[str, Any]) -> None:
        merged.extend(runs)
        named.extend(host["host"] for host in record["hosts"] if host["runs"])

    monkeypatch.setattr(report, "merge_campaign", merge)
    report.reported_run(store, campaign)
    assert sorted(merged) == ["tour-1", "tour-2"]
    assert sorted(named) == ["new", "old", "other"]


def test_a_host_whose_file_is_damaged_begins_anew_by_retry(fleet, commanded):
    campaign, _ = commanded
    output_of("campaign", "go", str(campaign.root))
    (campaign.root / "hosts/h03.json").write_text("")
    output_of("campaign", "go", str(campaign.root))
    assert (campaign.host("h03").state, campaign.host("h03").reason.code) == ("failed", "damaged")
    output_of("campaign", "go", str(campaign.root), "--retry")
    fleet.machines["h03"].end()
    assert "bundles loaded: 1" in output_of("campaign", "collect", str(campaign.root))
    assert len(fleet.machines["h03"].runs) == 1


def test_run_brings_all_and_says_what_is_missing(fleet, commanded, capsys, monkeypatch):
    campaign, loader = commanded
    monkeypatch.setattr(following, "_GATHER_S", 0.1)
    for machine in fleet.machines.values():
        machine.run_state = "done"
    fleet.machines["h03"].version = "0.0.9"
    status, said = ended(capsys, "campaign", "run", str(campaign.root))
    assert (status, "missing: h03\n" in said) == (1, True)
    assert "h03, refused, version 0.0.9" in said
    assert len(loader[0].loaded) == 5
    fleet.machines["h03"].version = "0.1.0"
    assert "6 collected" in output_of("campaign", "run", str(campaign.root))


def test_run_that_is_stopped_says_that_hosts_measure_on(fleet, commanded, capsys, monkeypatch):
    campaign, _ = commanded

    def stopped(controls: Any) -> None:
        if all(host.running and host.running.block for host in controls.hosts.values()):
            raise RunInterrupted("stopped on request (SIGINT)")
        while controls.take(0.1):
            pass

    monkeypatch.setattr(following, "_take_answers", stopped)
    status, said = ended(capsys, "campaign", "run", str(campaign.root))
    assert (status, "6 hosts measure on" in said, "takes up again" in said) == (130, True, True)
    assert "h03, running, session 1, block 1/3, about" in said


def test_a_terminal_shows_a_line_a_host_and_counts_those_without_room(
    fleet, commanded, monkeypatch
):
    campaign, _ = commanded
    controls = controller_of(campaign, fleet)
    controls.launch()
    fleet.machines["h05"].failures = {"status": {"msg": "Timed out waiting for the task"}}
    controls.look()
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "60")
    lines = HostLines(controls)._format_lines([*controls.hosts.values()])
    assert lines[0].startswith("h05  unreachable  session 1")
    assert lines[1].startswith("h00  running      session 1  block 1/3")
    assert lines[-1] == "(3 hosts more)"
    assert max(map(len, lines)) < 60


def test_a_host_that_is_prepared_for_minutes_says_so(fleet, commanded):
    campaign, _ = commanded
    controls = controller_of(campaign, fleet)
    assert "being prepared" not in "".join(
        HostLines(controls)._format_lines([*controls.hosts.values()])
    )
    controls._asked["h01"] = fleet.now
    _, line, *_ = HostLines(controls)._format_lines([*controls.hosts.values()])
    assert line == "h01  being prepared"
