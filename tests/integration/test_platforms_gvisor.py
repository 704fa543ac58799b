"""gVisor on this host, with the runsc on PATH: limits, its own network, and no leaked resources."""

import os
import secrets
from pathlib import Path

import pytest
from host_network import host_network
from killed_start import kill_a_start, what_stays
from lab_guests import LabGuests
from support import allowed_cpus, needs_program, needs_root, of_process

from vtax.errors import GuestError, PlatformError
from vtax.guest.guest import Guest
from vtax.host.cgroups import most_processes
from vtax.host.journal import clean
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.network.namespace import NAMES
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

pytestmark = [needs_root, needs_program("runsc")]
PLATFORMS = ["gvisor-systrap", "gvisor-ptrace"]
MEMORY = 256 << 20
LAST_CPU = max(os.sched_getaffinity(0))


@pytest.fixture(params=PLATFORMS)
def platform(request, private_home):
    probe = registry.get(request.param).probe(None)
    if not probe.available:
        pytest.skip(f"{request.param} does not run here: {probe.reason}")
    return registry.get(request.param)


def started(platform, image, journal, private_home):
    name = f"vtax-{secrets.token_hex(3)}"
    directory = private_home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    return platform.start(
        GuestSpec(name, image, Resources(1, MEMORY, (LAST_CPU,)), directory, journal)
    )


def leftovers(name):
    found = [str(NAMES / name)] if (NAMES / name).exists() else []
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{top}/{d}" for d in directories if d.startswith(name)]
    for entry in Path("/proc").glob("[0-9]*"):
        if name.encode() in of_process(entry) and entry.name != str(os.getpid()):
            found.append(str(entry))
    return found


def test_a_guest_runs_gvisors_kernel_under_the_limits_and_leaves_nothing(
    platform, image, journal, private_home
):
    network = host_network()
    before = journal.registered
    running = started(platform, image, journal, private_home)
    guest = Guest(running.channel)
    guest.hello(60)
    name = running.stderr.parent.name
    assert running.notes == ()
    assert guest.run(["uname", "-r"]).stdout != os.uname().release
    assert guest.run(["nproc"]).stdout == "1\n"
    in_force = {"limit.cpus": str(LAST_CPU), "limit.cpu_time": 1.0, "limit.memory": MEMORY}
    in_force["limit.tasks"] = most_processes()
    assert running.limits_in_force() == in_force
    assert set(allowed_cpus(running.group.pids()).values()) == {frozenset({LAST_CPU})}
    sandbox = {int(path.split("/")[2]) for path in leftovers(name) if path.startswith("/proc/")}
    assert sandbox
    assert sandbox <= set(running.group.pids())
    before_s = running.host_cpu_s()
    guest.run(["python3", "-c", "import time\nwhile time.process_time() < 1: pass"])
    assert (
        running.host_cpu_s() - before_s > 0.1
    )  # where others run too, the guest believes it used more than it did
    loopback = "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname())"
    assert guest.run(["python3", "-c", loopback]).status == 0
    assert (
        guest.run(["sh", "-c", "rm /usr/bin/cat && echo 1 >/scratch/file && ls /scratch"]).stdout
        == "file\n"
    )
    assert (image.tree / "usr/bin/cat").exists()
    running.stop()
    running.stop()
    assert [str(registered) for registered in journal.registered if registered not in before] == [
        f"files {running.stderr.parent}"
    ]
    assert leftovers(name) == []
    assert host_network() == network


def test_memory_beyond_the_limit_ends_the_guest(platform, image, journal, private_home):
    running = started(platform, image, journal, private_home)
    guest = Guest(running.channel)
    guest.hello(60)
    with pytest.raises(GuestError, match="closed its channel"):
        guest.run(
            ["python3", "-c", f"b = bytearray({MEMORY * 2}); b[::4096] = b'x' * len(b[::4096])"]
        )
    running.stop()


def test_a_tree_without_files_fails_with_what_runsc_said(platform, journal, private_home, tmp_path):
    (tmp_path / "tree").mkdir()
    running = started(platform, Image("empty", tmp_path), journal, private_home)
    with pytest.raises(GuestError) as caught:
        Guest(running.channel).hello(60)
    assert "python3" in caught.value.where
    running.stop()
    assert leftovers(running.stderr.parent.name) == []


def test_a_missing_tree_is_a_failed_start_that_leaves_nothing(
    platform, journal, private_home, tmp_path
):
    with pytest.raises(PlatformError, match="No such file"):
        started(platform, Image("none", tmp_path), journal, private_home)
    assert leftovers("vtax-" + next(private_home.guests.iterdir()).name.removeprefix("vtax-")) == []


def test_packets_cross_the_topology_with_the_mtu_of_the_start(
    platform, image, journal, private_home
):
    with LabGuests(
        "point-to-point", platform.name, image, journal, private_home, {"mtu": 9000}
    ) as at:
        at.apply({"mtu": 9000})
        assert "mtu 9000" in at.run("guest", "ip", "link", "show", "dev", "eth0")
        before = at.links.counters()
        outcome = at.measure("iperf3", duration_s=1, direction="send")
        carried = at.links.counters()["peer.eth0.rx_bytes"] - before["peer.eth0.rx_bytes"]
        assert carried > outcome.values["throughput"] * 1e6 / 8 * 0.9


@pytest.mark.parametrize(
    ("topology", "link"),
    [("point-to-point", {"attachment": "nat"}), ("guest-to-guest", {}), ("guest-to-host", {})],
)
def test_every_topology_but_a_router_carries_its_packets(
    topology, link, image, journal, private_home
):
    probe = registry.get("gvisor-systrap").probe(None)
    if not probe.available:
        pytest.skip(f"gvisor-systrap does not run here: {probe.reason}")
    with LabGuests(topology, "gvisor-systrap", image, journal, private_home, link) as at:
        at.apply(link)
        assert at.measure("iperf3", duration_s=1, direction="send").values["throughput"] > 1


@pytest.mark.parametrize("engine", ["podman", "containerd"])
def test_packets_reach_a_sandbox_that_an_engine_started(engine, image, journal, private_home):
    made = registry.make("mine", engine, {"runtime": "runsc"})
    with LabGuests("point-to-point", made, image, journal, private_home, {"mtu": 9000}) as at:
        at.apply({"mtu": 9000})
        assert "mtu 9000" in at.run("guest", "ip", "link", "show", "dev", "eth0")
        assert at.measure("iperf3", duration_s=1, direction="send").values["throughput"] > 1


def test_a_router_is_refused_with_the_reason(platform, image, journal, private_home):
    lab = LabGuests("router", platform.name, image, journal, private_home)
    with pytest.raises(PlatformError, match="router"), lab:
        pass


@pytest.mark.parametrize("delay_s", [0.05, 0.3, None])
def test_a_killed_process_leaves_nothing_after_clean(platform, delay_s, image, private_home):
    name = f"vtax-{secrets.token_hex(3)}"
    kill_a_start(platform.name, name, image, delay_s)
    assert clean(private_home.journal).problems == ()
    assert what_stays(lambda: leftovers(name)) == []
    assert list(private_home.guests.iterdir()) == []


def test_probing_the_kvm_platform_ends_in_time_with_a_reason_or_a_guest(private_home):
    probe = registry.get("gvisor-kvm").probe(None)
    assert probe.seconds < 60, probe  # a guest that never answers is waited for for 30 s
    assert probe.available or (probe.reason and probe.hint), probe
    assert clean(private_home.journal).problems == (), probe
    assert list(private_home.journal.iterdir()) == []
