"""Three machines for tests of networks between them: here network namespaces, each with an sshd of its own.

`host`, `other` and `third` are network namespaces that stand for machines. One veth pair of each is for ssh; uplinks
join `lab0` and `lan0` of the host to `lab1` and `lan1` of the other, `far0` and `wan0` to `far1` and `wan1` of the
third. vtax runs in `host`, so that what it finds there is all the host it has.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

from ssh_server import serve
from support import needs_program, needs_root

NEEDS = [
    needs_root,
    needs_program("ip", "nsenter", "ethtool", "sshd", "ssh", "ssh-keygen", "unshare"),
]
"""Marks of a module whose tests use three machines."""

CLIENT = """
Host other
  IdentityFile {directory}/key
Host guests
  IdentityFile {directory}/guests
Host plain
  IdentityFile {directory}/plain
Host bare
  IdentityFile {directory}/bare
Host other guests plain bare
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
# What becomes of the command of those who log in with a key: a home of vtax there, no root, or no tools.
FORCED = {
    "key": "",
    "guests": 'command="VTAX_HOME={directory}/home-there exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"" ',
    "plain": 'command="exec setpriv --reuid=65534 --clear-groups sh -c \\"$SSH_ORIGINAL_COMMAND\\"" ',
    "bare": 'command="PATH=/nowhere exec /bin/sh -c \\"$SSH_ORIGINAL_COMMAND\\"" ',
}
UPLINKS = (
    ("lab0", "other", "lab1"),
    ("lan0", "other", "lan1"),
    ("far0", "third", "far1"),
    ("wan0", "third", "wan1"),
)
PEER = """
[[platform]]
name = "{name}"
driver = "ssh"
host = "{host}"
uplinks = "{uplinks}"
config = "{config}"
local_user = "root"
scratch = "{scratch}"
python = "{python}"
"""
STUDY = """
name = "two-machines"
platforms = [{platforms}]
[design]
blocks = {blocks}
[[benchmark]]
name = "{tool}"
parameters = {{ duration_s = {duration_s} }}
{further}
"""
VIEWS = (
    ("link",),
    ("address",),
    ("route", "show", "table", "all"),
    ("-6", "route", "show", "table", "all"),
)


def ip(namespace, *words):
    done = subprocess.run(
        ["ip", "-n", namespace, *words], check=True, capture_output=True, text=True
    )
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


@contextmanager
def three_machines(tmp_path):
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
            ip(
                host,
                "link",
                "add",
                here,
                "type",
                "veth",
                "peer",
                there,
                "netns",
                f"vtax-{token}-{far}",
            )
            ip(f"vtax-{token}-{far}", "link", "set", there, "up")
            ip(host, "link", "set", here, "up")
        ip(
            host, "link", "set", "lab0", "down"
        )  # one interface is down before, but has been up, which it shows
        for name in names:
            ip(name, "link", "set", "lo", "up")
        eventually(lambda: not any("tentative" in ip(name, "address") for name in names))
        (tmp_path / "client").write_text(CLIENT.format(directory=tmp_path))
        (tmp_path / "third").mkdir()
        inside = ["nsenter", f"--net=/run/netns/{other}"]
        keys = {
            name: forced.replace("{directory}", str(tmp_path)) for name, forced in FORCED.items()
        }
        servers.append(serve(tmp_path, "198.19.255.2", 22, keys, inside=inside))
        inside = ["nsenter", f"--net=/run/netns/{third}"]
        servers.append(serve(tmp_path / "third", "198.19.255.6", 22, {"key": ""}, inside=inside))
        there = tmp_path / "there"
        there.mkdir()
        config = str(tmp_path / "client")
        yield SimpleNamespace(
            host=host, other=other, third=third, there=there, config=config, servers=servers
        )
    finally:
        for server in servers:
            server.terminate()
            server.wait(10)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=True)


def study(
    machines,
    tmp_path,
    *,
    host="other",
    platforms='"native"',
    tool="iperf3",
    duration_s=1,
    further="",
    **changed,
):
    """A study whose platforms `other` and `third` are the machines; the peer is the other, unless `further` says."""
    peer = changed.pop("peer", "other")
    uplinks = changed.pop("uplinks", "lab0:lab1/lan0:lan1")
    places = {"config": machines.config, "scratch": machines.there}
    places["python"] = changed.pop("python", "/usr/bin/python3")
    blocks = changed.pop("blocks", 1)
    further = further or f'link = {{ peer = "{peer}" }}'
    tables = ""
    for name, there, joined in (("other", host, uplinks), ("third", "third", "far0:far1")):
        if f'"{name}"' in platforms + further:
            tables += PEER.format(name=name, host=there, uplinks=joined, **places)
    path = tmp_path / "study.toml"
    text = STUDY.format(
        platforms=platforms, blocks=blocks, tool=tool, duration_s=duration_s, further=further
    )
    path.write_text(text.replace("[[benchmark]]", tables + "[[benchmark]]"))
    return path


def shipped(machines, tmp_path, name):
    """A shipped study that knows the machines `other` and `third`, each with its two uplinks, and nothing else."""
    from vtax.study.load import find

    places = {"config": machines.config, "scratch": machines.there, "python": "/usr/bin/python3"}
    tables = ""
    for machine, uplinks in (("other", "lab0:lab1/lan0:lan1"), ("third", "far0:far1/wan0:wan1")):
        tables += PEER.format(name=machine, host=machine, uplinks=uplinks, **places)
    path = tmp_path / f"{name}.toml"
    path.write_text(find(name).read_text() + tables)
    return path


def command(machines, *arguments):
    return [
        "nsenter",
        f"--net=/run/netns/{machines.host}",
        sys.executable,
        "-m",
        "vtax",
        *map(str, arguments),
    ]


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
        network(machines.host, "lab0", "lan0", "far0", "wan0"),
        network(machines.other, "lab1", "lan1"),
        network(machines.third, "far1", "wan1"),
        list(machines.there.iterdir()),
    )


def trials(machines):
    """The counters of the links in every trial of the last run."""
    from sqlalchemy import text

    from vtax.host.home import Home
    from vtax.store.store import Store

    with (
        Store.open(Home.from_environment().store_url) as store,
        store.engine.connect() as connection,
    ):
        rows = connection.execute(
            text("select trial_id, name, value from counter where place = 'link'")
        ).all()
    found: dict[int, dict[str, float]] = {}
    for trial, name, value in rows:
        found.setdefault(trial, {})[name] = value
    return list(found.values())


def through(trial, hop):
    return trial[f"{hop}.rx_bytes"] + trial[f"{hop}.tx_bytes"]


def end_everything(machines):
    """End all processes of the other machine but its sshd, as if it lost its power, and had it again."""
    there = subprocess.run(
        ["ip", "netns", "pids", machines.other], capture_output=True, text=True, check=True
    )
    for pid in {int(pid) for pid in there.stdout.split()} - {machines.servers[0].pid}:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
