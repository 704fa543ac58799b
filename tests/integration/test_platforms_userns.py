"""Containers with a user namespace and no_new_privs, as they really are: the same files, and no power over the host.

That they keep limits and leave nothing is what test_platforms_containers shows of them, as of every platform.
"""

import os
import secrets
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_guests import LabGuests, crossed
from support import needs_root

from vtax.guest.guest import Guest
from vtax.host.resources import Mount, Tree
from vtax.host.user_namespace import COUNT, unused_range
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources, RunningGuest

pytestmark = [needs_root]
PLAIN_OF = {
    "podman-userns": "podman",
    "lxc-unprivileged": "lxc",
    "nspawn-userns": "nspawn",
    "docker-userns": "docker",
}
NOBODY = 65534
CPU = max(os.sched_getaffinity(0))
FIRST = unused_range().first
# A newuidmap that allows root what /etc/subuid has for root, as that of the package uidmap does.
NEWUIDMAP = """#!/bin/sh
case $0 in *newuidmap) kind=uid;; *) kind=gid;; esac
grep -qx "root:$3:$4" /etc/sub$kind && echo "$2 $3 $4" >/proc/$1/${kind}_map
"""


@dataclass
class Started:
    """A running guest."""

    running: RunningGuest
    guest: Guest

    def says(self, script):
        """What a shell script prints; it must succeed."""
        result = self.guest.run(["sh", "-ec", script])
        assert result.status == 0, result.stderr
        return result.stdout

    def fails(self, *argv):
        return self.guest.run(argv).status != 0

    def on_host(self, path):
        """A file of the guest as the host sees it."""
        return Path(f"/proc/{self._any_pid()}/root{path}").stat()

    def _any_pid(self):
        inner = self.says("readlink /proc/self/ns/mnt").strip()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if str((entry / "ns/mnt").readlink()) == inner:
                    return entry.name
            except OSError:
                continue
        raise AssertionError("no process of the guest is seen")


def skip_unless_it_runs(platform):
    """Where its plain form runs, only what has a hint excuses it, such as an old kernel."""
    probe = registry.get(platform).probe(None)
    if not probe.available:
        assert probe.hint or not registry.get(PLAIN_OF[platform]).probe(None).available, (
            probe.reason
        )
        pytest.skip(f"{platform} does not run here: {probe.reason}")


def start(platform, home, journal, image):
    name = f"vtax-{secrets.token_hex(3)}"
    directory = home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    running = registry.get(platform).start(
        GuestSpec(name, image, Resources(1, 256 << 20, (CPU,)), directory, journal)
    )
    guest = Guest(running.channel)
    guest.hello(60.0)
    return Started(running, guest)


@pytest.fixture(scope="module")
def lab(module_home, module_journal):
    return module_home, module_journal


@pytest.fixture(scope="module", params=PLAIN_OF)
def platform(request):
    skip_unless_it_runs(request.param)
    return request.param


@pytest.fixture(scope="module")
def started(platform, lab, image):
    one = start(platform, *lab, image)
    yield one
    one.running.stop()


def test_its_root_is_an_unprivileged_user_of_the_host(started):
    assert started.says("id -u; id -g").split() == ["0", "0"]
    for name in ("uid_map", "gid_map"):
        assert started.says(f"cat /proc/self/{name}").split() == ["0", str(FIRST), str(COUNT)]
    started.says("echo 1 >/scratch/mine")
    seen = started.on_host("/scratch/mine")
    assert (seen.st_uid, seen.st_gid) == (FIRST, FIRST)


def test_no_program_gains_privileges(started):
    assert "NoNewPrivs:\t1\n" in started.says("cat /proc/self/status")
    started.says("cp /usr/bin/id /scratch/id; chmod 4755 /scratch/id")
    as_nobody = f"setpriv --reuid={NOBODY} --clear-groups"
    assert started.says(f"{as_nobody} /scratch/id -u") == f"{NOBODY}\n"
    leaked_resources = started.on_host("/scratch/id")
    assert leaked_resources.st_mode & stat.S_ISUID
    assert leaked_resources.st_uid == FIRST


def test_it_makes_no_device_and_changes_no_setting_of_the_host(started):
    assert started.fails("mknod", "/scratch/zero", "c", "1", "5")
    before = Path("/proc/sys/kernel/randomize_va_space").read_text()
    assert started.fails(
        "sh", "-c", "mount -o remount,rw /proc/sys; echo 0 >/proc/sys/kernel/randomize_va_space"
    )
    assert Path("/proc/sys/kernel/randomize_va_space").read_text() == before


def test_it_cannot_lift_its_own_limits(started):
    before = started.running.limits_in_force()
    assert before["limit.memory"] == 256 << 20
    lift = (
        "mount -o remount,rw /sys/fs/cgroup; mount -t cgroup -o memory none /mnt; mount -t cgroup2 none /mnt;"
        "for name in memory.limit_in_bytes memory.max memory.memsw.limit_in_bytes; do"
        "  for file in $(find /sys/fs/cgroup /mnt -name $name); do echo -1 >$file; echo max >$file; done;"
        "done"
    )
    aside = "apart=; unshare --mount true && apart='unshare --mount'"  # whoever may not do this mounts nothing either
    started.says(f"{aside}; $apart sh -c '{lift}' || true")
    assert started.running.limits_in_force() == before


def test_the_audit_tells_it(started):
    facts = started.guest.facts()
    assert facts["uid_map"] == f"0 {FIRST} {COUNT}"
    assert facts["no_new_privs"] == "1"


def test_the_files_are_the_same_with_the_same_owners(platform, started, lab, image):
    mounted = "".join(
        f" ! -path '{path}*'" for path in ("/scratch/", "/run", "/etc/", "/dev/", "/proc", "/sys")
    )
    listing = f"find / -xdev{mounted} -printf '%p %U %G %m\\n'"
    plain = start(PLAIN_OF[platform], *lab, image)
    stranger, ours = set(plain.says(listing).splitlines()), set(started.says(listing).splitlines())
    plain.running.stop()
    assert len(ours) > 5000
    assert ours == stranger
    assert "/usr/bin/su 0 0 4755" in ours
    assert "/scratch 0 0 1777" in ours


def test_users_of_the_guest_other_than_root_have_what_they_are_used_to(started):
    as_nobody = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    assert (
        started.says(f"{as_nobody} sh -c 'echo 1 >/scratch/theirs; ls /usr/bin | wc -l'")
        .strip()
        .isdigit()
    )
    assert started.on_host("/scratch/theirs").st_uid == FIRST + NOBODY
    assert started.fails(*as_nobody.split(), "touch", "/root/x")


def test_every_byte_crosses_its_own_link(platform, image, journal, private_home):
    with LabGuests("point-to-point", platform, image, journal, private_home) as at:
        at.links.verify()
        at.apply({"mtu": 9000})
        before = at.links.counters()
        outcome = at.measure("iperf3", duration_s=1)
        at.links.verify()
        assert (
            crossed(before, at.links.counters(), "peer.eth0")["rx_bytes"]
            > outcome.values["throughput"] * 1e5
        )


def test_each_option_has_its_effect_alone(lab, image):
    skip_unless_it_runs("podman-userns")
    for options, ids, flag in (
        ({"userns": True, "confinement": "none"}, FIRST, "0"),
        ({"no_new_privileges": True, "confinement": "none"}, 0, "1"),
        ({}, 0, "1"),
    ):
        mine = registry.make("mine", "podman", options)
        home, journal = lab
        name = f"vtax-{secrets.token_hex(3)}"
        journal.register(Tree(str(home.guests / name)))
        (home.guests / name).mkdir()
        spec = GuestSpec(name, image, Resources(1, 256 << 20, (CPU,)), home.guests / name, journal)
        running = mine.start(spec)
        guest = Guest(running.channel)
        guest.hello(60.0)
        facts = guest.facts()
        running.stop()
        assert (facts["uid_map"].split()[1], facts["no_new_privs"]) == (str(ids), flag)


def test_lxc_starts_where_newuidmap_asks_for_subordinate_ids_of_root(
    lab, image, tmp_path, monkeypatch
):
    skip_unless_it_runs("lxc-unprivileged")
    if not Path("/etc/subuid").exists():
        pytest.skip("this host has no /etc/subuid")
    for name in ("newuidmap", "newgidmap"):
        (tmp_path / name).write_text(NEWUIDMAP)
        (tmp_path / name).chmod(0o4755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    one = start("lxc-unprivileged", *lab, image)
    assert one.says("cat /proc/self/uid_map").split()[1] == str(FIRST)
    one.running.stop()


@pytest.mark.parametrize("platform_name", ["podman-userns", "lxc-unprivileged", "nspawn-userns"])
def test_an_image_on_a_file_system_that_maps_no_ids_is_the_reason(
    platform_name, journal, private_home, image, tmp_path
):
    """overlayfs is one; its lower directory is the image's."""
    skip_unless_it_runs(platform_name)
    journal.register(Mount(str(tmp_path / "there")))
    for name in ("there", "up", "work"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={image.directory},upperdir={tmp_path}/up,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", tmp_path / "there"], check=True)
    probe = registry.get(platform_name).probe(Image("there", tmp_path / "there"))
    assert not probe.available
    assert "mapping the ids" in probe.reason
    assert "Linux 5.19" in probe.hint
