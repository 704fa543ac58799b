"""Hosts whose cores are not alike, and directories whose files are in memory, are seen before a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtax.doctor import checks
from vtax.host.core_kinds import CoreKind, core_kinds, cpu_ranges, kinds_of
from vtax.host.file_systems import memory_below
from vtax.runner import plan

CPUS = {"proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu\n"}
HYBRID = {
    "sys/devices/cpu_core/cpus": "0-7\n",
    "sys/devices/cpu_atom/cpus": "8-15\n",
}
BIG_LITTLE = {
    f"sys/devices/system/cpu/cpu{n}/cpu_capacity": f"{446 if n < 4 else 1024}\n" for n in range(6)
}
THREE = {
    f"sys/devices/system/cpu/cpu{n}/cpu_capacity": f"{(250, 250, 800, 1024)[n]}\n" for n in range(4)
}
ALIKE = {f"sys/devices/system/cpu/cpu{n}/cpu_capacity": "1024\n" for n in range(4)}


def host(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        (HYBRID, [("performance", "0-7"), ("efficient", "8-15")]),
        (BIG_LITTLE, [("performance", "4-5"), ("efficient", "0-3")]),
        (THREE, [("of capacity 1024", "3"), ("of capacity 800", "2"), ("of capacity 250", "0-1")]),
        (ALIKE, []),
        ({"sys/devices/cpu_core/cpus": "0-7\n"}, []),
        ({"sys/devices/cpu_core/cpus": "0-7\n", "sys/devices/cpu_atom/cpus": "\n"}, []),
        ({}, []),
    ],
)
def test_kinds_of_cores_are_those_that_the_kernel_tells(tmp_path, files, kinds):
    found = core_kinds(host(tmp_path, files))
    assert [(kind.name, kind.cpu_ranges) for kind in found] == kinds


def test_cpus_are_listed_as_ranges():
    assert cpu_ranges((3, 0, 1, 8, 2)) == "0-3,8"
    performance = CoreKind("performance", (0, 1))
    assert kinds_of((1, 5), (performance, CoreKind("efficient", (2, 3)))) == (
        CoreKind("performance", (1,)),
    )


def test_the_doctor_warns_of_cores_that_are_not_alike_with_a_hint(tmp_path):
    (found,) = [
        f for f in checks.findings(host(tmp_path, {**CPUS, **HYBRID})) if f.name == "kinds of cores"
    ]
    assert found.severity == "warn"
    assert "taskset -c 0-7" in found.hint


def test_the_doctor_says_nothing_of_cores_that_are_alike(tmp_path):
    found = checks.findings(host(tmp_path, {**CPUS, **ALIKE}))
    assert {f.name: f.severity for f in found}["kinds of cores"] == "ok"


def test_the_doctor_warns_of_a_home_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", "/tmp/vtax")
    root = host(tmp_path, {**CPUS, "proc/self/mountinfo": MOUNTS})
    (found,) = [f for f in checks.findings(root) if f.name == "home of vtax"]
    assert (found.severity, "tmpfs" in found.observed) == ("warn", True)
    monkeypatch.setenv("VTAX_HOME", "/var/lib/vtax")
    (found,) = [f for f in checks.findings(root) if f.name == "home of vtax"]
    assert found.severity == "ok"


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        (range(16), ["efficient cores 14-15", "performance cores 0-7"]),
        (range(8), []),
        (range(6, 9), ["performance cores 7 and efficient cores 8", "performance cores 6"]),
    ],
)
def test_the_plan_tells_on_which_cores_guests_run(tmp_path, monkeypatch, allowed, says):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(allowed))
    lines = plan.core_lines(2, host(tmp_path, HYBRID))
    assert len(lines) == bool(says)
    for text in says:
        assert text in lines[0]


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /tmp rw - tmpfs tmpfs rw,size=100k
24 22 8:2 / /tmp/disk rw - xfs /dev/sdb1 rw
25 22 0:6 / /ram rw - ext4 /dev/ram0 rw
26 22 0:7 / /zram rw - ext4 /dev/zram1 rw
27 22 0:8 / /over rw - overlay overlay rw,lowerdir=/a,upperdir=/tmp/upper,workdir=/tmp/work
28 22 0:9 / /over-disk rw - overlay overlay rw,lowerdir=/tmp/a,upperdir=/disk/upper,workdir=/w
29 22 7:3 / /loop rw - ext4 /dev/loop3 rw
30 22 0:10 / /with\\040space rw - tmpfs tmpfs rw
31 22 0:11 / /hidden rw - tmpfs tmpfs rw
32 22 8:3 / /hidden rw - ext4 /dev/sdc1 rw
"""


@pytest.mark.parametrize(
    ("directory", "memory"),
    [
        ("/var/lib/vtax", ""),
        ("/tmp/vtax", "tmpfs"),
        ("/tmpfiles", ""),
        ("/tmp/disk/vtax", ""),
        ("/ram", "/dev/ram0"),
        ("/zram/vtax", "/dev/zram1"),
        ("/over/vtax", "tmpfs"),
        ("/over-disk/vtax", ""),
        ("/loop", "tmpfs"),
        ("/with space/vtax", "tmpfs"),
        ("/hidden/vtax", ""),
    ],
)
def test_a_directory_in_memory_is_seen_whatever_lies_between(tmp_path, directory, memory):
    root = host(
        tmp_path,
        {
            "proc/self/mountinfo": MOUNTS,
            "sys/block/loop3/loop/backing_file": "/tmp/image\n",
        },
    )
    assert memory_below(Path(directory), root) == memory


def test_what_cannot_be_seen_is_no_memory(tmp_path):
    assert memory_below(Path("/tmp"), tmp_path) == ""
