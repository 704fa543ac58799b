"""Other machines that a run measures on, or that uplinks join to this host: it has them to itself, as this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.network import registry as topology_registry
from vtax.platforms.base import MachineDriver, Platform
from vtax.runner.check import resolve_platform
from vtax.runner.plan import Plan
from vtax.store.hosts import PEERS
from vtax.store.run import RunHandle


@dataclass
class Machines:
    """Machines that a run holds.

    facts: the fact PEERS of the host, empty without such machines: name of the platform -> identity of the machine.
    run: gets a warning of each that could not be held, or not until the end.
    """

    facts: Mapping[str, Mapping[str, str]]
    run: RunHandle | None


@contextmanager
def held_machines(plan: Plan, name: str, run: RunHandle | None = None) -> Iterator[Machines]:
    """Hold the measuring lock of every machine under test or at an end of the plan's links, while the block runs.

    name: of the run. run: None when the block begins it. Raises Busy or BadInput, naming the machine.
    """
    machines, notes = Machines({}, run), list[Note]()
    try:
        with ExitStack() as stack:
            found = {
                platform.name: stack.enter_context(
                    driver.hold(platform.options, name, notes.append)
                )
                for platform in _platforms(plan)
                if isinstance(driver := platform.driver, MachineDriver)
            }
            machines.facts = {PEERS: found} if found else {}
            yield machines
    finally:
        if machines.run is not None:
            for note in notes:
                machines.run.add_warning(note)


def check_same(run: RunHandle, found: Mapping[str, Mapping[str, str]]) -> None:
    """Raise BadInput where a machine is another one than the session of a run began with. found: as above."""
    before, now = run.session.host.get(PEERS), found.get(PEERS, {})
    if isinstance(before, Mapping) and (
        other := [name for name in now if before.get(name, now[name]) != now[name]]
    ):
        name = other[0]
        raise BadInput(
            f"{name} is another machine than the one that {run.name} began with",
            where=f"its id is {now[name]}, and was {before[name]}",
            hint="join that one again, or start a new run with vtax run",
        )


def _platforms(plan: Plan) -> list[Platform]:
    """Return the platforms of a plan: under test, and at other ends of its links."""
    links = [(topology_registry.get(p.topology), p.link) for p in plan.points if p.link]
    names = dict.fromkeys(
        name for topology, link in links for name in topology.machines(link).values()
    )
    under_test = {
        entry.platform.name: entry.platform for entry in plan.platforms if entry.probe.available
    }
    others = {
        name: resolve_platform(plan.study, name, plan.source)
        for name in names
        if name not in under_test
    }
    return [*under_test.values(), *others.values()]
