"""Machines that uplinks join to this host: a run has them to itself, as it has this host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from vtax.errors import BadInput
from vtax.network import registry as topology_registry
from vtax.platforms.base import MachineDriver, Platform
from vtax.runner.check import resolve_platform
from vtax.runner.plan import Plan
from vtax.store.hosts import PEERS
from vtax.store.run import RunHandle


@contextmanager
def held_machines(plan: Plan, name: str) -> Iterator[dict[str, dict[str, str]]]:
    """Hold the measuring lock of every machine at an end of the plan's links, while the block runs.

    name: of the run. Yields the fact PEERS of the host, empty without such machines: name of the platform -> identity
    of the machine. Raises Busy or BadInput, naming the machine.
    """
    with ExitStack() as stack:
        found = {
            platform.name: stack.enter_context(driver.hold(platform.options, name))
            for platform in _machines(plan)
            if isinstance(driver := platform.driver, MachineDriver)
        }
        yield {PEERS: found} if found else {}


def check_same(run: RunHandle, found: Mapping[str, Mapping[str, str]]) -> None:
    """Raise BadInput where a machine is another one than the session of a run began with. found: as above."""
    before, now = run.session.host.get(PEERS), found.get(PEERS, {})
    if isinstance(before, Mapping) and (other := [name for name in now if before.get(name, now[name]) != now[name]]):
        name = other[0]
        raise BadInput(
            f"{name} is another machine than the one that {run.name} began with",
            where=f"its id is {now[name]}, and was {before[name]}",
            hint="join that one again, or start a new run with vtax run",
        )


def _machines(plan: Plan) -> list[Platform]:
    """Return the machines that uplinks join to this host: under test, and at other ends."""
    links = [(topology_registry.get(p.topology), p.link) for p in plan.points if p.link]
    names = dict.fromkeys(name for topology, link in links for name in topology.machines(link).values())
    under_test = {entry.platform.name: entry.platform for entry in plan.platforms if entry.probe.available}
    others = {name: resolve_platform(plan.study, name, plan.source) for name in names if name not in under_test}
    return [
        each
        for each in ({**under_test, **others} if links else {}).values()
        if isinstance(each.driver, MachineDriver) and each.driver.uplinks(each.options)
    ]
