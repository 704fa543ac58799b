"""Other machines that a run measures on, or that uplinks join to this host: it has them to itself, as this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from vtax.errors import BadInput
from vtax.messages import Note
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
            identities = {}
            for platform in _platforms(plan):
                driver = platform.driver
                if isinstance(driver, MachineDriver):
                    lock = driver.hold(platform.options, name, notes.append)
                    identities[platform.name] = stack.enter_context(lock)
            machines.facts = {PEERS: identities} if identities else {}
            yield machines
    finally:
        if machines.run is not None:
            for note in notes:
                machines.run.add_warning(note)


def check_same_machines(run: RunHandle, facts: Mapping[str, Mapping[str, str]]) -> None:
    """Raise BadInput where a machine is another one than the session of a run began with.

    facts: of the machines now, as in `Machines`.
    """
    before, now = run.session.host.get(PEERS), facts.get(PEERS, {})
    if not isinstance(before, Mapping):
        return
    for name, identity in now.items():
        earlier = before.get(name, identity)
        if earlier != identity:
            raise BadInput(
                f"{name} is another machine than the one that {run.name} began with",
                where=f"its id is {identity}, and was {earlier}",
                hint="join that one again, or start a new run with vtax run",
            )


def _platforms(plan: Plan) -> list[Platform]:
    """Return the platforms of a plan: under test, and at other ends of its links."""
    platforms = {}
    for entry in plan.platforms:
        if entry.probe.available:
            platforms[entry.platform.name] = entry.platform
    for point in plan.points:
        for name in point.machines.values():
            if name not in platforms:
                platforms[name] = resolve_platform(plan.study, name, plan.source)
    return list(platforms.values())
