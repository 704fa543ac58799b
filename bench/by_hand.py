"""What vtax changes in a figure: the same tool typed by hand and run through vtax, alternating within pairs.

By hand: the same binary of the same image, on the same CPU, started directly (chroot for sysbench and STREAM; iperf3
in two network namespaces joined by a bridge as anyone would type it), with none of vtax's agent, channel or counters.

    sudo .venv/bin/python bench/by_hand.py [--pairs 20] [--tool sysbench-cpu|stream|iperf3] [--json]

A pair is not one run of each but several, in an order that a drift of the host cannot favour (PATTERNS): what differs
from one start of a tool to the next, such as where its memory lies, is most of the noise and averages out within the
pair. Which way is A is drawn for every pair. What the figure cost in CPU is compared as well: for sysbench the events
of a CPU second, for STREAM the CPU seconds of a run, for iperf3 those of both its ends for a gigabyte.

Measure on a quiet machine: beside other programs a guest's cgroup has a share of the CPU of its own, and what is
typed by hand shares with everything else, so the hand looks slow. Twenty pairs of both tools take under ten minutes.

The promise (docs/promises.md): the ratio is 1.00 within half a percent for sysbench and STREAM, one percent for
iperf3.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import Any

import cleanup

from vtax.benchmarks.base import Command, Context
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.host.interrupts import insist
from vtax.host.process import run
from vtax.host.resources import NetworkNamespace
from vtax.image.build import find
from vtax.network.settings import LinkSettings
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.open_guest import OpenGuest, OpenRun
from vtax.runner.parsers import Parsers
from vtax.runner.plan import Plan, make_plan, split_cpus
from vtax.runner.removals import Removals
from vtax.stats.ratio import paired_ratio
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

STUDIES: dict[str, dict[str, Any]] = {
    "sysbench-cpu": {"name": "sysbench-cpu", "parameters": {"duration_s": 2}},
    "stream": {"name": "stream", "parameters": {"array_size": "96MiB", "repetitions": 20}},
    "iperf3": {"name": "iperf3", "parameters": {"duration_s": 1}},
}
PATTERNS = {"sysbench-cpu": "ABBA", "stream": "ABBA", "iperf3": "ABBABAABBAABABBA"}
"""The runs of a pair, one letter each. Beginnings of the Thue-Morse sequence: with 2^n letters both ways keep their
means whatever polynomial of time below degree n is added to the figures."""
CPU_S = "cpu_s"
_ATTEMPTS = 3
Values = Mapping[str, float]
Measure = Callable[[], Values]


def plan_for(tool: str) -> Plan:
    """A study of one cell on native."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    declared = {"name": f"by-hand-{tool}", "platforms": ["native"], "benchmark": [STUDIES[tool]]}
    return make_plan(
        LoadedStudy(validate(declared, "bench/by_hand.py"), "bench/by_hand.py"), image=image, seed=1
    )


@contextmanager
def through_vtax(plan: Plan) -> Iterator[Measure]:
    """One native guest; every call is a whole trial in it."""
    home = Home.from_environment().ensure()
    with cleanup.journal() as journal, cleanup.directory(journal) as directory:
        store = Store.open(f"sqlite:///{directory}/store.sqlite")
        life = plan.guests(0)[0]
        handle = begin(store, plan, vtax_version="bench")
        with (
            Removals() as removals,
            Parsers() as parsers,
            OpenGuest(
                life, OpenRun(plan, handle, home, journal, Observer(), parsers, removals)
            ) as opened,
        ):

            def measure() -> Values:
                result = opened.trial(life.cells[0])
                if result.error:
                    raise BenchmarkError(result.error)
                tool = result.foreground
                return {
                    **result.outcome.values,
                    CPU_S: tool.cpu_s if tool else 0.0,
                }

            yield measure


def figures(plan: Plan) -> dict[str, Callable[[Values], float]]:
    """What is compared: the primary metric, and what it cost in CPU, which a crowded machine disturbs less."""
    name = next(m.name for m in plan.points[0].benchmark.metrics if m.primary)
    found: dict[str, Callable[[Values], float]] = {name: lambda values: values[name]}
    if plan.points[0].benchmark.name == "stream":
        found["CPU s"] = lambda values: values[CPU_S]
    elif plan.points[0].benchmark.name == "sysbench-cpu":
        seconds = STUDIES["sysbench-cpu"]["parameters"]["duration_s"]
        found["events per CPU second"] = lambda values: values[name] * seconds / values[CPU_S]
    else:
        found["CPU s/GB"] = lambda values: (
            (values["cpu_guest"] + values["cpu_peer"]) / 100 / (values[name] / 8000)
        )
    return found


def children_cpu_s() -> float:
    """CPU seconds of every program that this one started and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_hand(plan: Plan, argv: list[str], context: Context, command: Command) -> Measure:
    """Runs argv, which ends in the command's, directly and parses what it prints with the same parser."""
    environment = {**cleanup.environment(), **command.environment}

    def measure() -> Values:
        started_at, cpu_s = time.monotonic(), children_cpu_s()
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        seconds = time.monotonic() - started_at
        result = CommandResult(
            tuple(argv), done.returncode, done.stdout, done.stderr, seconds, seconds
        )
        outcome = plan.points[0].benchmark.parse(
            plan.points[0].parameters, context, {command.role: result}
        )
        return {**outcome.values, CPU_S: children_cpu_s() - cpu_s}

    return measure


@contextmanager
def local_by_hand(plan: Plan) -> Iterator[Measure]:
    """`taskset -c CPU chroot TREE TOOL ...`, /tmp in memory"""
    cpu, _ = split_cpus(1)
    context = plan.context()
    command = plan.points[0].benchmark.commands(plan.points[0].parameters, context)[0]
    argv = ["taskset", "-c", ",".join(map(str, cpu)), *in_tree(plan), *command.argv]
    yield by_hand(plan, argv, context, command)


@contextmanager
def iperf3_by_hand(plan: Plan) -> Iterator[Measure]:
    """Two namespaces, two veth pairs, a bridge, `iperf3 -s` in one and `iperf3 -c` in the other.

    The links are set as the lab sets them: one queue, no multicast snooping, bridged packets past the firewall. A
    bridge as it comes is 3 to 7 % slower, which is the link's doing and not vtax's.
    """
    names = [f"vtax-{secrets.token_hex(2)}-{end}" for end in ("bridge", "guest", "peer")]
    bridge, guest, peer = names
    guest_cpus, peer_cpus = split_cpus(1)
    with cleanup.journal() as journal:
        for name in names:
            journal.register(NetworkNamespace(name))
            run(["ip", "netns", "add", name])
        run(["ip", "-n", bridge, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0"])
        past = [
            f"net.bridge.bridge-nf-call-{kind}=0" for kind in ("iptables", "ip6tables", "arptables")
        ]
        run(
            [
                "nsenter",
                f"--net=/run/netns/{bridge}",
                "sysctl",
                "--ignore",
                "--quiet",
                "--write",
                *past,
            ]
        )
        queues = ["numtxqueues", "1", "numrxqueues", "1"]
        run(["ip", "-n", bridge, "link", "set", "br0", "up"])
        for name, address in ((guest, "198.18.200.1/24"), (peer, "198.18.200.2/24")):
            port = f"p-{name[-5:]}"
            veth = ["type", "veth", "peer", "eth0", *queues, "netns", name]
            run(["ip", "-n", bridge, "link", "add", port, *queues, *veth])
            run(["ip", "-n", bridge, "link", "set", port, "master", "br0", "up"])
            run(["ip", "-n", name, "address", "add", address, "dev", "eth0"])
            run(["ip", "-n", name, "link", "set", "eth0", "up"])
            control = LinkSettings().congestion  # a host may prefer another one
            run(
                [
                    "ip",
                    "-n",
                    name,
                    "route",
                    "replace",
                    "198.18.200.0/24",
                    "dev",
                    "eth0",
                    "congctl",
                    control,
                ]
            )
        context = Context(
            1,
            plan.resources.memory_bytes,
            peer_address="198.18.200.2",
            guest_address="198.18.200.1",
        )
        commands = {
            c.role: c for c in plan.points[0].benchmark.commands(plan.points[0].parameters, context)
        }
        inside = in_tree(plan)
        server_argv = [*typed(peer, peer_cpus), *inside, *commands["server"].argv]
        client_argv = [*typed(guest, guest_cpus), *inside, *commands["client"].argv]
        measure_client = by_hand(plan, client_argv, context, commands["client"])

        null = subprocess.DEVNULL

        def measure() -> Values:
            server = subprocess.Popen(
                server_argv, stdout=null, stderr=null, env=cleanup.environment()
            )
            try:
                listening = ["nsenter", f"--net=/run/netns/{peer}", "ss", "-Hltn"]
                while ":5201" not in run(listening).stdout:
                    time.sleep(0.02)
                return measure_client()
            finally:
                server.terminate()
                server.wait()

        yield measure


def in_tree(plan: Plan) -> list[str]:
    """The words before a command that give it the image's tree as root, and a /tmp that leaves nothing in it."""
    enter = 'mount -t tmpfs tmpfs "$0/tmp" && exec chroot "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", enter, str(plan.image.tree)]


def typed(namespace: str, cpus: tuple[int, ...]) -> list[str]:
    """The words before a command that put it in a namespace and on its CPUs, and end it with this program.

    A signal between the start of a server and the line that would end it loses the server otherwise.
    """
    return [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "nsenter",
        f"--net=/run/netns/{namespace}",
        "taskset",
        "-c",
        ",".join(map(str, cpus)),
    ]


def whole(way: Measure) -> Values:
    """A run that succeeds. One that fails, as tools do on a crowded machine, is said and made again."""
    for _ in range(_ATTEMPTS):
        insist()
        try:
            return way()
        except BenchmarkError as error:
            print(f"a run failed and is made again: {error}", file=sys.stderr)
    raise SystemExit("too many runs fail")


def compare(tool: str, pairs: int) -> list[dict[str, Any]]:
    """Every figure of a tool: its ratio over the pairs with a 95 % interval, and all values by pair."""
    plan = plan_for(tool)
    hands = {"sysbench-cpu": local_by_hand, "stream": local_by_hand, "iperf3": iperf3_by_hand}
    measured: dict[str, list[list[Values]]] = {"vtax": [], "hand": []}
    with through_vtax(plan) as vtax, hands[tool](plan) as hand:
        ways = {"vtax": vtax, "hand": hand}
        for way in ways.values():
            whole(way)
        for _ in range(pairs):
            letters = dict(zip("AB", random.sample(list(ways), 2), strict=True))
            for each in measured.values():
                each.append([])
            for letter in PATTERNS[tool]:
                measured[letters[letter]][-1].append(whole(ways[letters[letter]]))
    found = []
    for figure, of in figures(plan).items():
        values = {
            name: [[of(value) for value in pair] for pair in each]
            for name, each in measured.items()
        }
        means = {name: [fmean(pair) for pair in each] for name, each in values.items()}
        ratio = paired_ratio(means["vtax"], means["hand"])
        found.append(
            {
                "tool": tool,
                "figure": figure,
                "pairs": pairs,
                "runs": len(PATTERNS[tool]),
                "ratio": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
                "values": values,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="native by hand against native through vtax")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tool", choices=STUDIES, action="append")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = [
        each for tool in arguments.tool or list(STUDIES) for each in compare(tool, arguments.pairs)
    ]
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for each in found:
        print(
            f"{each['tool']}, {each['figure']}: through vtax / by hand = {each['ratio']:.4f} "
            f"[{each['low']:.4f}, {each['high']:.4f}], {each['pairs']} pairs of {each['runs']} runs"
        )


if __name__ == "__main__":
    cleanup.run(main)
