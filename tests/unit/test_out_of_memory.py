"""A lack of memory is named as the reason of a trial, from whatever still tells of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from vtax.host import cgroups, kernel_log
from vtax.host.cgroup_mounts import Hierarchy
from vtax.host.cgroups import Cgroup
from vtax.messages import Note
from vtax.platforms.stdio import StdioGuest
from vtax.runner import out_of_memory
from vtax.runner.counting import Endpoint
from vtax.runner.out_of_memory import MemoryWatch, host_kills

MIB = 1 << 20
KILL = (
    "4,5,6,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
    "oom_memcg=/vtax-1/ctr,task_memcg={group},task=python3,pid=4250,uid=0\n"
)


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A cgroup of v1 or v2, whose files a test writes; the kernel's log is empty."""
    monkeypatch.setattr(cgroups, "kills_below", lambda path: 0)
    directory = tmp_path / "vtax-1"
    directory.mkdir()

    def made(*, unified: bool) -> Cgroup:
        hierarchy = Hierarchy(tmp_path, unified, frozenset({"memory"}))
        if unified:
            (directory / "cgroup.controllers").write_text("memory")
        return Cgroup(((hierarchy, directory),))

    return made


def test_v2_counts_kills_of_the_group_with_its_descendants(group):
    made = group(unified=True)
    (_, directory) = made.directories[0]
    (directory / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n")
    assert made.oom_kills() == 3


def test_v1_counts_kills_of_each_descendant_by_itself(group):
    made = group(unified=False)
    (_, directory) = made.directories[0]
    (directory / "container").mkdir()
    text = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
    (directory / "memory.oom_control").write_text(text.format(1))
    (directory / "container" / "memory.oom_control").write_text(text.format(2))
    assert made.oom_kills() == 3


def test_what_is_not_counted_is_unknown(group):
    assert group(unified=True).oom_kills() is None
    assert group(unified=False).oom_kills() is None
    assert Cgroup(()).oom_kills() is None


def test_the_kernels_log_tells_of_a_container_that_is_gone(group, monkeypatch):
    made = group(unified=False)
    (_, directory) = made.directories[0]
    (directory / "memory.oom_control").write_text("oom_kill 0\n")
    monkeypatch.setattr(cgroups, "kills_below", {"/vtax-1": 1}.__getitem__)
    assert (made.oom_kills(), made.oom_kills(in_log=True)) == (0, 1)


@pytest.mark.parametrize(
    ("killed_in", "count"),
    [
        ("/vtax-1", 1),
        ("/vtax-1/libpod-3f", 1),
        ("/docker/outer/vtax-1/libpod-3f", 1),  # the host is a container itself
        ("/vtax-12/libpod-3f", 0),
        ("/user.slice", 0),
    ],
)
def test_the_log_counts_kills_in_a_group_and_below_it_alone(tmp_path, killed_in, count):
    log = tmp_path / "kmsg"
    log.write_text("4,5,6,-;something else\n" + KILL.format(group=killed_in))
    assert kernel_log.kills_below("/vtax-1", log) == count
    assert kernel_log.kills_below("/vtax-1", tmp_path / "none") == 0


def end(kills, *, is_machine=False, limit=256 * MIB):
    """An end of which so many kills were counted: first, and at the end of the trial."""
    counts = iter(kills)
    running = SimpleNamespace(
        oom_kills=lambda has_ended=False: next(counts),
        is_machine=is_machine,
        limits_in_force=lambda: {"limit.memory": limit},
    )
    return Endpoint(running, SimpleNamespace())


def killed(ends, counted=None, *, has_failed=True):
    kills = MemoryWatch(ends).look(has_failed=has_failed)
    found = kills.processes(counted or {}, 512 * MIB)
    return [(each.role, each.count, each.memory) for each in found]


def test_kills_since_the_start_of_the_trial_count_for_their_end():
    assert killed({"guest": end([1, 2]), "peer": end([0, 0])}) == [("guest", 1, "256 MiB")]
    assert killed({"guest": end([2, 2])}) == []
    assert killed({"guest": end([None, None])}) == []
    assert killed({"guest": end([0, 1], limit="none")}) == [("guest", 1, "512 MiB")]


def test_kills_are_looked_for_once_the_host_has_killed_something(monkeypatch):
    on_host = iter([7, 7, 8, 8, None])
    monkeypatch.setattr(out_of_memory, "host_kills", lambda: next(on_host))
    watch = MemoryWatch({"guest": end([0, 1, 3])})
    counts = [watch.look(has_failed=False).counts for _ in range(4)]
    assert counts == [{}, {"guest": 1}, {}, {"guest": 2}]


def test_the_kernel_of_this_host_counts_kills():
    lines = Path("/proc/vmstat").read_text().splitlines()
    told = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    assert host_kills() == (told[0] if told else None)


def test_kills_that_a_kernel_counts_are_of_the_guest_where_it_is_its_own():
    counted = {("guest", "out_of_memory_kills"): 2.0}
    assert killed({"guest": end([0, 0], is_machine=True)}, counted) == [("guest", 2, "256 MiB")]
    assert killed({"guest": end([0, 0])}, counted) == []  # of the whole host


def test_the_error_names_the_limit_before_what_failed():
    kills = MemoryWatch({"guest": end([0, 1])}).look(has_failed=True)
    (found,) = kills.processes({}, 0)
    note = found.explain("python3 failed with signal 9 (SIGKILL)")
    assert (note.code, note.data["memory"]) == ("out-of-memory", "256 MiB")
    assert note.startswith(
        Note("out-of-memory", role="guest", memory="256 MiB", what="python3 failed")
    )
    assert found.warning.code == "killed-in-trial"


def test_the_console_of_a_virtual_machine_tells_of_its_kills(tmp_path, group):
    console = tmp_path / "console.log"
    claim = SimpleNamespace(group=group(unified=True))
    guest = StdioGuest(None, None, claim, Path("/none"), console=console)
    assert guest.oom_kills() == 0
    console.write_bytes(b"\xff boot\n[ 5.2] Out of memory: Killed process 61 (stream) total-vm\n")
    assert guest.oom_kills() == 1
