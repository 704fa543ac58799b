"""Tuning as a factor, on real platforms: pinned is pinned, default is not, and huge pages are in force."""

from __future__ import annotations

import json
import mmap
import os
import secrets
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import allowed_cpus, needs_program, needs_root, of_process, thorough

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.guest.guest import Guest
from vtax.host import huge_pages
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources
from vtax.runner.tuning import apply, apply_inside, resources_at
from vtax.store.query import load
from vtax.store.store import Store

pytestmark = [needs_root]
CPUS = tuple(sorted(os.sched_getaffinity(0)))
MEMORY = 384 << 20
PINNED = Resources(1, MEMORY, CPUS[-1:])
LEVELS = ("default", "pinned", "pinned+hugepages")
TOUCHED = 64 << 20
needs_huge_pages = pytest.mark.skipif(
    not huge_pages.available(), reason="this kernel has no transparent huge pages"
)
STUDY = """
name = "tuned"
platforms = {platforms}
tuning = {levels}
[guest]
memory = "384MiB"
[design]
blocks = 2
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
"""


def started(
    name: str, level: str, image: Image, home: Path, journal: Journal
) -> tuple[GuestSpec, Guest]:
    """A guest of a platform at a level, its agent answering; it goes when the journal is closed."""
    platform = registry.get(name)
    probe = platform.probe(image)
    if not probe.available:
        pytest.skip(f"{name} does not run here: {probe.reason}")
    spec_name = f"vtax-{secrets.token_hex(3)}"
    journal.register(Tree(str(home / spec_name)))
    (home / spec_name).mkdir()
    apply(level, journal)
    spec = GuestSpec(spec_name, image, resources_at(level, PINNED), home / spec_name, journal)
    guest = Guest(platform.start(spec).channel)
    guest.hello(timeout_s=120.0)
    apply_inside(level, guest)
    return spec, guest


def qemu_of(spec: GuestSpec) -> int:
    for entry in Path("/proc").glob("[0-9]*"):
        words = of_process(entry).split(b"\0")
        if (
            words[0:1] == [b"qemu-system-x86_64"]
            and f"{spec.name},debug-threads=on".encode() in words
        ):
            return int(entry.name)
    raise AssertionError(f"no QEMU runs {spec.name}")


def skip_without_free_huge_pages(kind: int) -> None:
    """Skip where a program of the host's own gets none either: what memory is free is in small pieces.

    kind: MAP_PRIVATE, or MAP_SHARED as gVisor's guests have it. Call this once a level with huge pages is in force.
    """
    before = huge_pages.bytes_of_process(os.getpid())
    with mmap.mmap(-1, TOUCHED, kind | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, TOUCHED, mmap.PAGESIZE):
            memory[at] = 1
        given = huge_pages.bytes_of_process(os.getpid()) - before
    if given < TOUCHED / 2:
        pytest.skip(
            f"this host has {given >> 20} MiB in huge pages to give where {TOUCHED >> 20} were touched"
        )


def virtual_cpus(pid: int) -> list[frozenset[int]]:
    """Where each virtual CPU of a QEMU process may run; `debug-threads=on` names their threads."""
    threads = [
        t for t in Path(f"/proc/{pid}/task").iterdir() if of_process(t, "comm").startswith(b"CPU ")
    ]
    return list(allowed_cpus(int(thread.name) for thread in threads).values())


@needs_program("qemu-system-x86_64", "qemu-img")
@pytest.mark.skipif(
    len(CPUS) < 2, reason="on one CPU there is nothing to tell pinned from default by"
)
@pytest.mark.parametrize(("level", "allowed"), [("default", set(CPUS)), ("pinned", set(CPUS[-1:]))])
def test_a_virtual_cpu_is_on_its_own_cpu_when_pinned_and_anywhere_by_default(
    level, allowed, image, private_home, journal
):
    spec, _ = started("qemu-tcg", level, image, private_home.guests, journal)
    assert virtual_cpus(qemu_of(spec)) == [allowed]


@needs_huge_pages
@needs_program("qemu-system-x86_64", "qemu-img")
def test_the_memory_of_a_virtual_machine_is_in_huge_pages_inside_and_out(
    image, private_home, journal
):
    spec, guest = started("qemu-tcg", "pinned+hugepages", image, private_home.guests, journal)
    if huge_pages.bytes_of_process(qemu_of(spec)) <= MEMORY / 4:
        skip_without_free_huge_pages(mmap.MAP_PRIVATE)
    assert huge_pages.bytes_of_process(qemu_of(spec)) > MEMORY / 4
    assert guest.facts()["transparent_huge_pages"] == "always"


@needs_huge_pages
@pytest.mark.parametrize("name", ["native", "podman", "lxc", *thorough("docker", "nspawn")])
def test_processes_that_ask_for_memory_get_huge_pages(name, image, private_home, journal):
    _, guest = started(name, "pinned+hugepages", image, private_home.guests, journal)
    program = (
        "import mmap\n"
        f"m=mmap.mmap(-1,{TOUCHED},mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS)\n"
        "for i in range(0,len(m),4096): m[i]=1\n"
        "print(sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith('AnonHugePages')))\n"
    )
    skip_without_free_huge_pages(mmap.MAP_PRIVATE)
    result = guest.run(["/usr/bin/python3", "-c", program], timeout_s=60.0)
    assert int(result.stdout) * 1024 > TOUCHED / 4, result.stderr


@needs_huge_pages
def test_gvisor_backs_its_guests_memory_with_huge_pages(image, private_home, journal):
    _, guest = started("gvisor-systrap", "pinned+hugepages", image, private_home.guests, journal)
    skip_without_free_huge_pages(mmap.MAP_SHARED)
    touch = f"b=bytearray({TOUCHED})\nfor i in range(0,len(b),4096): b[i]=1"
    program = f"{touch}\nimport time\ntime.sleep(4)"
    before = shared_huge_bytes()
    process = guest.start(["/usr/bin/python3", "-c", program])
    deadline = time.monotonic() + 20
    while shared_huge_bytes() - before <= TOUCHED / 4 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert shared_huge_bytes() - before > TOUCHED / 4
    assert process is not None


def shared_huge_bytes() -> int:
    words = {
        line.split(":")[0]: line.split()[1]
        for line in Path("/proc/meminfo").read_text().splitlines()
    }
    return int(words["ShmemHugePages"]) * 1024


def test_a_run_measures_every_platform_at_every_level_and_contrasts_levels(
    image, private_home, tmp_path
):
    names = [n for n in ("native", "docker") if registry.get(n).probe(image).available]
    before = [
        (huge_pages.POLICY / name).read_text() for name in ("enabled", "defrag", "shmem_enabled")
    ]
    study = tmp_path / "tuned.toml"
    study.write_text(STUDY.format(platforms=json.dumps(names), levels=json.dumps(LEVELS)))
    result = CliRunner().invoke(group, ["run", str(study)])
    assert result.exit_code == 0, result.output
    with Store.open(private_home.store_url) as store:
        data = load(store.engine, store.open_run("last"))
    assert not data.failures
    facts = {(guest.platform, guest.facts["tuning"]): guest.facts for guest in data.guests}
    assert set(facts) == {(name, level) for name in names for level in LEVELS}
    for name in {"native", "docker"} & set(names):
        assert facts[name, "default"]["cpus_allowed"] == list(CPUS)
        assert facts[name, "pinned"]["cpus_allowed"] == list(CPUS[-1:])
        assert facts[name, "pinned"]["cgroup.cpu_quota"] == "none"
        assert str(facts[name, "default"]["cgroup.cpu_quota"]).startswith("100000")
    for name in names:
        assert facts[name, "pinned+hugepages"]["transparent_huge_pages"] == "always"
    assert not [
        note
        for guest in data.guests
        for note in guest.notes
        if "CPU time" in note or "instead" in note
    ]
    contrast = CliRunner().invoke(
        group, ["compare", "native@tuning=pinned+hugepages", "native@tuning=default", "--json"]
    )
    assert contrast.exit_code == 0, contrast.output
    assert json.loads(contrast.stdout)
    assert [
        (huge_pages.POLICY / name).read_text() for name in ("enabled", "defrag", "shmem_enabled")
    ] == before
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []


def test_a_machine_of_the_users_own_is_not_tested_at_levels_it_cannot_have(
    image, private_home, tmp_path
):
    study = tmp_path / "tuned.toml"
    study.write_text(
        STUDY.format(platforms='["native", "ssh:nowhere.invalid"]', levels='["pinned"]')
    )
    result = CliRunner().invoke(
        group, ["run", str(study), "--dry-run", "--json"], standalone_mode=False
    )
    (remote,) = [
        each for each in json.loads(result.stdout)["platforms"] if each["name"] != "native"
    ]
    assert (remote["available"], remote["reason"]) == (
        False,
        "ssh:nowhere.invalid cannot be pinned, as tuning level 'pinned' asks",
    )
    named = CliRunner().invoke(
        group,
        ["run", str(study), "--dry-run", "-p", "native,ssh:nowhere.invalid"],
        standalone_mode=False,
    )
    assert isinstance(named.exception, BadInput)
    assert "ssh:nowhere.invalid cannot be pinned" in named.exception.what
