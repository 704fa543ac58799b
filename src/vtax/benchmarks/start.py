"""start: how long a platform takes from the request for a guest until a server in that guest answers.

Measures starts of fresh guests, one after the other and nothing else running, on the controller's clock. With
`guests = [1, 8]` beside the benchmark's name so many are requested at once, or `stagger_s` one after the other, as a
service does that gives each caller a guest. Every stage counts from the request, before anything of the guest exists:

- `executing`: its first process runs (containers, native) or its first instruction may run (virtual machines).
  Containers are looked for every 1 to 10 ms. Absent where the platform does not show it.
- `agent_ready`: vtax's agent answers on the guest's byte stream.
- `server_answer`: a server process, started in the guest by the agent, has answered a client there on a Unix socket.

`host_faults` are those of all processes of the guest on the host until that answer, where their cgroup counts them:
of a machine that is restored from a snapshot, the pages of its memory that it needed so far.

The figure of a trial is the median of its starts; `server_answer_p95` and `server_answer_p99` are of all starts of a
block, and `vtax show --value p99 --cols metric --all --benchmark start` has that percentile of all starts of a run. A
guest that does not start fails its trial; of several at once it lowers `started`, a warning says why, and the times are
those of the others.

It does not measure: building or copying the image, which every guest shares; starting a daemon that runs already;
joining a network; services of a full init system.

Known traps: of many guests at once the times hold their waiting for CPUs, and for the one process that requests
them. `image = "cold"` drops the image's file data from the host's page cache before every start or burst, not the
kernel's inode and dentry caches, and not the files of the host's runtime (podman, qemu). What could not be dropped is
a warning. A guest boots the image's own init, which is smaller than a distribution's.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from vtax.benchmarks.base import (
    MAX_SAMPLES,
    Benchmark,
    Command,
    Context,
    Metric,
    Outcome,
    Parameters,
    Role,
    Tail,
    register_benchmark,
)
from vtax.benchmarks.histograms import from_counts, percentile
from vtax.errors import BenchmarkError
from vtax.foreign_data import parse_json
from vtax.guest.results import CommandResult
from vtax.messages import Note

_SERVER = """
import os, socket, sys
path = sys.argv[1] + "/vtax-start-" + str(os.getpid())
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
server.set_inheritable(True)
if os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-IS", "-c", sys.argv[2], str(server.fileno())])
server.close()
client = socket.socket(socket.AF_UNIX)
client.connect(path)
client.sendall(b"?")
answer = client.recv(16)
os.wait()
os.unlink(path)
sys.exit(answer != b"ready")
"""
_SERVE = """
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
connection.recv(1)
connection.sendall(b"ready")
"""
_EXPECTED_S = 2.0
_LONGEST_S = 86_400
_MAX_COUNT = 1 << 53


class StartParameters(Parameters):
    """Parameters that a study may fix or vary."""

    image: Literal["warm", "cold"] = Field(
        "warm",
        description="'cold': the image's files are dropped from the host's page cache before every start; 'warm': an "
        "untimed start before the first",
    )
    repetitions: int = Field(
        10,
        ge=2,
        le=MAX_SAMPLES,
        description="starts in a trial, one after the other: of a guest, or of all guests at once",
    )
    stagger_s: float = Field(
        0.0, ge=0, le=60, description="seconds between the requests of guests that start at once"
    )


@register_benchmark
class Start(Benchmark):
    name = "start"
    title = "start of a guest, by stages"
    tool = "python3"
    resource = "start"
    stages = ("executing", "agent_ready", "server_answer")
    Parameters = StartParameters
    work = None  # nothing is counted around starts
    metrics: Sequence[Metric] = (
        Metric("server_answer", "s", "lower", "request to first answer of a server", primary=True),
        Metric(
            "server_answer_p95",
            "s",
            "lower",
            "95th percentile of the first answers of servers",
            tail=Tail("server_answer", 0.95),
        ),
        Metric(
            "server_answer_p99",
            "s",
            "lower",
            "99th percentile of the first answers of servers",
            tail=Tail("server_answer", 0.99),
        ),
        Metric("started", "%", "higher", "guests whose server answered, of those requested"),
        Metric("agent_ready", "s", "lower", "request to agent ready"),
        Metric("executing", "s", "lower", "request to first process or instruction"),
        Metric("host_faults", "faults", "lower", "page faults on the host until the first answer"),
    )
    version_argv = ("python3", "--version")
    version_pattern = r"\A\s*Python (\S.*?)\s*\Z"

    def is_cold(self, parameters: StartParameters) -> bool:
        return parameters.image == "cold"

    def repetitions(self, parameters: StartParameters) -> int:
        return parameters.repetitions

    def stagger_s(self, parameters: StartParameters) -> float:
        return parameters.stagger_s

    def commands(self, parameters: StartParameters, context: Context) -> Sequence[Command]:
        """Return the client and server whose answer is the last stage."""
        return (Command("single", ("python3", "-IS", "-c", _SERVER, context.scratch, _SERVE)),)

    def expected_s(self, parameters: StartParameters, context: Context) -> float:
        return parameters.repetitions * _EXPECTED_S

    def parse(
        self, parameters: StartParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """Read the stages: values are their medians, samples those of every start, in order."""
        bursts = [_burst(line) for line in results["single"].stdout.splitlines()]
        if len(bursts) != parameters.repetitions or len(set(map(len, bursts))) != 1:
            raise BenchmarkError(
                f"{len(bursts)} starts were timed where {parameters.repetitions} were requested"
            )
        requested = list(chain.from_iterable(bursts))
        starts = [start for start in requested if "error" not in start]
        reasons = [str(start["error"]) for start in requested if "error" in start]
        if not starts:
            raise BenchmarkError(f"none of {len(requested)} guests started: {reasons[0]}")
        samples: dict[str, list[float]] = {}
        for name in self.stages:
            if all(name in start for start in starts):
                samples[name] = _seconds(name, starts)
            elif name != "executing":
                raise BenchmarkError(f"a start has no time of {name}")
        if all("host_faults" in start for start in starts):
            samples["host_faults"] = _counts("host_faults", starts)
        values = {name: statistics.median(times) for name, times in samples.items()}
        values["started"] = 100 * len(starts) / len(requested)
        answers = from_counts(Counter(samples["server_answer"]))
        for metric in self.metrics:
            if metric.tail:
                values[metric.name] = percentile(answers, metric.tail.share) or 0.0
        return Outcome(
            values,
            {"image": parameters.image, "starts": len(starts), "stagger_s": parameters.stagger_s},
            _warnings(reasons, len(requested)),
            samples=samples if len(starts) <= MAX_SAMPLES else {},
            histograms={"server_answer": answers},
        )


def _burst(line: str) -> list[dict[str, Any]]:
    """Return the starts of guests at once. Raises BenchmarkError."""
    try:
        burst = parse_json(line)
    except ValueError:
        burst = None
    starts = burst if isinstance(burst, list) else []
    if not starts or not all(isinstance(start, dict) for start in starts):
        raise BenchmarkError("starts are not described as objects of JSON", where=line[:200])
    return starts


def _warnings(reasons: Sequence[str], requested: int) -> tuple[Note, ...]:
    if not reasons:
        return ()
    return (Note("starts-failed", failed=len(reasons), total=requested, reason=reasons[0]),)


def _seconds(name: str, starts: Sequence[Mapping[str, Any]]) -> list[float]:
    values = [start[name] for start in starts]
    for value in values:
        if type(value) not in (int, float) or not 0 < value < _LONGEST_S:
            raise BenchmarkError(f"a start has {value!r:.40} s of {name}")
    return list(map(float, values))


def _counts(name: str, starts: Sequence[Mapping[str, Any]]) -> list[float]:
    values = [start[name] for start in starts]
    for value in values:
        if type(value) is not int or not 0 <= value < _MAX_COUNT:
            raise BenchmarkError(f"a start has {value!r:.40} {name}")
    return list(map(float, values))
