"""Ends of topologies on other machines: here network namespaces, each with an sshd of its own and uplinks to us.

`host`, `other` and `third` are network namespaces that stand for machines. One veth pair of each is for ssh; uplinks
join `lab0` and `lan0` of the host to `lab1` and `lan1` of the other, `far0` to `far1` of the third. vtax runs in
`host`, so that what it finds there is all the host it has.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from ssh_server import serve
from support import needs_program, needs_root

from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.network import registry as topologies
from vtax.platforms import registry

pytestmark = [
    needs_root,
    needs_program("ip", "nsenter", "ethtool", "sshd", "ssh", "ssh-keygen", "unshare"),
    pytest.mark.root,
]

CLIENT = """
Host other
  IdentityFile {directory}/key
Host plain
  IdentityFile {directory}/plain
Host bare
  IdentityFile {directory}/bare
Host other plain bare
  HostName 198.19.255.2
  User root
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/known_hosts
Host third
  IdentityFile {directory}/third/key
  HostName 198.19.255.6
  User root
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/third/known_hosts
Host unreachable
  HostName 198.19.255.3
  UserKnownHostsFile /dev/null
"""
# What becomes of the command of those who log in with a key: no root, or no tools.
FORCED = {
    "key": "",
    "plain": 'command="exec setpriv --reuid=65534 --clear-groups sh -c \\"$SSH_ORIGINAL_COMMAND\\"" ',
    "bare": 'command="PATH=/nowhere exec /bin/sh -c \\"$SSH_ORIGINAL_COMMAND\\"" ',
}
UPLINKS = (("lab0", "other", "lab1"), ("lan0", "other", "lan1"), ("far0", "third", "far1"))
PEER = """
[[platform]]
name = "{name}"
driver = "ssh"
host = "{host}"
uplinks = "{uplinks}"
config = "{config}"
local_user = "root"
scratch = "{scratch}"
"""
STUDY = """
name = "two-machines"
platforms = [{platforms}]
[design]
blocks = 1
[[benchmark]]
name = "{tool}"
parameters = {{ duration_s = {duration_s} }}
{further}
"""
VIEWS = (("link",), ("address",), ("route", "show", "table", "all"), ("-6", "route", "show", "table", "all"))


def ip(namespace, *words):
    done = subprocess.run(["ip", "-n", namespace, *words], check=True, capture_output=True, text=True)
    return done.stdout


def network(namespace, *interfaces):
    """Links with their details, addresses, routes and offloads of a machine's network."""
    parts = [ip(namespace, *(["-d"] if view == ("link",) else []), *view) for view in VIEWS]
    for interface in interfaces:
        argv = ["nsenter", f"--net=/run/netns/{namespace}", "ethtool", "-k", interface]
        parts.append(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    return [line.strip() for part in parts for line in part.splitlines()]


def carried(namespace, interface):
    (found,) = json.loads(ip(namespace, "-j", "-s", "link", "show", "dev", interface))
    return found["stats64"]["rx"]["bytes"] + found["stats64"]["tx"]["bytes"]


def eventually(true, timeout_s=15):
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def assert_as_before(machines, before, timeout_s=15):
    """What a namespace held goes a moment after the namespace."""
    deadline = time.monotonic() + timeout_s
    while state(machines) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    for now, then in zip(state(machines), before, strict=True):
        assert [*set(now) - set(then)] == [*set(then) - set(now)]


@pytest.fixture
def machines(tmp_path):
    """Three machines: names of their namespaces, a directory of the others, and ssh's configuration."""
    token = secrets.token_hex(2)
    host, other, third = names = [f"vtax-{token}-{each}" for each in ("host", "other", "third")]
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    servers = []
    try:
        for number, far in enumerate((other, third)):
            ip(host, "link", "add", f"ssh{number}", "type", "veth", "peer", "ssh9", "netns", far)
            for name, interface, last in ((host, f"ssh{number}", 1), (far, "ssh9", 2)):
                ip(name, "address", "add", f"198.19.255.{4 * number + last}/30", "dev", interface)
                ip(name, "link", "set", interface, "up")
        for here, far, there in UPLINKS:
            ip(host, "link", "add", here, "type", "veth", "peer", there, "netns", f"vtax-{token}-{far}")
            ip(f"vtax-{token}-{far}", "link", "set", there, "up")
            ip(host, "link", "set", here, "up")
        ip(host, "link", "set", "lab0", "down")  # one interface is down before, but has been up, which it shows
        for name in names:
            ip(name, "link", "set", "lo", "up")
        eventually(lambda: not any("tentative" in ip(name, "address") for name in names))
        (tmp_path / "client").write_text(CLIENT.format(directory=tmp_path))
        (tmp_path / "third").mkdir()
        inside = ["nsenter", f"--net=/run/netns/{other}"]
        servers.append(serve(tmp_path, "198.19.255.2", 22, FORCED, inside=inside))
        inside = ["nsenter", f"--net=/run/netns/{third}"]
        servers.append(serve(tmp_path / "third", "198.19.255.6", 22, {"key": ""}, inside=inside))
        there = tmp_path / "there"
        there.mkdir()
        config = str(tmp_path / "client")
        yield SimpleNamespace(host=host, other=other, third=third, there=there, config=config, servers=servers)
    finally:
        for server in servers:
            server.terminate()
            server.wait(10)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=True)


def study(
    machines, tmp_path, *, host="other", platforms='"native"', tool="iperf3", duration_s=1, further="", **changed
):
    """A study whose platforms `other` and `third` are the machines; the peer is the other, unless `further` says."""
    peer = changed.pop("peer", "other")
    uplinks = changed.pop("uplinks", "lab0:lab1/lan0:lan1")
    places = {"config": machines.config, "scratch": machines.there}
    further = further or f'link = {{ peer = "{peer}" }}'
    tables = ""
    for name, there, joined in (("other", host, uplinks), ("third", "third", "far0:far1")):
        if f'"{name}"' in platforms + further:
            tables += PEER.format(name=name, host=there, uplinks=joined, **places)
    path = tmp_path / "study.toml"
    text = STUDY.format(platforms=platforms, tool=tool, duration_s=duration_s, further=further)
    path.write_text(text.replace("[[benchmark]]", tables + "[[benchmark]]"))
    return path


def command(machines, *arguments):
    return ["nsenter", f"--net=/run/netns/{machines.host}", sys.executable, "-m", "vtax", *map(str, arguments)]


def vtax(machines, *arguments):
    """A whole run, once nothing else measures on this host."""
    deadline = time.monotonic() + 300
    while True:
        argv = command(machines, *arguments)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != os.EX_TEMPFAIL or time.monotonic() > deadline:
            return done
        time.sleep(1)


def state(machines):
    return (
        network(machines.host, "lab0", "lan0", "far0"), network(machines.other, "lab1", "lan1"),
        network(machines.third, "far1"), list(machines.there.iterdir()),
    )  # fmt: skip


@pytest.mark.parametrize("platform", ["native", "docker", "lxc", "qemu-tcg", "gvisor-systrap"])
def test_every_byte_crosses_the_named_interfaces_and_both_machines_are_left_as_they_were(
    platform, machines, image, private_home, tmp_path
):
    probe = registry.get(platform).probe(image)
    if not probe.available:
        pytest.skip(f"{platform} does not run here: {probe.reason}")
    before = state(machines)
    crossed_before = [carried(machines.host, "lab0"), carried(machines.other, "lab1")]
    platforms = '"native"' if platform == "native" else f'"native", "{platform}"'
    path = study(machines, tmp_path, platforms=platforms)
    with path.open("a") as file:
        file.write("link_factors = { mtu = [600, 1500], offloads = [true, false] }\n")
    done = vtax(machines, "run", path, "--trust", "--strict", "--json")
    assert done.returncode == 0, done.stderr
    assert "the peer is other: lab0 of this host leads to its lab1" in done.stdout
    version = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    (used,) = {each["tool_version"] for each in json.loads(done.stdout)["results"]}
    assert (f"iperf3 is {version} on other, and {used} in the guests" in done.stdout) == (version != used)
    printed = trials(machines)
    assert len(printed) == (4 if platform == "native" else 8)
    moved = sum(trial["under_test.bytes"] for trial in printed)
    for namespace, interface, was in zip(
        (machines.host, machines.other), ("lab0", "lab1"), crossed_before, strict=True
    ):
        assert carried(namespace, interface) - was > 0.95 * moved
    for trial in printed:
        uplink = through(trial, "nic.lab0")
        assert uplink > 0.95 * trial["under_test.bytes"] > 1e5
    assert_as_before(machines, before)


def trials(machines):
    """The counters of the links in every trial of the last run."""
    from sqlalchemy import text

    from vtax.host.home import Home
    from vtax.store.store import Store

    with Store.open(Home.from_environment().store_url) as store, store.engine.connect() as connection:
        rows = connection.execute(text("select trial_id, name, value from counter where place = 'link'")).all()
    found: dict[int, dict[str, float]] = {}
    for trial, name, value in rows:
        found.setdefault(trial, {})[name] = value
    return list(found.values())


def through(trial, hop):
    return trial[f"{hop}.rx_bytes"] + trial[f"{hop}.tx_bytes"]


@pytest.mark.parametrize(
    ("further", "crossed"),
    [
        ('topology = "multi-nic"\nlink = { peer = "other", interfaces = 2 }', ["lab0", "lan0"]),
        ('topology = "router"\nlink = { generator = "other", receiver = "third" }', ["lab0", "far0"]),
        ('topology = "router"\nlink = { receiver = "third", offloads = false }', ["far0"]),
        ('topology = "router-openflow"\nlink = { generator = "third", receiver = "other" }', ["far0", "lab0"]),
        ('link = { peer = "third", attachment = "nat" }', ["far0"]),
    ],
)
def test_native_ends_of_every_topology_stand_on_other_machines(
    further, crossed, machines, image, shared_home, private_home, tmp_path
):
    needed = ["ovs-vswitchd"] * ("openflow" in further) + ["ping"] * (len(crossed) > 1)
    if missing := [name for name in needed if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    if "openflow" in further:
        images.ensure(shared_home, DEFAULT.with_packages(topologies.get("router-openflow").packages))
    before = state(machines)
    done = vtax(machines, "run", study(machines, tmp_path, further=further), "--trust", "--strict", "--json")
    assert done.returncode == 0, done.stderr
    (trial,) = trials(machines)
    carried_s = [through(trial, f"nic.{name}") for name in crossed]
    assert min(carried_s) > 1e6
    if "multi-nic" in further:
        assert sum(carried_s) > 0.95 * trial["under_test.bytes"]
    else:
        assert max(carried_s) < 1.2 * min(carried_s)
    assert_as_before(machines, before)


@pytest.mark.parametrize(
    "further",
    [
        "",
        'topology = "guest-to-host"',
        'topology = "multi-nic"',
        'topology = "router"',
    ],
)
def test_machines_are_under_test_behind_their_uplinks(further, machines, image, private_home, tmp_path):
    before = state(machines)
    platforms = '"other", "third"]\nbaseline = "other"\n#'
    path = study(machines, tmp_path, platforms=platforms, further=further or "link = { mtu = 1400 }")
    done = vtax(machines, "run", path, "--trust", "--strict", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "the guest is other: lab0 of this host leads to its lab1" in done.stdout
    if 'topology = "router"' in further:  # which the third has no second interface for
        assert "third has at most 1" in done.stdout
        return
    points = [point for each in found["results"] for point in each["points"]]
    assert {row["platform"] for point in points for row in point["rows"]} == {"other", "third"}
    used = [name for trial in trials(machines) for name in ("lab0", "far0") if f"nic.{name}.rx_bytes" in trial]
    assert sorted(used) == ["far0", "lab0"]
    for trial, name in zip(trials(machines), used, strict=True):
        assert through(trial, f"nic.{name}") > (1e3 if "openflow" in further else 1e6)
    assert_as_before(machines, before)


def test_a_peer_that_disappears_fails_its_trial_and_the_run_ends_with_both_machines_clean(
    machines, image, private_home, tmp_path
):
    before = state(machines)
    path = study(machines, tmp_path, duration_s=30)
    argv = command(machines, "run", path, "--trust")
    with (tmp_path / "printed").open("w") as printed:
        running = subprocess.Popen(argv, stdout=printed, stderr=printed)
    eventually(lambda: carried(machines.other, "lab1") > 10_000_000, 60)
    ended_at = time.monotonic()
    there = subprocess.run(["ip", "netns", "pids", machines.other], capture_output=True, text=True, check=True)
    for pid in {int(pid) for pid in there.stdout.split()} - {machines.servers[0].pid}:  # as if it lost its power
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    status = running.wait(60)
    assert time.monotonic() - ended_at < 60
    text = (tmp_path / "printed").read_text()
    assert status != 0, text
    assert "other" in text
    vtax(machines, "clean")
    assert_as_before(machines, before)


def test_a_killed_run_leaves_what_clean_removes_on_both_machines(machines, image, private_home, tmp_path):
    before = state(machines)
    path = study(machines, tmp_path, duration_s=120)
    running = subprocess.Popen(
        command(machines, "run", path, "--trust"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    eventually(lambda: carried(machines.other, "lab1") > 10_000_000, 60)
    assert state(machines) != before
    running.send_signal(signal.SIGKILL)
    running.wait()
    cleaned = vtax(machines, "clean")
    assert cleaned.returncode == 0, cleaned.stderr
    assert "state and MTU of lab0" in cleaned.stdout
    assert_as_before(machines, before)
    assert not list(private_home.journal.iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"host": "unreachable"}, "the machine unreachable cannot be reached"),
        ({"host": "plain"}, "on the machine plain one is user 65534, and only root makes network namespaces"),
        ({"host": "bare"}, "the machine bare lacks iperf3"),
        ({"peer": "native"}, "native is a platform of driver native, and no other machine"),
        ({"uplinks": ""}, "nothing says which network interfaces join other to this host"),
        ({"uplinks": "lab9:lab1"}, "this host has no network interface lab9"),
        ({"uplinks": "lab0:lab9"}, "the machine other has no network interface lab9"),
        ({"uplinks": "ssh0:lab1"}, "ssh0 of this host has the address 198.19.255.1, so it is in use"),
        ({"uplinks": "lab0:ssh9"}, "ssh9 of the machine other has the address 198.19.255.2, so it is in use"),
        ({"uplinks": "lo:lab1"}, "lo of this host is no Ethernet interface"),
    ],
)
def test_what_a_peer_lacks_is_said_before_the_run(changed, message, machines, image, private_home, tmp_path):
    before = state(machines)
    done = vtax(machines, "run", study(machines, tmp_path, **changed), "--trust")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "link" in done.stderr
    assert state(machines) == before
    assert not list(private_home.journal.iterdir())
