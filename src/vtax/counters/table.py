"""Every counter that is read around a trial: its name, its unit, and where it comes from.

A counter is stored under a place and a name. Places are the roles of a topology's ends (`guest`, `peer`, ...), for
what an end's kernel counts; `program` for the measured program; `layer` for what the host spends on the guest with
its virtualization layer; `host`; and `link` for the lab. Whatever reads or writes a counter takes its name from here.
A counter only grows: a trial's share is the difference of two readings. A gauge is the value after the trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means

GUEST, PROGRAM, LAYER, HOST, LINK = "guest", "program", "layer", "host", "link"
"""Places that have a meaning of their own; every other place is the role of an end."""


@dataclass(frozen=True)
class Counter:
    """A counter that is read around a trial.

    name: as it is stored.
    unit: of its value.
    source: the file, or what counts it.
    meaning: one phrase.
    per_interface: the name stands after that of an interface and a dot (`eth0.rx_bytes`).
    per_part: after that of a part of the virtualization layer (`vcpu.thread_cpu_s`).
    is_gauge: a value after the trial, no difference.
    step: the smallest difference of two readings, in its unit.
    """

    name: str
    unit: Annotated[str, Means("unit")]
    source: Annotated[str, Means("the file, or what counts it")]
    meaning: Annotated[str, Means("what it counts")]
    per_interface: bool = False
    per_part: bool = False
    is_gauge: Annotated[bool, Means("whether it is a value after the trial, not a difference")] = (
        False
    )
    step: float = 1.0

    def of(self, owner: str) -> str:
        """Return the name of this counter of an interface or a part."""
        return f"{owner}.{self.name}"


_TICK_S = 0.01
_NANOSECOND_S = 1e-9


def _cpu(kind: str) -> Counter:
    meaning = f"CPU time in {kind}, all CPUs of the kernel"
    return Counter(f"cpu_{kind}_s", "s", f"/proc/stat cpu {kind}", meaning, step=_TICK_S)


def _of_quota(name: str, source: str, meaning: str) -> Counter:
    return Counter(name, "", f"cgroup cpu.stat {source}", meaning)


def _of_kernel(name: str, source: str, meaning: str, unit: str = "") -> Counter:
    return Counter(name, unit, source, meaning)


HOST_CPU = Counter(
    "host_cpu_s",
    "s",
    "cgroup",
    "CPU time of a guest and its layer, counted by the host",
    step=_NANOSECOND_S,
)
KERNEL_CPU = Counter(
    "kernel_cpu_s",
    "s",
    "/proc/stat",
    "CPU time of a guest with a kernel of its own, by that kernel",
    step=_TICK_S,
)
UNDER_TEST_CPU = Counter(
    "under_test_cpu_s", "s", "cgroup", "CPU time of all guests under test and their layers, counted by the host",
    step=_NANOSECOND_S,
)  # fmt: skip
UNDER_TEST_BYTES = Counter(
    "under_test.bytes",
    "bytes",
    "/proc/net/dev",
    "bytes through the interfaces of the guests under test",
)
DROPS = Counter(
    "drops.packets", "packets", "/proc/net/dev", "packets dropped or broken on the path, each once"
)
SWITCH_CPU = Counter(
    "switch.cpu_s", "s", "/proc/PID/stat", "CPU time of the lab's Open vSwitch", step=_TICK_S
)
CONTROLLER_PACKETS = Counter(
    "openflow.to_guest_packets", "packets", "ovs-appctl", "packets the controller decided on"
)
OPENFLOW_FLOWS = Counter("openflow.flows", "flows", "ovs-ofctl", "flows the controller installed")
SWITCHED_PACKETS = Counter(
    "openflow.switched_packets", "packets", "ovs-ofctl", "packets the switch carried alone"
)
SWITCHED_BYTES = Counter(
    "openflow.switched_bytes", "bytes", "ovs-ofctl", "bytes the switch carried alone"
)

CPU_TIMES = tuple(
    map(_cpu, ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"))
)
"""In the order of the columns of the first line of /proc/stat."""
CPU_STEAL = CPU_TIMES[-1]
KINDS_OF_PROGRAMS = ("user", "nice", "system")
"""Kinds of CPU time of programs, and of the kernel on their behalf."""
OF_PROGRAMS = tuple(map(_cpu, KINDS_OF_PROGRAMS))
BUSY = tuple(c for c in CPU_TIMES if c.name not in ("cpu_idle_s", "cpu_iowait_s", CPU_STEAL.name))
"""CPU times in which something ran."""

STAT = {
    "ctxt": _of_kernel("context_switches", "/proc/stat ctxt", "context switches"),
    "intr": _of_kernel("interrupts", "/proc/stat intr", "interrupts served"),
    "processes": _of_kernel("forks", "/proc/stat processes", "processes and threads created"),
}
"""By the first word of a line of /proc/stat."""
VMSTAT = {
    "pgfault": _of_kernel("page_faults", "/proc/vmstat pgfault", "page faults"),
    "pgmajfault": _of_kernel(
        "major_page_faults", "/proc/vmstat pgmajfault", "page faults that needed a disk"
    ),
    "pswpin": _of_kernel(
        "swapped_in_pages", "/proc/vmstat pswpin", "pages read from swap", "pages"
    ),
    "pswpout": _of_kernel(
        "swapped_out_pages", "/proc/vmstat pswpout", "pages written to swap", "pages"
    ),
    "oom_kill": _of_kernel(
        "out_of_memory_kills", "/proc/vmstat oom_kill", "processes killed for lack of memory"
    ),
    "thp_fault_alloc": _of_kernel(
        "huge_page_faults", "/proc/vmstat thp_fault_alloc", "page faults with a huge page"
    ),
}
"""By the name in /proc/vmstat."""
SWAP = (VMSTAT["pswpin"], VMSTAT["pswpout"])

RUN_QUEUE_WAIT = Counter(
    "run_queue_wait_s", "s", "/proc/schedstat", "time in which runnable tasks waited for a CPU, summed over tasks",
    step=_NANOSECOND_S,
)  # fmt: skip
PRESSURE = {
    (resource, share): Counter(
        f"{resource}_pressure_{share}_s",
        "s",
        f"/proc/pressure/{resource} {share}",
        f"time in which {who} waited for {what}",
        step=1e-6,
    )
    for resource, what in (("cpu", "a CPU"), ("memory", "memory"), ("io", "a disk"))
    for share, who in (("some", "at least one task"), ("full", "all tasks at once"))
    if (resource, share) != ("cpu", "full")
}
"""By resource and the first word of a line of /proc/pressure (Documentation/accounting/psi.rst of Linux)."""

DEVICE_INTERRUPTS = _of_kernel(
    "device_interrupts", "/proc/interrupts numbered lines", "interrupts of devices, all of them"
)
INTERRUPTS = {
    word: _of_kernel(name, f"/proc/interrupts {word}", meaning)
    for word, name, meaning in (
        ("NMI", "nmi_interrupts", "non-maskable interrupts"),
        ("LOC", "timer_interrupts", "interrupts of the CPUs' own timers"),
        ("IWI", "irq_work_interrupts", "interrupts for deferred work of an interrupt handler"),
        ("RES", "rescheduling_interrupts", "interrupts by which one CPU makes another schedule"),
        (
            "CAL",
            "function_call_interrupts",
            "interrupts by which one CPU makes others run a function",
        ),
        (
            "TLB",
            "tlb_shootdowns",
            "interrupts by which one CPU makes others drop address translations",
        ),
        ("HYP", "hypervisor_interrupts", "interrupts by which a hypervisor calls its guest"),
    )
}
"""By the first word of a line of /proc/interrupts, on x86."""
SOFTIRQS = {
    word: _of_kernel(f"softirq_{word.lower()}", f"/proc/softirqs {word}", f"software interrupts {word}")
    for word in (
        "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
    )
}  # fmt: skip
"""By the first word of a line of /proc/softirqs."""

_SECTOR = 512.0
DISK_COLUMNS = {
    3: _of_kernel(
        "disk_reads", "/proc/diskstats", "read requests that disks completed", "requests"
    ),
    5: Counter(
        "disk_read_bytes", "bytes", "/proc/diskstats", "bytes read from disks", step=_SECTOR
    ),
    7: _of_kernel(
        "disk_writes", "/proc/diskstats", "write requests that disks completed", "requests"
    ),
    9: Counter(
        "disk_written_bytes", "bytes", "/proc/diskstats", "bytes written to disks", step=_SECTOR
    ),
}
"""By the number of the column in /proc/diskstats (Documentation/admin-guide/iostats.rst); those of bytes are in
sectors of 512 bytes there. Sums over whole disks: no partition, no device on top of another."""
NETWORK_TOTALS = {
    column: _of_kernel(f"network_{name}", "/proc/net/dev", f"{name.replace('_', ' ')}, all interfaces but lo", unit)
    for column, name, unit in (
        (0, "bytes_in", "bytes"), (1, "packets_in", "packets"),
        (8, "bytes_out", "bytes"), (9, "packets_out", "packets"),
    )
}  # fmt: skip
"""Counters of the host, by the number of the column in /proc/net/dev. Interfaces of the lab are not the host's."""


def _of_program(
    name: str, unit: str, meaning: str, step: float = 1.0, *, is_gauge: bool = False
) -> Counter:
    return Counter(name, unit, "getrusage(2) of the program", meaning, is_gauge=is_gauge, step=step)


USER_CPU = _of_program("user_cpu_s", "s", "CPU time of the program itself", 1e-6)
SYSTEM_CPU = _of_program(
    "system_cpu_s", "s", "CPU time of the kernel on behalf of the program", 1e-6
)
MAX_RSS = _of_program(
    "max_rss_bytes", "bytes", "peak memory of the program's largest process", 4096, is_gauge=True
)
MINOR_FAULTS = _of_program("minor_faults", "", "page faults of the program that needed no disk")
MAJOR_FAULTS = _of_program("major_faults", "", "page faults of the program that needed a disk")
BLOCKS_IN = _of_program("blocks_in", "", "blocks of 512 bytes that the program made a disk read")
BLOCKS_OUT = _of_program("blocks_out", "", "blocks of 512 bytes that the program made a disk write")
VOLUNTARY = _of_program(
    "voluntary_switches", "", "context switches at which the program waited for something"
)
INVOLUNTARY = _of_program(
    "involuntary_switches", "", "context switches at which its CPU was taken from the program"
)
RUSAGE = {
    0: USER_CPU, 1: SYSTEM_CPU, 2: MAX_RSS, 6: MINOR_FAULTS, 7: MAJOR_FAULTS, 9: BLOCKS_IN, 10: BLOCKS_OUT,
    14: VOLUNTARY, 15: INVOLUNTARY,
}  # fmt: skip
"""By the position in struct rusage."""

RUN_DELAY = Counter(
    "run_delay_s", "s", "/proc/PID/schedstat", "time in which the program's main thread waited for a CPU",
    step=_NANOSECOND_S,
)  # fmt: skip

PART_CPU = Counter(
    "thread_cpu_s", "s", "/proc/PID/task/TID/schedstat", "CPU time of a part of the virtualization layer",
    per_part=True, step=_NANOSECOND_S,
)  # fmt: skip
PART_WAIT = Counter(
    "thread_wait_s", "s", "/proc/PID/task/TID/schedstat", "time in which a part was runnable and waited for a CPU",
    per_part=True, step=_NANOSECOND_S,
)  # fmt: skip
PART_SLICES = Counter(
    "thread_slices",
    "",
    "/proc/PID/task/TID/schedstat",
    "times a part was put on a CPU",
    per_part=True,
)
PART_MEMORY = Counter(
    "peak_memory_bytes", "bytes", "/proc/PID/status VmHWM", "peak memory of a part's processes since their start",
    per_part=True, is_gauge=True, step=1024,
)  # fmt: skip

QUOTA_PERIODS = _of_quota(
    "quota_periods", "nr_periods", "periods of a quota of CPU time in which the guest ran"
)
THROTTLED_PERIODS = _of_quota(
    "throttled_periods", "nr_throttled", "those at whose quota it was stopped"
)
THROTTLED = Counter(
    "throttled_s", "s", "cgroup cpu.stat throttled_usec", "time for which it was stopped, summed over CPUs",
    step=_NANOSECOND_S,
)  # fmt: skip

ENERGY = {
    word: Counter(f"energy_{word}_j", "J", "powercap intel-rapl", f"energy of {what}", step=1e-6)
    for word, what in (("package", "the processors"), ("core", "their cores"), ("dram", "memory"))
}
"""By the beginning of a zone's name (`package-0`)."""
HARDWARE = {
    word: Counter(name, "", f"perf_event_open {word}", meaning)
    for word, name, meaning in (
        ("cycles", "cpu_cycles", "CPU cycles, all CPUs"),
        ("instructions", "cpu_instructions", "instructions retired, all CPUs"),
        ("cache-misses", "cache_misses", "accesses that missed the last cache"),
        ("branch-misses", "branch_misses", "branches that were predicted wrongly"),
        ("dTLB-load-misses", "dtlb_misses", "loads whose address translation was not cached"),
        (
            "iTLB-load-misses",
            "itlb_misses",
            "instructions whose address translation was not cached",
        ),
        ("cpu-migrations", "cpu_migrations", "tasks moved from one CPU to another"),
    )
}
"""By the name that perf-list(1) gives the event."""
VM_EXITS = {
    word: Counter(name, "", f"debugfs kvm/{word}", meaning)
    for word, name, meaning in (
        ("exits", "vm_exits", "exits from KVM guests, all reasons"),
        ("io_exits", "vm_exits_io", "exits for a port of a device"),
        ("mmio_exits", "vm_exits_mmio", "exits for a register of a device in memory"),
        ("halt_exits", "vm_exits_halt", "exits because a virtual CPU was idle"),
        ("irq_exits", "vm_exits_interrupt", "exits for an interrupt of the host"),
        (
            "irq_window_exits",
            "vm_exits_interrupt_window",
            "exits because the guest could take an interrupt again",
        ),
        (
            "request_irq_exits",
            "vm_exits_interrupt_request",
            "exits to user space to inject an interrupt",
        ),
        ("signal_exits", "vm_exits_signal", "exits because a signal was pending"),
        ("hypercalls", "vm_hypercalls", "calls of guests to the hypervisor"),
        ("insn_emulation", "vm_emulated_instructions", "instructions that KVM emulated"),
        (
            "pf_fixed",
            "vm_page_table_faults",
            "faults of the hypervisor's page tables that were served",
        ),
    )
}
"""By the name of a file of KVM in debugfs (struct kvm_vcpu_stat of arch/x86/include/asm/kvm_host.h)."""

DOM0_CPU = Counter(
    "dom0_cpu_s", "s", "libxenstat", "CPU time of Xen's dom0, all in it", step=_NANOSECOND_S
)
DOMAINS_CPU = Counter(
    "other_domains_cpu_s",
    "s",
    "libxenstat",
    "CPU time of all domains of Xen but dom0",
    step=_NANOSECOND_S,
)

CLOCK_RATE = Counter(
    "clock_rate", "", "agent", "seconds of the guest's monotonic clock for one of the controller's", is_gauge=True,
    step=_NANOSECOND_S,
)  # fmt: skip
CLOCK_RATE_ERROR = Counter(
    "clock_rate_error", "", "agent", "by how much clock_rate can be wrong: both round trips over the time between",
    is_gauge=True, step=_NANOSECOND_S,
)  # fmt: skip
CLOCK_OFFSET = Counter(
    "wall_clock_offset_s",
    "s",
    "agent",
    "the guest's wall clock minus the controller's",
    is_gauge=True,
    step=1e-6,
)
CLOCK = (CLOCK_RATE, CLOCK_RATE_ERROR, CLOCK_OFFSET)

TCP_RETRANSMITS = _of_kernel(
    "tcp_retransmits", "/proc/net/snmp Tcp RetransSegs", "TCP retransmits", "segments"
)
SNMP = {
    ("Tcp", "InSegs"): _of_kernel(
        "tcp_segments_in", "/proc/net/snmp Tcp InSegs", "TCP segments received", "segments"
    ),
    ("Tcp", "OutSegs"): _of_kernel(
        "tcp_segments_out", "/proc/net/snmp Tcp OutSegs", "TCP segments sent", "segments"
    ),
    ("Tcp", "RetransSegs"): TCP_RETRANSMITS,
    ("Tcp", "InErrs"): _of_kernel(
        "tcp_errors_in", "/proc/net/snmp Tcp InErrs", "bad TCP segments", "segments"
    ),
    ("Udp", "InDatagrams"): _of_kernel(
        "udp_datagrams_in", "/proc/net/snmp Udp InDatagrams", "UDP datagrams received"
    ),
    ("Udp", "OutDatagrams"): _of_kernel(
        "udp_datagrams_out", "/proc/net/snmp Udp OutDatagrams", "UDP datagrams sent"
    ),
    ("Udp", "InErrors"): _of_kernel(
        "udp_errors_in", "/proc/net/snmp Udp InErrors", "UDP datagrams not delivered"
    ),
    ("Udp", "RcvbufErrors"): _of_kernel(
        "udp_receive_buffer_errors",
        "/proc/net/snmp Udp RcvbufErrors",
        "UDP datagrams dropped at a full receive buffer",
    ),
    ("Udp", "SndbufErrors"): _of_kernel(
        "udp_send_buffer_errors",
        "/proc/net/snmp Udp SndbufErrors",
        "UDP datagrams dropped at a full send buffer",
    ),
}
"""By protocol and name in /proc/net/snmp (RFC 4022, RFC 4113)."""


def _column(name: str, unit: str) -> Counter:
    return Counter(
        name, unit, "/proc/net/dev", f"{name.replace('_', ' ')} of an interface", per_interface=True
    )


RX_BYTES, TX_BYTES = _column("rx_bytes", "bytes"), _column("tx_bytes", "bytes")
RX_PACKETS, TX_PACKETS = _column("rx_packets", "packets"), _column("tx_packets", "packets")
RX_ERRORS, TX_ERRORS = _column("rx_errors", "packets"), _column("tx_errors", "packets")
RX_DROPS, TX_DROPS = _column("rx_drops", "packets"), _column("tx_drops", "packets")
HOP = (RX_BYTES, RX_PACKETS, RX_ERRORS, RX_DROPS, TX_BYTES, TX_PACKETS, TX_ERRORS, TX_DROPS)
"""Counters of every interface on the path (place `link`), read on the host."""
RX_DROPPED, TX_DROPPED = (RX_DROPS, RX_ERRORS), (TX_DROPS, TX_ERRORS)
"""Packets that an interface received, or should have sent, and did not pass on."""
HOP_COLUMNS = dict(zip((0, 1, 2, 3, 8, 9, 10, 11), HOP, strict=True))
"""By the number of the column in /proc/net/dev (proc_net(5))."""

_IN_GUEST = (
    "bytes_in",
    "packets_in",
    "errors_in",
    "drops_in",
    "bytes_out",
    "packets_out",
    "errors_out",
    "drops_out",
)
OWN_INTERFACE_COLUMNS = {
    column: Counter(
        name,
        HOP_COLUMNS[column].unit,
        "/proc/net/dev",
        f"{name.replace('_', ' ')} of an interface, counted in the guest",
        per_interface=True,
    )
    for column, name in zip(HOP_COLUMNS, _IN_GUEST, strict=True)
}
"""Counters of every interface that a guest sees itself, under `net.INTERFACE`; by the number of the column."""

HOST_DISK_RATIO = "host_disk_ratio"
"""Bytes that the host's disks moved over those that the tool did: an effective setting of trials of disks."""


def own_interface(interface: str) -> str:
    """Return how counters of a guest call an interface that the guest sees itself."""
    return f"net.{interface}"


COUNTERS = (
    HOST_CPU, KERNEL_CPU, UNDER_TEST_CPU, UNDER_TEST_BYTES, DROPS, SWITCH_CPU,
    CONTROLLER_PACKETS, OPENFLOW_FLOWS, SWITCHED_PACKETS, SWITCHED_BYTES,
    *CPU_TIMES, *STAT.values(), *VMSTAT.values(), RUN_QUEUE_WAIT, *PRESSURE.values(), DEVICE_INTERRUPTS,
    *INTERRUPTS.values(), *SOFTIRQS.values(), *DISK_COLUMNS.values(), *NETWORK_TOTALS.values(), *RUSAGE.values(),
    RUN_DELAY, QUOTA_PERIODS, THROTTLED_PERIODS, THROTTLED, PART_CPU, PART_WAIT, PART_SLICES, PART_MEMORY,
    *ENERGY.values(),
    *HARDWARE.values(), *VM_EXITS.values(),
    DOM0_CPU, DOMAINS_CPU, *CLOCK,
    *SNMP.values(), *HOP, *OWN_INTERFACE_COLUMNS.values(),
)  # fmt: skip
"""All of them."""
_BY_NAME = {
    (counter.per_interface or counter.per_part, counter.name): counter for counter in COUNTERS
}


def find(name: str) -> Counter | None:
    """Return the counter of a stored name; None for one not known.

    Of a name with an owner it is found by what is after the last dot.
    """
    return _BY_NAME.get((False, name)) or _BY_NAME.get((True, name.rpartition(".")[2]))
