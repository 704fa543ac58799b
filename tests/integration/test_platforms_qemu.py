"""QEMU guests: every machine boots the image, is pinned and limited as asked, joins the lab, and leaves nothing."""

import hashlib
import secrets
from pathlib import Path

import pytest
from bare_guests import CPUS, MEMORY, left_of, runs_here, spec_of
from host_network import host_network
from killed_start import kill_a_start, what_stays
from lab_guests import LabGuests
from qemu_scripts import ABORTS, HANGS, RUNS_THE_TEST_PROGRAM, SEGFAULTS, put_in_qemus_place
from support import allowed_cpus, clock_keeps_pace, needs_program, needs_root, of_process, thorough

from vtax.errors import GuestError, PlatformError
from vtax.guest.guest import Guest
from vtax.host.cgroups import CpuTime
from vtax.host.journal import clean
from vtax.image import build as images
from vtax.image.image import Image, disk_usage_bytes
from vtax.image.recipe import DEFAULT
from vtax.platforms import registry
from vtax.platforms.qemu import driver as qemu

pytestmark = [needs_root, needs_program("qemu-system-x86_64", "qemu-img")]
READY_S = 120.0
MACHINES = {
    "qemu-tcg": {},
    "qemu-tcg-e1000": {"nic": "e1000", "disk": "ide"},
    "qemu-tcg-rtl8139": {"nic": "rtl8139", "disk": "ide"},
    "qemu-tcg-microvm": {"machine": "microvm"},
    "q35-sata": {"machine": "q35", "disk": "sata"},
    "no-cache": {"cache": "none", "aio": "native"},
    "io-uring": {"aio": "io_uring"},
    "kvm-virtio": {"accel": "kvm"},
    "kvm-emulated": {"accel": "kvm", "nic": "e1000", "disk": "ide"},
    "kvm-microvm": {"accel": "kvm", "machine": "microvm"},
}
SELDOM = ["qemu-tcg-e1000", "qemu-tcg-rtl8139"]  # they carry packets in test_network_mtu_limits
BOOTED = [name for name in MACHINES if name not in SELDOM]
INTERFACES = {  # those of other emulated machines: test_network_mtu_limits
    "qemu-tcg": "virtio_net",
    "kvm-virtio": "virtio_net",
    "kvm-virtio-vhost": "virtio_net",
    "kvm-virtio-user": "virtio_net",
    "kvm-emulated": "e1000",
    "kvm-e1000": "e1000",
    "kvm-rtl8139": "8139cp",
    "kvm-microvm": "virtio_net",
}
CARRIED_BY_THE_KERNEL = {"kvm-virtio-vhost": True, "kvm-virtio-user": False}


def machine(name, image):
    return runs_here(registry.make(name, "qemu", MACHINES[name]), image)


@pytest.mark.parametrize("name", [*BOOTED, *thorough(*SELDOM)])
@pytest.mark.push_with("qemu-tcg")
def test_every_machine_boots_the_image_from_its_disk_and_is_reported_its_size(
    name, image, private_home, journal
):
    platform = machine(name, image)
    running = platform.start(spec_of(image, private_home, journal))
    guest = Guest(running.channel)
    guest.hello(READY_S)
    assert guest.run(["sh", "-c", "echo $PPID"]).stdout == "1\n"
    root = guest.run(["findmnt", "-no", "SOURCE,FSTYPE", "/"]).stdout.split()
    assert root == ["/dev/vda" if platform.options.disk == "virtio-blk" else "/dev/sda", "ext4"]
    assert guest.run(["nproc"]).stdout.strip() == "1"
    total_kib = int(
        guest.run(["sed", "-n", "s/^MemTotal: *//p", "/proc/meminfo"]).stdout.split()[0]
    )
    assert 0.75 * MEMORY < total_kib * 1024 <= MEMORY
    clock_keeps_pace(guest)
    running.stop()


@pytest.mark.parametrize("name", ["qemu-tcg", *thorough("qemu-tcg-e1000")])
def test_a_guest_has_the_disk_that_a_study_asks_for(name, shared_home, private_home, journal):
    large = images.ensure(shared_home, DEFAULT.with_disk(6 << 30))
    spec = spec_of(large, private_home, journal)
    running = machine(name, large).start(spec)
    try:
        guest = Guest(running.channel)
        guest.hello(READY_S)
        size, free = map(
            int, guest.run(["df", "-B1", "--output=size,avail", "/"]).stdout.split()[-2:]
        )
        assert size > 5.7 * 2**30
        assert size > free > 5.4 * 2**30
        written = guest.run(
            ["dd", "if=/dev/zero", f"of={running.scratch}/far", "bs=1M", "count=1", "seek=4000"]
        )
        assert written.status == 0, written.stderr
    finally:
        running.stop()
    assert disk_usage_bytes(spec.directory) < 1 << 30
    assert disk_usage_bytes(large.disk) < 1 << 30


@pytest.mark.parametrize(
    ("root", "data"),
    [("9p", "root"), ("virtiofs", "root"), ("disk", "virtiofs"), ("virtiofs", "9p")],
)
def test_a_directory_of_the_host_keeps_what_the_guest_writes(
    root, data, image, private_home, journal
):
    platform = registry.make("mine", "qemu", {"root": root, "data": data})
    probe = platform.probe(image)
    if not probe.available:
        pytest.skip(f"{root}, {data} does not run here: {probe.reason}")
    spec = spec_of(image, private_home, journal)
    running = platform.start(spec)
    try:
        guest = Guest(running.channel)
        guest.hello(READY_S)
        mounted = {
            place: guest.run(["findmnt", "-no", "SOURCE,FSTYPE", "-T", place]).stdout.split()
            for place in ("/", "/scratch")
        }
        of_root = ["root", root] if root != "disk" else ["/dev/vda", "ext4"]
        assert mounted == {"/": of_root, "/scratch": of_root if data == "root" else ["data", data]}
        script = "cd /scratch; echo kept > file; chmod 4711 file; mkdir a; mv file a; ln -s a/file link; sync; cat link"
        wrote = guest.run(["sh", "-ec", script])
        assert (wrote.status, wrote.stdout) == (0, "kept\n"), wrote.stderr
        assert guest.run(["mknod", "/scratch/node", "c", "1", "3"]).status != 0
        built = guest.run(
            ["python3", "-c", "import json, ssl"], timeout_s=READY_S
        )  # maps libraries
        assert built.status == 0, built.stderr
        written = spec.directory / ("upper/scratch" if data == "root" else "data")
        assert (written / "a/file").read_text() == "kept\n"
        assert (written / "a/file").stat().st_mode & 0o7777 == 0o4711
        assert sorted(path.name for path in written.iterdir()) == ["a", "link"]
        assert not (image.tree / "scratch").is_dir() or not list((image.tree / "scratch").iterdir())
        parts = {part.name for part in running.parts}
        assert "virtiofsd" in parts  # where the layer's time is counted, whoever serves
    finally:
        running.stop()
    assert left_of(spec.name) == []
    assert [str(registered) for registered in journal.registered] == [f"files {spec.directory}"]


def test_a_guest_is_pinned_thread_by_thread_and_counts_its_cpu_time(image, private_home, journal):
    platform = machine("qemu-tcg", image)
    spec = spec_of(image, private_home, journal)
    running = platform.start(spec)
    guest = Guest(running.channel)
    guest.hello(READY_S)
    threads = {}
    for task in Path(f"/proc/{running.process.pid}/task").iterdir():
        for cpus in allowed_cpus([int(task.name)]).values():
            threads[of_process(task, "comm").decode().strip(), task.name] = cpus
    virtual = [cpus for (comm, _), cpus in threads.items() if comm.startswith("CPU ")]
    others = [cpus for (comm, _), cpus in threads.items() if not comm.startswith("CPU ")]
    assert virtual == [{CPUS[-1]}]
    in_force = {"limit.cpus": str(CPUS[-1]), "limit.cpu_time": 1.0, "limit.memory": MEMORY}
    assert running.limits_in_force() == in_force
    rest = set(CPUS[:-1]) or set(CPUS)
    assert all(cpus == rest for cpus in others)
    assert running.notes == (() if CPUS[:-1] else running.notes)
    before = running.host_cpu_s()
    spin = guest.run(["python3", "-c", "import time\nwhile time.process_time() < 1: pass"])
    used = running.host_cpu_s() - before
    assert (
        0.1 < used < spin.outside_s * 2
    )  # the guest counts a second that it was not given as well
    running.stop()
    running.stop()
    assert running.host_cpu_s() >= before + used
    assert left_of(spec.name) == []
    assert [str(registered) for registered in journal.registered] == [f"files {spec.directory}"]


def test_a_quota_of_cpu_time_holds_the_whole_process(image, private_home, journal):
    machine("qemu-tcg", image)
    options = {"cpu_limit": "quota", "cpu_period": "20ms", "cpu_burst": "5ms"}
    running = registry.make("mine", "qemu", options).start(spec_of(image, private_home, journal))
    assert running.group.time() == CpuTime(1, 20_000, 5_000)
    assert running.notes == ()
    limits = running.limits_in_force()
    assert (
        limits["limit.cpu_time"],
        limits["limit.cpu_period_us"],
        limits["limit.cpu_burst_us"],
    ) == (
        1,
        20_000,
        5_000,
    )
    assert limits["limit.cpus"] == ",".join(map(str, CPUS))
    running.stop()


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_two_virtual_cpus_on_two_cpus_leave_no_cpu_for_the_rest_which_is_noted(
    image, private_home, journal
):
    platform = machine("qemu-tcg", image)
    spec = spec_of(image, private_home, journal, vcpus=2)
    running = platform.start(spec)
    guest = Guest(running.channel)
    guest.hello(READY_S)
    assert guest.run(["nproc"]).stdout.strip() == "2"
    if len(CPUS) == 2:
        assert "share the virtual CPUs' host CPUs" in running.notes[0]
    running.stop()


def test_what_a_guest_writes_never_reaches_the_image(image, private_home, journal):
    platform = machine("qemu-tcg", image)
    before = image.disk.stat()
    start = hashlib.sha256(image.disk.open("rb").read(1 << 20)).digest()
    for _ in range(2):
        running = platform.start(spec_of(image, private_home, journal))
        guest = Guest(running.channel)
        guest.hello(READY_S)
        script = "test ! -e /written && echo here > /written && sync && cat /written"
        assert guest.run(["sh", "-c", script]).stdout == "here\n"
        guest.shutdown()
        running.stop()
    after = image.disk.stat()
    assert (after.st_mtime_ns, after.st_blocks) == (before.st_mtime_ns, before.st_blocks)
    assert hashlib.sha256(image.disk.open("rb").read(1 << 20)).digest() == start


@pytest.mark.parametrize("name", INTERFACES)
@pytest.mark.push_with("qemu-tcg")
def test_every_interface_carries_traffic_in_the_lab_and_the_host_is_unchanged(
    name, image, private_home, journal
):
    probe = registry.get(name).probe(image)
    if not probe.available:
        pytest.skip(f"{name} does not run here: {probe.reason}")
    before = host_network()
    with LabGuests("point-to-point", name, image, journal, private_home) as at:
        at.links.verify()
        driver = at.run("guest", "ethtool", "-i", "eth0").splitlines()[0]
        assert driver == f"driver: {INTERFACES[name]}"
        for direction in ("send", "receive"):
            throughput = at.measure("iperf3", duration_s=1, direction=direction).values[
                "throughput"
            ]
            print(f"{name} {direction} {throughput:.0f} Mbit/s")
            assert throughput > 0.05  # KVM under emulation carries 0.6 over an RTL8139
        if name in CARRIED_BY_THE_KERNEL:
            assert vhost_threads() == CARRIED_BY_THE_KERNEL[name]
        assert host_network() == before
    assert host_network() == before


def vhost_threads():
    """Whether the host's kernel carries a guest's packets, by its threads (linux/drivers/vhost)."""
    return any(
        of_process(entry, "comm").startswith(b"vhost-") for entry in Path("/proc").glob("[0-9]*")
    )


@pytest.mark.parametrize(
    "link",
    [{"queues": 2}, {"attachment": "macvtap", "queues": 2}, *thorough({"attachment": "macvtap"})],
)
def test_a_interface_has_the_queues_and_the_attachment_its_link_asks_for(
    link, image, private_home, journal
):
    machine("qemu-tcg", image)
    with LabGuests("point-to-point", "qemu-tcg", image, journal, private_home, link) as at:
        at.links.verify()
        offered = at.run("guest", "ethtool", "-l", "eth0").partition("Combined:")[2].split()[0]
        assert int(offered) == link.get("queues", 1)
        assert at.measure("iperf3", duration_s=1).values["throughput"] > 1


def test_the_stderr_of_qemu_is_the_error_of_a_start_that_fails(image, private_home, journal):
    machine("qemu-tcg", image)
    spec = spec_of(image, private_home, journal)
    with pytest.raises(PlatformError) as caught:
        registry.make("mine", "qemu", {"cpu": "no-such-cpu"}).start(spec)
    assert "unable to find CPU model 'no-such-cpu'" in str(caught.value)
    assert left_of(spec.name) == []
    gone = spec_of(Image("none", private_home.root), private_home, journal)
    with pytest.raises(PlatformError, match=r"disk\.raw"):
        registry.get("qemu-tcg").start(gone)
    assert left_of(gone.name) == []


def test_a_panic_is_an_error_with_the_consoles_last_words(image, private_home, journal):
    platform = machine("qemu-tcg", image)
    running = platform.start(spec_of(image, private_home, journal))
    guest = Guest(running.channel)
    guest.hello(READY_S)
    with pytest.raises(GuestError) as caught:
        guest.run(["sh", "-c", "echo c > /proc/sysrq-trigger"], timeout_s=60)
    assert "Kernel panic - not syncing: sysrq" in caught.value.where
    assert "QEMU ended with status 0" in caught.value.where
    running.stop()


@pytest.fixture
def no_guest_starts(monkeypatch):
    """From its call on, a probe that starts a guest fails the test."""

    def refuse(*given):
        pytest.fail("the probe started a guest")

    return lambda: monkeypatch.setattr("vtax.platforms.qemu.probe._guest_started", refuse)


def test_kvm_is_probed_by_a_start_once(image, private_home, no_guest_starts):
    probe = registry.get("kvm-virtio").probe(image)
    assert probe.seconds < 20
    if not probe.available:
        assert probe.reason
        assert "Assertion" not in probe.reason
        assert probe.hint
    no_guest_starts()
    again = registry.get("kvm-virtio").probe(image)
    assert (again.available, again.reason) == (probe.available, probe.reason)
    assert list(private_home.journal.iterdir()) == list(private_home.guests.iterdir()) == []


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (
            ABORTS,
            "this host's {kvm} cannot run ordinary kernels (QEMU aborted in kvm_buf_set_msrs)",
        ),
        (SEGFAULTS, "this host's {kvm} cannot run ordinary kernels (QEMU was ended by SIGSEGV)"),
        (HANGS, "the image's kernel did not boot: QEMU's monitor did not answer"),
    ],
    ids=["aborts", "segfaults", "hangs"],
)
def test_a_kvm_that_runs_a_test_program_and_no_kernel_is_reported_in_words(
    then, reason, image, private_home, on_path, devices, monkeypatch
):
    put_in_qemus_place(f"{RUNS_THE_TEST_PROGRAM}\n{then}", on_path, devices)
    monkeypatch.setattr(qemu, "_MONITOR_TIMEOUT_S", 2.0)
    probe = registry.get("kvm-virtio").probe(image)
    assert not probe.available
    assert probe.reason.startswith(reason.format(kvm=devices / "kvm"))
    assert "no hardware behind it" in probe.hint
    assert list(private_home.journal.iterdir()) == list(private_home.guests.iterdir()) == []


def test_emulation_is_judged_without_a_guest(image, private_home, no_guest_starts):
    no_guest_starts()
    for name in ("qemu-tcg", "qemu-tcg-microvm"):
        machine(name, image)
        assert registry.get(name).probe(image).available


@pytest.mark.parametrize("delay_s", [0.0, 0.2, None, *thorough(0.05, 1.0)])
@pytest.mark.push_with("None")  # when it is ready
def test_a_killed_process_leaves_nothing_after_clean(delay_s, image, private_home):
    machine("qemu-tcg", image)
    name = f"vtax-{secrets.token_hex(3)}"
    kill_a_start("qemu-tcg", name, image, delay_s)
    assert clean(private_home.journal).problems == ()
    assert what_stays(lambda: left_of(name)) == []
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []
