"""A fleet that answers as hosts do through Ansible, at once: for tests of what a controller does with answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from vtax.campaign import controller
from vtax.campaign.ansible import Answer
from vtax.campaign.controller import Controller
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import CampaignHost, Reason
from vtax.campaign.inventory import InventoryHost
from vtax.campaign.settings import Launch, Settings
from vtax.described import moment

SETTINGS: dict[str, Any] = {
    "name": "mine-1a2b",
    "study": "mine.toml",
    "study_name": "mine",
    "pack_digest": "ab" * 32,
    "image_key": "4f1d0c77aa31",
    "image_digest": "cd" * 32,
    "vtax_version": "0.1.0",
    "created_at": 1_700_000_000.0,
}
BUNDLE = b"a bundle"
_UNBEGUN = ("absent", "busy", "refused")


@dataclass
class Machine:
    """A host. runs: id -> state of what it was asked to measure. failures: task, or verb of a command -> what Ansible
    says of it. visits: boots that its run needs still. comes_up_in: whatever was set. last_failure: of its trials,
    all of which failed then.
    """

    machine_id: str
    hardware_id: str = "aaaa"
    is_reachable: bool = True
    obstacles: list[dict[str, str]] = field(default_factory=list)
    version: str = "0.1.0"
    digest: str = "cd" * 32
    ahead_s: float = 0.0
    prepare_error: str = ""
    run_state: str = "running"
    last_failure: str = ""
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    boot: str = "plain"
    visits: list[str] = field(default_factory=list)
    set_boot: str = ""
    comes_up_in: str = ""
    reboots: int = 0

    @property
    def next_boot(self) -> str:
        """What its run needs, where it is in another boot."""
        return self.visits[0] if self.visits and self.visits[0] != self.boot else ""

    def reboot(self) -> None:
        """As a boot loader does: the boot that was set, once."""
        self.boot, self.set_boot, self.reboots = (
            self.comes_up_in or self.set_boot or "default",
            "",
            self.reboots + 1,
        )

    def end(self, state: str = "done") -> None:
        """What runs has ended so, or with the boot that it was in."""
        if self.visits and state == "done" and "running" in self.runs.values():
            self.visits.pop(0)
            state = "paused" if self.visits else "done"
        self.runs = {
            id_: state if found == "running" else found for id_, found in self.runs.items()
        }


def put_in_ansibles_place(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, listed: Callable[[], list[InventoryHost]]
) -> None:
    """Have controllers of this process speak to a fleet, whose inventory lists these hosts."""
    monkeypatch.setattr(controller, "check_version", lambda: None)
    monkeypatch.setattr(controller, "Playbook", lambda *given: fleet)
    monkeypatch.setattr(controller, "read_inventory", lambda path: listed())


class Fleet:
    """Stands for `vtax.campaign.ansible.Playbook`. asked: (task, hosts) of every call. queued_s: by how much an
    answer is read after it was given."""

    def __init__(self, **machines: Machine) -> None:
        self.machines, self.now = machines, 1_700_000_000.0
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.queued_s = 0.0

    def end(self) -> None:
        """End nothing: it answers at once."""

    def run(
        self, tasks: Sequence[str], variables: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[Answer]:
        """Answer as each machine is."""
        self.asked.append((",".join(tasks), tuple(sorted(variables))))
        for name, given in variables.items():
            for task in tasks:
                answer = self._answer(name, self.machines[name], task, given)
                yield replace(answer, since=self.now, at=self.now + self.queued_s)
                if answer.kind in ("failed", "unreachable"):
                    break

    def _answer(self, name: str, machine: Machine, task: str, given: Mapping[str, Any]) -> Answer:
        if not machine.is_reachable:
            return Answer(
                name, task, "unreachable", {"msg": "Failed to connect to the host via ssh"}
            )
        done = (
            task
            if task != "command"
            else given["vtax_command"][given["vtax_command"].index("host") + 1]
        )
        if done in machine.failures:
            return Answer(name, task, "failed", machine.failures[done])
        if task == "prepare":
            if machine.prepare_error:
                return Answer(name, task, "failed", {"rc": 2, "stderr": machine.prepare_error})
            return Answer(name, task, "ok", {"rc": 0, "stdout": "{}"})
        if task == "fetch":
            target = Path(given["vtax_target"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(BUNDLE)
            return Answer(name, task, "ok", {"dest": str(target)})
        if task == "reboot":
            machine.reboot()
            return Answer(name, task, "ok", {"changed": True, "rebooted": True, "elapsed": 40})
        if done == "boot":
            has_id = given["vtax_command"][-2] != "boot"
            machine.set_boot = machine.next_boot if has_id else ""
            said = {"boot": machine.boot, "next_boot": machine.next_boot, "entry": "some"}
            return Answer(name, task, "ok", {"rc": 0, "stdout": json.dumps(said)})
        if done == "remove":
            said = {
                "removed": ["pack abababababab", "image 4f1d0c77aa31"],
                "freed_bytes": 850 * 1000**2,
                "kept": [],
            }
            return Answer(name, task, "ok", {"rc": 0, "stdout": json.dumps(said)})
        said = self._check(machine) if task == "check" else self._run(machine, task, given)
        return Answer(name, task, "ok", {"rc": 0, "stdout": json.dumps(said)})

    def _check(self, machine: Machine) -> dict[str, Any]:
        facts = {"machine_id": machine.machine_id, "hardware_id": machine.hardware_id}
        return {
            "identity": f"{machine.machine_id}-{machine.hardware_id}",
            "host": facts,
            "agents": [{"name": "kubelet"}],
            "kept": ["pack abababababab", "image 4f1d0c77aa31"],
            "time": moment(self.now + machine.ahead_s),
            "obstacles": machine.obstacles,
            "vtax_version": machine.version,
            "images": [{"key": "4f1d0c77aa31", "digest": machine.digest}],
        }

    def _run(self, machine: Machine, task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        words = shlex.split(given["vtax_status"]) if task == "status" else given["vtax_command"]
        verb, id_ = words[words.index("host") + 1 :][:2]
        if verb == "run" and machine.runs.get(id_, "absent") in (
            "absent",
            "paused",
            "interrupted",
            "busy",
            "refused",
        ):
            machine.runs[id_] = "paused" if machine.next_boot else machine.run_state
        if verb == "stop":
            machine.end("interrupted")
        state = machine.runs.get(id_, "absent")
        has_bundle = state in ("done", "failed", "interrupted", "paused")
        return {
            "id": id_,
            "state": state,
            "reason": "as asked" if state == "refused" else "",
            "run": "mine-1",
            "boot": machine.boot,
            "next_boot": machine.next_boot if state != "running" else "",
            "block": 1,
            "blocks": 3,
            "done_trials": int(state not in _UNBEGUN),
            "failed_trials": int(bool(machine.last_failure)),
            "last_failure": machine.last_failure,
            "left_s": 9.0 if state == "running" else None,
            "bundle": "/somewhere",
            "bundle_sha256": "ef" * 32 if has_bundle else "",
        }


class Counting:
    """Stands for `vtax.campaign.collecting.Loader`: takes every bundle, and counts. loaded: (host, id)."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, str]] = []

    def noted(self) -> list[tuple[str, str]]:
        """The store knows none."""
        return []

    def load(self, host: CampaignHost, session: Any, arrived: Path) -> CampaignHost:
        """Take a bundle as collected."""
        assert arrived.read_bytes() == BUNDLE
        self.loaded.append((host.name, session.id))
        state = "collected" if session.state == "done" else session.state
        return host.with_session(replace(session, state=state, run=f"mine-{len(self.loaded)}"))


class Refusing:
    """Stands for a loader to which every bundle is damaged."""

    def load(self, host: CampaignHost, session: Any, arrived: Path) -> CampaignHost:
        """Refuse a bundle."""
        return host.with_session(session.without_bundle(Reason("damaged-bundle", "it is cut off")))


def campaign_in(directory: Path, **changes: Any) -> Campaign:
    """A campaign whose pack is never opened."""
    directory.mkdir(exist_ok=True)
    Settings(**{**SETTINGS, **changes}).write(directory / "campaign.toml")
    return Campaign.open(directory)


def controller_of(campaign: Campaign, fleet: Fleet, names: Sequence[str] = ()) -> Controller:
    """A controller as it starts: with what is on disk of the hosts."""
    known = {host.name: host for host in campaign.hosts()}
    hosts = {
        name: known.get(name) or CampaignHost(name, home="/var/lib/vtax")
        for name in names or fleet.machines
    }
    return Controller(campaign, fleet, hosts, lambda text: None, lambda: fleet.now)  # type: ignore[arg-type]


def no_canary(tmp_path: Path, **changes: Any) -> Campaign:
    """A campaign that launches on all of its hosts at once."""
    return campaign_in(tmp_path / "c", launch=Launch(canary=0, first_percent=0), **changes)


def go(
    campaign: Campaign, fleet: Fleet, loader: Counting | None = None, *, retry: bool = False
) -> dict[str, str]:
    """One `go` of a controller that starts anew; the states of the hosts after it."""
    found = controller_of(campaign, fleet)
    found.look()
    found.collect(loader or Counting())  # type: ignore[arg-type]
    if retry:
        found.retry()
    found.launch()
    found.restore_boots()
    return {host.name: host.state for host in campaign.hosts()}
