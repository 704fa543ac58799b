"""Real reports of every tool, and what its parser makes of them or of what a test makes of them."""

from pathlib import Path

from vtax.benchmarks import registry
from vtax.benchmarks.base import Context
from vtax.guest.guest import CommandResult
from vtax.runner.trial import parsed

FIXTURES = Path(__file__).parent / "unit" / "fixtures"
CONTEXT = Context(1, 2**29, guest_address="198.18.0.2", peer_address="198.18.0.1", link_mbit_s=1e6)
REPORTS = [  # benchmark, its parameters, the program's role -> file with what it printed
    ("dd", {"file_size": 67108864}, {"single": "dd/9.7-write-flushed.txt"}),
    ("iperf2", {}, {"client": "iperf2/2.2.1-tcp_send.client.csv", "server": "iperf2/2.2.1-tcp_send.server.csv"}),
    (
        "iperf2",
        {"protocol": "udp"},
        {"client": "iperf2/2.2.1-udp_send.client.csv", "server": "iperf2/2.2.1-udp_send.server.csv"},
    ),
    ("iperf3", {}, {"client": "iperf3/3.18-tcp-send.json"}),
    ("iperf3", {"protocol": "udp"}, {"client": "iperf3/3.18-udp-send.json"}),
    ("netperf", {"test": "tcp_stream"}, {"client": "netperf/cpu_tcp_stream.txt"}),
    ("netperf", {"test": "tcp_rr"}, {"client": "netperf/cpu_tcp_rr.txt"}),
    ("sockperf", {}, {"client": "sockperf/bookworm-udp-under-load.txt"}),
    ("stream", {}, {"single": "stream/1.0-1-thread.txt"}),
    ("sysbench-cpu", {}, {"single": "sysbench/1.0.20-1-thread.txt"}),
    ("bonnie", {"size": 1073741824}, {"single": "bonnie/2.00a-1-gib-16-files.csv"}),
]


def results_of(name, texts):
    """The programs of a trial that printed these texts, by role."""
    tool = registry.get(name).tool
    return {
        role: CommandResult((tool,), 0, text, text if name == "dd" else "", 100.0, 100.0, user_s=1.0)
        for role, text in texts.items()
    }


def outcome(name, parameters, texts):
    benchmark = registry.get(name)
    return parsed(benchmark, benchmark.Parameters(**parameters), CONTEXT, results_of(name, texts))


def texts_of(files):
    return {role: (FIXTURES / file).read_text() for role, file in files.items()}
