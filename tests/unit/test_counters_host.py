"""Counters of a whole host and of the parts of a layer, from directories with the files of other hosts."""

import os
from pathlib import Path

import pytest

from vtax.counters import hardware, host, table
from vtax.counters.energy import Energy, reason_unavailable
from vtax.counters.layer import LayerParts, Part
from vtax.counters.whole_host import HostCounters, not_counted


def test_hardware_is_a_hash_of_what_its_firmware_says_and_nothing_of_what_makers_leave_there():
    uuid, serial = "4c4c4544-0042-3510-8052-b4c04f4d3732\n", "/B5RM72/CNWS20019R00FF/\n"
    found = host.hardware_id(uuid, serial)
    assert len(found) == 12
    assert found == host.hardware_id(uuid.upper().strip(), serial)
    others = [
        host.hardware_id(uuid, ""),
        host.hardware_id("", serial),
        host.hardware_id(uuid, serial + "1"),
    ]
    assert len({found, *others}) == 4
    for nothing in (
        "",
        "Not Specified",
        "To Be Filled By O.E.M.",
        "00000000-0000-0000-0000-000000000000",
        "FFFF",
    ):
        assert host.hardware_id(nothing, "None") == ""


def zone(root, number, name, uj, largest=262143328850):
    directory = root / "sys/class/powercap" / number
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "name").write_text(f"{name}\n")
    (directory / "energy_uj").write_text(f"{uj}\n")
    (directory / "max_energy_range_uj").write_text(f"{largest}\n")


def joules(energy):
    return energy.counted({path: path.read_bytes() for path in energy.paths})


def test_energy_is_added_over_sockets_and_goes_on_over_the_end_of_its_range(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 262143000000)
    zone(tmp_path, "intel-rapl:1", "package-1", 5000000)
    zone(tmp_path, "intel-rapl:0:0", "core", 1000000)
    zone(tmp_path, "intel-rapl:0:1", "dram", 2000000)
    zone(tmp_path, "intel-rapl:0:2", "psys", 9)
    energy = Energy(tmp_path)
    first = joules(energy)
    assert first == {"energy_package_j": 262148.0, "energy_core_j": 1.0, "energy_dram_j": 2.0}
    zone(tmp_path, "intel-rapl:0", "package-0", 671150)
    second = joules(energy)
    assert second["energy_package_j"] - first["energy_package_j"] == pytest.approx(1.0)
    assert reason_unavailable(tmp_path) == ""


def test_a_host_without_rapl_says_why(tmp_path):
    assert "no powercap" in reason_unavailable(tmp_path)
    (tmp_path / "sys/class/powercap").mkdir(parents=True)
    assert "no zone" in reason_unavailable(tmp_path)
    assert joules(Energy(tmp_path)) == {}


def test_exits_of_kvm_are_read_by_reason(tmp_path):
    directory = tmp_path / "sys/kernel/debug/kvm"
    directory.mkdir(parents=True)
    for name, value in (
        ("exits", "1200\n"),
        ("halt_exits", "300\n"),
        ("io_exits", "-1\n"),
        ("other", "7\n"),
    ):
        (directory / name).write_text(value)
    counters = HostCounters(tmp_path)
    found = counters.counted(counters.read())
    assert {name: value for name, value in found.items() if name.startswith("vm_")} == {
        "vm_exits": 1200.0,
        "vm_exits_halt": 300.0,
    }
    assert "VM exits" not in not_counted(tmp_path)
    (directory / "exits").write_text("")  # a file that cannot be read as a number
    assert "VM exits" in not_counted(tmp_path)


def test_what_a_host_does_not_count_has_a_reason(tmp_path):
    found = not_counted(tmp_path)
    assert {"energy", "VM exits", "run-queue wait of all tasks", "pressure"} <= set(found)
    assert all(found.values())
    (tmp_path / "sys/module/kvm").mkdir(parents=True)
    assert "debugfs" in not_counted(tmp_path)["VM exits"]


def test_this_host_counts_only_what_the_table_lists():
    counters = HostCounters()
    first, second = (counters.counted(reading) for reading in [counters.read(), counters.read()])
    assert second["context_switches"] >= first["context_switches"] > 0
    assert second["timer_interrupts"] >= first["timer_interrupts"] > 0
    assert all(table.find(name) is not None for name in second)
    assert all(
        second[name] >= value for name, value in first.items() if not name.startswith("cpu_i")
    )


def test_a_software_event_counts_and_an_impossible_one_says_why():
    found = hardware.events()
    if "cpu-migrations" in found.unavailable:
        pytest.skip(found.unavailable["cpu-migrations"])
    before = found.counted(found.read())["cpu_migrations"]
    home = os.sched_getaffinity(0)
    if len(home) < 2:
        pytest.skip("one CPU: nothing migrates")
    try:
        for cpu in sorted(home)[:2] * 10:
            os.sched_setaffinity(0, {cpu})
    finally:
        os.sched_setaffinity(0, home)
    assert found.counted(found.read())["cpu_migrations"] >= before + 10
    assert set(found.unavailable) | {"cpu-migrations"} <= set(table.HARDWARE)
    assert all(found.unavailable.values())


def task(root, pid, tid, comm, schedstat, status=""):
    directory = root / pid / "task" / tid
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "comm").write_text(f"{comm}\n")
    (directory / "schedstat").write_text(f"{schedstat}\n")
    if pid == tid:
        (root / pid / "comm").write_text(f"{comm}\n")
        (root / pid / "status").write_text(status or "Name:\tx\nVmHWM:\t    2048 kB\n")


def remove(root: Path, pid, tid):
    for file in (root / pid / "task" / tid).iterdir():
        file.unlink()
    (root / pid / "task" / tid).rmdir()


def test_a_layer_is_counted_by_part_and_keeps_what_ended_threads_spent(tmp_path):
    task(tmp_path, "100", "100", "qemu-system-x86", "1000000000 500000000 7")
    task(tmp_path, "100", "101", "CPU 0/TCG", "3000000000 0 20")
    task(tmp_path, "100", "102", "CPU 1/TCG", "4000000000 1000000000 30")
    task(tmp_path, "100", "103", "worker", "2000000000 0 1")
    task(tmp_path, "200", "200", "vhost-100", "500000000 0 9", "Name:\tvhost-100\n")
    task(tmp_path, "300", "300", "sh", "9000000000 0 9")
    parts = LayerParts(
        (
            Part("vhost", ".*", r"vhost-[0-9]+"),
            Part("vcpu", "qemu.*", "CPU [0-9]+/.*"),
            Part("qemu", "qemu.*"),
        ),
        tmp_path,
    )
    first = parts.read([100, 200, 300, 999])
    assert first == {
        "qemu.peak_memory_bytes": 2048 * 1024,
        "vhost.peak_memory_bytes": 0.0,
        "vcpu.thread_cpu_s": 7.0,
        "vcpu.thread_wait_s": 1.0,
        "vcpu.thread_slices": 50.0,
        "qemu.thread_cpu_s": 3.0,
        "qemu.thread_wait_s": 0.5,
        "qemu.thread_slices": 8.0,
        "vhost.thread_cpu_s": 0.5,
        "vhost.thread_wait_s": 0.0,
        "vhost.thread_slices": 9.0,
    }
    remove(tmp_path, "100", "103")
    task(tmp_path, "100", "104", "worker", "250000000 0 1")
    assert parts.read([100, 200, 300])["qemu.thread_cpu_s"] == 3.25
    assert all(table.find(name) is not None for name in first)
    assert table.find("vcpu.thread_cpu_s") is table.PART_CPU


def test_a_platform_without_parts_reads_nothing():
    assert LayerParts(()).read([os.getpid()]) == {}
