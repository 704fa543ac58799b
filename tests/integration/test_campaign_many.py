"""Many hosts, of which some lose power, packets, space or their clock, or are not who they say, and a controller that
is killed in every stage: every committed trial arrives once, and every failure is named with its host.

`VTAX_TEST_HOSTS=50 pytest --thorough tests/integration/test_campaign_many.py` is the whole; it takes minutes of two CPUs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from campaign_hosts import (
    BLOCKS,
    NamespaceHost,
    environment,
    has_ansible,
    has_measured,
    holds,
    inventory_of,
    ip,
    light_pack,
    namespace_hosts,
    written_study,
)
from support import needs_program, needs_root

from vtax.host.waiting import wait_until

HOSTS = int(os.environ.get("VTAX_TEST_HOSTS", "12"))
pytestmark = [
    needs_root,
    pytest.mark.skipif(not has_ansible(), reason="not installed: ansible-playbook"),
    needs_program("ip", "nsenter", "unshare", "sshd", "ssh", "ssh-keygen", "iptables", "mount"),
    pytest.mark.thorough,
    pytest.mark.timeout(900 + 120 * HOSTS),
]
HOME_MIB = 384  # a host is ready with 256 free
STAGES = ("prepare", "check", "command", "status", "fetch", "load")
"""Where the controller is killed: a task of the playbook, or as bundles that were brought are loaded."""
COMMAND_S, ALL_S = 60.0 + 20 * HOSTS, 600.0 + 90 * HOSTS
PERCENT_LOST = 5
FAULTS = {
    "power": max(1, HOSTS // 10),
    "away": max(1, HOSTS // 16),
    "full": max(1, HOSTS // 25),
    "lossy": max(1, HOSTS // 10),
    "clone": 2,
    "image": 1,
    "clock": 1,
}
COLLECTED, REFUSED_CLONE = ("collected", ""), ("refused", "cloned")
EXPECTED = {
    "away": ("unreachable", "unreachable"),
    "full": ("refused", "space"),
    "image": ("refused", "digest"),
    "clock": ("refused", "clock"),
}


@dataclass
class Fleet:
    """hosts: by name, which begins with its fault. control: namespace of the controller. root: for its files."""

    hosts: dict[str, NamespaceHost]
    control: str
    root: Path

    def vtax(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a command of vtax where the controller is."""
        return subprocess.Popen(
            [
                "nsenter",
                f"--net=/run/netns/{self.control}",
                sys.executable,
                "-m",
                "vtax",
                *map(str, arguments),
            ],
            env=environment(self.root / "controller"),
            cwd=self.root,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def done(self, *arguments: str | Path, statuses: Sequence[int] = (0,)) -> str:
        """Run one to its end; return what it printed."""
        with self.vtax(*arguments) as process:
            said, _ = process.communicate(timeout=COMMAND_S)
        assert process.returncode in statuses, said
        return said

    def states(self) -> dict[str, tuple[str, str]]:
        """State and reason of each host."""
        found = json.loads(self.done("campaign", "status", "c", "--json"))
        return {each["name"]: (each["state"], each["reason"]["code"]) for each in found["hosts"]}

    def has(self, fault: str) -> list[NamespaceHost]:
        """The hosts with a fault."""
        return [host for name, host in self.hosts.items() if name.startswith(fault)]


@pytest.fixture
def fleet(tmp_path, image) -> Iterator[Fleet]:
    """Hosts with power, but those that are away; one of them answers by a second address."""
    names = [f"{fault}{number}" for fault, count in FAULTS.items() for number in range(count)]
    names += [f"good{number}" for number in range(max(2, HOSTS - len(names)))]
    with namespace_hosts(tmp_path, image, names, HOME_MIB) as (made, control):
        found = Fleet({host.name: host for host in made}, control, tmp_path)
        for number, host in enumerate(found.has("clone")):
            host.be("c" * 32, f"0000000{number}-1111-4222-8333-444444444444")
        for host in found.has("full"):
            host.fill()
        for host in found.has("image"):
            host.have_another_image()
        for host in found.has("clock"):
            host.set_clock_ahead(3600)
        for host in made:
            if host not in found.has("away"):
                host.start()
        for host in found.has("lossy"):
            host.lose_packets(PERCENT_LOST)
        (tmp_path / "controller").mkdir()
        yield found


def made_campaign(fleet: Fleet, image) -> None:
    """Make the campaign of all hosts, where one more name is a second address of a good one."""
    light_pack(written_study(fleet.root / "studies"), image, fleet.root / "fleet.vtax-pack")
    good = fleet.hosts["good0"]
    second = f"{good.address.rpartition('.')[0]}.250"
    ip("-n", good.namespace, "address", "add", f"{second}/24", "dev", "eth0")
    keys = good.directory / "known_hosts"
    server = good.directory / "server"
    server.write_text(
        server.read_text().replace(f"ListenAddress {good.address}", "ListenAddress 0.0.0.0")
    )
    good.lose_power()
    good.start()
    keys.write_text(keys.read_text() + keys.read_text().replace(good.address, second))
    alias = json.loads(good.variables()) | {"ansible_host": second}
    inventory = inventory_of([*fleet.hosts.values()], fleet.root / "hosts.yml")
    inventory.write_text(inventory.read_text() + f"    alias0: {json.dumps(alias)}\n")
    fleet.done("campaign", "new", "fleet.vtax-pack", "--inventory", inventory, "-o", "c", "--trust")
    settings = fleet.root / "c/campaign.toml"
    text = settings.read_text().replace("max_failed_percent = 20", "max_failed_percent = 100")
    settings.write_text(text.replace("seconds = 10", "seconds = 1"))


@contextmanager
def power_lost(hosts: Sequence[NamespaceHost]) -> Iterator[set[str]]:
    """Hosts lose power once each has measured a trial. Yields the names of those that have."""
    lost: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.05):
            for host in hosts:
                if host.name not in lost and has_measured(host):
                    host.lose_power()
                    lost.add(host.name)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lost
    finally:
        ended.set()
        thread.join()


def is_in(stage: str, campaign: Path, offset: int) -> bool:
    """Whether the controller is in a stage. offset: of the log, where it began."""
    if stage == "load":
        return any((campaign / "incoming").rglob("*.vtax.gz"))
    log = campaign / "log"
    return log.exists() and f"TASK [{stage}]".encode() in log.read_bytes()[offset:]


def was_killed_in(stage: str, fleet: Fleet) -> bool:
    """One `go` that is killed as it reaches a stage; False where it ended before."""
    campaign = fleet.root / "c"
    log = campaign / "log"
    offset = log.stat().st_size if log.exists() else 0
    with fleet.vtax("campaign", "go", "c") as process:
        wait_until(
            lambda: process.poll() is not None or is_in(stage, campaign, offset), COMMAND_S, 0.01
        )
        time.sleep(0.0 if stage == "load" else 0.3)
        is_running = process.poll() is None
        process.kill()
        process.communicate()
    return is_running


def until_free(fleet: Fleet) -> None:
    """Wait until what a killed controller began has let go of the campaign."""
    assert wait_until(lambda: not holds(fleet.root / "c/lock"), COMMAND_S, 0.1)


def test_every_trial_of_many_hosts_arrives_once_and_every_failure_is_named(fleet, image, capsys):
    began = time.monotonic()
    made_campaign(fleet, image)
    killed: list[str] = []
    with power_lost(fleet.has("power")) as lost:
        goes = 0
        while (states := at_rest(fleet, lost)) is None:
            assert time.monotonic() < began + ALL_S, fleet.done("campaign", "status", "c")
            goes += 1
            left = [stage for stage in STAGES if stage not in killed]
            if not left:
                fleet.done("campaign", "go", "c")
            elif was_killed_in(left[0], fleet):
                killed.append(left[0])
            until_free(fleet)
            if goes == 4:
                assert refused_beside_another(fleet)
    assert killed == [*STAGES]
    assert {states.pop("alias0"), states.pop("good0")} == {COLLECTED, ("refused", "same-host")}
    clones = {states.pop(host.name) for host in fleet.has("clone")}
    assert REFUSED_CLONE in clones <= {REFUSED_CLONE, COLLECTED}, (
        "the first may have measured before the second was seen"
    )
    for name, found in states.items():
        fault = name.rstrip("0123456789")
        assert found == EXPECTED.get(fault, COLLECTED), fleet.done("campaign", "status", "c")
    measured = arrived_once(fleet)
    assert ("alias0" in measured) != ("good0" in measured)
    with capsys.disabled():
        of = f"{len(fleet.hosts)} hosts, {len(measured)} collected, {sum(measured.values())} trials"
        print(
            f"\n{of}; {goes} goes, {len(killed)} of them killed; {time.monotonic() - began:.0f} s"
        )


def at_rest(fleet: Fleet, lost: set[str]) -> dict[str, tuple[str, str]] | None:
    """The states of hosts, once nothing more is to come; gives power to those that were seen without it."""
    if not (fleet.root / "c/hosts").exists():
        return None
    found = fleet.states()
    for name in lost:
        host = fleet.hosts[name]
        if host.first is None and found[name][0] == "unreachable":
            host.start()
    coming = {"new", "ready", "running", "waiting", "busy", "done"}
    is_open = any(
        state in coming or (state == "unreachable" and not name.startswith("away"))
        for name, (state, _) in found.items()
    )
    return None if is_open else found


def refused_beside_another(fleet: Fleet) -> bool:
    """Whether a second controller is refused while one is at work."""
    with fleet.vtax("campaign", "go", "c") as first:
        wait_until(lambda: holds(fleet.root / "c/lock"), COMMAND_S, 0.01)
        said = fleet.done("campaign", "go", "c", statuses=(75,))
        first.communicate(timeout=COMMAND_S)
    return first.returncode == 0 and "controls this campaign" in said


def arrived_once(fleet: Fleet) -> dict[str, int]:
    """Trials of each host that was collected: those in its own store, each of them once in the controller's."""
    found = json.loads(fleet.done("campaign", "status", "c", "--json"))["hosts"]
    runs = {each["name"]: [one["run"] for one in each["sessions"] if one["run"]] for each in found}
    collected = {name: names for name, names in runs.items() if names}
    store = fleet.root / "controller/store.sqlite"
    assert all(len(names) == 1 for names in collected.values())
    assert len(rows(store, "select name from run")) == len(collected)
    for name, (run,) in collected.items():
        there = rows(
            fleet.hosts["good0" if name == "alias0" else name].home / "store.sqlite", _TRIALS
        )
        here = rows(store, f"{_TRIALS} where run.name = ?", run)
        assert here == there, name
        assert len({(block, number) for block, number, *_ in here}) == len(here) == BLOCKS
    return dict.fromkeys(collected, BLOCKS)


_TRIALS = "select block, number, position, trial.started_at, trial.status from trial join run on run.id = run_id"


def rows(store: Path, query: str, *values: str) -> list[tuple[object, ...]]:
    """Rows of a store, in order."""
    with closing(sqlite3.connect(store)) as connection:
        return sorted(connection.execute(query, values).fetchall())
