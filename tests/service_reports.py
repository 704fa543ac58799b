"""Real reports of the clients of services, as results of a trial."""

from pathlib import Path

from vtax.benchmarks.base import Context
from vtax.guest.results import CommandResult

FIXTURES = Path(__file__).parent / "unit" / "fixtures"
CONTEXT = Context(
    vcpus=1,
    memory_bytes=2**30,
    guest_address="198.18.0.2",
    peer_address="198.18.0.1",
    flow=3,
    peer_vcpus=1,
)


def read(name):
    return (FIXTURES / name).read_text()


def version_output(command, suite):
    """What the version command of a benchmark printed in a suite of Debian."""
    for section in read(f"services/versions-{suite}.txt").split("## "):
        if section.startswith(command):
            return section.partition("\n")[2]
    raise LookupError(command)


def client(stdout, *, status=0, stderr="", outside_s=100.0, cpu_s=0.0):
    return {
        "client": CommandResult(
            ("tool",), status, stdout, stderr, outside_s, outside_s, cpu_s=cpu_s
        )
    }


def commands(benchmark, context=CONTEXT, **parameters):
    """The server and the client of a trial."""
    server, foreground = benchmark.commands(benchmark.Parameters(**parameters), context)
    assert (server.role, server.place, foreground.role) == ("server", "guest", "client")
    return server, foreground
