"""The life of one fresh guest: its topology, its peer, its agent, its trials, its end."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vtax.benchmarks.base import Context, Outcome, Place
from vtax.errors import GuestError, RunInterrupted, VtaxError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.network import registry as topology_registry
from vtax.network.plugboard import Plugboard
from vtax.network.topology import Links
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.runner.events import Observer
from vtax.runner.plan import Cell, Plan, Point, Session
from vtax.runner.trial import Endpoint, TrialResult, run_trial
from vtax.store.store import RunHandle

READY_TIMEOUT_S = 120.0
SCRATCH = "/scratch"


class OpenSession:
    """A session while it is open. `lost` says the guest is gone and a fresh one is needed."""

    def __init__(
        self, session: Session, plan: Plan, run: RunHandle, home: Home, journal: Journal, observer: Observer
    ) -> None:
        self._session = session
        self._plan = plan
        self._run = run
        self._home = home
        self._journal = journal
        self._observer = observer
        self._stack = ExitStack()
        self._links: Links | None = None
        self._endpoints: dict[Place, Endpoint] = {}
        self._start_error = ""
        self._ended: dict[str, Any] = {"ready_s": None, "clock_offset_s": None, "facts": {}, "notes": (), "error": ""}
        self.guest_id: int | None = None
        self.lost = False

    def __enter__(self) -> Self:
        """Start everything. A failure to start is kept, and becomes the error of every trial of this guest."""
        name = self._session.platform.name
        topology = self._session.networked.topology if self._session.networked else ""
        self._observer.guest_starting(name, self._session.block)
        self.guest_id = self._run.begin_guest(name, self._session.block, topology, time.time())
        try:
            self._start()
        except RunInterrupted:
            self._take_down()
            raise
        except VtaxError as error:
            self._start_error = f"the guest did not start: {error}"
            self._ended["error"] = self._start_error
            self._observer.message(f"{name}: {self._start_error}")
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_down()

    def trial(self, cell: Cell) -> TrialResult:
        """Run one trial of a cell in this guest; a guest that is lost is marked so."""
        if self._start_error:
            return TrialResult(time.time(), Outcome({}), {}, None, {}, (), error=self._start_error)
        try:
            context = self._context(cell)
        except VtaxError as error:
            lost = isinstance(error, GuestError)
            self.lost = self.lost or lost
            return TrialResult(time.time(), Outcome({}), {}, None, {}, (), error=str(error), fatal=lost)
        result = run_trial(cell, context, self._endpoints, self._plan.study.design.timeout)
        self.lost = self.lost or result.fatal
        return result

    def _start(self) -> None:
        point = self._session.networked
        plugboard = self._plug_topology(point) if point else None
        started = time.monotonic()
        endpoint = self._start_guest(self._session.platform, plugboard, self._plan.resources)
        self._ended["ready_s"] = time.monotonic() - started
        self._ended["notes"] = endpoint.running.notes
        self._endpoints["guest"] = endpoint
        if plugboard is not None:
            for argv in plugboard.configure_commands():
                _must(endpoint.guest, argv)
        self._observer.guest_ready(self._session.platform.name, self._ended["ready_s"])
        self._ended["clock_offset_s"] = endpoint.guest.clock().offset_s
        self._ended["facts"] = endpoint.guest.facts()

    def _plug_topology(self, point: Point) -> Plugboard:
        """Build the topology, start the native peer where it has one, and return the guest's side."""
        self._links = topology_registry.get(point.topology).build(self._journal, point.link)
        self._stack.callback(self._links.close)
        if self._links.peer is not None:
            native = platform_registry.get("native")
            self._endpoints["peer"] = self._start_guest(native, self._links.peer, self._plan.peer_resources)
        return self._links.guests[0]

    def _start_guest(self, platform: Platform, plugboard: Plugboard | None, resources: Resources) -> Endpoint:
        name = f"vtax-{secrets.token_hex(3)}"
        directory = Path(self._home.guests, name)
        held = self._journal.hold(Tree(str(directory)))
        self._stack.callback(held.release)
        directory.mkdir(parents=True)
        spec = GuestSpec(name, self._plan.image, resources, directory, self._journal, plugboard)
        running = platform.start(spec)
        self._stack.callback(running.stop)
        guest = Guest(running.channel)
        self._stack.callback(guest.close)
        guest.hello(timeout_s=READY_TIMEOUT_S)
        return Endpoint(running, guest)

    def _context(self, cell: Cell) -> Context:
        resources = self._plan.resources
        context = Context(resources.vcpus, resources.memory_bytes, scratch=SCRATCH)
        if self._links is None or cell.point.link is None:
            return context
        for argv in self._links.apply(cell.point.link):
            _must(self._endpoints["guest"].guest, argv)
        return replace(
            context,
            guest_address=self._links.guest_address,
            peer_address=self._links.peer_address,
            link_mbit_s=self._links.link_mbit_s,
        )

    def _take_down(self) -> None:
        """Stop the guest and its surroundings, last started first; what does not stop stays in the journal."""
        try:
            self._stack.close()
        except VtaxError as error:
            self._observer.message(f"{self._session.platform.name}: {error}")
        finally:
            if self.guest_id is not None:
                self._run.end_guest(self.guest_id, **self._ended)


def _must(guest: Guest, argv: Any) -> None:
    result = guest.run(argv, timeout_s=30.0)
    if result.status != 0:
        raise VtaxError(f"{' '.join(argv)} failed in the guest: {result.stderr.strip()[-300:]}")
