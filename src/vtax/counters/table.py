"""Every counter that is read around a trial: its name, its unit, and where it comes from.

A counter is stored under a place and a name. Places are the roles of a topology's ends (`guest`, `peer`, ...),
`layer` for what the host spends on the guest with its virtualization layer, and `link` for the lab. Whatever reads
or writes a counter takes its name from here. A counter only grows: a trial's share is the difference of two readings.
"""

from __future__ import annotations

from dataclasses import dataclass

GUEST, LAYER, LINK = "guest", "layer", "link"
"""Places that have a meaning of their own; every other place is the role of an end."""


@dataclass(frozen=True)
class Counter:
    """name: as it is stored. unit: of its value. source: the file, or what counts it. meaning: one phrase.

    per_interface: the name stands after that of an interface and a dot (`eth0.rx_bytes`).
    """

    name: str
    unit: str
    source: str
    meaning: str
    per_interface: bool = False

    def of(self, interface: str) -> str:
        """The name of this counter of an interface."""
        return f"{interface}.{self.name}"


def _cpu(kind: str) -> Counter:
    return Counter(f"cpu_{kind}_s", "s", f"/proc/stat cpu {kind}", f"CPU time in {kind}, all CPUs of the kernel")


def _of_kernel(name: str, source: str, meaning: str, unit: str = "") -> Counter:
    return Counter(name, unit, source, meaning)


HOST_CPU = Counter("host_cpu_s", "s", "cgroup", "CPU time of a guest and its layer, counted by the host")
KERNEL_CPU = Counter(
    "kernel_cpu_s", "s", "/proc/stat", "CPU time of a guest with a kernel of its own, by that kernel"
)
UNDER_TEST_CPU = Counter(
    "under_test_cpu_s", "s", "cgroup", "CPU time of all guests under test and their layers, counted by the host"
)
UNDER_TEST_BYTES = Counter(
    "under_test.bytes", "bytes", "/proc/net/dev", "bytes through the interfaces of the guests under test"
)
DROPS = Counter("drops.packets", "packets", "/proc/net/dev", "packets dropped or broken on the path, each once")
SWITCH_CPU = Counter("switch.cpu_s", "s", "/proc/PID/stat", "CPU time of the lab's Open vSwitch")
CONTROLLER_PACKETS = Counter(
    "openflow.to_guest_packets", "packets", "ovs-appctl", "packets the controller decided on"
)
OPENFLOW_FLOWS = Counter("openflow.flows", "flows", "ovs-ofctl", "flows the controller installed")
SWITCHED_PACKETS = Counter("openflow.switched_packets", "packets", "ovs-ofctl", "packets the switch carried alone")
SWITCHED_BYTES = Counter("openflow.switched_bytes", "bytes", "ovs-ofctl", "bytes the switch carried alone")

CPU_TIMES = tuple(map(_cpu, ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")))
"""In the order of the columns of the first line of /proc/stat."""
BUSY = tuple(c for c in CPU_TIMES if c.name not in ("cpu_idle_s", "cpu_iowait_s", "cpu_steal_s"))
"""CPU times in which something ran."""

STAT = {
    "ctxt": _of_kernel("context_switches", "/proc/stat ctxt", "context switches"),
    "intr": _of_kernel("interrupts", "/proc/stat intr", "interrupts served"),
    "processes": _of_kernel("forks", "/proc/stat processes", "processes and threads created"),
}
"""By the first word of a line of /proc/stat."""
VMSTAT = {
    "pgfault": _of_kernel("page_faults", "/proc/vmstat pgfault", "page faults"),
    "pgmajfault": _of_kernel("major_page_faults", "/proc/vmstat pgmajfault", "page faults that needed a disk"),
    "pswpin": _of_kernel("swapped_in_pages", "/proc/vmstat pswpin", "pages read from swap", "pages"),
    "pswpout": _of_kernel("swapped_out_pages", "/proc/vmstat pswpout", "pages written to swap", "pages"),
    "oom_kill": _of_kernel("out_of_memory_kills", "/proc/vmstat oom_kill", "processes killed for lack of memory"),
    "thp_fault_alloc": _of_kernel("huge_page_faults", "/proc/vmstat thp_fault_alloc", "page faults with a huge page"),
}
"""By the name in /proc/vmstat."""
SWAP = (VMSTAT["pswpin"], VMSTAT["pswpout"])

TCP_RETRANSMITS = _of_kernel("tcp_retransmits", "/proc/net/snmp Tcp RetransSegs", "TCP retransmits", "segments")
SNMP = {
    ("Tcp", "InSegs"): _of_kernel(
        "tcp_segments_in", "/proc/net/snmp Tcp InSegs", "TCP segments received", "segments"
    ),
    ("Tcp", "OutSegs"): _of_kernel("tcp_segments_out", "/proc/net/snmp Tcp OutSegs", "TCP segments sent", "segments"),
    ("Tcp", "RetransSegs"): TCP_RETRANSMITS,
    ("Tcp", "InErrs"): _of_kernel("tcp_errors_in", "/proc/net/snmp Tcp InErrs", "bad TCP segments", "segments"),
    ("Udp", "InDatagrams"): _of_kernel(
        "udp_datagrams_in", "/proc/net/snmp Udp InDatagrams", "UDP datagrams received"
    ),
    ("Udp", "OutDatagrams"): _of_kernel("udp_datagrams_out", "/proc/net/snmp Udp OutDatagrams", "UDP datagrams sent"),
    ("Udp", "InErrors"): _of_kernel("udp_errors_in", "/proc/net/snmp Udp InErrors", "UDP datagrams not delivered"),
    ("Udp", "RcvbufErrors"): _of_kernel(
        "udp_receive_buffer_errors",
        "/proc/net/snmp Udp RcvbufErrors",
        "UDP datagrams dropped at a full receive buffer",
    ),
    ("Udp", "SndbufErrors"): _of_kernel(
        "udp_send_buffer_errors", "/proc/net/snmp Udp SndbufErrors", "UDP datagrams dropped at a full send buffer"
    ),
}
"""By protocol and name in /proc/net/snmp (RFC 4022, RFC 4113)."""


def _column(name: str, unit: str) -> Counter:
    return Counter(name, unit, "/proc/net/dev", f"{name.replace('_', ' ')} of an interface", per_interface=True)


RX_BYTES, TX_BYTES = _column("rx_bytes", "bytes"), _column("tx_bytes", "bytes")
RX_PACKETS, TX_PACKETS = _column("rx_packets", "packets"), _column("tx_packets", "packets")
RX_ERRORS, TX_ERRORS = _column("rx_errors", "packets"), _column("tx_errors", "packets")
RX_DROPS, TX_DROPS = _column("rx_drops", "packets"), _column("tx_drops", "packets")
HOP = (RX_BYTES, RX_PACKETS, RX_ERRORS, RX_DROPS, TX_BYTES, TX_PACKETS, TX_ERRORS, TX_DROPS)
"""Of every interface on the path (place `link`), read on the host."""
RX_DROPPED, TX_DROPPED = (RX_DROPS, RX_ERRORS), (TX_DROPS, TX_ERRORS)
"""What an interface received, or should have sent, and did not pass on."""
HOP_COLUMNS = dict(zip((0, 1, 2, 3, 8, 9, 10, 11), HOP, strict=True))
"""By the number of the column in /proc/net/dev (proc_net(5))."""

_IN_GUEST = ("bytes_in", "packets_in", "errors_in", "drops_in", "bytes_out", "packets_out", "errors_out", "drops_out")
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
"""Of every interface that a guest sees itself, under `net.INTERFACE`; by the number of the column."""


def own_interface(interface: str) -> str:
    """How counters of a guest call an interface that the guest sees itself."""
    return f"net.{interface}"


COUNTERS = (
    HOST_CPU, KERNEL_CPU, UNDER_TEST_CPU, UNDER_TEST_BYTES, DROPS, SWITCH_CPU,
    CONTROLLER_PACKETS, OPENFLOW_FLOWS, SWITCHED_PACKETS, SWITCHED_BYTES,
    *CPU_TIMES, *STAT.values(), *VMSTAT.values(), *SNMP.values(), *HOP, *OWN_INTERFACE_COLUMNS.values(),
)  # fmt: skip
"""All of them."""
_BY_NAME = {(counter.per_interface, counter.name): counter for counter in COUNTERS}


def find(name: str) -> Counter | None:
    """The counter of a stored name, that of an interface by the part after its last dot; None for one not known."""
    return _BY_NAME.get((False, name)) or _BY_NAME.get((True, name.rpartition(".")[2]))
