"""Guests of a platform without a run around them: what to start, and what is left of one."""

import os
import secrets
from pathlib import Path

import pytest

from vtax.host.resources import Tree
from vtax.platforms.base import GuestSpec, Resources

CPUS = sorted(os.sched_getaffinity(0))
MEMORY = 256 << 20


def runs_here(platform, image):
    """Return a platform; skip the test where it does not run."""
    probe = platform.probe(image)
    if not probe.available:
        pytest.skip(f"{platform.name} does not run here: {probe.reason}")
    return platform


def spec_of(image, home, journal, vcpus=1):
    name = f"vtax-{secrets.token_hex(3)}"
    journal.register(Tree(str(home.guests / name)))
    (home.guests / name).mkdir()
    return GuestSpec(
        name, image, Resources(vcpus, MEMORY, tuple(CPUS[-vcpus:])), home.guests / name, journal
    )


def left_of(name):
    """Processes and cgroups of a guest."""
    found = [path for path, _, _ in os.walk("/sys/fs/cgroup") if Path(path).name == name]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found
