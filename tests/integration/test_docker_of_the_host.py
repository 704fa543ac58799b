"""Docker's daemon of the host: nothing of vtax stays in it but the image, and that stays.

The daemon is a private one of the tests, its layers in memory, that DOCKER_HOST names: what a user's would be.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
import time

import pytest
from support import needs_program, needs_root

from vtax.host.home import Home
from vtax.host.journal import Journal, clean
from vtax.image.image import Image
from vtax.platforms import probing, registry
from vtax.platforms.oci import docker_daemon

pytestmark = [needs_root, needs_program("dockerd", "docker")]
KILL_POINTS = 3
SEED = 20240229
# A run of vtax that starts one container of `cat` and says when its client was spawned.
START = """
import os, sys, time
from pathlib import Path
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry, stdio
from vtax.platforms.base import GuestSpec, Resources

name, image = sys.argv[1], Path(sys.argv[2])
spawn = stdio._spawn
def traced(*arguments):
    spawned = spawn(*arguments)
    print("spawned", flush=True)
    return spawned
stdio._spawn = traced
home = Home.from_environment()
journal = Journal(home.journal)
journal.register(Tree(str(home.guests / name)))
(home.guests / name).mkdir()
resources = Resources(1, 256 << 20, (min(os.sched_getaffinity(0)),))
platform = registry.get("docker")
platform.driver.launch(
    platform.options, GuestSpec(name, Image("cat", image), resources, home.guests / name, journal), ["/usr/bin/cat"]
)
time.sleep(600)
"""
# A client that asks for the container a moment after it was started and never starts it, and that is slow to remove.
SLOW_CLIENT = """#!{python}
import os, subprocess, sys, time
words = sys.argv[1:]
if "run" in words:
    time.sleep(0.5)
    subprocess.run(["{docker}", *("create" if word == "run" else word for word in words)], check=True)
    time.sleep(600)
done = subprocess.run(["{docker}", *words])
if "rm" in words:
    time.sleep(1.5)
sys.exit(done.returncode)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    before = os.environ.get("VTAX_HOME")
    os.environ["VTAX_HOME"] = str(tmp_path_factory.mktemp("daemons-home"))
    with Journal(Home.from_environment().ensure().journal) as journal:
        yield docker_daemon.private_daemon(journal, "overlay2", is_temporary=True)
    os.environ.pop("VTAX_HOME")
    if before is not None:
        os.environ["VTAX_HOME"] = before


@pytest.fixture
def host(daemon, private_home, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{daemon.socket}")
    found = docker_daemon.host_daemon()
    assert not found.private
    return found


@pytest.fixture(scope="module")
def cat(tmp_path_factory) -> Image:
    """An image of `cat`, of another name than that of probes."""
    return Image("cat", probing.host_image(tmp_path_factory.mktemp("cat")).directory)


def requested(daemon, *words):
    return subprocess.run(
        daemon.command(*words), capture_output=True, text=True, check=True
    ).stdout.split()


def kill_a_start(cat: Image, delay_s: float) -> None:
    argv = [sys.executable, "-c", START, f"vtax-{secrets.token_hex(3)}", str(cat.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "spawned\n"
        time.sleep(delay_s)
        process.kill()


def assert_nothing_stays(daemon, home):
    assert clean(home.journal).problems == ()
    time.sleep(0.5)
    assert requested(daemon, "ps", "--all", "--format={{.Names}}") == []
    assert list(home.journal.iterdir()) == list(home.guests.iterdir()) == []


def test_a_container_that_is_requested_for_while_its_client_is_ended_does_not_stay(
    host, private_home, cat, tmp_path, monkeypatch
):
    host.ensure_image(cat)
    client = tmp_path / "docker"
    client.write_text(SLOW_CLIENT.format(python=sys.executable, docker=shutil.which("docker")))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    kill_a_start(cat, 0.0)
    assert_nothing_stays(host, private_home)


def test_a_start_that_is_killed_at_any_moment_leaves_no_container(host, private_home, cat):
    host.ensure_image(cat)
    chosen = random.Random(SEED)
    for _ in range(KILL_POINTS):
        kill_a_start(cat, chosen.uniform(0, 1.0))
        assert_nothing_stays(host, private_home)


def test_a_probe_leaves_the_copy_of_the_image_and_takes_its_own_away(host, private_home, cat):
    name = host.ensure_image(cat)
    probe = registry.get("docker").probe(None)
    assert probe.available, probe.reason
    assert requested(
        host, "image", "ls", "--format={{.Repository}}:{{.Tag}}", docker_daemon.REPOSITORY
    ) == [name]
    assert requested(host, "ps", "--all", "--quiet") == []


def test_a_newer_image_takes_the_place_of_the_older_ones(host, private_home, cat):
    host.ensure_image(cat)
    newer = host.ensure_image(Image("newer", cat.directory))
    assert requested(
        host, "image", "ls", "--format={{.Repository}}:{{.Tag}}", docker_daemon.REPOSITORY
    ) == [newer]


def test_a_storage_that_the_hosts_daemon_has_not_is_the_reason(host, private_home):
    probe = registry.make("mine", "docker", {"daemon": "host", "storage": "vfs"}).probe(None)
    assert not probe.available
    assert "uses the storage driver overlay2, not vfs" in probe.reason
    assert "systemctl" not in probe.hint
