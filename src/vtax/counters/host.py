"""Description of the host, and what happened to it while a trial ran.

`host_facts` is stored with every run. A `HostSample` is taken before and after a trial, and `host_warnings` judges
the difference: reading and judging are separate, the second is pure. A warning never removes a trial: it travels
with it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vtax.counters import table
from vtax.counters.whole_host import FREQUENCY, THROTTLED, HostReading, host_counters, not_counted
from vtax.errors import CommandFailed
from vtax.host.emulated_cpu import is_emulated
from vtax.host.process import find_program, run
from vtax.host.resources import selected_option
from vtax.host.xen import is_dom0
from vtax.messages import Note, packed
from vtax.store.hosts import HARDWARE_ID, MACHINE_ID

# Below these shares a trial's figure moves less than the interval of any study of practical length.
STEAL_LIMIT = 0.01
OTHERS_LIMIT_CPUS = 0.10
FREQUENCY_LIMIT = 0.05
MEMORY_STALL_LIMIT = 0.01
# Shorter intervals say nothing: CPU times are counted in steps of 10 ms.
MIN_DURATION_S = 0.5
# Kernel options that bear on speed (Documentation/admin-guide/kernel-parameters.txt of Linux).
# fmt: off
KERNEL_OPTIONS = frozenset({
    "mitigations", "nospectre_v1", "nospectre_v2", "spectre_v2", "spec_store_bypass_disable", "mds", "tsx", "pti",
    "nopti", "l1tf", "retbleed", "isolcpus", "nohz", "nohz_full", "rcu_nocbs", "nosmt", "maxcpus", "nr_cpus",
    "intel_pstate", "amd_pstate", "intel_idle.max_cstate", "processor.max_cstate", "idle", "transparent_hugepage",
    "hugepages", "hugepagesz", "default_hugepagesz", "clocksource", "tsc", "numa_balancing", "preempt", "threadirqs",
    "skew_tick", "audit", "selinux", "apparmor", "elevator", "psi",
})
# fmt: on

_PLACEHOLDERS = frozenset(
    {
        "none",
        "not specified",
        "not applicable",
        "n/a",
        "unknown",
        "default string",
        "base board serial number",
        "to be filled by o.e.m.",
        "system serial number",
        "empty",
        "invalid",
        "03000200-0400-0500-0006-000700080009",
        "123456789",
    }
)


@dataclass(frozen=True)
class HostSample:
    """Counters of a host at one moment.

    monotonic_s: when.
    cpu_s: CPU seconds since boot by kind (`user`, `system`, `steal`, ...), over all CPUs.
    controller_cpu_s: of this process.
    swapped_pages: in and out since boot.
    memory_stall_s: time in which some task waited for memory (pressure stall information), None where the kernel does
        not count it.
    frequency_hz: mean over the CPUs now, None when not shown.
    throttled: times a CPU was slowed for its heat, None when not counted.
    domains_cpu_s: of all domains of Xen but dom0, which cpu_s is of there.
    """

    monotonic_s: float
    cpu_s: dict[str, float]
    controller_cpu_s: float
    swapped_pages: float = 0.0
    memory_stall_s: float | None = None
    frequency_hz: float | None = None
    throttled: float | None = None
    domains_cpu_s: float = 0.0

    @classmethod
    def take(cls) -> Self:
        """Read this host now."""
        reading = host_counters().read()
        return cls.of(reading, host_counters().counted(reading))

    @classmethod
    def of(cls, reading: HostReading, counters: Mapping[str, float]) -> Self:
        """Return a host as it was read. counters: of the reading."""
        cpu_s = {}
        for counter in table.CPU_TIMES:
            if counter.name in counters:
                cpu_s[counter.name[4:-2]] = counters[counter.name]
        frequencies = reading.numbers(f"*/{FREQUENCY}")
        throttle_counts = reading.numbers(f"*/{THROTTLED}")
        return cls(
            monotonic_s=reading.monotonic_s,
            cpu_s=cpu_s,
            controller_cpu_s=reading.controller_cpu_s,
            swapped_pages=sum(counters.get(counter.name, 0.0) for counter in table.SWAP),
            memory_stall_s=counters.get(table.PRESSURE["memory", "some"].name),
            frequency_hz=1000 * sum(frequencies) / len(frequencies) if frequencies else None,
            throttled=sum(throttle_counts) if throttle_counts else None,
            domains_cpu_s=counters.get(table.DOMAINS_CPU.name, 0.0),
        )

    def cpu_s_since(self, before: HostSample) -> dict[str, float]:
        """Return CPU seconds by kind since another sample."""
        cpu_s_by_kind = {}
        for kind, before_s in before.cpu_s.items():
            if kind in self.cpu_s:
                cpu_s_by_kind[kind] = self.cpu_s[kind] - before_s
        return cpu_s_by_kind


def host_warnings(
    before: HostSample, after: HostSample, own_cpu_s: float | None = None
) -> tuple[Note, ...]:
    """Return what happened on the host between two samples that a reader of the trial must know.

    own_cpu_s: CPU seconds that the trial's own guests spent meanwhile, as the host counts them; with it, the CPU
    time of everything else on the host is judged too (this process's own is known and left out; interrupts count as
    nobody's).
    """
    return tuple(_judge_samples(before, after, own_cpu_s))


def _judge_samples(
    before: HostSample, after: HostSample, own_cpu_s: float | None
) -> Iterator[Note]:
    elapsed_s = after.monotonic_s - before.monotonic_s
    if elapsed_s >= MIN_DURATION_S:
        cpu_s_by_kind = after.cpu_s_since(before)
        total_s = sum(cpu_s_by_kind.values())
        steal = cpu_s_by_kind.get("steal", 0.0) / total_s if total_s > 0 else 0.0
        if steal > STEAL_LIMIT:
            yield Note("host-steal", share=round(steal, 4))
        if own_cpu_s is not None:
            busy_s = busy_cpu_s(cpu_s_by_kind)
            # a domain that ended is not counted any more
            busy_s += max(0.0, after.domains_cpu_s - before.domains_cpu_s)
            busy_s -= own_cpu_s + after.controller_cpu_s - before.controller_cpu_s
            others = busy_s / elapsed_s
            if others > OTHERS_LIMIT_CPUS:
                yield Note("host-busy", cpus=round(others, 2))
        if before.memory_stall_s is not None and after.memory_stall_s is not None:
            stalled = (after.memory_stall_s - before.memory_stall_s) / elapsed_s
            if stalled > MEMORY_STALL_LIMIT:
                yield Note("host-memory", share=round(stalled, 4))
    pages = after.swapped_pages - before.swapped_pages
    if pages > 0:
        yield Note("host-swap", pages=round(pages))
    if before.frequency_hz and after.frequency_hz:
        change = after.frequency_hz / before.frequency_hz - 1
        if abs(change) > FREQUENCY_LIMIT:
            yield Note("host-frequency", change=round(change, 4))
    if before.throttled is not None and after.throttled is not None:
        times = after.throttled - before.throttled
        if times > 0:
            yield Note("host-throttled", times=round(times))


def busy_cpu_s(cpu_s_by_kind: Mapping[str, float]) -> float:
    """Return the CPU seconds of programs and the kernel among those by kind."""
    return sum(cpu_s_by_kind.get(kind, 0.0) for kind in table.KINDS_OF_PROGRAMS)


XEN_BELOW = "xen, this is dom0"
"""The fact `hypervisor` of a host that is Xen's first domain: what is native there is no bare Linux."""


def host_facts() -> dict[str, Any]:
    """Return flat facts about this host, as JSON values; what cannot be found out is absent, never guessed."""
    clock_source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    cpufreq = "/sys/devices/system/cpu/cpu0/cpufreq"
    uuid, serial = _text("/sys/class/dmi/id/product_uuid"), _text("/sys/class/dmi/id/board_serial")
    facts: dict[str, Any] = {
        **cpu_facts(_text("/proc/cpuinfo")),
        **memory_facts(_text("/proc/meminfo")),
        "cpus": os.cpu_count(),
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "kernel_version": platform.version(),
        "kernel_options": kernel_options(_text("/proc/cmdline")),
        "machine": platform.machine(),
        MACHINE_ID: machine_id(),
        HARDWARE_ID: hardware_id(uuid, serial),
        "distribution": distribution(_text("/etc/os-release")),
        "mitigations": _directory("/sys/devices/system/cpu/vulnerabilities"),
        "frequency_governor": _text(f"{cpufreq}/scaling_governor").strip(),
        "frequency_driver": _text(f"{cpufreq}/scaling_driver").strip(),
        "hyperthreading": _text("/sys/devices/system/cpu/smt/control").strip(),
        "transparent_huge_pages": selected_option(
            _text("/sys/kernel/mm/transparent_hugepage/enabled")
        ),
        "clock_source": _text(clock_source).strip(),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "cgroups": cgroup_version(_text("/proc/self/mountinfo")),
        "systemd": _text("/proc/1/comm").strip() == "systemd",
        "python": platform.python_version(),
        "not_counted": {name: packed(reason) for name, reason in not_counted().items()},
        "measured_at": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }
    if facts.get("virtualized"):
        facts["hypervisor"] = _hypervisor()
        # systemd-detect-virt(1): qemu is QEMU without hardware virtualization
        facts["cpu_emulated"] = facts["hypervisor"] == "qemu" or is_emulated(_text("/proc/cpuinfo"))
    if is_dom0():
        facts["hypervisor"] = XEN_BELOW  # systemd-detect-virt(1) says none there
    return {name: value for name, value in facts.items() if value not in (None, "", {}, [])}


def machine_id() -> str:
    """Return what tells hosts apart; empty when not known.

    It gives away nothing that machine-id(5) asks to keep confidential.
    """
    return machine_id_of(_text("/etc/machine-id").strip() or platform.node())


def machine_id_of(secret: str) -> str:
    """Return the `machine_id` of a machine with that machine-id(5) or, without one, that name."""
    return _hash(secret) if secret else ""


def _hash(text: str) -> str:
    return hashlib.sha256(f"vtax {text}".encode()).hexdigest()[:12]


def hardware_id(uuid: str, serial: str) -> str:
    """Return what tells machines with one machine-id apart: a hash of the DMI UUID and the board's serial number.

    Empty where neither says anything: firmware may leave them out, and only root may read them.
    """
    parts = []
    for text in (uuid, serial):
        parts.append("" if _is_placeholder(text) else text.strip().lower())
    return _hash(" ".join(parts)) if any(parts) else ""


def _is_placeholder(text: str) -> bool:
    """Return whether a number of the firmware is what makers leave there: all digits alike, or words."""
    digits = set(filter(str.isalnum, text.lower()))
    return len(digits) < 2 or text.strip().lower() in _PLACEHOLDERS


def cpu_facts(cpuinfo: str) -> dict[str, Any]:
    """Return model, sockets, cores, microcode, and whether a hypervisor is below, from the text of /proc/cpuinfo."""
    processors = [pairs_in(block) for block in cpuinfo.split("\n\n") if block.strip()]
    if not processors:
        return {}
    sockets, cores = set(), set()
    for processor in processors:
        socket = processor.get("physical id", "0")
        sockets.add(socket)
        cores.add((socket, processor.get("core id", processor.get("processor"))))
    first = processors[0]
    numbers = [first.get(key, "?") for key in ("cpu family", "model", "stepping")]
    return {
        "cpu_model": first.get("model name", ""),
        "cpu_family_model_stepping": "/".join(numbers),
        "cpu_microcode": first.get("microcode", ""),
        "cpu_sockets": len(sockets),
        "cpu_cores": len(cores),
        "cpu_threads_per_core": len(processors) / len(cores),
        "virtualized": "hypervisor" in first.get("flags", "").split(),
    }


def memory_facts(meminfo: str) -> dict[str, Any]:
    """Return total memory and swap in bytes, from the text of /proc/meminfo."""
    pairs = pairs_in(meminfo)
    facts = {}
    for key, name in (
        ("MemTotal", "memory_bytes"),
        ("SwapTotal", "swap_bytes"),
        ("Hugepagesize", "huge_page_bytes"),
    ):
        number = pairs.get(key, "").removesuffix(" kB")
        if number.isdigit():
            facts[name] = int(number) * 1024
    return facts


def kernel_options(command_line: str) -> list[str]:
    """Return the words of a kernel command line that bear on speed; the rest may hold what is nobody's business."""
    return [word for word in command_line.split() if word.partition("=")[0] in KERNEL_OPTIONS]


def distribution(os_release: str) -> str:
    """Return the name a distribution gives itself, from the text of /etc/os-release."""
    pairs = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    return pairs.get("PRETTY_NAME", "").strip('"')


def cgroup_version(mountinfo: str) -> str:
    """Return `v2`, `v1`, `hybrid` (v1 controllers beside a v2 tree), or nothing.

    text: of /proc/self/mountinfo.
    """
    kinds = set()
    for line in mountinfo.splitlines():
        kinds.add(line.partition(" - ")[2].split(" ")[0])
    if {"cgroup", "cgroup2"} <= kinds:
        return "hybrid"
    if "cgroup" in kinds:
        return "v1"
    return "v2" if "cgroup2" in kinds else ""


def _hypervisor() -> str:
    """Return its name: by systemd-detect-virt where it is installed, else by the firmware's vendor; may be unknown."""
    if find_program("systemd-detect-virt"):
        with suppress(CommandFailed):
            name = run(["systemd-detect-virt", "--vm"], timeout_s=5, check=False).stdout.strip()
            if name not in ("", "none"):
                return name
    vendor, product = _text("/sys/class/dmi/id/sys_vendor"), _text("/sys/class/dmi/id/product_name")
    return f"{vendor.strip()} {product.strip()}".strip() or "unknown"


def pairs_in(text: str) -> dict[str, str]:
    """Return the values of `key: value` lines."""
    pairs = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            pairs[key.strip()] = value.strip()
    return pairs


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _directory(path: str) -> dict[str, str]:
    directory = Path(path)
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    return {file.name: _text(str(file)).strip() for file in files if file.is_file()}
