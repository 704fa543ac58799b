"""Four hosts on one switch: every pair measures iperf3 once, though one host loses power and another is busy."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from campaign_hosts import (
    NamespaceHost,
    command_of,
    has_ansible,
    has_measured,
    inventory_of,
    join,
    light_pack,
    namespace_hosts,
)
from support import needs_program, needs_root

from vtax.host.lock import HOST_LOCK
from vtax.host.waiting import wait_until
from vtax.store.hosts import host_id, peer_id

pytestmark = [
    needs_root,
    pytest.mark.skipif(not has_ansible(), reason="not installed: ansible-playbook"),
    needs_program(
        "ip", "nsenter", "unshare", "sshd", "ssh", "ssh-keygen", "iperf3", "ethtool", "flock"
    ),
    pytest.mark.root,
    pytest.mark.timeout(4000),
]
NAMES = ("h1", "h2", "h3", "h4")
WAIT_S = 1800.0
STUDY = """
name = "pairs"
platforms = ["native"]
[design]
blocks = 2
[[platform]]
name = "other"
driver = "ssh"
host = "@peer"
scratch = "{directory}"
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = 1 }}
link = {{ peer = "other" }}
"""


@pytest.fixture
def hosts(tmp_path, image) -> Iterator[tuple[dict[str, NamespaceHost], str]]:
    """Four hosts by name, with a switch between them; the network namespace of the controller."""
    with namespace_hosts(tmp_path, image, NAMES) as (made, control):
        client = join(made, control, tmp_path)
        (tmp_path / "studies").mkdir()
        (tmp_path / "studies/pairs.toml").write_text(STUDY.format(directory=tmp_path))
        for host in made:
            host.mounts = {"/etc/ssh/ssh_config": client}
            host.start()
        yield {host.name: host for host in made}, control


def logged_in(host: NamespaceHost, control: str, tmp_path: Path, *words: str) -> list[str]:
    """A command on a host."""
    inside = ["nsenter", f"--net=/run/netns/{control}"]
    return [*inside, "ssh", "-F", str(tmp_path / "client"), host.address, *words]


def test_a_host_says_what_is_missing_on_its_peer(hosts, tmp_path):
    machines, control = hosts
    first, second = machines["h1"], machines["h2"]

    def missing(peer: str) -> list[str]:
        words = [
            "env",
            f"VTAX_HOME={first.home}",
            sys.executable,
            "-m",
            "vtax",
            "host",
            "check",
            "--peer",
            peer,
            "--peer-home",
            str(second.home),
            "--json",
        ]
        done = subprocess.run(
            logged_in(first, control, tmp_path, *words), capture_output=True, text=True, check=False
        )
        found = json.loads(done.stdout)["obstacles"]
        return [each["detail"] for each in found if each["code"] == "peer"]

    assert missing(f"{second.address}/eth1:eth1") == []
    (what,) = missing(f"{second.address}/eth1:eth7")
    assert "eth7" in what
    (what,) = missing(f"{first.address}/eth1:eth1")
    assert "this host itself" in what
    (what,) = missing("198.18.77.99/eth1:eth1")
    assert "cannot be reached" in what
    holding = logged_in(
        second, control, tmp_path, "flock", str(HOST_LOCK), "sh", "-c", "'echo held; cat'"
    )
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        (what,) = missing(f"{second.address}/eth1:eth1")
        assert "to itself" in what
        holder.stdin.close()


@pytest.mark.thorough  # what else launches, collects and survives: test_campaign
def test_every_pair_of_hosts_is_measured_once_and_all_at_once_that_can(hosts, image, tmp_path):
    machines, control = hosts
    vtax = partial(command_of(control, tmp_path), timeout_s=WAIT_S)
    light_pack(tmp_path / "studies/pairs.toml", image, tmp_path / "pairs.vtax-pack")
    inventory = inventory_of([*machines.values()], tmp_path / "hosts.yml")
    vtax("campaign", "new", "pairs.vtax-pack", "--inventory", inventory, "-o", "c", "--trust")
    text = (tmp_path / "c/campaign.toml").read_text()
    (tmp_path / "c/campaign.toml").write_text(
        text.replace("canary = 2", "canary = 0").replace("seconds = 10", "seconds = 0")
    )

    def states() -> dict[str, dict]:
        return {
            each["name"]: each
            for each in json.loads(vtax("campaign", "status", "c", "--json"))["hosts"]
        }

    def running() -> list[tuple[str, dict]]:
        found = [(name, each) for name, host in states().items() for each in host["sessions"]]
        return [(name, each) for name, each in found if each["state"] == "running"]

    words = logged_in(machines["h4"], control, tmp_path, "flock", str(HOST_LOCK), "cat")
    with subprocess.Popen(words, stdin=subprocess.PIPE):  # until its stdin ends
        vtax("campaign", "go", "c")
        assert states()["h4"]["reason"]["code"] == "lock-held"
        ((first, session),) = running()
        assert "h4" not in (first, session["peer"])
        assert wait_until(lambda: has_measured(machines[first]), WAIT_S, 0.1), log(machines[first])
        machines[first].lose_power()
        machines[first].start()
    at_once = set()

    def all_collected() -> bool:
        vtax("campaign", "go", "c")
        found = running()
        at_once.add(len(found))
        ends = [machines[name].home / "host-runs" / each["id"] / "end.json" for name, each in found]
        assert wait_until(lambda: all(each.exists() for each in ends), WAIT_S, 0.2), vtax(
            "campaign", "status", "c"
        )
        return {each["state"] for each in states().values()} == {"collected"}

    assert wait_until(all_collected, WAIT_S, 0.0), vtax("campaign", "status", "c")
    assert max(at_once) == 2, "two pairs on one switch at once"
    with closing(sqlite3.connect(tmp_path / "controller/store.sqlite")) as store:
        facts = [json.loads(row) for (row,) in store.execute("select host from session")]
        failed = store.execute("select count(*) from trial where status != 'ok'").fetchone()
    named = {each["identity"]: name for name, each in states().items()}
    measured = [tuple(sorted((named[host_id(each)], named[peer_id(each)]))) for each in facts]
    assert sorted(measured) == [*combinations(NAMES, 2)]
    assert failed == (0,)
    report = vtax("campaign", "report", "c")
    assert "6 sessions" in report


def log(host: NamespaceHost) -> str:
    """What its run wrote."""
    return "".join(each.read_text() for each in host.home.glob("host-runs/*/log"))
