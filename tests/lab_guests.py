"""Guests at the ends of a topology, as the runner would start them. Import as `from lab_guests import LabGuests`."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field

from vtax.benchmarks import registry as benchmarks
from vtax.benchmarks.base import Context, Outcome
from vtax.guest.guest import Guest
from vtax.guest.results import CommandResult
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.network import registry as topologies
from vtax.network.links import Links
from vtax.platforms import registry as platforms
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.runner.counting import Endpoint
from vtax.runner.lanes import Lane
from vtax.runner.parsers import Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.runner.trial import TrialResult, run_trial


@dataclass
class LabGuests:
    """A built topology with a started guest at every end. Use as a context manager."""

    topology: str
    platform: str | Platform
    image: Image
    journal: Journal
    home: object
    link: dict = field(default_factory=dict)
    memory_bytes: int = 512 * 1024**2
    side_by_side: int = 1

    @property
    def _platform(self) -> Platform:
        return platforms.get(self.platform) if isinstance(self.platform, str) else self.platform

    def __enter__(self) -> LabGuests:
        self._stack = ExitStack()
        self.guests: dict[str, Guest] = {}
        self.endpoints: dict[str, Endpoint] = {}
        with ExitStack() as started:
            self.links: Links = topologies.get(self.topology).build(
                self.journal, topologies.settings(self.topology, self.link), self.side_by_side
            )
            started.callback(self.links.close)
            for end in self.links.ends:
                self._start(started, end)
            self._stack = started.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start(self, stack, end):
        name = f"vtax-{secrets.token_hex(3)}"
        directory = self.home.guests / name
        stack.callback(self.journal.register(Tree(str(directory))).release)
        directory.mkdir(parents=True)
        cpus = tuple(sorted(os.sched_getaffinity(0)))[-1:]
        spec = GuestSpec(
            name, self.image, Resources(1, self.memory_bytes, cpus), directory, self.journal, end
        )
        running = (self._platform if end.under_test else platforms.get("native")).start(spec)
        stack.callback(running.stop)
        guest = Guest(running.channel)
        stack.callback(guest.close)
        guest.hello(timeout_s=120)
        self.guests[end.role] = guest
        self.endpoints[end.role] = Endpoint(running, guest)
        end.connected(lambda argv: self._output(guest, argv))

    def apply(self, link: dict) -> None:
        """Change the links as a study's values say."""
        self.links.apply(topologies.settings(self.topology, link))

    def run(self, role: str, *argv: str, timeout_s: float = 60) -> str:
        """What a command printed in the guest of a role; it must succeed."""
        return self._output(self.guests[role], argv, timeout_s)

    def context(self, flow_number: int) -> Context:
        """The context of a trial over one flow."""
        flow, settings = self.links.flows[flow_number], self.links.settings
        return Context(
            1,
            self.memory_bytes,
            guest_address=flow.client_address,
            peer_address=flow.server_address,
            link_mbit_s=self.links.link_mbit_s,
            mtu=settings.mtu,
            congestion=settings.congestion,
            flow=flow_number,
        )

    def measure(self, name: str, **parameters: object) -> Outcome:
        """One trial of a benchmark over the first flow."""
        return self.measure_flow(0, name, **parameters)

    def measure_flow(self, flow_number: int, name: str, **parameters: object) -> Outcome:
        """One trial of a benchmark over one flow."""
        benchmark = benchmarks.get(name)
        checked = benchmark.Parameters(**parameters)
        flow, context = self.links.flows[flow_number], self.context(flow_number)
        server, client = benchmark.commands(checked, context)
        there, here = self.guests[flow.server], self.guests[flow.client]
        handle = there.start(server.argv)
        try:
            if server.ready_port is not None:
                there.wait_port(server.ready_port, handle=handle)
            for argv in client.before:
                self._output(here, argv)
            result = here.run(client.argv, timeout_s=120)
        finally:
            served = there.stop(handle)
        return benchmark.parse(checked, context, {"client": result, "server": served})

    def trial(self, name: str, **parameters: object) -> TrialResult:
        """A whole trial of a benchmark as the runner makes it: over every flow of the topology at once."""
        benchmark = benchmarks.get(name)
        checked = benchmark.Parameters(**parameters)
        point = Point("point", name, benchmark, checked, self.topology, self.links.settings)
        lanes = [
            Lane(
                self.context(number),
                {"guest": self.endpoints[flow.client], "peer": self.endpoints[flow.server]},
            )
            for number, flow in enumerate(self.links.flows)
        ]
        cell = PlannedCell("cell", self._platform, point)
        with Parsers() as parsers:
            return run_trial(parsers, cell, lanes, self.endpoints, self.links, timeout_s=120)

    @staticmethod
    def _output(guest, argv, timeout_s=60):
        result: CommandResult = guest.run(argv, timeout_s=timeout_s)
        assert result.status == 0, (argv, result.stdout, result.stderr)
        return result.stdout


def crossed(before: dict[str, float], after: dict[str, float], hop: str) -> dict[str, float]:
    """What one hop carried between two readings of Links.counters."""
    start = f"{hop}."
    return {
        name.removeprefix(start): after[name] - before[name]
        for name in after
        if name.startswith(start)
    }
