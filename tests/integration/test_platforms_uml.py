"""User Mode Linux guests: they boot the image's files, are pinned and limited, join the lab, and leave nothing."""

import os
import secrets
import signal
from pathlib import Path

import pytest
from host_network import host_network
from killed_start import kill_a_start, what_stays
from lab_guests import LabGuests
from support import allowed_cpus, clock_keeps_pace, needs_root

from vtax.errors import GuestError, PlatformError
from vtax.guest.guest import Guest
from vtax.host.journal import clean
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

pytestmark = [needs_root, pytest.mark.root]
PLATFORMS = ["uml", "uml-ptrace"]
CPUS = sorted(os.sched_getaffinity(0))
MEMORY = 256 << 20
READY_S = 60.0


@pytest.fixture(params=PLATFORMS)
def platform(request, image):
    return runs_here(request.param, image)


@pytest.fixture
def uml(image):
    return runs_here("uml", image)


def runs_here(name, image):
    platform = registry.get(name)
    probe = platform.probe(image)
    if not probe.available:
        pytest.skip(f"{name} does not run here: {probe.reason}; hint: {probe.hint}")
    return platform


def spec_of(image, home, journal, vcpus=1):
    name = f"vtax-{secrets.token_hex(3)}"
    journal.register(Tree(str(home.guests / name)))
    (home.guests / name).mkdir()
    return GuestSpec(name, image, Resources(vcpus, MEMORY, tuple(CPUS[-vcpus:])), home.guests / name, journal)


def ready(platform, spec):
    running = platform.start(spec)
    guest = Guest(running.channel)
    guest.hello(READY_S)
    return running, guest


def left_of(name):
    """Processes, cgroups and mounts of a guest."""
    found = [path for path, _, _ in os.walk("/sys/fs/cgroup") if Path(path).name == name]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            printed = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if name.encode() in printed or name in (entry / "mountinfo").read_text():
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_a_guest_runs_a_kernel_of_its_own_on_the_images_files_and_is_reported_its_size(
    platform, image, private_home, journal
):
    running, guest = ready(platform, spec_of(image, private_home, journal))
    assert running.notes == ()
    assert guest.run(["uname", "-r"]).stdout.strip() != os.uname().release
    assert guest.run(["findmnt", "-no", "FSTYPE", "/"]).stdout.strip() == "hostfs"
    assert guest.get("/usr/bin/env") == (image.tree / "usr/bin/env").read_bytes()
    total_kib = int(guest.run(["sed", "-n", "s/^MemTotal: *//p", "/proc/meminfo"]).stdout.split()[0])
    assert 0.75 * MEMORY < total_kib * 1024 <= MEMORY
    clock_keeps_pace(guest)
    running.stop()


def test_much_passes_both_ways_over_the_line_and_it_stays_open(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal))
    data = os.urandom(500_000)
    for _ in range(2):
        guest.put("/tmp/data", data)
        assert guest.get("/tmp/data") == data
    result = guest.run(["sh", "-c", "cat; head -c 3000000 /dev/zero"], stdin=b"\n" * 100_000)
    assert len(result.stdout) == 3_100_000
    running.stop()


def test_everything_of_a_guest_is_pinned_and_its_cpu_time_counted(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal))
    guest.start(["sleep", "60"])
    allowed = allowed_cpus(running.group.pids())
    assert len(allowed) > 1
    assert set(allowed.values()) == {frozenset([CPUS[-1]])}
    before = running.host_cpu_s()
    spin = guest.run(["python3", "-c", "import time\nwhile time.monotonic() < 1e9 and time.process_time() < 1: pass"])
    used = running.host_cpu_s() - before
    assert 0.3 < used < spin.outside_s * 1.1
    running.stop()
    assert running.host_cpu_s() >= before + used


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_a_second_virtual_cpu_is_not_to_be_had_which_is_noted(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal, vcpus=2))
    assert guest.run(["nproc"]).stdout.strip() == "1"
    assert any("one virtual CPU" in note for note in running.notes)
    running.stop()


def test_every_guest_starts_from_the_same_untouched_files(uml, image, private_home, journal):
    script = "cp /usr/bin/env /usr/bin/here && rm /usr/bin/cat && echo 1 >/scratch/f && ls /scratch"
    for _ in range(2):
        running, guest = ready(uml, spec_of(image, private_home, journal))
        result = guest.run(["sh", "-c", f"test ! -e /usr/bin/here && {script}"])
        assert (result.status, result.stdout) == (0, "f\n"), result.stderr
        running.stop()
    assert (image.tree / "usr/bin/cat").exists()
    assert not (image.tree / "usr/bin/here").exists()


def test_a_guests_root_sees_nothing_of_the_host_but_what_its_kernel_needs(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal))
    script = "mount -t hostfs none /mnt && ls /mnt && touch /mnt/usr/bin/here"
    result = guest.run(["sh", "-c", script])
    assert result.stderr == ""
    assert result.stdout.split() == ["dev", "guest", "lib", "lib64", "linux.uml", "proc", "usr"]
    assert result.status == 0
    assert not (image.tree / "usr/bin/here").exists()
    assert guest.run(["sh", "-c", "echo 1 >/mnt/proc/sys/kernel/printk"]).status != 0
    running.stop()


def test_every_interface_carries_traffic_in_the_lab_and_the_host_is_unchanged(platform, image, private_home, journal):
    before = host_network()
    with LabGuests("point-to-point", platform.name, image, journal, private_home) as at:
        at.links.verify()
        for direction in ("send", "receive"):
            assert at.measure("iperf3", duration_s=1, direction=direction).values["throughput"] > 1
        assert host_network() == before
    assert host_network() == before


@pytest.mark.parametrize("mtu", [500, 9000])
def test_a_link_has_the_mtu_of_its_guests_start(mtu, uml, image, private_home, journal):
    with LabGuests("point-to-point", "uml", image, journal, private_home, {"mtu": mtu}) as at:
        at.apply({"mtu": mtu})
        at.links.verify()
        assert at.measure("iperf3", duration_s=1).effective["mss"] == mtu - 52


def test_a_macvtap_is_refused_with_the_reason(uml, image, private_home, journal):
    lab = LabGuests("point-to-point", "uml", image, journal, private_home, {"attachment": "macvtap"})
    with pytest.raises(PlatformError, match="macvtap"), lab:
        pass


def test_a_stopped_guest_leaves_nothing(uml, image, private_home, journal):
    spec = spec_of(image, private_home, journal)
    running, guest = ready(uml, spec)
    guest.start(["sleep", "600"])
    running.stop()
    running.stop()
    assert left_of(spec.name) == []
    assert [str(registered) for registered in journal.registered] == [f"files {spec.directory}"]


def test_a_guest_that_dies_says_how(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal))
    os.kill(running.process.pid, signal.SIGKILL)
    with pytest.raises(GuestError) as caught:
        guest.run(["true"])
    assert "linux.uml ended with status -9" in caught.value.where
    running.stop()


def test_a_panic_is_an_error_with_the_kernels_last_words(uml, image, private_home, journal):
    running, guest = ready(uml, spec_of(image, private_home, journal))
    with pytest.raises(GuestError) as caught:
        guest.run(["sh", "-c", "echo c > /proc/sysrq-trigger"], timeout_s=60)
    assert "Kernel panic - not syncing: sysrq" in caught.value.where
    running.stop()


def test_a_start_that_fails_says_why_and_leaves_nothing(uml, image, private_home, journal, tmp_path):
    spec = spec_of(Image("none", tmp_path), private_home, journal)
    with pytest.raises(PlatformError, match="No such file"):
        uml.start(spec)
    assert left_of(spec.name) == []


def test_a_program_that_cannot_run_is_reported_with_its_hint(image, private_home, tmp_path):
    old = tmp_path / "old.uml"
    old.write_text("#!/bin/sh\necho 'ptrace set fp regs failed' >&2\nexit 1\n")
    old.chmod(0o755)
    for program in ("no-such-program", str(old)):
        probe = registry.make("mine", "uml", {"program": program}).probe(image)
        assert not probe.available
        assert program in probe.reason or "ended" in probe.reason or "failed" in probe.reason
        assert "vtax image uml" in probe.hint
    assert list(private_home.journal.iterdir()) == list(private_home.guests.iterdir()) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.1, 0.3, None])
def test_a_killed_process_leaves_nothing_after_clean(delay_s, uml, image, private_home):
    name = f"vtax-{secrets.token_hex(3)}"
    kill_a_start("uml", name, image, delay_s)
    assert clean(private_home.journal).problems == ()
    assert what_stays(lambda: left_of(name)) == []
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []
