"""Counters and facts from real /proc texts, and warnings from pairs of host samples."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtax.counters import guest, table
from vtax.counters.host import (
    HostSample,
    cgroup_version,
    cpu_facts,
    distribution,
    host_facts,
    host_warnings,
    kernel_options,
    memory_facts,
    selected_option,
)
from vtax.host.emulated_cpu import is_emulated, is_virtual
from vtax.messages import Note

PROC = Path(__file__).parent / "fixtures" / "proc" / "linux-6.18"
FILES = {
    "/proc/stat": (PROC / "stat").read_bytes(),
    "/proc/vmstat": (PROC / "vmstat").read_bytes(),
    "/proc/net/dev": (PROC / "dev").read_bytes(),
    "/proc/net/snmp": (PROC / "snmp").read_bytes(),
    "/proc/interrupts": (PROC / "interrupts").read_bytes(),
    "/proc/softirqs": (PROC / "softirqs").read_bytes(),
    "/proc/diskstats": (PROC / "diskstats").read_bytes(),
    "/proc/schedstat": (PROC.parent / "linux-6.1" / "schedstat").read_bytes(),
    **{
        f"/proc/pressure/{name}": (PROC / f"pressure-{name}").read_bytes()
        for name in ("cpu", "memory", "io")
    },
}
BEFORE = HostSample(
    monotonic_s=100.0,
    cpu_s={
        "user": 10.0,
        "nice": 0.0,
        "system": 5.0,
        "idle": 100.0,
        "iowait": 1.0,
        "softirq": 1.0,
        "steal": 0.0,
    },
    controller_cpu_s=1.0,
    memory_stall_s=0.0,
    frequency_hz=2e9,
    throttled=3.0,
)


def later(elapsed_s=10.0, **more_cpu_s):
    cpu_s = {kind: s + more_cpu_s.get(kind, 0.0) for kind, s in BEFORE.cpu_s.items()}
    return replace(BEFORE, monotonic_s=BEFORE.monotonic_s + elapsed_s, cpu_s=cpu_s)


def codes(after, own_cpu_s=None):
    return [note.code for note in host_warnings(BEFORE, after, own_cpu_s)]


def test_every_counter_of_a_guest_is_in_the_table():
    found = guest.parse(FILES)
    assert found
    for name in found:
        counter = table.find(name)
        assert counter is not None, name
        assert counter.source.split()[0] in guest.PATHS


def test_names_in_the_table_are_unique_and_complete():
    assert len({(c.per_interface or c.per_part, c.name) for c in table.COUNTERS}) == len(
        table.COUNTERS
    )
    assert all(counter.source and counter.meaning for counter in table.COUNTERS)
    assert table.find("lab.guest-eth0.rx_drops") is table.RX_DROPS
    assert table.find("nonsense") is None


@pytest.mark.slow
def test_nothing_but_the_table_spells_the_name_of_a_counter():
    names = {c.name for c in table.COUNTERS if not (c.per_interface or c.per_part)}
    root = Path(table.__file__).parents[1]
    word = re.compile("|".join(map(re.escape, names)))
    spelled = [
        f"{path.relative_to(root)}:{node.lineno}: {node.value}"
        for path in root.rglob("*.py")
        if path != Path(table.__file__)
        and path.parent.name != "campaign"  # whose forks are Ansible's
        if word.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert spelled == []


def test_counters_of_a_real_kernel():
    found = guest.parse(FILES)
    assert found["cpu_user_s"] == 1584.28
    assert found["cpu_steal_s"] == 6.71
    assert found["context_switches"] == 5286814
    assert found["interrupts"] == 3580507
    assert found["forks"] == 68833
    assert found["page_faults"] > found["major_page_faults"] > 0
    assert found["tcp_retransmits"] == 0
    assert found["tcp_segments_in"] > 0
    assert found["udp_datagrams_out"] > 0
    assert found["net.eth0.bytes_in"] > found["net.eth0.packets_in"] > 0
    assert {name for name in found if name.startswith("net.lo.")} == {
        f"net.lo.{what}_{way}"
        for what in ("bytes", "packets", "errors", "drops")
        for way in ("in", "out")
    }


def test_a_kernel_that_shows_nothing_has_no_counters():
    assert guest.parse({}) == {}
    assert guest.parse(dict.fromkeys(guest.PATHS)) == {}


@given(st.dictionaries(st.sampled_from(guest.PATHS), st.none() | st.binary(max_size=200)))
def test_any_bytes_give_finite_counters_or_none(files):
    assert all(0 <= value < 1e21 for value in guest.parse(files).values())


@given(st.sampled_from(guest.PATHS), st.data())
def test_a_damaged_file_gives_finite_counters(path, data):
    text = bytearray(FILES[path][:2000])
    for _ in range(5):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    assert all(0 <= value < 1e21 for value in guest.parse({path: bytes(text)}).values())


def test_a_quiet_trial_has_no_warnings():
    assert codes(later(user=9.0, idle=11.0), own_cpu_s=8.5) == []


def test_steal_is_said_with_its_share():
    (note,) = host_warnings(BEFORE, later(user=9.4, idle=10.0, steal=0.6))
    assert (note.code, note) == (
        "host-steal",
        Note("host-steal", share="3 %"),
    )


def test_other_programs_are_reported_from_the_trials_own():
    after = later(user=9.0, system=3.0, softirq=4.0, idle=4.0)
    assert codes(after, own_cpu_s=11.5) == []
    (note,) = host_warnings(BEFORE, after, own_cpu_s=7.0)
    assert (note.code, note) == ("host-busy", Note("host-busy", cpus=0.5))
    assert codes(replace(after, controller_cpu_s=6.0), own_cpu_s=7.0) == []


def test_in_dom0_the_domains_of_others_are_other_programs_and_the_trials_own_are_not():
    of_dom0 = later(user=4.0, idle=16.0)
    assert codes(replace(of_dom0, domains_cpu_s=7.5), own_cpu_s=11.5) == []
    (note,) = host_warnings(BEFORE, replace(of_dom0, domains_cpu_s=12.5), own_cpu_s=11.5)
    assert (note.code, note) == ("host-busy", Note("host-busy", cpus=0.5))


def test_very_short_trials_are_not_judged_by_cpu_times():
    assert codes(later(elapsed_s=0.1, steal=0.1), own_cpu_s=0.0) == []


def test_memory_pressure_swapping_frequency_and_heat_are_said():
    after = replace(
        later(idle=20.0), memory_stall_s=0.5, swapped_pages=7.0, frequency_hz=1.5e9, throttled=5.0
    )
    assert {note.code: str(note) for note in host_warnings(BEFORE, after)} == {
        "host-memory": Note("host-memory", share="5 %"),
        "host-swap": Note("host-swap", pages=7),
        "host-frequency": Note("host-frequency", change="-25 %"),
        "host-throttled": Note("host-throttled", times=2),
    }


def test_what_a_host_does_not_show_is_not_judged():
    bare = HostSample(100.0, {}, 1.0)
    assert host_warnings(bare, replace(bare, monotonic_s=110.0), 0.0) == ()


def test_this_host_can_be_sampled_and_described():
    first, second = HostSample.take(), HostSample.take()
    assert second.monotonic_s > first.monotonic_s
    assert first.cpu_s["user"] > 0
    facts = host_facts()
    assert facts["cpus"] >= len(facts["cpus_allowed"]) >= 1
    assert facts["memory_bytes"] > 1 << 28
    assert facts["cpu_model"]


def test_facts_of_a_real_cpu_and_memory():
    facts = cpu_facts((PROC / "cpuinfo").read_text())
    assert facts == {
        "cpu_model": "Intel(R) Xeon(R) Processor",
        "cpu_family_model_stepping": "6/207/2",
        "cpu_microcode": "0x1",
        "cpu_sockets": 1,
        "cpu_cores": 2,
        "cpu_threads_per_core": 1.0,
        "virtualized": True,
    }
    assert memory_facts((PROC / "meminfo").read_text())["memory_bytes"] == 25276510208
    assert cpu_facts("") == {}
    assert memory_facts("") == {}


def test_a_processor_that_is_emulated_is_reported_from_a_virtual_one():
    assert is_emulated("processor\t: 0\nmodel name\t: QEMU TCG CPU version 2.5+\nflags\t\t: fpu\n")
    assert not is_emulated(
        "processor\t: 0\nmodel name\t: QEMU Virtual CPU version 2.5+\nflags\t\t: fpu\n"
    )
    assert not is_emulated((PROC / "cpuinfo").read_text())


def test_a_host_is_virtual_when_its_cpu_says_so():
    assert is_virtual("model name\t: X\nflags\t\t: fpu hypervisor lahf_lm\nbugs\t\t: none\n")
    assert not is_virtual("flags\t\t: fpu lahf_lm\nbugs\t\t: hypervisor\n")
    assert is_virtual((PROC / "cpuinfo").read_text())


def test_only_kernel_options_that_bear_on_speed_are_reported():
    line = "BOOT_IMAGE=/vmlinuz root=UUID=1234 ro quiet mitigations=off nosmt isolcpus=1 password=x"
    assert kernel_options(line) == ["mitigations=off", "nosmt", "isolcpus=1"]


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        ("1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "v2"),
        ("1 2 0:3 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", "v1"),
        ("1 2 0:3 / /a rw - cgroup cgroup rw,cpu\n1 2 0:4 / /b rw - cgroup2 none rw", "hybrid"),
        ("1 2 0:3 / / rw - ext4 /dev/vda rw", ""),
    ],
)
def test_the_cgroup_version_is_reported_from_the_mounts(lines, version):
    assert cgroup_version(lines) == version


def test_names_and_choices_are_read():
    assert (
        distribution('NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
        == "Debian GNU/Linux 13 (trixie)"
    )
    assert selected_option("always [madvise] never") == "madvise"
    assert selected_option("none") == ""


def test_a_kernel_says_when_it_was_booted():
    assert guest.boot_time_s(b"cpu 1 2 3\nintr 5 1\nbtime 1700000000\n") == 1.7e9
    assert guest.boot_time_s(Path("/proc/stat").read_bytes())
    for text in (None, b"", b"btime\n", b"btime soon\n"):
        assert guest.boot_time_s(text) is None


def test_interrupts_are_summed_over_cpus_and_devices():
    found = guest.parse({"/proc/interrupts": FILES["/proc/interrupts"]})
    lines = {
        line.split(":")[0].strip(): line
        for line in FILES["/proc/interrupts"].decode().splitlines()[1:]
    }
    timer = [int(word) for word in lines["LOC"].split()[1:3]]
    assert found["timer_interrupts"] == sum(timer) > 0
    devices = sum(
        int(n) for word, line in lines.items() if word.isdigit() for n in line.split()[1:3]
    )
    assert found["device_interrupts"] == devices > 0
    assert "hypervisor_interrupts" in found
    assert guest.parse({"/proc/interrupts": b"CPU0\nERR: 0\n"}) == {}


def test_interrupts_of_an_emulated_machine():
    found = guest.parse(
        {"/proc/interrupts": (PROC.parent / "linux-6.1" / "interrupts").read_bytes()}
    )
    assert found["device_interrupts"] == 98 + 2 + 1 + 20 + 12 + 145
    assert found["timer_interrupts"] == 625 + 839
    assert found["tlb_shootdowns"] == 6


def test_software_interrupts_by_kind():
    found = guest.parse({"/proc/softirqs": FILES["/proc/softirqs"]})
    assert len(found) == 10
    line = next(line for line in FILES["/proc/softirqs"].decode().splitlines() if "NET_RX" in line)
    assert found["softirq_net_rx"] == sum(map(int, line.split()[1:])) > 0


def test_disks_are_counted_whole_and_once():
    found = guest.parse({"/proc/diskstats": FILES["/proc/diskstats"]})
    vda = next(
        line for line in FILES["/proc/diskstats"].decode().splitlines() if " vda " in line
    ).split()
    assert found["disk_reads"] == int(vda[3])
    assert found["disk_written_bytes"] == int(vda[9]) * 512
    numbers = " ".join(["7"] * 17)
    names = (
        "nvme0n1",
        "nvme0n1p2",
        "sda",
        "sda1",
        "dm-0",
        "md0",
        "loop3",
        "zram0",
        "sr0",
        "mmcblk0",
        "mmcblk0p1",
    )
    text = "".join(f" 8 0 {name} {numbers}\n" for name in names).encode()
    assert guest.parse({"/proc/diskstats": text})["disk_reads"] == 3 * 7  # nvme0n1, sda, mmcblk0
    assert guest.parse({"/proc/diskstats": f" 7 0 loop0 {numbers}\n".encode()}) == {}


def test_pressure_of_a_real_kernel_is_in_seconds():
    found = guest.parse(
        {f"/proc/pressure/{name}": FILES[f"/proc/pressure/{name}"] for name in ("cpu", "io")}
    )
    total = FILES["/proc/pressure/io"].decode().splitlines()[1].rpartition("=")[2]
    assert found["io_pressure_full_s"] == int(total) / 1e6
    assert set(found) == {"cpu_pressure_some_s", "io_pressure_some_s", "io_pressure_full_s"}


def test_run_queue_wait_is_the_sum_over_cpus():
    text = FILES["/proc/schedstat"].decode()
    waits = [int(line.split()[8]) for line in text.splitlines() if line.startswith("cpu")]
    assert len(waits) == 2
    assert guest.parse({"/proc/schedstat": text.encode()}) == {"run_queue_wait_s": sum(waits) / 1e9}


def test_traffic_of_a_host_leaves_loopback_out():
    found = guest.network_totals(FILES["/proc/net/dev"])
    own = guest.parse({"/proc/net/dev": FILES["/proc/net/dev"]})
    names = [name for name in own if name.endswith(".bytes_in") and not name.startswith("net.lo.")]
    assert found["network_bytes_in"] == sum(own[name] for name in names) > 0
    assert guest.network_totals(None) == {}
