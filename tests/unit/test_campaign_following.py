"""How a controller follows a fleet to its end, in the time of a simulation: whom it asks when, and who waits for whom."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answering_hosts import Counting, Fleet, Machine, campaign_in

from vtax.campaign.ansible import TOO_LONG, Answer
from vtax.campaign.asking import Ask
from vtax.campaign.controller import Controller
from vtax.campaign.directory import Campaign
from vtax.campaign.following import LONGEST_S, Pace, follow
from vtax.campaign.host_record import CampaignHost
from vtax.campaign.settings import Launch
from vtax.errors import BadInput

ANSWER_S = 2.0


class Simulation(Fleet):
    """A fleet whose answers take time. takes_s: a session. delays: host -> seconds that its answers take.

    It stands for the background too, whose clock it turns on.
    """

    def __init__(self, takes_s: float = 14.0, **machines: Machine) -> None:
        super().__init__(**machines)
        self.takes_s, self.began = takes_s, self.now
        self.delays: dict[str, float] = {}
        self.lying: set[str] = set()
        self.launched: dict[tuple[str, str], float] = {}
        self.most_asked = 0
        self.at_take: Callable[[], None] = lambda: None
        self._events: list[tuple[float, int, Ask, Answer | None]] = []
        self._numbers = itertools.count()
        self._open: Counter[str] = Counter()

    @property
    def passed_s(self) -> float:
        """Since the simulation began."""
        return self.now - self.began

    def begin(self, ask: Ask, answers: Iterator[Answer]) -> None:
        """Have answers come in their time."""
        self._open.update(dict.fromkeys(ask.sessions, 1))
        self.most_asked = max(self.most_asked, self._open.total())
        at: dict[str, float] = {}
        for answer in answers:
            delay = self.delays.get(answer.host, ANSWER_S)
            at[answer.host] = at.get(answer.host, self.now) + delay
            self._add(at[answer.host], ask, answer)
        self._add(max(at.values()), ask, None)

    def take(self, timeout_s: float) -> tuple[Ask, Answer | None] | None:
        """Return what comes in time, and turn the clock."""
        self.at_take()
        if not self._events or self._events[0][0] > self.now + timeout_s:
            self.now += timeout_s
            return None
        at, _, ask, answer = heapq.heappop(self._events)
        self.now = max(self.now, at)
        if answer is None or answer.task == ask.last or answer.kind != "ok":
            done = ask.awaited if answer is None else {answer.host} & ask.awaited
            self._open.subtract(dict.fromkeys(done, 1))
        return ask, answer

    def _add(self, at: float, ask: Ask, answer: Answer | None) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), ask, answer))

    def _run(self, machine: Machine, task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        ends = [
            at + self.takes_s for (of, _), at in self.launched.items() if of == machine.machine_id
        ]
        if ends and max(ends) <= self.now:
            machine.end()
        said = super()._run(machine, task, given)
        if said["state"] == "running":
            began = self.launched.setdefault((machine.machine_id, said["id"]), self.now)
            if machine.visits and "run" in given["vtax_command"]:
                self.launched[machine.machine_id, said["id"]] = began = self.now
            said["left_s"] = max(began + self.takes_s - self.now, 0.0)
        return said

    def _answer(self, name: str, machine: Machine, task: str, given: Mapping[str, Any]) -> Answer:
        if name in self.lying and task == "status":
            return Answer(name, task, "failed", {"msg": TOO_LONG})
        return super()._answer(name, machine, task, given)


class Dated(Counting):
    """A loader that notes when each bundle came."""

    def __init__(self, fleet: Simulation) -> None:
        super().__init__()
        self._fleet = fleet
        self.at_s: dict[str, float] = {}

    def load(self, host: CampaignHost, session: Any, arrived: Path) -> CampaignHost:
        """Take a bundle."""
        self.at_s[host.name] = self._fleet.passed_s
        return super().load(host, session, arrived)


@pytest.fixture
def fleet() -> Simulation:
    """Eight hosts that answer."""
    return Simulation(**{f"h{i}": Machine(f"m{i}") for i in range(8)})


def followed(
    campaign: Campaign, fleet: Simulation, loader: Counting | None = None, *, retry: bool = False
) -> tuple[str, dict[str, str]]:
    """Why nothing more is launched, and the states of the hosts, at the end of one `run`."""
    known = {host.name: host for host in campaign.hosts()}
    hosts = {name: known.get(name) or CampaignHost(name) for name in fleet.machines}
    pace = Pace(lambda: fleet.now)
    controls = Controller(
        campaign,
        fleet,  # type: ignore[arg-type]
        hosts,
        lambda line: None,
        lambda: fleet.now,
        background=fleet,  # type: ignore[arg-type]
        rest_s=pace.rest_s,
    )
    loader = loader or Counting()
    why = follow(controls, loader, pace, lambda: None, retry=retry)  # type: ignore[arg-type]
    return why, {host.name: host.state for host in controls.hosts.values()}


def at_once(tmp_path: Path, **changes: Any) -> Campaign:
    return campaign_in(tmp_path / "c", launch=Launch(canary=0, first_percent=0), **changes)


def asked(fleet: Fleet, task: str) -> Counter[str]:
    """How often each host was asked it."""
    return Counter(name for tasks, names in fleet.asked if tasks == task for name in names)


def test_every_host_is_brought_to_its_end_and_loaded_once(tmp_path, fleet):
    loader = Dated(fleet)
    why, states = followed(at_once(tmp_path), fleet, loader)
    assert (why, set(states.values())) == ("", {"collected"})
    assert sorted(name for name, _ in loader.loaded) == sorted(fleet.machines)
    assert fleet.passed_s < fleet.takes_s + 30
    assert set(asked(fleet, "status").values()) == {1}, "each is asked when it expects its end"
    before = len(fleet.asked)
    followed(at_once(tmp_path), fleet)
    assert len(fleet.asked) == before, "with nothing to do nobody is asked"


def test_two_hosts_come_first_then_a_tenth_then_the_rest(tmp_path, fleet):
    launched: list[str] = []
    honest = fleet._answer

    def noting(name: str, machine: Machine, task: str, given: Mapping[str, Any]) -> Answer:
        if "run" in given["vtax_command"] and task == "command":
            launched.append(given["vtax_command"][given["vtax_command"].index("run") + 1])
        return honest(name, machine, task, given)

    fleet._answer = noting  # type: ignore[method-assign]
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary_scale="quick"))
    assert set(followed(campaign, fleet)[1].values()) == {"collected"}
    assert launched == ["mine-1a2b-c"] * 2 + ["mine-1a2b-s1"] * 8
    ends = sorted(at for (_, id_), at in fleet.launched.items() if id_.endswith("s1"))
    assert ends[0] >= fleet.began + fleet.takes_s, "after the canary"
    assert ends[1] >= ends[0] + fleet.takes_s, "the rest after the tenth"
    assert ends[-1] - ends[1] < 10, "the rest together"


@pytest.mark.parametrize("trouble", ["silent", "slow", "lying", "away"])
def test_one_host_delays_no_other(tmp_path, fleet, trouble):
    honest = fleet.take

    def troubled(timeout_s: float) -> Any:
        if ("m0", "mine-1a2b-s1") in fleet.launched:
            if trouble == "silent":
                fleet.delays["h0"] = 120.0
                fleet.machines["h0"].is_reachable = False
            if trouble == "lying":
                fleet.lying.add("h0")
        return honest(timeout_s)

    fleet.take = troubled  # type: ignore[method-assign]
    if trouble == "slow":
        fleet.delays["h0"] = 900.0
    if trouble == "away":
        fleet.machines["h0"].is_reachable = False
        fleet.delays["h0"] = 10.0
    loader = Dated(fleet)
    _, states = followed(at_once(tmp_path), fleet, loader)
    expected = "collected" if trouble == "slow" else "unreachable"
    assert (states.pop("h0"), set(states.values())) == (expected, {"collected"})
    loader.at_s.pop("h0", None)
    assert len(loader.at_s) == 7
    assert max(loader.at_s.values()) < fleet.takes_s + 20


def test_a_host_that_is_slow_to_be_checked_holds_back_no_canary_for_long(tmp_path, fleet):
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary=1))
    followed(campaign, Simulation(**{name: Machine(name) for name in fleet.machines}))
    first = next(names for task, names in fleet_asked_first(tmp_path, fleet))
    fleet.delays[first[0]] = 5000.0
    fleet.asked.clear()
    loader = Dated(fleet)
    campaign = campaign_in(tmp_path / "d", launch=Launch(canary=1))
    assert set(followed(campaign, fleet, loader)[1].values()) == {"collected"}
    others = [at for name, at in loader.at_s.items() if name != first[0]]
    assert max(others) < 300


def fleet_asked_first(tmp_path: Path, fleet: Simulation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a fleet is asked by a campaign of another directory."""
    other = Simulation(**{name: Machine(name) for name in fleet.machines})
    followed(campaign_in(tmp_path / "e", launch=Launch(canary=1)), other)
    yield from other.asked


def test_a_host_that_comes_back_is_taken_up_again(tmp_path, fleet):
    machine = fleet.machines["h3"]

    def away_for_a_while() -> None:
        machine.is_reachable = not 8 < fleet.passed_s < 45

    fleet.at_take = away_for_a_while
    assert followed(at_once(tmp_path), fleet)[1]["h3"] == "collected"
    assert len(machine.runs) == 1


def test_a_busy_host_is_waited_for(tmp_path, fleet):
    fleet.machines["h3"].obstacles = [{"code": "lock-held", "detail": "tour-3"}]

    def free_later() -> None:
        if fleet.passed_s > 3600:
            fleet.machines["h3"].obstacles = []

    fleet.at_take = free_later
    assert followed(at_once(tmp_path), fleet)[1]["h3"] == "collected"
    assert asked(fleet, "prepare,check")["h3"] < 20


def test_a_refused_host_is_not_waited_for_but_asked_while_others_measure(tmp_path, fleet):
    fleet.machines["h3"].version = "0.0.9"
    assert followed(at_once(tmp_path), fleet)[1]["h3"] == "refused"
    assert fleet.passed_s < fleet.takes_s + 20
    fleet.takes_s = 2 * LONGEST_S

    def mended() -> None:
        fleet.machines["h3"].version = "0.1.0"

    fleet.at_take = mended
    assert followed(campaign_in(tmp_path / "d"), fleet)[1]["h3"] == "collected"


def test_a_host_that_measures_for_long_is_seldom_disturbed(tmp_path, fleet):
    fleet.takes_s = 3600.0
    followed(at_once(tmp_path), fleet)
    assert max(asked(fleet, "status").values()) <= 3600 / LONGEST_S + 2


def test_sessions_follow_each_other_in_one_call(tmp_path, fleet):
    loader = Counting()
    assert set(followed(at_once(tmp_path, sessions=2, every="1h"), fleet, loader)[1].values()) == {
        "collected"
    }
    assert Counter(id_ for _, id_ in loader.loaded) == {"mine-1a2b-s1": 8, "mine-1a2b-s2": 8}
    assert 3600 < fleet.passed_s < 3700


def test_hosts_are_rebooted_and_end_in_their_default(tmp_path, fleet):
    for machine in fleet.machines.values():
        machine.visits = ["plain", "other"]
    campaign = at_once(tmp_path, reboot=True)
    assert set(followed(campaign, fleet)[1].values()) == {"collected"}
    assert {machine.boot for machine in fleet.machines.values()} == {"default"}
    assert {machine.reboots for machine in fleet.machines.values()} == {2}


def test_what_was_stopped_is_taken_up_again(tmp_path, fleet):
    campaign, loader = at_once(tmp_path), Counting()
    for stop_at in (1.0, 5.0, 12.0, 17.0, 19.0):

        def stop(at_s: float = stop_at) -> None:
            if fleet.passed_s >= at_s:
                raise KeyboardInterrupt

        fleet.at_take = stop
        with pytest.raises(KeyboardInterrupt):
            followed(campaign, fleet, loader)
        fleet._events.clear()
    fleet.at_take = lambda: None
    assert set(followed(campaign, fleet, loader)[1].values()) == {"collected"}
    assert sorted(name for name, _ in loader.loaded) == sorted(fleet.machines)
    assert all(len(machine.runs) == 1 for machine in fleet.machines.values())


def test_too_many_failures_end_it_and_what_runs_is_brought(tmp_path, fleet):
    for name in ("h1", "h2", "h3"):
        fleet.machines[name].version = "0.0.9"
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary=0, first_percent=50, forks=4))
    why, states = followed(campaign, fleet)
    assert "more than 20 %" in why
    assert "running" not in states.values()
    assert {"refused"} <= set(states.values())


def test_a_failed_host_is_tried_again_once_and_its_bundle_comes_before(tmp_path, fleet):
    campaign, loader = at_once(tmp_path), Counting()
    honest = fleet.machines["h4"].end
    fleet.machines["h4"].end = lambda state="done": honest("failed")  # type: ignore[method-assign]
    assert followed(campaign, fleet, loader)[1]["h4"] == "failed"
    assert followed(campaign, fleet, loader)[1]["h4"] == "failed"
    assert len(fleet.machines["h4"].runs) == 1
    assert followed(campaign, fleet, loader, retry=True)[1]["h4"] == "failed"
    assert len(fleet.machines["h4"].runs) == 2
    assert len([name for name, _ in loader.loaded if name == "h4"]) == 2


def test_no_more_hosts_are_asked_at_once_than_may_be(tmp_path):
    fleet = Simulation(**{f"h{i}": Machine(f"m{i}") for i in range(40)})
    fleet.delays["h7"] = 300.0
    campaign = campaign_in(tmp_path / "c", launch=Launch(canary=0, first_percent=0, forks=5))
    assert set(followed(campaign, fleet)[1].values()) == {"collected"}
    assert 1 < fleet.most_asked <= 5


def test_a_store_that_takes_no_bundle_ends_it(tmp_path, fleet):
    class Full(Counting):
        def load(self, host: CampaignHost, session: Any, arrived: Path) -> CampaignHost:
            reason = replace(session.reason, code="not-stored", detail="no space")
            return host.with_session(replace(session, reason=reason))

    _, states = followed(at_once(tmp_path), fleet, Full())
    assert set(states.values()) == {"done"}
    assert fleet.passed_s < 200
    assert set(followed(at_once(tmp_path), fleet)[1].values()) == {"collected"}


def test_an_abort_ends_it(tmp_path, fleet):
    campaign = at_once(tmp_path)
    fleet.at_take = campaign.abort
    with pytest.raises(BadInput, match="was aborted"):
        followed(campaign, fleet)


def test_a_host_without_any_answer_is_no_other_hosts_matter(tmp_path, fleet):
    honest = fleet.run

    def mute(tasks: Sequence[str], given: Mapping[str, Mapping[str, Any]]) -> Iterator[Answer]:
        for answer in honest(tasks, given):
            if answer.host != "h5":
                yield answer

    fleet.run = mute  # type: ignore[method-assign]
    fleet.begin = lambda ask, answers, begin=fleet.begin: begin(  # type: ignore[method-assign]
        ask, iter([*answers] or [Answer("nobody", "", "ok")])
    )
    states = followed(at_once(tmp_path), fleet)[1]
    assert (states.pop("h5"), set(states.values())) == ("unreachable", {"collected"})
