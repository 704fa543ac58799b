"""The same limits are written and read back on every layout of cgroups."""

from pathlib import Path

import pytest

from vtax.host.cgroup_mounts import Hierarchy, hierarchies
from vtax.host.cgroups import Cgroup, CpuTime, Limits, parse_cpu_list
from vtax.host.resources import ControlGroup
from vtax.messages import Note

FIXTURES = Path(__file__).parent / "fixtures" / "cgroups"
LIMITS = Limits((1, 3), 64 << 20)


def unified(directory, controllers="cpuset cpu memory"):
    (directory / "cgroup.controllers").write_text(controllers)
    return Cgroup(((Hierarchy(directory.parent, True), directory),))


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "vtax-1"
    path.mkdir()
    return path


def fill(directory, **files):
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)


def test_version_1_has_one_hierarchy_for_each_controller_and_the_named_one_has_none():
    found = {h.mount.name: h for h in hierarchies((FIXTURES / "mixed.mountinfo").read_text())}
    assert found["cpuset"].controllers == {"cpuset"}
    assert found["memory"].controllers == {"memory"}
    assert found["systemd"].controllers == frozenset()
    assert found["unified"].unified
    assert len(found) == 10


def test_controllers_that_share_a_hierarchy_are_all_found():
    line = "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    assert hierarchies(line)[0].controllers == {"cpu", "cpuacct"}


def test_version_2_is_one_hierarchy():
    line = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert hierarchies(line) == (Hierarchy(Path("/sys/fs/cgroup"), True),)


def test_limits_of_version_2_include_swap_and_are_read_back(directory):
    fill(
        directory,
        memory__max="max",
        memory__swap__max="max",
        cpuset__cpus="",
        cpuset__cpus__effective="0-3",
    )
    notes = unified(directory).limit(LIMITS)
    assert (directory / "memory.max").read_text() == str(64 << 20)
    assert (directory / "memory.swap.max").read_text() == "0"
    assert (directory / "cpuset.cpus").read_text() == "1,3"
    assert notes == [Note("other-cpus", found="0, 1, 2, 3", requested="1, 3")]


def test_limits_of_version_1_include_swap(tmp_path):
    groups = []
    for name in ("memory", "cpuset"):
        (tmp_path / name / "g").mkdir(parents=True)
        groups.append((Hierarchy(tmp_path / name, False, frozenset({name})), tmp_path / name / "g"))
    fill(tmp_path / "memory/g", memory__limit_in_bytes="0", memory__memsw__limit_in_bytes="0")
    fill(tmp_path / "cpuset/g", cpuset__cpus="")
    assert Cgroup(tuple(groups)).limit(LIMITS) == []
    assert (tmp_path / "memory/g/memory.memsw.limit_in_bytes").read_text() == str(64 << 20)


@pytest.mark.parametrize(
    ("stat", "found"),
    [
        ("anon 4096\npgfault 812\npgmajfault 3\n", 812),
        ("pgfault 5\nhierarchical_memory_limit 7\ntotal_pgfault 90\n", 90),
        ("anon 4096\n", None),
    ],
    ids=["version 2", "version 1", "not counted"],
)
def test_page_faults_are_those_of_the_group_and_its_descendants(directory, stat, found):
    fill(directory, memory__stat=stat)
    assert unified(directory).page_faults() == found
    assert unified(directory, controllers="cpu").page_faults() is None


def test_a_controller_the_host_lacks_is_a_note_and_not_an_error(directory):
    notes = unified(directory, controllers="cpu").limit(LIMITS)
    assert len(notes) == 2
    assert "cpuset" in notes[0]
    assert "memory" in notes[1]


def test_limits_of_another_hierarchy_are_not_taken_for_the_groups_own(tmp_path):
    named, unified_top = tmp_path / "systemd", tmp_path / "unified"
    for top in (named, unified_top):
        (top / "g").mkdir(parents=True)
    fill(named / "g", memory__limit_in_bytes=str(64 << 20), cpuset__cpus="1,3")
    group = Cgroup(
        ((Hierarchy(named, False), named / "g"), (Hierarchy(unified_top, True), unified_top / "g"))
    )
    assert group.in_force() == (None, None)


def test_a_limit_the_kernel_rounds_to_pages_counts_as_requested(directory):
    fill(directory, memory__max=str((64 << 20) + 100), cpuset__cpus__effective="1,3")
    assert unified(directory, "memory").check(LIMITS) == []
    fill(directory, memory__max=str(65 << 20))
    assert unified(directory, "memory").check(LIMITS) == [
        Note("other-memory-limit", memory=65 << 20, memory_bytes=64 << 20)
    ]


def test_no_limit_at_all_is_noted(directory):
    fill(directory, memory__max="max", cpuset__cpus__effective="1,3")
    assert unified(directory, "memory").check(LIMITS) == [
        Note("no-memory-limit", memory_bytes=64 << 20)
    ]


def test_a_limit_of_the_group_above_is_in_force_below(directory):
    fill(directory, memory__max=str(64 << 20))
    (directory / "payload").mkdir()
    payload = unified(directory / "payload", "memory")
    fill(directory, cpuset__cpus__effective="1,3")
    assert payload.check(LIMITS) == []


def test_cpu_seconds_of_version_2(directory):
    fill(directory, cpu__stat="usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n")
    assert unified(directory).cpu_s() == 2.5


def test_cpu_seconds_of_a_group_that_is_gone_are_unknown(tmp_path):
    assert Cgroup(((Hierarchy(tmp_path, True), tmp_path / "gone"),)).cpu_s() is None


def test_a_group_below_another_is_recognised(tmp_path):
    hierarchy = Hierarchy(tmp_path, True)
    outer = Cgroup(((hierarchy, tmp_path / "vtax-1"),))
    assert Cgroup(((hierarchy, tmp_path / "vtax-1/libpod-x"),)).is_below(outer)
    assert not Cgroup(((hierarchy, tmp_path / "vtax-12"),)).is_below(outer)


def test_a_group_in_one_of_two_hierarchies_is_below(tmp_path):
    memory, unified = (
        Hierarchy(tmp_path / "memory", False, frozenset({"memory"})),
        Hierarchy(tmp_path / "u", True),
    )
    outer = Cgroup(((memory, memory.mount / "vtax-1"), (unified, unified.mount / "vtax-1")))
    crun = Cgroup(((memory, memory.mount / "vtax-1/x"), (unified, unified.mount)))
    assert crun.is_below(outer)
    assert outer.runtime_path == "/vtax-1"


@pytest.mark.parametrize(("text", "cpus"), [("0-2,5\n", (0, 1, 2, 5)), ("3", (3,)), ("\n", ())])
def test_cpu_lists(text, cpus):
    assert parse_cpu_list(text) == cpus


def test_without_pinning_the_time_of_so_many_cpus_is_the_limit_on_both_versions(
    tmp_path, directory
):
    limits = Limits((0, 1, 2, 3), 64 << 20, CpuTime(2))
    fill(directory, cpu__max="max 100000", memory__max="max", memory__swap__max="max")
    fill(directory, cpuset__cpus="", cpuset__cpus__effective="0-3")
    assert unified(directory).limit(limits) == []
    assert (directory / "cpu.max").read_text() == "200000 100000"
    old = tmp_path / "cpu" / "vtax-1"
    old.mkdir(parents=True)
    fill(old, cpu__cfs_quota_us="-1", cpu__cfs_period_us="50000")
    group = Cgroup(((Hierarchy(old.parent, False, frozenset({"cpu"})), old),))
    assert not [note for note in group.limit(limits) if "CPU time" in note]
    assert (old / "cpu.cfs_quota_us").read_text() == "200000"
    assert group.time() == CpuTime(2)


def test_a_limit_of_cpu_time_that_is_not_in_force_is_noted(directory):
    fill(directory, cpu__max="max 100000")
    notes = unified(directory, controllers="cpu").check(Limits((0,), 64 << 20, CpuTime(1)))
    assert Note("cpu-time-limit", effective="no limit", cpu_count=1) in notes


def test_pinned_guests_get_no_limit_of_cpu_time(directory):
    fill(directory, cpu__max="max 100000")
    unified(directory, controllers="cpu").limit(LIMITS)
    assert (directory / "cpu.max").read_text() == "max 100000"


def test_a_member_outside_our_pid_namespace_does_not_have_us_killed(directory, monkeypatch):
    """cgroup v2 tells its PID as 0, which kill(2) takes for our own process group."""
    killed = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr("vtax.host.resources._GRACE_S", 0.05)
    fill(directory, cgroup__procs="0\n")
    with pytest.raises(OSError, match="not empty"):  # as the kernel refuses while it has members
        ControlGroup((str(directory),)).remove()
    assert killed == []


def version_1(tmp_path):
    old = tmp_path / "cpu" / "vtax-1"
    old.mkdir(parents=True)
    fill(
        old,
        cpu__cfs_quota_us="-1",
        cpu__cfs_period_us="100000",
        cpu__cfs_burst_us="0",
        cpu__shares="1024",
    )
    return old, Cgroup(((Hierarchy(old.parent, False, frozenset({"cpu"})), old),))


def test_period_burst_and_weight_are_written_and_read_back_on_both_versions(tmp_path, directory):
    fill(directory, cpu__max="max 100000", cpu__max__burst="0", cpu__weight="100")
    old, group = version_1(tmp_path)
    wanted = CpuTime(2, 10_000, 5_000, 2.0)
    for each in (unified(directory), group):
        assert each.time() == CpuTime()
        each.limit_time(wanted)
        assert each.time() == wanted
        assert each.check_time(wanted) == []
    assert [
        (directory / name).read_text() for name in ("cpu.max", "cpu.max.burst", "cpu.weight")
    ] == [
        "20000 10000",
        "5000",
        "200",
    ]
    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares")
    assert [(old / name).read_text() for name in files] == ["20000", "10000", "5000", "2048"]


def test_a_kernel_without_bursts_is_a_note(directory):
    fill(directory, cpu__max="max 100000", cpu__weight="100")
    group = unified(directory)
    group.limit_time(CpuTime(1, 10_000, 5_000))
    assert group.check_time(CpuTime(1, 10_000, 5_000)) == [
        Note("cpu-time-setting", name="burst_us", found=0, requested=5000)
    ]


def test_what_a_quota_stopped_is_read_on_both_versions(tmp_path, directory):
    old, group = version_1(tmp_path)
    assert group.throttling() is None
    fill(
        old,
        cpu__stat="nr_periods 50\nnr_throttled 31\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n",
    )
    fill(
        directory,
        cpu__stat="usage_usec 9\nnr_periods 50\nnr_throttled 31\nthrottled_usec 1500000\n",
    )
    assert group.throttling() == unified(directory, controllers="cpu").throttling() == (50, 31, 1.5)


def test_nothing_is_written_where_nothing_is_limited(directory):
    fill(directory, cpu__max="300 1000", cpu__weight="7")
    unified(directory).limit_time(CpuTime())
    assert (directory / "cpu.max").read_text() == "300 1000"
    assert unified(directory).time() == CpuTime(0.3, 1000, 0, 0.07)


def test_the_smallest_quota_on_the_way_is_in_force(directory):
    fill(directory, cpu__max="100000 100000", cpu__weight="300")
    (directory / "payload").mkdir()
    fill(directory / "payload", cpu__max="20000 10000", cpu__weight="100")
    hierarchy = Hierarchy(directory.parent, True)
    (directory / "payload/cgroup.controllers").write_text("cpu")
    assert Cgroup(((hierarchy, directory / "payload"),)).time() == CpuTime(1, 100_000, 0, 1.0)
