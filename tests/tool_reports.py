"""Real reports of every tool, and what its parser makes of them or of what a test makes of them."""

from pathlib import Path

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.guest.results import CommandResult
from vtax.runner.parsers import Parsers

FIXTURES = Path(__file__).parent / "unit" / "fixtures"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1", link_mbit_s=1e6)
ERRORS = ".err"
REPORTS = [  # benchmark, its parameters, the program's role (with ERRORS: its standard error) -> file
    (
        "dd",
        {"file_size": 67108864},
        {"single": "dd/9.7-write-flushed.txt", f"single{ERRORS}": "dd/9.7-write-flushed.txt"},
    ),
    (
        "iperf2",
        {},
        {
            "client": "iperf2/2.2.1-tcp_send.client.csv",
            "server": "iperf2/2.2.1-tcp_send.server.csv",
        },
    ),
    (
        "iperf2",
        {"protocol": "udp"},
        {
            "client": "iperf2/2.2.1-udp_send.client.csv",
            "server": "iperf2/2.2.1-udp_send.server.csv",
        },
    ),
    ("iperf3", {}, {"client": "iperf3/3.18-tcp-send.json"}),
    ("iperf3", {"protocol": "udp"}, {"client": "iperf3/3.18-udp-send.json"}),
    ("netperf", {"test": "tcp_stream"}, {"client": "netperf/cpu_tcp_stream.txt"}),
    ("netperf", {"test": "tcp_rr"}, {"client": "netperf/cpu_tcp_rr.txt"}),
    ("loaded-latency", {"load": "both"}, {"client": "loaded-latency/2.7.1-both.txt"}),
    ("sockperf", {}, {"client": "sockperf/bookworm-udp-under-load.txt"}),
    ("stream", {}, {"single": "stream/1.0-1-thread.txt"}),
    ("sysbench-cpu", {}, {"single": "sysbench/1.0.20-1-thread.txt"}),
    ("checkout", {}, {"single": "checkout/2.47.3.txt"}),
    ("compile", {"files": 20}, {"single": "compile/gcc-14.2.0-20-files.txt"}),
    (
        "kernel-paths",
        {"operation": "fork_exec", "loops": 300},
        {"single": "kernel-paths/1.0-fork_exec.txt"},
    ),
    ("linpack", {"repetitions": 1000}, {"single": "linpack/1.0-100-double.txt"}),
    (
        "memory-latency",
        {"working_set": 1048576, "loads": 1000000},
        {"single": "memory-latency/1.0-1-mib-small.txt"},
    ),
    ("pi", {"digits": 1000}, {"single": "pi/cln-1.3.6.txt"}),
    ("pi-flint", {"digits": 1000}, {"single": "pi/flint-3.1.0-1-thread.txt"}),
    ("python-imports", {}, {"single": "python-imports/3.13.5.txt"}),
    ("bonnie", {"size": 1073741824}, {"single": "bonnie/2.00a-1-gib-16-files.csv"}),
    (
        "fio",
        {"rw": "write", "block_size": 1048576, "size": 16777216, "once": True},
        {"single": "fio/3.39-write.json"},
    ),
    ("memcached", {}, {"client": "memcached/trixie.txt"}),
    (
        "nginx",
        {"duration_s": 2},
        {"client": "nginx/1.64.0.txt", f"client{ERRORS}": "nginx/1.64.0.err"},
    ),
    (
        "pgbench",
        {"duration_s": 2, "scale": 1, "clients": 2},
        {"client": "pgbench/17-tpcb.txt", f"client{ERRORS}": "pgbench/17-tpcb.err"},
    ),
    ("redis", {"requests": 20000}, {"client": "redis/8.0.txt"}),
    ("sysbench-oltp", {"events": 10000}, {"client": "sysbench-oltp/10.11-point_select.txt"}),
]


def results_of(name, texts):
    """The programs of a trial that printed these texts, by role."""
    tool = registry.get(name).tool
    return {
        role: CommandResult((tool,), 0, text, texts.get(role + ERRORS, ""), 100.0, 100.0, cpu_s=1.0)
        for role, text in texts.items()
        if not role.endswith(ERRORS)
    }


def outcome(name, parameters, texts):
    benchmark = registry.get(name)
    chosen = benchmark.Parameters(**parameters)
    with Parsers([(benchmark, chosen)]) as parsers:
        return parsers.outcome(benchmark, chosen, CONTEXT, results_of(name, texts))


def texts_of(files):
    return {role: (FIXTURES / file).read_text() for role, file in files.items()}
