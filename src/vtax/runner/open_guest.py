"""The life of one fresh guest: its topology, its peer, its agent, its trials, its end."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

from vtax.benchmarks.base import Benchmark, Context
from vtax.errors import PlatformError, VtaxError
from vtax.guest.audit import Fact
from vtax.guest.guest import OF_VTAX, Guest
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal, Registration
from vtax.host.resources import Tree
from vtax.levels import Levels
from vtax.messages import Note, at
from vtax.network.end import NetworkEnd
from vtax.network.lab import numbered
from vtax.network.links import Links
from vtax.network.plugboard import Plugboard, Uplink
from vtax.network.settings import LinkSettings
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.runner import density, neighbour, tuning
from vtax.runner.audits import Audits
from vtax.runner.check import resolve_platform
from vtax.runner.containment import Failure, contained
from vtax.runner.counting import Endpoint
from vtax.runner.elsewhere import OtherMachine, connect_other_machine
from vtax.runner.events import Observer
from vtax.runner.guest_starts import run_starts
from vtax.runner.lanes import KeptServers, Lane
from vtax.runner.least_work import NOTHING, UNKNOWN, LeastWork, has_costly_start, with_least
from vtax.runner.neighbour import Neighbour
from vtax.runner.out_of_memory import MemoryWatch
from vtax.runner.parsers import Parsers
from vtax.runner.plan import GuestLife, Plan, PlannedCell
from vtax.runner.removals import Removals
from vtax.runner.trial import MeasuredTrial, TrialResult, failed, measure_trial
from vtax.store.store import RunHandle

READY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class OpenRun:
    """A run while it is measured: what all of its guests share.

    handle: of the run in the store.
    removals: of the files of a guest that has ended, while the next one starts.
    audits: of its guests so far.
    """

    plan: Plan
    handle: RunHandle
    home: Home
    journal: Journal
    observer: Observer
    parsers: Parsers
    removals: Removals
    audits: Audits = field(default_factory=Audits)


class OpenGuest:
    """A fresh guest while it runs, with its topology, the guests and peers beside it, and its trials."""

    def __init__(self, life: GuestLife, run: OpenRun) -> None:
        self._life = life
        self._run = run
        self._plan = run.plan
        self.platform = life.platform
        self._is_over = False
        self._files: list[Registration] = []  # of its guests, once it is over
        self._resources = run.plan.resources_of(life)
        self._stack = ExitStack()
        self._guests = ExitStack()
        self._links: Links | None = None
        self._there: OtherMachine | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._colocated: dict[str, Endpoint] = {}
        self._neighbour: Neighbour | None = None
        self._servers = KeptServers()
        self._memory = MemoryWatch({})
        self._start_failure = Failure()
        self.is_spoilt = False  # its guests are not trusted any more
        self.trials = 0  # made so far
        self._least_work: dict[str, Callable[[], LeastWork]] = {}
        self._started_at = 0.0
        self._ended: dict[str, Any] = {
            "ready_s": None,
            "clock_offset_s": None,
            "facts": {},
            "notes": (),
            "error": "",
        }
        self._guest_id: int | None = None

    def __enter__(self) -> Self:
        """Start everything. A failure to start is kept, and becomes the error of every trial of this guest."""
        name = self.platform.name
        self._run.observer.guest_starting(name, self._life.block)
        self._started_at = time.time()
        try:
            with contained(self._start_failure, "guest-not-started"):
                self._start()
            self._run.removals.finish()
        except BaseException:
            self._take_down()
            raise
        if self._start_failure:
            self._ended["error"] = self._start_failure.error
            self._run.observer.message(f"{name}: {self._start_failure.error}")
        return self

    def __exit__(self, *_: object) -> None:
        self._take_down()

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Everything that was started for it, by role."""
        return self._endpoints | self._colocated

    @property
    def has_started(self) -> bool:
        """Whether every guest of it came up."""
        return not self._start_failure

    @property
    def start_error(self) -> str:
        """Why the guest did not start; empty when it did."""
        return self._start_failure.error

    @property
    def lost(self) -> bool:
        """Whether a guest of it is gone or not trusted, so that its pending cells need a fresh one."""
        gone = any(endpoint.guest.lost for endpoint in self.endpoints.values())
        return self.has_started and (gone or self.is_spoilt)

    @property
    def facts(self) -> Mapping[str, Fact]:
        """The audit of the guest. Raises PlatformError when it did not start."""
        if self._start_failure:
            raise PlatformError(f"{self.platform.name}: {self._start_failure.error}")
        facts: Mapping[str, Fact] = self._ended["facts"]
        return facts

    def tool_version(self, benchmark: Benchmark) -> str:
        """Return the version of a benchmark's tool in this guest; empty when it cannot be asked."""
        if self._start_failure:
            return ""
        failure = Failure()
        with contained(failure, "version-unknown", tool=benchmark.tool):
            version = self._version(benchmark, self._endpoints["guest"].guest)
            self._compare_machines(benchmark, version)
            return version
        self._run.observer.message(failure.error)
        return ""

    def _version(self, benchmark: Benchmark, guest: Guest) -> str:
        result = guest.run(benchmark.version_argv, timeout_s=30.0)
        return self._run.parsers.version(benchmark, result.stdout + result.stderr)

    def _compare_machines(self, benchmark: Benchmark, version: str) -> None:
        """Warn when another machine that serves has another version of the tool than the image."""
        for role, name in self._machines_by_role().items():
            other_version = self._version(benchmark, self._endpoints[role].guest)
            if other_version != version:
                versions = {"there": other_version, "machine": name, "here": version}
                self._run.handle.add_warning(
                    Note("other-tool-version", tool=benchmark.tool, **versions)
                )

    def _machines_by_role(self) -> Mapping[str, str]:
        """Return the platforms that reach other machines, by the roles of the ends that are there."""
        point = self._life.networked
        return point.machines if point else {}

    def store(self) -> int:
        """Store the guest, unless it is stored already; returns its id."""
        if self._guest_id is None:
            topology = self._life.networked.topology if self._life.networked else ""
            name, block, handle = self.platform.name, self._life.block, self._run.handle
            with handle.together():
                guest_id = handle.begin_guest(name, block, topology, self._started_at)
                handle.end_guest(guest_id, **self._ended)
            self._guest_id = guest_id
        return self._guest_id

    def trial(self, cell: PlannedCell) -> TrialResult:
        """Run one trial of a cell in this guest and read it. Any failure is the error of the result."""
        return self.measure(cell).read(self._run.parsers)

    def measure(self, cell: PlannedCell) -> MeasuredTrial | TrialResult:
        """Run one trial of a cell in this guest; read already where that takes no time. Any failure is its error."""
        self.trials += 1
        if self._start_failure:
            return failed(self._start_failure)
        if cell.point.benchmark.stages:
            return self._trial_of_starts(cell)
        return self._measure(cell, self._least_of(cell))

    def _least_of(self, cell: PlannedCell) -> Callable[[], LeastWork]:
        """Return what the least work of a cell costs in this guest, measured once and read when it is asked for."""
        if cell.key not in self._least_work:
            self._least_work[cell.key] = self._measure_least(cell)
        return self._least_work[cell.key]

    def _measure_least(self, cell: PlannedCell) -> Callable[[], LeastWork]:
        if not has_costly_start(cell.point, self._plan.context()):
            return lambda: NOTHING
        least = with_least(cell)
        if least is None:
            return lambda: UNKNOWN
        measured = self._measure(least)

        @cache
        def read() -> LeastWork:
            result = measured.read(self._run.parsers)
            if result.error:
                return UNKNOWN
            work = cell.point.benchmark.work
            return LeastWork(result.counters, work.number(result.outcome) if work else None)

        return read

    def rest(self) -> None:
        """Leave nothing running beside the trials of other guests: servers, or all that is left of a lost guest."""
        failure = Failure()
        with contained(failure):
            self._servers.stop_but([])
        self.is_spoilt |= bool(failure)
        if self.lost or not self.has_started:
            with contained(failure):
                self._endpoints.clear()
                self._colocated.clear()
                self._guests.close()
            self.is_spoilt = True
        if failure:
            self._run.observer.message(f"{self.platform.name}: {failure.error}")

    def unstored_trial(self, cell: PlannedCell) -> TrialResult:
        """Run one trial of a cell in this guest, which has started, and read it."""
        return self._measure(cell).read(self._run.parsers)

    def _measure(
        self, cell: PlannedCell, least: Callable[[], LeastWork] = lambda: NOTHING
    ) -> MeasuredTrial | TrialResult:
        """Run one trial of a cell in this guest, which has started. least: see `measure_trial`."""
        failure = Failure()
        result: MeasuredTrial | TrialResult | None = None
        with contained(failure):
            links = self._links if cell.point.link else None
            ends = self._endpoints if links else {"guest": self._endpoints["guest"]}
            load = None
            if self._neighbour:
                load = self._neighbour.loading(cell.point.colocation.neighbour)
            measured = measure_trial(
                cell,
                self._lanes(cell),
                ends | self._colocated,
                links,
                self._plan.study.design.timeout,
                load,
                memory=self._memory,
                margin=self._plan.study.margin_of(cell.point.label),
                least=least,
                kept=self._servers,
            )
            result = replace(measured, more_warnings=self._overcommit(cell))
            failure.traceback = measured.failure.traceback
        if result is None:
            result = failed(failure)
        self.is_spoilt = bool(failure.traceback)
        return result

    def _trial_of_starts(self, cell: PlannedCell) -> TrialResult:
        """Run a trial that starts guests of its own: the one of this life, whose facts are known, is stopped before."""
        self._endpoints.clear()
        self._guests.close()
        platform, resources = self.platform, self._resources

        def start(number: int) -> Endpoint:
            limits = self._plan.resources_of(self._life, number)
            return self._start_guest(platform, None, limits, False)

        result = run_starts(
            self._run.parsers,
            cell.point,
            Context(resources.vcpus, resources.memory_bytes),
            start,
            self._guests.close,
            platform.driver.image_files(self._plan.image),
            self._plan.study.design.timeout,
        )
        return replace(result, warnings=(*result.warnings, *self._overcommit(cell)))

    def _start(self) -> None:
        """Start everything: each step needs those before it."""
        self._tune_host()
        self._build_topology()
        self._start_ends()
        self._start_colocated()
        guest = self._endpoints["guest"].guest
        self._ended["clock_offset_s"] = guest.clock().offset_s
        self._settle(guest)
        self._ended["facts"] = self._audit(guest)
        self._memory = MemoryWatch(self.endpoints)

    def _tune_host(self) -> None:
        for registered in tuning.apply(self._life.tuning, self._run.journal):
            self._stack.callback(registered.release)
        self._stack.enter_context(self._guests)

    def _build_topology(self) -> None:
        """Make the links of the topology, if the guest needs a network."""
        point = self._life.networked
        if point is None or point.link is None:
            return
        topology, link = point.joined, point.link
        self._links = topology.build(self._run.journal, link, self._life.colocation.guests)
        self._guests.callback(self._links.close)
        for note in self._links.notes:
            self._run.handle.add_warning(Note("topology", topology=topology.name, what=note))
        machine = topology.other_machine(link)
        if machine:
            self._connect(machine, (topology.name, link))

    def _start_ends(self) -> None:
        """Start the guest, or a guest at each end of the topology, and wait for the agents."""
        if self._links is None:
            self._endpoints["guest"] = self._start_guest(self.platform, None, self._resources, True)
            return
        for end in self._links.ends:
            self._endpoints[end.role] = self._start_end(end)

    def _connect(self, name: str, link: tuple[str, LinkSettings]) -> None:
        """Have the other half of the topology made on its machine. link: the topology's name and its settings."""
        assert self._links is not None
        machine = resolve_platform(self._plan.study, name, self._plan.source)
        spec = self._spec(self._plan.peer_resources, None)
        self._there = connect_other_machine(machine, self._links, spec, self._guests.callback)
        platform, level = self.platform, self._life.tuning
        self._there.build(self._plan.image.key, platform, self._resources, level, link)
        self._note_uplinks("peer", name, self._there.uplinks)

    def _start_colocated(self) -> None:
        """Start the further guests, each on the next host CPUs, and its neighbour."""
        colocation = self._life.colocation
        starts_its_own = bool(self._life.cells[0].point.benchmark.stages)
        if self._links is None and not starts_its_own:
            for number in range(1, colocation.guests):
                self._colocated[numbered("guest", number)] = self._start_another(None, number)
        if not colocation.neighbour:
            return
        number = colocation.guests
        lab = neighbour.make_lab(self._run.journal) if colocation.is_networked else None
        if lab is not None:
            self._guests.callback(lab.close)
        self._neighbour = neighbour.start_neighbour(
            lambda end: self._start_another(end, number),
            self._start_end,
            lab,
            self._plan.resources_of(self._life, number),
        )
        self._colocated |= self._neighbour.ends

    def _start_another(self, end: NetworkEnd | None, number: int) -> Endpoint:
        """Start a further guest of the platform, after those side by side its neighbour.

        A failure, and the line about its start, name it.
        """
        guests = self._life.colocation.guests
        name = f"guest {number + 1} of {guests}" if number < guests else "the neighbour"
        resources = self._plan.resources_of(self._life, number)
        try:
            endpoint = self._start_guest(self.platform, end, resources, False)
            if end is not None:
                end.connected(partial(endpoint.guest.output_of, environment=OF_VTAX))
            self._settle(endpoint.guest)
        except VtaxError as error:
            error.what = at(name, error.what)
            raise
        ready_s = time.monotonic() - endpoint.requested_at
        self._run.observer.message(f"{self.platform.name}: {name} ready in {ready_s:.2f} s")
        return endpoint

    def _settle(self, guest: Guest) -> None:
        """Give programs of a guest of the image what they have on every platform, and its kernel its tuning."""
        if self.platform.driver.uses_image:
            guest.set_limits()
        tuning.apply_inside(self._life.tuning, guest)

    def _overcommit(self, cell: PlannedCell) -> tuple[Note, ...]:
        """Return a warning about virtual CPUs that share host CPUs because of further guests."""
        total = cell.point.colocation.total
        if total == 1:
            return ()
        return density.overcommit(total, self._resources.vcpus, len(os.sched_getaffinity(0)))

    def _audit(self, guest: Guest) -> dict[str, Fact]:
        """Return the facts of the guest, and those that it cannot see: its resources and effective limits."""
        tools = {point.benchmark.tool for point in self._plan.points}
        facts = {**self._run.audits.facts(self._life, lambda: guest.facts(tools))}
        between_cpus = str(facts.get("clock_between_cpus", ""))
        if between_cpus.startswith("goes back"):
            note = Note("clock-goes-back", platform=self.platform.name, what=between_cpus)
            self._run.handle.add_warning(note)
        facts.update(self._endpoints["guest"].running.limits_in_force())
        facts["isolation"] = self._isolation()
        facts["scratch"] = self._place_of_scratch()
        if self._life.tuning:
            facts["tuning"] = self._life.tuning
        if len(self._plan.study.scratch) > 1:
            facts["started.scratch"] = self._life.cells[0].point.scratch
        colocation = self._life.colocation
        if colocation.total > 1:
            facts["started.guests"] = colocation.guests
            facts["started.neighbour"] = bool(colocation.neighbour)
        point = self._life.networked
        if point is not None and point.link is not None:
            link = str(Levels(point.link.model_dump(exclude_defaults=True)))
            facts["started.topology"] = point.topology
            facts["started.link"] = link or "defaults"
        return facts

    def _place_of_scratch(self) -> str:
        """Return where /scratch lies: on a machine of the user's the directory that it has."""
        if self.platform.driver.uses_image:
            return self._life.scratch
        return str(getattr(self.platform.options, "scratch", "its own"))

    def _isolation(self) -> str:
        """Return what the layer under test is, see report.analysis.also_differs."""
        platform = self.platform
        is_elsewhere = self._endpoints["guest"].running.is_remote
        if is_elsewhere or not platform.driver.uses_image:
            return "elsewhere"
        return platform.driver.isolation(platform.options)

    def _start_end(self, end: NetworkEnd) -> Endpoint:
        """Start one end of a topology: a guest of the platform under test, or one that serves it, here or elsewhere."""
        if end.under_test:
            number = self._number_of(end)
            if number:
                return self._start_another(end, number)
            platform, resources = self.platform, self._resources
        else:
            name = self._machines_by_role().get(end.role, "native")
            platform = resolve_platform(self._plan.study, name, self._plan.source)
            resources = self._plan.peer_resources
        is_measured = end.under_test and end.role == "guest"
        endpoint = self._start_guest(platform, end, resources, is_measured)
        end.connected(partial(endpoint.guest.output_of, environment=OF_VTAX))
        self._note_uplinks(end.role, platform.name, end.uplinks)
        return endpoint

    def _note_uplinks(self, role: str, platform: str, uplinks: Sequence[Uplink]) -> None:
        for uplink in uplinks:
            nics = {"nic": uplink.here, "there": uplink.there}
            self._run.handle.add_warning(
                Note("end-elsewhere", role=role, platform=platform, **nics)
            )

    def _number_of(self, end: NetworkEnd) -> int:
        """Return which of the guests side by side an end is, from 0; 0 also for one that its topology has anyway."""
        for number in range(1, self._life.colocation.guests):
            if end.role == numbered("guest", number):
                return number
        return 0

    def _start_guest(
        self,
        platform: Platform,
        plugboard: Plugboard | None,
        resources: Resources,
        is_measured: bool,
    ) -> Endpoint:
        """Start a guest and wait for its agent. is_measured: it is the one whose start is timed and shown."""
        is_serving = isinstance(plugboard, NetworkEnd) and not plugboard.under_test
        spec = self._spec(resources, plugboard, is_serving=is_serving)
        started = time.monotonic()
        if self._there and isinstance(plugboard, NetworkEnd) and plugboard.is_there:
            running = self._there.start(plugboard, spec)
        else:
            running = platform.start(spec)
        self._guests.callback(running.stop)
        guest = Guest(running.channel)
        self._guests.callback(guest.close)
        guest.hello(timeout_s=READY_TIMEOUT_S * timeout_factor())
        if is_measured:
            self._ended["ready_s"] = time.monotonic() - started
            self._ended["notes"] = running.notes
            self._run.observer.guest_ready(platform.name, self._ended["ready_s"])
        return Endpoint(running, guest, started, spec.directory)

    def _spec(
        self, resources: Resources, plugboard: Plugboard | None, *, is_serving: bool = False
    ) -> GuestSpec:
        """Return what to start a guest from, with a directory of its own. is_serving: it is not under test."""
        name = f"vtax-{secrets.token_hex(3)}"
        directory = Path(self._run.home.guests, name)
        registered = self._run.journal.register(Tree(str(directory)))
        self._guests.callback(self._release_files, registered)
        directory.mkdir(parents=True)
        image = self._plan.image.of_peers if is_serving else self._plan.image
        privileges = frozenset() if is_serving else self._plan.privileges
        scratch = "volume" if is_serving else self._life.cells[0].point.scratch
        return GuestSpec(
            name, image, resources, directory, self._run.journal, plugboard, privileges, scratch
        )

    def _release_files(self, registered: Registration) -> None:
        """Remove files of a guest that has ended; at its end they may be removed later."""
        if self._is_over:
            self._files.append(registered)
        else:
            registered.release()

    def _lanes(self, cell: PlannedCell) -> list[Lane]:
        """Return the flows of a trial: one in the guest, or those of the topology, links set as the cell asks."""
        resources = self._plan.resources
        running = self._endpoints["guest"].running
        alone = Context(
            resources.vcpus,
            resources.memory_bytes,
            scratch=running.scratch,
            cpu_room_s=self.platform.options.cpu_room_s(resources.vcpus),
        )
        lanes = []
        if self._links is None or cell.point.link is None:
            for number in range(cell.point.colocation.guests):
                endpoint = self.endpoints[numbered("guest", number)]
                context = replace(alone, scratch=endpoint.running.scratch)
                lanes.append(Lane(context, {"guest": endpoint}))
            return lanes
        self._links.apply(cell.point.link)
        for number, flow in enumerate(self._links.flows):
            client, server = self._endpoints[flow.client], self._endpoints[flow.server]
            context = replace(
                alone,
                guest_address=flow.client_address,
                peer_address=flow.server_address,
                link_mbit_s=self._links.link_mbit_s,
                mtu=self._links.settings.mtu,
                congestion=self._links.settings.congestion,
                flow=number,
                peer_scratch=server.running.scratch,
                peer_vcpus=self._plan.peer_resources.vcpus,
            )
            lanes.append(Lane(context, {"guest": client, "peer": server}))
        return lanes

    def _take_down(self) -> None:
        """Stop the guest and its network, last started first; failed removals stay in the journal."""
        failure = Failure()
        self._is_over = True
        try:
            with contained(failure):
                for endpoint in self.endpoints.values():
                    endpoint.guest.remove_put()
                self._stack.close()
                self._run.removals.begin(self._files)
        finally:
            if failure:
                self._run.observer.message(f"{self.platform.name}: {failure.error}")
            self.store()
