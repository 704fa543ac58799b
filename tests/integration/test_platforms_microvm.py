"""MicroVMs where their programs are on PATH: as asked, in the lab, nothing left; and programs that start none."""

import os
import secrets

import pytest
from bare_guests import MEMORY, left_of, runs_here, spec_of
from host_network import host_network
from killed_start import kill_a_start, what_stays
from lab_guests import LabGuests
from support import allowed_cpus, needs_root

from vtax.errors import PlatformError
from vtax.guest.guest import Guest
from vtax.host.journal import clean
from vtax.platforms import registry
from vtax.platforms.microvm import machine as microvm

pytestmark = [needs_root]
NAMES = ["firecracker", "cloud-hypervisor"]
READY_S = 300.0
SENT = bytes(range(256)) * 64


def platform(name, image):
    return runs_here(registry.get(name), image)


@pytest.mark.parametrize("name", NAMES)
def test_a_guest_has_its_cpus_memory_and_disk_and_leaves_nothing(
    name, image, private_home, journal
):
    driver = platform(name, image)
    spec = spec_of(image, private_home, journal, vcpus=2)
    running = driver.start(spec)
    try:
        guest = Guest(running.channel)
        guest.hello(READY_S)
        assert guest.run(["nproc"]).stdout == "2\n"
        assert guest.run(["findmnt", "-no", "SOURCE,FSTYPE", "/"]).stdout.split() == [
            "/dev/vda",
            "ext4",
        ]
        total_kib = int(
            guest.run(["sed", "-n", "s/^MemTotal: *//p", "/proc/meminfo"]).stdout.split()[0]
        )
        assert 0.75 * MEMORY < total_kib * 1024 <= MEMORY
        threads = microvm.virtual_machine.vcpu_threads(running.process.pid, driver.driver.vcpu)
        assert [set(cpus) for cpus in allowed_cpus(threads).values()] == [
            {cpu} for cpu in spec.resources.cpus
        ]
        assert running.limits_in_force()["limit.memory"] == MEMORY
        guest.put("/scratch/sent", SENT)
        assert guest.get("/scratch/sent") == SENT
        written = "echo here >/written && sync && cat /written"
        assert guest.run(["sh", "-c", written]).stdout == "here\n"
        assert running.host_cpu_s() > 0
    finally:
        running.stop()
    assert left_of(spec.name) == []


@pytest.mark.parametrize("name", NAMES)
def test_restored_guests_continue_one_boot_on_disks_and_interfaces_of_their_own(
    name, image, private_home, journal
):
    """One boot: its messages have the same microseconds. The kernel makes its boot_id when it is first read."""
    platform(name, image)
    restored = registry.get(f"{name}-restore")
    boots, notes = [], []
    for _ in range(2):
        with LabGuests("point-to-point", restored, image, journal, private_home) as at:
            boots.append(at.run("guest", "sh", "-c", "dmesg | grep 'Run /init'"))
            notes.append([note.code for note in at.endpoints["guest"].running.notes])
            assert at.run(
                "guest",
                "sh",
                "-c",
                "test ! -e /written && echo here >/written && sync && cat /written",
            )
            assert at.measure("iperf3", duration_s=1).values["throughput"] > 0
    assert boots[0] == boots[1]
    assert "snapshot-made" in notes[0]
    assert "snapshot-made" not in notes[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_snapshot_is_an_error_and_leaves_nothing(name, image, private_home, journal):
    platform(name, image)
    restored = registry.get(f"{name}-restore")
    restored.start(spec_of(image, private_home, journal)).stop()
    (snapshot,) = [
        path for path in (private_home.root / "cache/snapshots").iterdir() if path.is_dir()
    ]
    for path in snapshot.iterdir():
        if not path.name.startswith("disk"):
            os.truncate(path, 100)
    spec = spec_of(image, private_home, journal)
    with pytest.raises(PlatformError):
        restored.start(spec)
    assert left_of(spec.name) == []


@pytest.mark.parametrize("name", NAMES)
def test_its_interface_carries_traffic_and_the_host_is_unchanged(
    name, image, private_home, journal
):
    driver = platform(name, image)
    before = host_network()
    with LabGuests("point-to-point", driver, image, journal, private_home) as at:
        at.links.verify()
        assert at.run("guest", "ethtool", "-i", "eth0").splitlines()[0] == "driver: virtio_net"
        for direction in ("send", "receive"):
            throughput = at.measure("iperf3", duration_s=1, direction=direction).values[
                "throughput"
            ]
            print(f"{name} {direction} {throughput:.0f} Mbit/s")
            assert (
                throughput > 0
            )  # an emulated host that others keep busy carries half a megabit a second
        print(f"{name} warnings: {at.links.warnings}")
        assert host_network() == before
    assert host_network() == before


@pytest.mark.parametrize(("start", "delay_s"), [("", 0.2), ("", None), ("-restore", 3.0)])
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_process_leaves_nothing_after_clean(name, start, delay_s, image, private_home):
    """As it spawns, ready, and while it makes a snapshot."""
    platform(name, image)
    guest = f"vtax-{secrets.token_hex(3)}"
    kill_a_start(f"{name}{start}", guest, image, delay_s)
    assert clean(private_home.journal).problems == ()
    assert what_stays(lambda: left_of(guest)) == []
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []
    assert list(private_home.root.glob("cache/snapshots/*.partial")) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no such kernel >&2; exit 4", "no such kernel; {product} ended with status 4"),
        ("sleep 60", "{product} did not start 1 virtual CPUs"),
    ],
    ids=["ends", "hangs"],
)
def test_a_program_that_starts_no_machine_is_an_error_and_leaves_nothing(
    name, script, said, image, private_home, journal, tmp_path, monkeypatch
):
    monkeypatch.setattr(microvm, "_START_S", 0.5)
    binary = tmp_path / "monitor"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    spec = spec_of(image, private_home, journal)
    mine = registry.make("mine", name, {"binary": str(binary)})
    with pytest.raises(PlatformError) as caught:
        mine.start(spec)
    given = f"{caught.value.what}; {caught.value.where}"
    assert said.format(product=mine.driver.product) in given
    assert left_of(spec.name) == []
