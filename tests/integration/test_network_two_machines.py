"""Native ends of topologies and what is under test on other machines (see `three_machines`)."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from support import thorough
from three_machines import (
    NEEDS,
    assert_as_before,
    carried,
    command,
    end_everything,
    eventually,
    shipped,
    state,
    study,
    through,
    trials,
    vtax,
)

from vtax.cli.needed_image import recipe_for
from vtax.image import build as images
from vtax.image.recipe import DEFAULT
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.study.load import Chosen, load

pytestmark = NEEDS
NICS = ("lab0", "lan0", "far0", "wan0")
"""Interfaces of the host that lead to the other machines."""


@pytest.mark.parametrize(
    "platform", ["native", "gvisor-systrap", *thorough("qemu-tcg", "docker", "lxc")]
)
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
    done = vtax(machines, "run", path, "--trust", "--json")
    assert done.returncode == 0, done.stderr
    assert "the peer is other: lab0 of this host leads to its lab1" in done.stdout
    version = subprocess.run(
        ["iperf3", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    (used,) = {each["tool_version"] for each in json.loads(done.stdout)["results"]}
    assert (f"iperf3 is {version} on other, and {used} in the guests" in done.stdout) == (
        version != used
    )
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


@pytest.mark.parametrize(
    ("further", "crossed"),
    [
        ('topology = "multi-nic"\nlink = { peer = "other", interfaces = 2 }', ["lab0", "lan0"]),
        (
            'topology = "router"\nlink = { generator = "other", receiver = "third" }',
            ["lab0", "far0"],
        ),
        ('topology = "router"\nlink = { receiver = "third", offloads = false }', ["far0"]),
        (
            'topology = "router-openflow"\nlink = { generator = "third", receiver = "other" }',
            ["far0", "lab0"],
        ),
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
        images.ensure(
            shared_home, DEFAULT.with_packages(topologies.get("router-openflow").packages)
        )
    before = state(machines)
    done = vtax(machines, "run", study(machines, tmp_path, further=further), "--trust", "--json")
    assert done.returncode == 0, done.stderr
    (trial,) = trials(machines)
    carried_s = [through(trial, f"nic.{name}") for name in crossed]
    assert min(carried_s) > 1e6
    if "multi-nic" in further:
        assert sum(carried_s) > 0.95 * trial["under_test.bytes"]
    else:
        assert max(carried_s) < 1.5 * min(
            carried_s
        )  # a busy router drops some, which are sent again
    assert_as_before(machines, before)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_the_three_servers_of_mauricio2013_are_named_by_options_alone(
    machines, shared_home, private_home, tmp_path
):
    """Every network benchmark of the study as shipped, at its smallest scale: native routes, two servers talk."""
    if missing := [name for name in ("ovs-vswitchd", "ping", "iperf") if not shutil.which(name)]:
        pytest.skip(f"needs {', '.join(missing)}")
    path = shipped(machines, tmp_path, "mauricio2013")
    images.ensure(shared_home, recipe_for(load(str(path), chosen=Chosen(scale="tiny"))))
    before = state(machines)
    ends = "peer=other,generator=other,receiver=third"
    argv = ["run", path, "--trust", "--scale", "tiny", "-p", "native", "--link", ends, "--json"]
    done = vtax(machines, *argv)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["failed"], found["not_tested"]) == (0, []), done.stderr
    crossed = []
    for trial in trials(machines):
        carried_s = {
            name: through(trial, f"nic.{name}") for name in NICS if f"nic.{name}.rx_bytes" in trial
        }
        if carried_s:
            assert min(carried_s.values()) > 1e5
            crossed.append((*carried_s,))
    one, two = ("lab0", "far0"), ("lab0", "lan0", "far0", "wan0")
    assert sorted(crossed) == sorted([("lab0",)] * 2 + [one] * 3 + [two] * 2)
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
def test_machines_are_under_test_behind_their_uplinks(
    further, machines, image, private_home, tmp_path
):
    before = state(machines)
    platforms = '"other", "third"]\nbaseline = "other"\n#'
    path = study(
        machines, tmp_path, platforms=platforms, further=further or "link = { mtu = 1400 }"
    )
    done = vtax(machines, "run", path, "--trust", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "the guest is other: lab0 of this host leads to its lab1" in done.stdout
    if 'topology = "router"' in further:  # which the third has no second interface for
        assert "third has at most 1" in done.stdout
        return
    points = [point for each in found["results"] for point in each["points"]]
    assert {row["platform"] for point in points for row in point["rows"]} == {"other", "third"}
    used = [
        name
        for trial in trials(machines)
        for name in ("lab0", "far0")
        if f"nic.{name}.rx_bytes" in trial
    ]
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
    end_everything(machines)
    status = running.wait(60)
    text = (tmp_path / "printed").read_text()
    assert status != 0, text
    assert "other" in text
    shown = json.loads(vtax(machines, "show", "--json").stdout)
    assert "lock-lost" in [warning["code"] for warning in shown["warnings"]]
    vtax(machines, "clean")
    assert_as_before(machines, before)


def test_a_killed_run_leaves_what_clean_removes_on_both_machines(
    machines, image, private_home, tmp_path
):
    before = state(machines)
    path = study(machines, tmp_path, duration_s=120)
    running = subprocess.Popen(
        command(machines, "run", path, "--trust"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
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


def test_a_machine_is_held_for_one_run_and_free_once_that_is_killed(
    machines, image, private_home, tmp_path
):
    path = study(machines, tmp_path, duration_s=60)
    with (tmp_path / "printed").open("w") as printed:
        running = subprocess.Popen(
            command(machines, "run", path, "--trust"), stdout=printed, stderr=printed
        )
    eventually(lambda: carried(machines.other, "lab1") > 10_000_000, 120)
    refused = subprocess.run(
        hold(machines), capture_output=True, text=True, timeout=60, check=False
    )
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert "two-machines of " in refused.stderr
    assert "has the machine other to itself" in refused.stderr
    with subprocess.Popen(
        hold(machines), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        argv = command(machines, "run", path, "--trust")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        holder.stdin.close()
    assert done.returncode == os.EX_TEMPFAIL, done.stderr
    assert "another-run of " in done.stderr
    vtax(machines, "clean")


def hold(machines):
    """The command that holds the lock of the other machine for another run until its stdin ends."""
    program = f"""import sys
from vtax.platforms.ssh.driver import Ssh
from vtax.platforms.ssh.driver import SshOptions
with Ssh().hold(SshOptions(host="other", config={machines.config!r}, local_user="root"), "another-run", print):
    print("held", flush=True)
    sys.stdin.read()"""
    return ["nsenter", f"--net=/run/netns/{machines.host}", sys.executable, "-c", program]


LACKS = (
    ({"host": "unreachable"}, "the machine unreachable cannot be reached"),
    (
        {"host": "plain"},
        "on the machine plain one is user 65534, and only root makes network namespaces",
    ),
    ({"host": "bare"}, "the machine bare lacks iperf3"),
    ({"peer": "native"}, "native is a platform of driver native, and no other machine"),
    ({"uplinks": ""}, "nothing says which network interfaces join other to this host"),
    ({"uplinks": "lab9:lab1"}, "this host has no network interface lab9"),
    ({"uplinks": "lab0:lab9"}, "the machine other has no network interface lab9"),
    ({"uplinks": "ssh0:lab1"}, "ssh0 of this host has the address 198.19.255.1, so it is in use"),
    (
        {"uplinks": "lab0:ssh9"},
        "ssh9 of the machine other has the address 198.19.255.2, so it is in use",
    ),
    ({"uplinks": "lo:lab1"}, "lo of this host is no Ethernet interface"),
)


@pytest.mark.timeout(1800)
def test_what_a_peer_lacks_is_said_before_the_run(machines, image, private_home, tmp_path):
    before = state(machines)
    for changed, message in LACKS:
        done = vtax(machines, "run", study(machines, tmp_path, **changed), "--trust")
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())
        assert "link" in done.stderr
        assert state(machines) == before
        assert not list(private_home.journal.iterdir())
