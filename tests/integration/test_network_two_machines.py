"""The peer on a second machine: here one of namespaces, with an sshd of its own and two veth pairs to this host.

`host` and `other` are network namespaces that stand for the two machines. One veth pair is for ssh; the other joins
`lab0` of the host to `lab1` of the other, and is what a study names. vtax runs in `host`, so that what it finds there
is all the host it has.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from ssh_server import serve
from support import needs_program, needs_root

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
PEER = """
[[platform]]
name = "other"
driver = "ssh"
host = "{host}"
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
link = {{ peer = "{peer}", nic = "{nic}", peer_nic = "{peer_nic}" }}
"""
VIEWS = (("link",), ("address",), ("route", "show", "table", "all"), ("-6", "route", "show", "table", "all"))


def ip(namespace, *words):
    done = subprocess.run(["ip", "-n", namespace, *words], check=True, capture_output=True, text=True)
    return done.stdout


def network(namespace):
    """Links with their details, addresses, routes and offloads of a machine's network."""
    parts = [ip(namespace, *(["-d"] if view == ("link",) else []), *view) for view in VIEWS]
    interface = "lab0" if namespace.endswith("host") else "lab1"
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
    """Two machines: names of their namespaces, the directory of the other one, and ssh's configuration."""
    token = secrets.token_hex(2)
    host, other = f"vtax-{token}-host", f"vtax-{token}-other"
    for name in (host, other):
        subprocess.run(["ip", "netns", "add", name], check=True)
    server = None
    try:
        for here, there, number in (("lab0", "lab1", 0), ("ssh0", "ssh1", 1)):
            ip(host, "link", "add", here, "type", "veth", "peer", there, "netns", other)
            for name, interface, last in ((host, here, 1), (other, there, 2)):
                if number:
                    ip(name, "address", "add", f"198.19.255.{last}/30", "dev", interface)
                    ip(name, "link", "set", interface, "up")
        ip(other, "link", "set", "lab1", "up")
        ip(host, "link", "set", "lab0", "up")
        ip(host, "link", "set", "lab0", "down")  # one interface is down before, but has been up, which it shows
        for name in (host, other):
            ip(name, "link", "set", "lo", "up")
        eventually(lambda: "tentative" not in ip(host, "address") + ip(other, "address"))
        (tmp_path / "client").write_text(CLIENT.format(directory=tmp_path))
        server = serve(tmp_path, "198.19.255.2", 22, FORCED, inside=["nsenter", f"--net=/run/netns/{other}"])
        there = tmp_path / "there"
        there.mkdir()
        yield SimpleNamespace(host=host, other=other, there=there, config=str(tmp_path / "client"))
    finally:
        if server is not None:
            server.terminate()
            server.wait(10)
        for name in (host, other):
            subprocess.run(["ip", "netns", "delete", name], check=True)


def study(machines, tmp_path, *, host="other", platforms='"native"', tool="iperf3", duration_s=1, **changed):
    names = {"peer": "other", "nic": "lab0", "peer_nic": "lab1", **changed}
    peer = PEER.format(host=host, config=machines.config, scratch=machines.there) if names["peer"] == "other" else ""
    path = tmp_path / "study.toml"
    text = STUDY.format(platforms=platforms, tool=tool, duration_s=duration_s, **names)
    path.write_text(text.replace("[[benchmark]]", peer + "[[benchmark]]"))
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
    return network(machines.host), network(machines.other), list(machines.there.iterdir())


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
        uplink = trial["nic.lab0.rx_bytes"] + trial["nic.lab0.tx_bytes"]
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
        ({"host": "unreachable"}, "the peer unreachable cannot be reached"),
        ({"host": "plain"}, "on the peer plain one is user 65534, and only root may make a network namespace"),
        ({"host": "bare"}, "the peer bare lacks iperf3"),
        ({"peer": "native"}, "native is a platform of driver native, and a peer is another machine"),
        ({"nic": "lab9"}, "this host has no network interface lab9"),
        ({"peer_nic": "lab9"}, "the peer other has no network interface lab9"),
        ({"nic": "ssh0"}, "ssh0 of this host has the address 198.19.255.1, so it is in use"),
        ({"peer_nic": "ssh1"}, "ssh1 of the peer other has the address 198.19.255.2, so it is in use"),
        ({"nic": "lo"}, "lo of this host is no Ethernet interface"),
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
