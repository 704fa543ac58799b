"""What a controller makes of the answers of a fleet: who is launched when, who is not and why, what comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from answering_hosts import Counting, Fleet, Machine, campaign_in, controller_of, go, no_canary

from vtax.campaign.ansible import Answer
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import Reason
from vtax.campaign.settings import Launch
from vtax.errors import BadInput, Busy


@pytest.fixture
def fleet() -> Fleet:
    """Twelve hosts that answer, and the time that they have."""
    made = Fleet(**{f"h{i:02}": Machine(f"m{i:02}") for i in range(12)})
    return made


def running(states: dict[str, str]) -> int:
    return list(states.values()).count("running")


def reasons(campaign: Campaign) -> dict[str, str]:
    return {host.name: host.reason.code for host in campaign.hosts() if host.reason.code}


def measured(fleet: Fleet) -> set[str]:
    """Every id that some host was asked to measure."""
    return {id_ for machine in fleet.machines.values() for id_ in machine.runs}


def test_two_hosts_come_first_then_a_tenth_then_the_rest(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary_scale="quick"))
    assert running(go(campaign, fleet)) == 2
    assert measured(fleet) == {"mine-1a2b-c"}
    assert running(go(campaign, fleet)) == 2, "the canary runs still"
    for machine in fleet.machines.values():
        machine.end()
    states = go(campaign, fleet)
    assert (running(states), measured(fleet)) == (2, {"mine-1a2b-c", "mine-1a2b-s1"}), (
        "a tenth of twelve is two"
    )
    for machine in fleet.machines.values():
        machine.end()
    loader = Counting()
    assert running(go(campaign, fleet, loader)) == 10
    assert {id_ for _, id_ in loader.loaded} == {"mine-1a2b-s1"}, (
        "what the canary measured is not collected"
    )
    for machine in fleet.machines.values():
        machine.end()
    assert set(go(campaign, fleet, loader).values()) == {"collected"}
    assert sorted(name for name, _ in loader.loaded) == sorted(fleet.machines), "each once"
    before = len(fleet.asked)
    assert set(go(campaign, fleet, loader).values()) == {"collected"}
    assert len(fleet.asked) == before, "with nothing to do nobody is asked"


@pytest.mark.parametrize("launch", [{"canary_scale": "quick"}, {"canary": 0}])
def test_one_that_died_while_it_measured_before_the_others_holds_nobody_back(
    tmp_path, fleet, launch
):
    campaign = campaign_in(tmp_path / "c", launch=Launch(**launch))
    go(campaign, fleet)
    dead, alive = [machine for machine in fleet.machines.values() if machine.runs]
    dead.is_reachable = False
    alive.end()
    go(campaign, fleet)
    assert sum(bool(machine.runs) for machine in fleet.machines.values()) == 3, (
        "another one in its place"
    )
    for _ in range(3):
        for machine in fleet.machines.values():
            machine.end()
        states = go(campaign, fleet)
    assert list(states.values()).count("collected") == 11


@pytest.mark.parametrize(("canary_scale", "of_canary"), [("quick", 0), ("", 2)])
def test_every_session_has_the_blocks_of_the_campaign_and_a_smaller_canary_its_own(
    tmp_path, fleet, canary_scale, of_canary
):
    campaign = campaign_in(tmp_path / "c", blocks=40, launch=Launch(canary_scale=canary_scale))
    seen: list[dict[str, Any]] = []
    honest = fleet.run
    fleet.run = lambda tasks, given: seen.extend(given.values()) or honest(tasks, given)  # type: ignore
    go(campaign, fleet)
    launched = [each["vtax_command"] for each in seen if "run" in each["vtax_command"]]
    assert len(launched) == 2
    assert [each[each.index("--blocks") + 1] for each in launched if "--blocks" in each] == [
        "40"
    ] * of_canary


def test_a_study_without_a_quick_form_has_its_canary_measure_it_whole(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c")
    assert running(go(campaign, fleet)) == 2
    assert measured(fleet) == {"mine-1a2b-s1"}


def test_sessions_follow_each_other_after_their_time(tmp_path, fleet):
    campaign = no_canary(tmp_path, sessions=2, every="1d")
    go(campaign, fleet)
    for machine in fleet.machines.values():
        machine.end()
    fleet.now += 86_000
    assert set(go(campaign, fleet).values()) == {"waiting"}
    fleet.now += 500
    assert running(go(campaign, fleet)) == 12
    assert measured(fleet) == {"mine-1a2b-s1", "mine-1a2b-s2"}


def test_a_session_follows_the_start_of_the_last_one_that_was_measured(tmp_path, fleet):
    campaign = no_canary(tmp_path, sessions=2, every="1d")
    fleet.machines["h00"].run_state = "busy"
    go(campaign, fleet)
    fleet.now += 80_000
    fleet.machines["h00"].run_state = "running"
    assert running(go(campaign, fleet)) == 12, "the one that was busy begins its first session now"
    for machine in fleet.machines.values():
        machine.end()
    fleet.now += 10_000
    states = go(campaign, fleet)
    assert (states["h00"], running(states)) == ("waiting", 11)
    fleet.now += 76_500
    assert go(campaign, fleet)["h00"] == "running"


def test_an_answer_that_waited_to_be_read_is_of_no_wrong_clock(tmp_path, fleet):
    fleet.queued_s = 900.0
    fleet.machines["h03"].ahead_s, fleet.machines["h04"].ahead_s = -70.0, 970.0
    campaign = no_canary(tmp_path)
    assert running(go(campaign, fleet)) == 10
    assert reasons(campaign) == {"h03": "clock", "h04": "clock"}


def test_who_does_not_answer_or_is_busy_comes_back(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    fleet.machines["h00"].is_reachable = False
    fleet.machines["h01"].obstacles = [{"code": "lock-held", "detail": "tour-3"}]
    fleet.machines["h02"].run_state = "busy"
    states = go(campaign, fleet)
    assert (states["h00"], states["h01"], states["h02"], running(states)) == (
        "unreachable",
        "busy",
        "busy",
        9,
    )
    assert reasons(campaign) == {"h00": "unreachable", "h01": "lock-held", "h02": "lock-held"}
    fleet.machines["h00"].is_reachable = True
    fleet.machines["h01"].obstacles = []
    fleet.machines["h02"].run_state = "running"
    assert running(go(campaign, fleet)) == 12
    assert {host.sessions[0].attempts for host in campaign.hosts()} == {1}, (
        "a held lock counts as no attempt"
    )


def test_launching_stops_when_more_than_a_fifth_fail(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary=0, first_percent=0, forks=1))
    for name in ("h00", "h01", "h02", "h03", "h04", "h05"):
        fleet.machines[name].prepare_error = "vtax: No space left on device"
    found = controller_of(campaign, fleet)
    why = found.launch()
    states = {host.name: host.state for host in campaign.hosts()}
    assert "more than 20 %" in why
    assert 0 < len(states) < 12, "nobody is asked after that"
    assert set(reasons(campaign).values()) == {"space"}
    for machine in fleet.machines.values():
        machine.prepare_error = ""
    assert running(go(campaign, fleet)) == 12, "what was mended is looked at again"


def test_a_canary_that_fails_twice_stops_the_rest(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary_scale="quick"))
    for machine in fleet.machines.values():
        machine.run_state = "refused"
    go(campaign, fleet)
    assert sum(bool(machine.runs) for machine in fleet.machines.values()) == 2
    assert list(reasons(campaign).values()) == ["run-refused"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": "0.0.9"}, "version"),
        ({"digest": "00" * 32}, "digest"),
        ({"ahead_s": 3600.0}, "clock"),
        ({"ahead_s": -61.0}, "clock"),
        ({"obstacles": [{"code": "space", "detail": "1 MB"}]}, "space"),
        ({"obstacles": [{"code": "no-machine-id", "detail": ""}]}, "no-machine-id"),
        ({"obstacles": [{"code": "of another version", "detail": ""}]}, "obstacle"),
        ({"obstacles": [{"code": "", "detail": ""}, {"code": "space", "detail": ""}]}, "space"),
        ({"prepare_error": "vtax: the pack is for Python 3.11, and this is Python 3.7"}, "python"),
        ({"prepare_error": "the pack has the digest 00, not ab"}, "digest"),
        ({"machine_id": "m01"}, "same-host"),
        ({"machine_id": "m01", "hardware_id": "bbbb"}, "cloned"),
        ({"run_state": "refused"}, "run-refused"),
    ],
)
def test_why_a_host_is_refused_is_typed(tmp_path, fleet, changes, code):
    for name, value in changes.items():
        setattr(fleet.machines["h03"], name, value)
    campaign = no_canary(tmp_path)
    states = go(campaign, fleet)
    expected = {"h03": code} if code != "cloned" else {"h01": code, "h03": code}
    assert reasons(campaign) == expected
    assert {name for name, state in states.items() if state == "refused"} == set(expected)


def test_a_host_that_became_another_one_is_refused(tmp_path, fleet):
    campaign = no_canary(tmp_path, sessions=2, every="1h")
    go(campaign, fleet)
    for machine in fleet.machines.values():
        machine.end()
    fleet.machines["h05"].machine_id = "m99"
    fleet.now += 7200
    states = go(campaign, fleet)
    assert (states["h05"], reasons(campaign)) == ("refused", {"h05": "other-host"})


def test_a_host_that_was_installed_again_on_its_own_hardware_goes_on(tmp_path, fleet):
    fleet.machines["h05"].hardware_id = "its own"
    campaign = no_canary(tmp_path, sessions=2, every="1h")
    go(campaign, fleet)
    for machine in fleet.machines.values():
        machine.end()
    fleet.machines["h05"].machine_id = "m99"
    fleet.now += 7200
    assert go(campaign, fleet)["h05"] == "running"
    assert campaign.host("h05").identity == "m99-its own"


def test_what_was_interrupted_is_resumed_and_given_up_in_the_end(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    for attempt in range(1, 4):
        states = go(campaign, fleet)
        assert states["h04"] == "running", attempt
        fleet.machines["h04"].end("interrupted")
    loader = Counting()
    assert go(campaign, fleet, loader)["h04"] == "given-up"
    assert campaign.host("h04").reason.code == "attempts"
    assert ("h04", "mine-1a2b-s1") in loader.loaded, "what it measured comes too, as interrupted"
    assert go(campaign, fleet, retry=True)["h04"] == "running"
    assert fleet.machines["h04"].runs == {
        "mine-1a2b-s1": "interrupted",
        "mine-1a2b-s1.1": "running",
    }
    fleet.machines["h04"].end()
    assert go(campaign, fleet, loader)["h04"] == "collected"
    assert ("h04", "mine-1a2b-s1.1") in loader.loaded, (
        "the new one is brought although the first was"
    )


def test_a_run_that_failed_begins_anew_only_on_request(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h04"].end("failed")
    assert go(campaign, fleet)["h04"] == "failed"
    assert go(campaign, fleet)["h04"] == "failed"
    assert go(campaign, fleet, retry=True)["h04"] == "running"
    assert set(fleet.machines["h04"].runs) == {"mine-1a2b-s1", "mine-1a2b-s1.1"}


def test_a_run_whose_every_trial_failed_says_of_what(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h04"].last_failure = "native burn: perl: not found"
    fleet.machines["h04"].end("failed")
    go(campaign, fleet)
    host = next(host for host in campaign.hosts() if host.name == "h04")
    assert str(host.reason) == "run-failed every trial failed: native burn: perl: not found"


def test_a_host_that_the_inventory_skips_is_asked_nothing(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    campaign.keep(replace(campaign.host("h04"), state="skipped", skip="in repair"))
    campaign.keep(replace(campaign.host("h05"), state="skipped", skip="in repair"))
    fleet.machines["h04"].end()
    fleet.asked.clear()
    states = go(campaign, fleet)
    controller_of(campaign, fleet).stop()
    asked = {name for _, names in fleet.asked for name in names}
    assert (asked, states["h04"]) == ({*fleet.machines} - {"h04", "h05"}, "skipped")


def test_a_host_that_lost_its_runs_measures_again(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h04"].runs.clear()
    assert go(campaign, fleet)["h04"] == "running"
    assert fleet.machines["h04"].runs == {"mine-1a2b-s1": "running"}


@pytest.mark.parametrize("killed_after", range(0, 36, 5))
def test_a_controller_that_is_killed_launches_nothing_twice(tmp_path, fleet, killed_after):
    campaign = no_canary(tmp_path)
    answers = iter(range(killed_after))
    honest = fleet.run

    def killed(tasks, variables):
        for answer in honest(tasks, variables):
            if next(answers, None) is None:
                raise KeyboardInterrupt
            yield answer

    fleet.run = killed
    with pytest.raises(KeyboardInterrupt):
        go(campaign, fleet)
    fleet.run = honest
    assert running(go(campaign, fleet)) == 12
    assert all(len(machine.runs) == 1 for machine in fleet.machines.values())
    assert {host.sessions[0].attempts for host in campaign.hosts()} == {1}
    for machine in fleet.machines.values():
        machine.end()
    loader = Counting()
    go(campaign, fleet, loader)
    go(campaign, fleet, loader)
    assert sorted(name for name, _ in loader.loaded) == sorted(fleet.machines)


def test_abort_stops_what_runs_and_brings_what_was_measured(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    fleet.machines["h00"].is_reachable = False
    go(campaign, fleet)
    campaign.abort()
    found, loader = controller_of(campaign, fleet), Counting()
    found.stop()
    found.collect(loader)
    states = {host.name: host.state for host in campaign.hosts()}
    assert states["h01"] == "aborted"
    assert len(loader.loaded) == 11
    with pytest.raises(BadInput, match="was aborted"):
        controller_of(campaign, fleet).launch()


@pytest.mark.parametrize(
    "failure", [{"msg": "Timed out waiting for the task"}, {"rc": 1, "stderr": "vtax: no store"}]
)
def test_a_state_that_cannot_be_asked_leaves_the_session_running(tmp_path, fleet, failure):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h00"].failures = {"status": failure}
    assert go(campaign, fleet)["h00"] == "unreachable"
    assert campaign.host("h00").reason.code == "no-answer"
    assert campaign.host("h00").running is not None
    controller_of(campaign, fleet).stop()
    assert fleet.machines["h00"].runs == {"mine-1a2b-s1": "interrupted"}, "abort stops it"


def test_a_run_that_did_not_end_when_it_was_to_is_running_still(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h00"].failures = {
        "stop": {"rc": 1, "stderr": "vtax: it did not end within 300 s"}
    }
    controller_of(campaign, fleet).stop()
    assert (campaign.host("h00").state, campaign.host("h00").running.id) == (
        "unreachable",
        "mine-1a2b-s1",
    )


def test_a_launch_that_ansible_ended_is_looked_at_and_one_that_vtax_refused_is_not_running(
    tmp_path, fleet
):
    campaign = no_canary(tmp_path)
    fleet.machines["h00"].failures = {"run": {"msg": "Timed out waiting for the task"}}
    fleet.machines["h01"].failures = {"run": {"rc": 2, "stderr": "vtax: no such study"}}
    states = go(campaign, fleet)
    assert (states["h00"], states["h01"]) == ("unreachable", "refused")
    assert (campaign.host("h00").running is not None, campaign.host("h01").running) == (True, None)


@pytest.mark.parametrize("depth", [60, 2_000, 200_000])
def test_an_answer_that_is_nested_deeply_is_of_its_host_alone(tmp_path, fleet, depth):
    honest = fleet._answer
    deep = "[" * depth + "]" * depth

    def answer(name, machine, task, given):
        found = honest(name, machine, task, given)
        if (name, task) == ("h00", "check"):
            said = found.result["stdout"].replace('"host": {', f'"host": {{"deep": {deep}, ')
            return Answer(name, task, "ok", {"rc": 0, "stdout": said})
        return (
            Answer(name, task, "ok", {"rc": 0, "stdout": deep})
            if (name, task) == ("h01", "command")
            else found
        )

    fleet._answer = answer
    states = go(no_canary(tmp_path), fleet)
    assert (states["h00"], states["h01"], running(states)) == ("refused", "unreachable", 10)


def test_nothing_that_a_host_said_is_a_variable_of_ansibles(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    fleet.machines["h00"].machine_id = "{{ lookup('pipe', 'touch /tmp/x') }}"
    seen: list[str] = []
    honest = fleet.run
    fleet.run = lambda tasks, variables: seen.append(str(variables)) or honest(tasks, variables)  # type: ignore
    go(campaign, fleet)
    for machine in fleet.machines.values():
        machine.end()
    go(campaign, fleet)
    assert not [each for each in seen if "lookup" in each or "/somewhere" in each]


def test_a_host_that_was_renamed_in_the_inventory_is_not_measured_twice(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["new"] = fleet.machines.pop("h04")
    found = controller_of(campaign, fleet, [*fleet.machines])
    found.launch()
    assert (found.hosts["new"].state, found.hosts["new"].reason) == (
        "refused",
        Reason("same-host", "h04"),
    )
    assert "h04" not in found.hosts
    assert fleet.machines["new"].runs == {"mine-1a2b-s1": "running"}


@pytest.mark.parametrize(
    ("result", "why"),
    [({"rc": 1, "stderr": "it is larger than 1 GiB"}, "larger than 1 GiB"), ({"msg": "x"}, "x")],
)
def test_a_bundle_whose_size_was_refused_is_not_brought(tmp_path, fleet, result, why):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    for machine in fleet.machines.values():
        machine.end()
    honest = fleet.run

    def refusing(tasks: Any, variables: Any) -> Any:
        if tasks != ["fetch"]:
            yield from honest(tasks, variables)
            return
        for name in variables:
            if name == "h00":
                yield Answer(name, "copy", "failed", result)
                yield Answer(name, "tidy", "ok", {"rc": 0})
            else:
                yield Answer(name, "copy", "ok", {"rc": 0})
                yield from honest(tasks, {name: variables[name]})

    fleet.run = refusing
    loader = Counting()
    go(campaign, fleet, loader)
    reason = campaign.host("h00").sessions[0].reason
    assert (reason.code, why in reason.detail) == ("damaged-bundle", True)
    assert sorted({host for host, _ in loader.loaded}) == sorted({*fleet.machines} - {"h00"})


def test_a_bundle_that_cannot_be_used_twice_is_not_asked_for_again(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h00"].end()
    fleet.machines["h00"].failures = {"fetch": {"msg": "Permission denied"}}
    assert go(campaign, fleet)["h00"] == "done"
    assert go(campaign, fleet)["h00"] == "failed"
    fleet.machines["h00"].failures = {}
    loader = Counting()
    assert go(campaign, fleet, loader)["h00"] == "failed"
    assert loader.loaded == []
    assert reasons(campaign)["h00"] == "damaged-bundle"


def test_why_a_bundle_was_not_brought_is_kept(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    fleet.machines["h00"].end()
    fleet.machines["h00"].failures = {"fetch": {"msg": "Permission denied"}}
    found = controller_of(campaign, fleet)
    found.look()
    assert found.collect(Counting()).refused == 1
    assert (found.hosts["h00"].state, found.hosts["h00"].reason.code) == ("done", "damaged-bundle")
    assert "Permission denied" in found.hosts["h00"].reason.detail
    fleet.machines["h00"].failures = {}
    assert go(campaign, fleet)["h00"] == "collected"


def test_a_second_controller_is_refused_plainly(tmp_path):
    campaign = campaign_in(tmp_path / "c")
    with campaign.lock(), pytest.raises(Busy, match="controls this campaign"), campaign.lock():
        pass
    with campaign.lock():
        pass


def test_a_launch_that_was_ended_on_the_host_is_looked_at(tmp_path, fleet):
    fleet.machines["h00"].failures = {"run": {"rc": 124, "stderr": ""}}
    campaign = no_canary(tmp_path)
    assert go(campaign, fleet)["h00"] == "unreachable"
    assert (campaign.host("h00").running is not None, reasons(campaign)["h00"]) == (
        True,
        "no-answer",
    )


def test_clean_removes_from_hosts_where_nothing_is_to_come(tmp_path, fleet):
    campaign = no_canary(tmp_path)
    go(campaign, fleet)
    for name, machine in fleet.machines.items():
        if name not in ("h01", "h02"):
            machine.end()
    go(campaign, fleet)
    fleet.machines["h01"].end()
    found = controller_of(campaign, fleet)
    found.look()
    fleet.machines["h03"].failures = {"remove": {"rc": 75, "stderr": "vtax: tour-3 has it"}}
    fleet.machines["h04"].failures = {"remove": {"rc": 127, "stderr": "sh: not found"}}
    fleet.machines["h05"].is_reachable = False
    outcomes = {outcome.host: outcome for outcome in found.clean()}
    assert outcomes["h00"].removed == "pack abababababab, image 4f1d0c77aa31 (811 MiB)"
    assert {name: outcome.error for name, outcome in outcomes.items() if outcome.error} == {
        "h01": "its bundle is not collected",
        "h02": "it may measure still",
        "h03": "tour-3 has it",
        "h05": "Failed to connect to the host via ssh",
    }
    kept = {host.name: host.kept for host in campaign.hosts()}
    assert (kept["h00"], kept["h04"], bool(kept["h03"])) == ((), (), True)
    assert {campaign.host(name).state for name in ("h00", "h03", "h05")} == {"collected"}
