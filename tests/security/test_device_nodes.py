"""A guest's root against the host's devices: it makes or finds device nodes, and another user of the host opens them.

A cgroup of devices binds the guest only. A user of the host with the user id of a process of the guest sees the
guest's files in `/proc/PID/root`, whatever directory of the host they are in.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from drivers import RUNTIMES
from support import needs_root, of_process

from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources
from vtax.platforms.stdio import StdioGuest

pytestmark = [needs_root]
DRIVERS = {*RUNTIMES, "sandbox", "gvisor"}  # native is the host's root, machines have own devices
PLATFORMS = [name for name in registry.names() if registry.get(name).driver.name in DRIVERS]
NOBODY = 65534
PLACES = ("/dev", "/dev/shm", "/", "/tmp", "/root", "/scratch", "/run", "/var/tmp", "/srv")
MADE = ("bx", "cx")
TERMINALS = range(136, 144)  # of the guest's own devpts
# Prints something only where the guest sees the devices of the host (gVisor mounts its own), and leaves those alone.
MAKE = """
for place in PLACES; do
  mknod $place/bx b 7 0; mknod $place/cx c 10 237
done
mount -o remount,dev /
mount -t tmpfs none /srv && mknod /srv/bx b 7 0
find / -path /proc -prune -o -path /sys -prune -o '(' -type b -o -type c ')' -exec chmod 666 '{}' ';'
for enter in '' 'unshare --mount' 'unshare --user --map-root-user --mount'; do
  $enter sh -c 'mount -t devtmpfs none /mnt && ls -d /mnt/loop* /mnt/tty[0-9]'
done
""".replace("PLACES", " ".join(PLACES))
# Opens every device node that it finds below the directories given, and prints the numbers of those it could open.
OPEN = """
import json, os, stat, sys
opened, found = set(), 0
for top in sys.argv[1:]:
    for directory, names, files in os.walk(top, onerror=None):
        names[:] = [name for name in names if os.path.join(directory, name) not in (top + "/proc", top + "/sys")]
        for name in files:
            path = os.path.join(directory, name)
            try:
                state = os.lstat(path)
                if not (stat.S_ISBLK(state.st_mode) or stat.S_ISCHR(state.st_mode)):
                    continue
                found += 1
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
            except OSError:
                continue
            opened.add((stat.S_IFMT(state.st_mode), os.major(state.st_rdev), os.minor(state.st_rdev)))
print(json.dumps([found, sorted(opened)]))
"""


class Device(NamedTuple):
    """kind: S_IFBLK or S_IFCHR."""

    kind: int
    major: int
    minor: int


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Journal]]:
    """A home and a journal of the module, so that private Docker daemons import the image once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_HOME", str(tmp_path_factory.mktemp("home")))
        home = Home.from_environment().ensure()
        journal = Journal(home.journal)
        yield home, journal
        assert not journal.close()


@pytest.fixture(params=PLATFORMS)
def started(
    request: pytest.FixtureRequest, lab: tuple[Home, Journal], image: Image
) -> Iterator[StdioGuest]:
    """A guest of every container platform that runs here, which answers."""
    platform = registry.get(request.param)
    probe = platform.probe(None)
    if not probe.available:
        pytest.skip(f"{request.param} does not run here: {probe.reason}")
    home, journal = lab
    name = f"vtax-{secrets.token_hex(3)}"
    directory = home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    resources = Resources(1, 256 << 20, (max(os.sched_getaffinity(0)),))
    running = platform.start(GuestSpec(name, image, resources, directory, journal))
    assert isinstance(running, StdioGuest)
    yield running
    running.stop()


def processes(running: StdioGuest) -> dict[int, tuple[int, int]]:
    """Every process of a guest on the host: its user and group."""
    found = {}
    for group in filter(None, (running.group, running.elsewhere)):
        for pid in group.pids("memory"):
            status = of_process(Path(f"/proc/{pid}"), "status").decode()
            if ids := re.findall(r"^[UG]id:\t(\d+)", status, re.MULTILINE):
                found[pid] = int(ids[0]), int(ids[1])
    return found


def can_make_nodes(pid: int) -> bool:
    """Whether a process may ever have CAP_MKNOD (27, linux/capability.h) in the host's user namespace.

    With no_new_privs none gains what its bounding set would allow (Linux, userspace-api/no_new_privs.rst).
    """
    status = of_process(Path(f"/proc/{pid}"), "status").decode()
    sets = "Prm" if re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE) else "Prm|Bnd"
    is_of_host = Path(f"/proc/{pid}/ns/user").readlink() == Path("/proc/self/ns/user").readlink()
    held = re.findall(rf"^Cap(?:{sets}):\t([0-9a-f]+)", status, re.MULTILINE)
    return is_of_host and any(int(each, 16) >> 27 & 1 for each in held)


def opened_by(user: tuple[int, int], tops: Iterable[str]) -> tuple[int, set[Device]]:
    """How many device nodes a user of the host finds below directories, and which devices that user can open."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", OPEN, *tops],
        user=user[0],
        group=user[1],
        extra_groups=[],
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    )
    found, devices = json.loads(done.stdout)
    return found, {Device(*device) for device in devices if device[1] not in TERMINALS}


def test_no_user_of_the_host_opens_through_a_guest_what_is_closed_on_the_host(started):
    guest = Guest(started.channel)
    guest.hello(60.0)
    seen = guest.run(["sh", "-c", MAKE], timeout_s=120).stdout
    guest.start(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sleep", "600"]
    )
    guest.run(["sleep", "0.5"])
    ids_of = processes(started)
    roots = [f"/proc/{pid}/root" for pid in ids_of]
    users = set(ids_of.values()) - {(0, 0)}
    shares_users = NOBODY in {
        user for user, _ in users
    }  # not in a user namespace, nor in a sandbox
    for user in users:
        found, opened = opened_by(user, roots)
        assert bool(found) is shares_users
        assert opened - opened_by(user, ["/dev"])[1] == set()
    for root, place, name in product(roots, PLACES, MADE):
        path = Path(f"{root}{place}/{name}")
        assert not (path.exists() and path.stat().st_rdev), (
            "a node of the host's device is in a place of a guest"
        )
    assert seen == "", "a guest mounts the devices of the host"
    inside = [
        pid
        for pid in ids_of
        if Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    ]
    assert inside
    assert can_make_nodes(os.getpid()), "the check sees it where it is"
    assert not [pid for pid in inside if can_make_nodes(pid)]
