"""README's commands, typed by a user on a new machine with systemd and cgroup v2: a minimal Debian 12, and 13.

The machine has no network. Its apt and pip are configured to read a second disk, which has what they would fetch.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested import disks, mirror
from nested.machines import MACHINES
from nested.report import keep
from nested.running import BootedMachine, started
from nested.tested import CHECKOUT

from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT

pytestmark = pytest.mark.timeout(4 * 3600)
PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
PREPARE = """set -e
useradd --create-home --shell /bin/bash ana
echo 'ana ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ana
mkdir /srv/cache && mount -o ro /dev/vdb /srv/cache
rm -f /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/99mmdebstrap
echo "deb file:/srv/cache/debian $1 main" >/etc/apt/sources.list
echo 'Acquire::Languages "none";' >/etc/apt/apt.conf.d/languages
printf '[global]\\nno-index = true\\nfind-links = /srv/cache/wheels\\n' >/etc/pip.conf
tar --extract --file=/root/repository.tar --directory=/home/ana
chown -R ana: /home/ana/repository
"""
STATE = """
systemctl list-unit-files --type=service,socket,timer --state=enabled --no-legend --no-pager | awk '{print $1}'
systemctl list-units --type=service,socket --state=running --no-legend --no-pager | awk '{print $1}' | grep -v vtax
ls /sys/class/net; cat /proc/sys/net/ipv4/ip_forward
"""
PLATFORMS = ("native", "podman", "docker", "lxc", "nspawn", "kvm-virtio")
TOUR = f"sudo vtax run tour --blocks 1 -p {','.join(PLATFORMS)}"
"""README's own tour has five blocks, and qemu-tcg, whose guests do not start in time on an emulated CPU."""


def cache(home: Home, suite: str, status: Path, journal: Journal) -> Path:
    """The second disk of a machine of that suite. status: dpkg's, of that machine."""
    quickstart, lock = CHECKOUT / "quickstart", CHECKOUT / "requirements.lock"
    inputs = (status.read_bytes(), quickstart.read_bytes(), lock.read_bytes(), DEFAULT.key.encode())
    key = hashlib.sha256(b"\0".join((*inputs, Path(mirror.__file__).read_bytes()))).hexdigest()[:12]

    def fill(tree: Path) -> None:
        scratch = tree.parent / "scratch"
        for directory in (tree / "debian", tree / "wheels", scratch):
            directory.mkdir()
        mirror.add_what_vtax_needs(
            mirror.Archive(tree / "debian", scratch), suite, status, quickstart
        )
        mirror.add_wheels(tree / "wheels", lock, PYTHON[suite])

    return disks.ensure_data_disk(home, f"cache-{suite}", key, fill, journal)


@pytest.fixture(scope="module", params=["fresh-12", "fresh-13"])
def fresh(
    request: pytest.FixtureRequest, shared_home: Home, tmp_path_factory
) -> Iterator[BootedMachine]:
    """A new machine with a user who may use sudo, and the repository to clone."""
    if not os.environ.get("VTAX_NESTED"):
        pytest.skip(
            "emulating a whole machine takes long: ask for it with tests/run --nested, or VTAX_NESTED=1"
        )
    if os.geteuid() != 0:
        pytest.skip("needs root")
    image: Image = request.getfixturevalue("image")
    machine, scratch = MACHINES[request.param], tmp_path_factory.mktemp("fresh")
    with Journal(shared_home.journal) as journal:
        made = disks.ensure(shared_home, machine, image, journal)
        status = scratch / "status"
        subprocess.run(
            ["debugfs", "-R", f"dump /var/lib/dpkg/status {status}", made.root], check=True
        )
        second = cache(shared_home, machine.suite, status, journal)
    repository = scratch / "repository"
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", "--depth=1", f"file://{CHECKOUT}", repository],
        check=True,
    )
    packed = subprocess.run(
        ["tar", "--create", "--directory", scratch, "repository"], check=True, capture_output=True
    )
    with started(machine, shared_home, made, second) as nested:
        print(f"\n{machine.name} is up after {nested.boot_s:.0f} s")
        nested.guest.put("/root/repository.tar", packed.stdout)
        nested.run("sh", "-c", PREPARE, "sh", machine.suite)
        yield nested


def test_readmes_commands_install_measure_and_report(fresh):
    def typed(command: str, timeout_s: float = 600.0, directory: str = "vtax") -> str:
        """Run a line as the user, in the checkout; what it prints."""
        began = time.monotonic()
        line = f"{{ cd {directory} && {command}; }} 2>&1"
        ended = fresh.run("runuser", "-l", "ana", "-c", line, timeout_s=timeout_s, status=None)
        keep(
            f"{fresh.machine.name}.txt",
            f"$ {command}\n{ended.stdout}(status {ended.status}, "
            f"{time.monotonic() - began:.0f} s)\n",
            append=True,
        )
        assert ended.status == 0
        return ended.stdout

    assert fresh.run("cat", "/proc/1/comm").stdout == "systemd\n"
    assert fresh.run("stat", "-fc", "%T", "/sys/fs/cgroup").stdout == "cgroup2fs\n"
    before = fresh.run("sh", "-c", STATE).stdout
    typed("git clone ~/repository vtax", directory=".")
    assert "Installed." in typed("sudo ./quickstart --install-only --link --yes", 7200)
    assert fresh.run("sh", "-c", STATE).stdout == before
    assert "Installed." in typed("sudo ./quickstart --install-only --link")
    typed("vtax --version")
    typed("sudo vtax image build", 7200)
    typed("sudo vtax doctor", 1800)
    table = typed(TOUR, 7200)
    assert "was not tested" not in table
    assert all(name in table for name in PLATFORMS)
    assert "the CPU of this host is emulated" in table
    assert typed("vtax report").strip().endswith(".html")
    assert "no leaked resources" in typed("sudo vtax clean")
    assert fresh.run("sh", "-c", STATE).stdout == before
