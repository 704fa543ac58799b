"""A study file drafted from a question: what `vtax new` writes. The text is TOML with comments, kept short."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

Question = Literal["compare", "difference", "density", "network", "service", "program"]
QUESTIONS: Mapping[str, str] = {
    "compare": "what does each platform cost, resource by resource?",
    "difference": "does a platform differ from native by more than some percentage?",
    "density": "what does a guest get when several run at once?",
    "network": "how does throughput depend on the size of messages and the direction?",
    "service": "what does each platform cost a service: requests, slow answers, CPU time?",
    "program": "how much longer does a program of mine take?",
}
TABLES: Mapping[str, str] = {
    "cpu": 'name = "sysbench-cpu"\ntrial_time = "0.1s"',
    "memory": 'name = "stream"\nparameters = { repetitions = 2 }  # arrays of four times the last-level cache',
    "disk": 'name = "dd"\nparameters = { file_size = "64MiB", cache = "direct" }  # past the guest\'s page cache',
    "network": 'name = "netperf"\ntrial_time = "0.1s"\nfactors = { test = ["tcp_stream", "tcp_maerts"] }',
    "kernel": 'name = "kernel-paths"\ntrial_time = "0.1s"\nfactors = { operation = ["syscall", "page_fault", "fork_exec"] }',
    "start": 'name = "start"\nparameters = { repetitions = 5 }  # guests started in a trial',
}
"""Resource -> the body of its [[benchmark]]."""
_DENSE_TABLES: Mapping[str, str] = {
    "cpu": 'name = "sysbench-cpu"\nparameters = { duration_s = 2 }',
    "memory": 'name = "stream"\nparameters = { array_size = "64MiB", repetitions = 5 }',
    "disk": 'name = "dd"\nparameters = { file_size = "256MiB", cache = "direct" }',
}
"""The same where several guests run at once: their trials are long beside the moments at which they begin."""
_SERVICES: Mapping[str, str] = {
    "nginx": 'name = "nginx"\nparameters = { duration_s = 0.2, warm_up_s = 0.1, connections = 16 }  # a web server',
    "redis": 'name = "redis"\ntrial_time = "0.2s"  # a store in memory',
    "pgbench": 'name = "pgbench"\ntrial_time = "0.2s"\nparameters = { test = "select", scale = 1, clients = 4 }  # a database',
    "sockperf": 'name = "sockperf"\nparameters = { duration_s = 1, messages_per_second = 5000 }  # messages under a steady load',
}
"""The same of services, as in the shipped study; clients are on the peer."""
BODIES: Mapping[Question, Mapping[str, str]] = {
    "compare": TABLES,
    "difference": TABLES,
    "density": _DENSE_TABLES,
    "service": _SERVICES,
}
"""Question -> what it can measure, with the body of its [[benchmark]]."""
SIZES = (64, 1024, 16 * 1024, 128 * 1024)  # bytes of one write
_GUESTS = (1, 2, 4)  # at once
MAX_BLOCKS = 200  # of the rule `verdict`: boundaries of more looks are wider


@dataclass(frozen=True)
class Load:
    """A program that loads a server, and what its report says.

    package: has it. pattern: of what it counts a second. number: of how much it counted. must_match: of a report in
    which every answer succeeded. fails_if: of the line of one that counts failures. options: make it report latencies.
    latency: the pattern of one, in which PERCENT stands for a percentile; empty without any. percents: of these.
    is_logged: the time of each answer, in µs, is the third word of a line of its log, which the options call LOG.
    first: of the shell, before it; for a server that listens before it answers. duration: its options that say how
    long it runs.
    """

    package: str
    pattern: str
    number: str
    must_match: str
    fails_if: str
    options: tuple[str, ...] = ()
    latency: str = r"^latency of PERCENT %: ([0-9.]+) ms$"
    percents: tuple[int, ...] = (50, 95, 99)
    is_logged: bool = False
    counts: str = "request"
    first: str = ""
    duration: str = ""

    def seconds(self, load: Sequence[str]) -> float | None:
        """Return how long a command runs; None where it does not say."""
        match = re.search(rf" (?:{self.duration})[ =]?([0-9.]+)(ms|s)?(?= |$)", " ".join(load))
        if not self.duration or match is None:
            return None
        return float(match[1]) / (1000 if match[2] == "ms" else 1)


LOADS: Mapping[str, Load] = {
    "wrk": Load(
        "wrk",
        r"^Requests/sec:\s+([0-9.]+)",
        r"^ *([0-9]+) requests in ",
        r"^ *[1-9][0-9]* requests in ",
        r"^ *(?:Socket errors|Non-2xx or 3xx responses):.*",
        ("--latency",),
        r"^ +PERCENT% +([0-9.]+[mu]?s) *$",
        (50, 90, 99),
        duration="-d|--duration",
    ),
    "h2load": Load(
        "nghttp2-client",
        r"^finished in [0-9.]+m?s, ([0-9.]+) req/s",
        r"^requests: ([0-9]+) total,",
        r"^requests: .*, 0 failed, 0 errored, 0 timeout\nstatus codes: [1-9][0-9]* 2xx, 0 3xx, 0 4xx, 0 5xx",
        r"^requests: .* [1-9][0-9]* (?:failed|errored|timeout).*(?:\nstatus codes: .*)?",
        ("--log-file=LOG",),
        is_logged=True,
        duration="-D|--duration",
    ),
    "ab": Load(
        "apache2-utils",
        r"^Requests per second:\s+([0-9.]+)",
        r"^Complete requests: +([0-9]+)$",
        r"^Complete requests: +[1-9][0-9]*\nFailed requests: +0$",
        r"^(?:Failed requests|Write errors|Non-2xx responses): +[1-9].*(?:\n +\(.*)?",
        ("-e", "/dev/stdout"),
        r"^PERCENT,([0-9.]+)$",
    ),
    "pgbench": Load(
        "postgresql-contrib",
        r"^tps = ([0-9.]+) \(without initial connection time\)",
        r"^number of transactions actually processed: ([0-9]+)(?:/[0-9]+)?$",
        r"^number of transactions actually processed: [1-9].*\nnumber of failed transactions: 0 ",
        r"^number of failed transactions: [1-9].*",
        ("--log", "--log-prefix=LOG"),
        is_logged=True,
        duration="-T|--time",
        counts="transaction",
        first="for n in $(seq 300); do pg_isready --quiet -h {guest_address} -p {port} && break; sleep 0.1; done",
    ),
    "siege": Load(
        "siege",
        r'(?i)^\W*transaction[_ ]rate"?:\s+([0-9.]+)',
        r'(?i)^\W*transactions"?:\s+([0-9]+)',
        r'(?i)^\W*successful[_ ]transactions"?:\s+[1-9][0-9]*\W*failed[_ ]transactions"?:\s+0\b',
        r'(?i)^\W*(?:failed[_ ]transactions"?:\s+[1-9].*|availability"?:\s+(?!100\b)[0-9].*)',
        latency="",
    ),
}
"""Programs whose figure and failures are known; of another the time to its end is the figure."""


def known_load(load: Sequence[str]) -> Load | None:
    """Return what is known of the program of a command; None of another."""
    return LOADS.get(PurePath(load[0]).name)


_STARTS_S = 0.5  # of a load, beside the time that it runs
_LATENCIES_OF_LOG = """
import glob, subprocess, sys, tempfile
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as place:
    status = subprocess.call([word.replace("LOG", place + "/log") for word in sys.argv[2:]])
    words = [line.split()[2] for path in glob.glob(place + "/*") for line in open(path)]
times = sorted(int(word) for word in words if word.isdigit())
for percent in (50, 95, 99):
    if times:
        us = times[-(-len(times) * percent // 100) - 1]
        print("latency of %d %%: %.3f ms" % (percent, us / 1000))
sys.exit(status)
"""


def served(name: str, image: str, server: Sequence[str], load: Sequence[str], port: int) -> str:
    """Return a study of a server of an image of the user's and the command that loads it.

    name: what its benchmark is called. load: the command, in which `{url}` stands for the server's.
    """
    load_tool = known_load(load)
    metrics = [_metric("time", "s", "lower", "elapsed = true")]
    of_load = []
    client = [word.replace("{url}", "http://{guest_address}:{port}/") for word in load]
    if load_tool:
        client[1:1] = load_tool.options
        if load_tool.is_logged:
            client = ["python3", "-c", _LATENCIES_OF_LOG, "{scratch}", *client]
        if load_tool.first:
            client = ["sh", "-c", f'{load_tool.first}; exec "$@"', "sh", *client]
        of_load = [
            f"packages = [{_quoted(load_tool.package)}]",
            f"must_match = {_quoted(load_tool.must_match)}",
            f"fails_if = {_quoted(load_tool.fails_if)}",
        ]
        seconds = load_tool.seconds(load)
        if seconds is not None:
            of_load.append(f"expected_duration = {seconds + _STARTS_S:g}")
        metrics = _metrics_of(load_tool)
    lines = [
        f"name = {_quoted(image)}",
        f'title = "What does each layer cost the image {image}?"',
        'platforms = ["native", "podman", "docker", "lxc", "nspawn", "qemu-tcg-virtio", "kvm-virtio"]',
        "[guest]",
        f"image = {_quoted(image)}",
        'memory = "1GiB"',
        "[design]",
        'stop = "verdict"',
        'budget = "15min"',
        "[[program]]",
        f"name = {_quoted(name)}",
        f"port = {port}",
        'server_in = "guest"',
        *of_load,
        f"argv = {{ server = [{_list(server)}], client = [{_list(client)}] }}",
        *metrics,
        "[[benchmark]]",
        f"name = {_quoted(name)}",
    ]
    return "\n".join(lines) + "\n"


def _metrics_of(load: Load) -> list[str]:
    """Return the tables of what a load reports: its rate, its latencies, and how much it counted."""
    counts = f"{load.counts}s"
    metrics = [_metric(counts, f"{counts}/s", "higher", f"pattern = {_quoted(load.pattern)}")]
    for percent in load.percents if load.latency else ():
        pattern = _quoted(load.latency.replace("PERCENT", str(percent)))
        metrics.append(_metric(f"latency_p{percent}", "ms", "lower", f"pattern = {pattern}"))
    number = f'pattern = {_quoted(load.number)}\ncounts = "{load.counts}"'
    metrics.append(_metric(f"all_{counts}", counts, "higher", number))
    return metrics


def _metric(name: str, unit: str, better: str, source: str) -> str:
    return f'[[program.metric]]\nname = "{name}"\nunit = "{unit}"\nbetter = "{better}"\n{source}'


def _list(words: Sequence[str]) -> str:
    return ", ".join(map(_quoted, words))


@dataclass(frozen=True)
class Draft:
    """Answers that make a study.

    platforms: the baseline first. time: that the run may take, as a duration. resources: of the questions in BODIES.
    difference, max_blocks: of `difference`. program: what the benchmark of `program` is called. command, files: of
    `program`; files as the command names them.
    """

    name: str
    question: Question
    platforms: tuple[str, ...]
    time: str
    resources: tuple[str, ...] = ()
    difference: float | None = None
    program: str = ""
    command: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    max_blocks: int = 30

    def within(self, blocks: int) -> Draft:
        """Return the draft with at most as many blocks as fit the time."""
        return replace(self, max_blocks=min(max(blocks, 10), MAX_BLOCKS))

    @property
    def margin(self) -> float:
        """Ratios within this of 1 are equivalent."""
        return min(0.02, (self.difference or 1.0) / 2)

    def text(self) -> str:
        """Return the content of the study file."""
        parts = [_head(self), _guest(self), _design(self), *_programs(self), *_benchmarks(self)]
        return "\n".join(parts)


def _head(draft: Draft) -> str:
    return (
        "# Made by vtax new. docs/study-files.md explains every key.\n"
        f"name = {_quoted(draft.name)}\nquestion = {_quoted(_question(draft))}\n"
        f"baseline = {_quoted(draft.platforms[0])}\n"
        f"platforms = [{', '.join(map(_quoted, draft.platforms))}]\n"
    )


def _question(draft: Draft) -> str:
    if draft.question == "difference":
        return f"Does a platform differ from {draft.platforms[0]} by {100 * (draft.difference or 0):g} % or more?"
    text = QUESTIONS[draft.question]
    if draft.command:
        text = text.replace("a program of mine", " ".join(draft.command))
    return text[0].upper() + text[1:]


def _guest(draft: Draft) -> str:
    memory = "512MiB"
    measures_memory = "memory" in draft.resources and draft.question != "density"
    if draft.question == "service" or measures_memory:
        memory = "1GiB"
    return f'[guest]  # the same on every platform\nvcpus = 1\nmemory = "{memory}"\n'


def _design(draft: Draft) -> str:
    margin = (
        f"margin = {draft.margin:.6g}  # platforms that differ by less than this are equivalent"
    )
    if draft.question == "difference":
        rule = f'stop = "verdict"  # until every comparison is decided\nmax_blocks = {draft.max_blocks}'
    else:
        rule = 'stop = "budget"  # as many blocks as fit'
    return f"[design]\n{rule}\nbudget = {_quoted(draft.time)}\n{margin}\n"


def _programs(draft: Draft) -> list[str]:
    if draft.question != "program":
        return []
    argv = []
    for word in draft.command:
        is_file = word in draft.files
        argv.append(f"{{files}}/{PurePath(word).name}" if is_file else _escape_braces(word))
    lines = [
        "[[program]]",
        f"name = {_quoted(draft.program)}",
        f"argv = {{ guest = [{', '.join(map(_quoted, argv))}] }}",
    ]
    if draft.files:
        lines.append(
            f"files = [{', '.join(map(_quoted, draft.files))}]  # beside this file, put into {{files}}"
        )
    else:
        hashed = ["sh", "-c", 'sha256sum "$(command -v "$0")"', draft.command[0]]
        lines.append(
            f"version = [{', '.join(map(_quoted, hashed))}]  # or a command that prints its version"
        )
    lines += [
        "",
        "[[program.metric]]",
        'name = "time"',
        'unit = "s"',
        'better = "lower"',
        "elapsed = true  # or a pattern or pointer to a figure in its output",
        "",
    ]
    return ["\n".join(lines)]


def _benchmarks(draft: Draft) -> list[str]:
    if draft.question == "program":
        return [_table(f"name = {_quoted(draft.program)}")]
    if draft.question == "network":
        sizes = ", ".join(map(str, SIZES))
        return [
            _table(
                'name = "netperf"\ntrial_time = "0.1s"\n'
                f'factors = {{ test = ["tcp_stream", "tcp_maerts"], message_size = [{sizes}] }}  # bytes of one write'
            )
        ]
    guests = ""
    if draft.question == "density":
        guests = f"\nguests = [{', '.join(map(str, _GUESTS))}]  # at once"
    bodies = BODIES[draft.question]
    return [_table(f"{bodies[resource]}{guests}") for resource in draft.resources]


def _table(body: str) -> str:
    return f"[[benchmark]]\n{body}\n"


def _escape_braces(word: str) -> str:
    """Return a word of a command line as an argument: braces stand for themselves."""
    return word.replace("{", "{{").replace("}", "}}")


def _quoted(text: str) -> str:
    """Return a basic string of TOML, which JSON's escapes are valid in."""
    return json.dumps(text, ensure_ascii=False)
