"""From a study to a plan: checked parameters, probed platforms, cells with stable keys, and the order of everything.

A plan is a pure function of the study, the seed, the image and the platforms that were found to run here, so that
`vtax resume` rebuilds the very same plan from what the store holds.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from vtax.benchmarks.base import Context
from vtax.benchmarks.program import ProgramBenchmark
from vtax.errors import BadInput
from vtax.host.core_kinds import core_kinds, kinds_of
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network import registry as topology_registry
from vtax.network.settings import LinkSettings
from vtax.platforms.base import HostProgram, Platform, Probe, Resources
from vtax.platforms.confinement import Isolation
from vtax.runner import consent, memory, networks, tuning
from vtax.runner.check import checked_study, resolve_platform
from vtax.runner.elsewhere import check_other_machines
from vtax.runner.points import GuestConfiguration, GuestKind, Point, programs_of
from vtax.runner.untested import host_obstacle, platform_obstacle
from vtax.stats.terms import MINIMUM_BLOCKS
from vtax.store.costs import StoredCosts
from vtax.study.expand import Colocation, key_of
from vtax.study.fields import Privilege, Scratch
from vtax.study.load import LoadedStudy
from vtax.study.model import Study
from vtax.units import about_size

_START_S: Mapping[Isolation, float] = {"nothing": 0.2, "confined": 0.5, "kernel": 3.0}
"""Seconds of a guest's start and end, by what isolates it. Those of the user's own machines are not known."""
_EMULATED_START_S, _EMULATED_TRIAL_S = 3.0, 0.5
_MOST_ROUNDS = 10  # more gain little, and leave few fresh guests
_ROOM_FOR_HOST = 4 / 3  # of the memory of guests that are alive at once


@dataclass(frozen=True)
class PlannedPlatform:
    """A platform of the study with its probe."""

    platform: Platform
    probe: Probe


@dataclass(frozen=True)
class Untested:
    """A point that a platform cannot carry, and why: it has no cell."""

    platform: Platform
    point: Point
    error: BadInput


@dataclass(frozen=True)
class PlannedCell:
    """A point on a platform."""

    key: str
    platform: Platform
    point: Point


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a cell in a block. number: among those of the cell in the block, from 0, warm-up included."""

    cell: PlannedCell
    block: int
    number: int
    is_warmup: bool

    @property
    def key(self) -> tuple[str, int, int]:
        """The cell's key, the block and the number, by which the store knows it."""
        return (self.cell.key, self.block, self.number)


@dataclass(frozen=True)
class GuestLife:
    """The life of one fresh guest: a platform and its cells in the order they run."""

    block: int
    platform: Platform
    cells: tuple[PlannedCell, ...]

    @property
    def networked(self) -> Point | None:
        """The point whose topology and links this guest is started in; None when it needs no network.

        The same for every platform's guest with the same cells, whatever their order, so that audits compare.
        """
        points = [cell.point for cell in self.cells if cell.point.link]
        return min(points, key=lambda point: point.key, default=None)

    @property
    def largest_here(self) -> int:
        """How many guests under test its largest cell has on this host, itself among them."""
        return max(cell.point.guests_here for cell in self.cells)

    @property
    def colocation(self) -> Colocation:
        """Its further guests; of the load of a neighbour, that of any of its cells."""
        return self.cells[0].point.colocation

    @property
    def tuning(self) -> str:
        """The level of `tuning` its guest is started at; empty when it is no factor."""
        return self.cells[0].point.tuning

    @property
    def scratch(self) -> Scratch:
        """Where /scratch of its guest lies."""
        return self.platform.scratch(self.cells[0].point.scratch)


@dataclass(frozen=True)
class Plan:
    """Everything decided before the first trial.

    programs: what root of this host runs because the study names it.
    digest: SHA-256 of the study's file.
    untested: points that have no cell on a platform which runs others.
    stored_costs: what time is estimated from; None where no stored run has these cells, see `expected_block_s`.
    """

    study: Study
    source: str
    seed: int
    image: Image
    resources: Resources
    peer_resources: Resources
    platforms: tuple[PlannedPlatform, ...]
    points: tuple[Point, ...]
    cells: tuple[PlannedCell, ...] = field(repr=False)
    programs: tuple[HostProgram, ...] = ()
    digest: str = ""
    untested: tuple[Untested, ...] = ()
    stored_costs: StoredCosts | None = None

    @property
    def privileges(self) -> frozenset[Privilege]:
        """The privileges that its benchmarks need beyond the confinement of guests, for all guests under test alike."""
        asked = [point.benchmark.privileges(point.parameters) for point in self.points]
        return frozenset().union(*asked)

    @property
    def trials_per_cell(self) -> int:
        """Trials of one cell in one block, warm-up included."""
        return self.study.design.warmup + self.study.design.trials

    @property
    def max_blocks(self) -> int:
        """The number of blocks when no rule stops the run earlier."""
        return self.study.design.rule.most_blocks

    def resources_of(self, life: GuestLife, number: int = 0) -> Resources:
        """Return what a guest may use. number: of several side by side, from 0; CPUs are dealt out round robin."""
        cpus = cpus_of(number, self.resources.vcpus) if number else self.resources.cpus
        return tuning.resources_at(life.tuning, replace(self.resources, cpus=cpus))

    def trials_of(self, life: GuestLife) -> list[PlannedTrial]:
        """Return the trials of a guest, in the order they run."""
        trials = []
        for cell in life.cells:
            for number in range(self.trials_per_cell):
                is_warmup = number < self.study.design.warmup
                trials.append(PlannedTrial(cell, life.block, number, is_warmup))
        return trials

    def rounds(self, lives: Sequence[GuestLife]) -> Iterator[tuple[int, PlannedTrial]]:
        """Yield the trials of guests that are alive at once, in the order they run, with the guest's number among them.

        Points in random order; the trials of a point are rounds, each of which visits all guests in fresh random
        order. Drawn from the plan's seed and the block's number, as the order of `guests`.
        """
        generator = random.Random(f"{self.seed}/{lives[0].block}/rounds")
        rounds: defaultdict[tuple[str, int], list[tuple[int, PlannedTrial]]] = defaultdict(list)
        for guest, life in enumerate(lives):
            for trial in self.trials_of(life):
                rounds[trial.cell.point.key, trial.number].append((guest, trial))
        points = list(dict.fromkeys(point for point, _ in rounds))
        generator.shuffle(points)
        for point in points:
            for number in range(self.trials_per_cell):
                visits = rounds[point, number]
                generator.shuffle(visits)
                yield from visits

    @property
    def guests_at_once(self) -> int:
        """How many guests of a block are alive at once in rounds."""
        return sum(life.largest_here for life in self.guests(0))

    def largest_of(self, platform: str) -> Point | None:
        """Return the point at which most guests of a platform run at once; None when it has no cells."""
        points = [cell.point for cell in self.cells if cell.platform.name == platform]
        return max(points, key=lambda point: point.guests, default=None)

    def context(self) -> Context:
        """Return a context as trials will see it, for checks before the run."""
        return Context(self.resources.vcpus, self.resources.memory_bytes)

    @property
    def min_blocks(self) -> int:
        """The number of blocks that are made whatever their outcome, unless a time ends the run."""
        return self.study.design.rule.fewest_blocks

    def sequential_guests(self) -> Iterator[GuestLife]:
        """Yield all fresh guests of a run in sequential order: every block of one platform, then of the next."""
        for name in self.platform_names:
            for block in range(self.max_blocks):
                for life in self.guests(block):
                    if life.platform.name == name:
                        yield life

    def guests(self, block: int) -> list[GuestLife]:
        """Return the fresh guests of one block and their cells, in the order they run.

        Randomized: platforms in random order, cells in random order within a guest; the generator is seeded with
        the plan's seed and the block's number, so any block's order is known without drawing those before it.
        """
        generator = random.Random(f"{self.seed}/{block}")
        sequential = self.study.design.order == "sequential"
        lives = []
        for together in self._cells_by_guest:
            cells = list(together)
            if not sequential:
                generator.shuffle(cells)
            platform = cells[0].platform
            groups = [cells] if platform.network_limits.links_change else _by_link(cells)
            lives += [GuestLife(block, platform, tuple(group)) for group in groups]
        if not sequential:
            generator.shuffle(lives)
        return lives

    @property
    def platform_names(self) -> list[str]:
        """The platforms that run here, as the study orders them."""
        return list(dict.fromkeys(cell.platform.name for cell in self.cells))

    @property
    def emulated(self) -> tuple[str, ...]:
        """The names of the platforms whose CPUs are emulated."""
        names = []
        for entry in self.platforms:
            if entry.probe.available and "emulated" in entry.probe.marks:
                names.append(entry.platform.name)
        return tuple(names)

    @property
    def leaving_early(self) -> tuple[str, ...]:
        """The names of the platforms that are expected to leave early, by a rule that lets them (`stats.early`).

        None where no other is compared with the baseline: then the run ends with them.
        """
        others = set(self.platform_names) - {self.study.baseline, *self.emulated}
        return self.emulated if self.study.design.rule.leaves_early and others else ()

    def expected_s(self, blocks: int) -> float:
        """Return an estimate of the time of so many blocks, in the first of which is what leaves early."""
        first = min(blocks, MINIMUM_BLOCKS)
        later_s = self.expected_block_s(without=self.leaving_early)
        return first * self.expected_block_s() + (blocks - first) * later_s

    def blocks_within(self, budget_s: float) -> int:
        """Return how many whole blocks a time is expected to hold."""
        block_s = self.expected_block_s()
        first_s = MINIMUM_BLOCKS * block_s
        if budget_s <= first_s:
            return int(budget_s / block_s)
        later_s = self.expected_block_s(without=self.leaving_early)
        return MINIMUM_BLOCKS + int((budget_s - first_s) / later_s)

    def expected_block_s(self, without: Collection[str] = ()) -> float:
        """Return an estimate of a block's length.

        By stored costs, warm-up as it was there. Without these by defaults, from runs of the shipped studies on a
        host of two CPUs: expected times of the tools, the start of a guest by what isolates it, and what emulated CPUs
        add to each.

        without: names of platforms that it does not hold.
        """
        cells = [cell for cell in self.cells if cell.platform.name not in without]
        if self.stored_costs is not None:
            block_s = 0.0
            for cell in cells:
                cost = self.stored_costs.of_cells[cell.key]
                block_s += cost.block_s + cost.trial_s * self.study.design.trials
            return block_s
        return self._trials_s(cells) * self.trials_per_cell + self._starts_s(without)

    @property
    def rounds_that_pay(self) -> int:
        """How many rounds over guests that are alive at once leave a third of the time to their starts.

        Fewer where a budget would hold less than twice the blocks that a verdict needs.
        """
        starts_s, trials_s = self._starts_s(), self._trials_s(self.cells)
        rounds = round(2 * starts_s / trials_s)
        if self.study.design.budget is not None:
            block_s = self.study.design.budget / (2 * MINIMUM_BLOCKS)
            rounds = min(rounds, int((block_s - starts_s) / trials_s))
        return max(1, min(rounds, _MOST_ROUNDS))

    def _trials_s(self, cells: Iterable[PlannedCell]) -> float:
        """Return an estimate of the time of one trial of each of these cells, by defaults."""
        context, emulated = self.context(), self.emulated
        trials_s = 0.0
        for cell in cells:
            trials_s += cell.point.expected_s(context)
            if cell.platform.name in emulated:
                trials_s += _EMULATED_TRIAL_S
        return trials_s

    def _starts_s(self, without: Collection[str] = ()) -> float:
        """Return an estimate of the time of the starts of a block, by defaults. without: names of platforms."""
        emulated = self.emulated
        starts_s = 0.0
        for life in self.guests(0):
            platform = life.platform
            if platform.name in without:
                continue
            starts_s += _START_S[platform.driver.isolation(platform.options)]
            if platform.name in emulated:
                starts_s += _EMULATED_START_S
        return starts_s

    @cached_property
    def _cells_by_guest(self) -> list[tuple[PlannedCell, ...]]:
        """The cells that guests of the same platform and configuration serve, in the study's order.

        A configuration is a network of a kind of guest. Benchmarks without a network ride in the first guest of their
        kind, of the networks that their platform can be joined to: one guest serves both.
        """
        # of the same point in every cell: a configuration is costly to make
        configurations = {id(point): point.configuration for point in self.points}
        all_configurations = dict.fromkeys(configurations.values())
        networked: dict[GuestConfiguration, None] = {}
        for point in self.points:
            if point.link:
                networked[configurations[id(point)]] = None
        joined = set()
        for cell in self.cells:
            if cell.point.link:
                joined.add((cell.platform.name, configurations[id(cell.point)]))
        first: dict[tuple[str, GuestKind], GuestConfiguration] = {}
        for name in self.platform_names:
            for configuration in networked:
                if (name, configuration) in joined:
                    first.setdefault((name, configuration[0]), configuration)
            for kind, _ in all_configurations:
                first.setdefault((name, kind), (kind, None))
        groups: dict[tuple[GuestConfiguration, str], list[PlannedCell]] = {}
        for configuration in dict.fromkeys((*networked, *first.values())):
            for entry in self.platforms:
                groups[configuration, entry.platform.name] = []
        for cell in self.cells:
            name = cell.platform.name
            if cell.point.link:
                configuration = configurations[id(cell.point)]
            else:
                configuration = first[name, cell.point.kind]
            groups[configuration, name].append(cell)
        return [tuple(cells) for cells in groups.values() if cells]


def make_plan(
    loaded: LoadedStudy,
    *,
    image: Image,
    seed: int | None = None,
    probes: Mapping[str, Probe] | None = None,
    consented: Collection[HostProgram] = (),
    dry: bool = False,
) -> Plan:
    """Check a study against this host and make its plan.

    image: that guests are started from.
    seed: of the order; else the study's, else a random one.
    probes: results of an earlier run (for resume); other platforms are probed now.
    consented: programs named by the study that root of this host may run.
    dry: plan for a dry run, which starts no guest and no program of the study.

    Raises BadInput for an invalid study: unknown benchmark, parameter, level, topology, platform; more vCPUs or
    memory than the host has; a baseline that cannot run here; a program without consent.
    """
    study, source = loaded.study, loaded.source
    points, platforms = checked_study(loaded, image)
    untested = _untested(study, platforms, points, image, source)
    declared = {}
    for point in points:
        if isinstance(point.benchmark, ProgramBenchmark):
            declared[point.benchmark.name] = point.benchmark
    programs = (
        *platform_programs(study, source),
        *consent.declared_programs(study, declared),
    )
    if not dry:
        consent.require_consent(programs, consented, source)
    resolve = partial(resolve_platform, study)
    networks.check_machines(points, resolve, source, starting=not dry)
    known = {**(probes or {}), **_carrying_nothing(platforms, points, untested)}
    planned = []
    for platform in platforms:
        planned.append(PlannedPlatform(platform, _probe(platform, image, known, dry=dry)))
    _refuse_nothing_to_compare(study, planned, source)
    available = [entry.platform for entry in planned if entry.probe.available]
    check_other_machines(points, () if dry else available, resolve, image.key, study.guest, source)
    if seed is None:
        seed = study.design.seed
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    guest_cpus, other_cpus = split_cpus(study.guest.vcpus)
    names = {platform.name for platform in available}
    plan = Plan(
        study=study,
        source=source,
        seed=seed,
        image=image,
        resources=Resources(study.guest.vcpus, study.guest.memory, guest_cpus),
        peer_resources=Resources(len(other_cpus), study.guest.memory, other_cpus),
        platforms=tuple(planned),
        points=points,
        cells=_cells(available, points, untested),
        programs=programs,
        digest=loaded.digest,
        untested=tuple(entry for entry in untested if entry.platform.name in names),
    )
    crowd = _crowd_of(plan) if study.design.order == "rounds" and not probes else None
    if crowd:
        raise crowd
    return plan


def _untested(
    study: Study, platforms: Sequence[Platform], points: Sequence[Point], image: Image, source: str
) -> list[Untested]:
    """Return the points that platforms cannot carry. Raises BadInput for one of the baseline's."""
    untested = []
    for platform in platforms:
        for point in points:
            error = host_obstacle(platform, point, study.guest.memory, source)
            if error is None:
                error = platform_obstacle(platform, point, image, source)
                if error is not None and platform.name == study.baseline:
                    raise error
            if error is not None:
                untested.append(Untested(platform, point, error))
    return untested


def _carrying_nothing(
    platforms: Sequence[Platform], points: Sequence[Point], untested: Sequence[Untested]
) -> dict[str, Probe]:
    """Return the platforms that can carry no point of the study, in place of their probes: why not the first one."""
    probes = {}
    for platform in platforms:
        errors = [entry.error for entry in untested if entry.platform is platform]
        if errors and len(errors) == len(points):
            probes[platform.name] = Probe(False, errors[0].what, errors[0].hint)
    return probes


def _cells(
    platforms: Sequence[Platform], points: Sequence[Point], untested: Sequence[Untested]
) -> tuple[PlannedCell, ...]:
    """Return every point on every platform that runs here and can carry it."""
    beyond = {(entry.platform.name, entry.point.key) for entry in untested}
    cells = []
    for platform in platforms:
        defining = {"platform": platform.name, **platform.identity()}
        for point in points:
            if (platform.name, point.key) not in beyond:
                key = key_of({"point": point.key, **defining})
                cells.append(PlannedCell(key, platform, point))
    return tuple(cells)


def host_programs(loaded: LoadedStudy) -> tuple[HostProgram, ...]:
    """Return the programs of a study that root of this host would run, for its platforms and peers, and in its guests.

    Raises BadInput for a platform that there is not, and for files of programs that cannot be used.
    """
    options = platform_programs(loaded.study, loaded.source)
    used = {table.name for table in loaded.study.benchmark}
    declared = {name: program for name, program in programs_of(loaded).items() if name in used}
    return (*options, *consent.declared_programs(loaded.study, declared))


def platform_programs(study: Study, source: str) -> tuple[HostProgram, ...]:
    """Return the programs of a study that root of this host would run, for its platforms and the peers of its links.

    Raises BadInput for a platform that there is not.
    """
    roles: dict[str, None] = {}
    for topology in topology_registry.topologies().values():
        roles.update(dict.fromkeys(topology.natives))
    names = [*study.platforms]
    for table in study.benchmark:
        for role in roles:
            for name in (table.link.get(role), *table.link_factors.get(role, ())):
                if isinstance(name, str) and name:
                    names.append(name)
    return consent.option_programs(resolve_platform(study, name, source) for name in names)


def _probe(platform: Platform, image: Image, probes: Mapping[str, Probe], *, dry: bool) -> Probe:
    if platform.name in probes:
        return probes[platform.name]
    if dry and platform.host_programs:
        return Probe(True, Note("not-probed-programs"), is_made=False)
    if dry and platform.driver.reaches_out:
        return Probe(True, Note("not-probed-machine"), is_made=False)
    return platform.examine() if dry else platform.probe(image)


def _refuse_nothing_to_compare(
    study: Study, planned: Sequence[PlannedPlatform], source: str
) -> None:
    """Raise BadInput when the baseline does not run here or, where verdicts are to end the run, nothing else does."""
    others = []
    for entry in planned:
        if entry.platform.name != study.baseline:
            others.append(entry)
        elif not entry.probe.available:
            another = "name another baseline; vtax platforms lists what runs here"
            raise BadInput(
                f"the baseline {study.baseline} does not run here: {entry.probe.reason}",
                where=f"{source}: key baseline",
                hint=entry.probe.hint or another,
            )
    if study.design.rule_class.ends_by_verdicts and not any(
        entry.probe.available for entry in others
    ):
        reasons = [f"{entry.platform.name}: {entry.probe.reason}" for entry in others]
        here = f" here ({'; '.join(reasons)})" if reasons else ""
        raise BadInput(
            f"the rule {study.design.stop!r} has nothing to compare with {study.baseline}{here}",
            where=f"{source}: [design], key stop",
            hint="name further platforms, or use stop = 'precision'",
        )


def in_rounds_that_pay(plan: Plan) -> Plan:
    """Return a plan in rounds, as many in a block as pay; the same plan where none do or guests cannot be alive at
    once."""
    study, rounds = plan.study, plan.rounds_that_pay
    if rounds == 1 or study.boot or _crowd_of(plan):
        return plan
    design = study.design.model_copy(update={"order": "rounds", "trials": rounds})
    return replace(plan, study=study.model_copy(update={"design": design}))


def _crowd_of(plan: Plan) -> BadInput | None:
    """Return why the guests of a block cannot all be alive at once; None where they can."""
    lives, guest_bytes = plan.guests(0), plan.study.guest.memory
    where = f"{plan.source}: [design], key order"
    hint = "use order = 'randomized', which has one guest at a time"
    alive = "'rounds' have the guests of all platforms alive"
    whats = []
    if any(life.colocation.total > 1 for life in lives):
        whats.append(f"{alive}, so that none has others at its side")
    if len({life.tuning for life in lives}) > 1:
        whats.append(f"{alive}, and a host has one tuning at a time")
    if any(cell.point.machines for cell in plan.cells):
        whats.append(f"{alive}, and one at a time can use the link to another machine")
    if any(cell.point.benchmark.stages for cell in plan.cells):
        whats.append(f"{alive}, and a trial that starts a guest would have others at its side")
    guests_of: Counter[memory.Memory] = Counter()
    for life in lives:
        guests_of[memory.platform_memory(life.platform)] += life.largest_here
    for pool, guests in guests_of.items():
        if not pool.fits(guests, int(guest_bytes * _ROOM_FOR_HOST)):
            needed = about_size(guests * (guest_bytes + pool.overhead_bytes))
            whats.append(
                f"'rounds' have {guests} guests alive, with {needed} of memory, and {pool}, of which the host needs some"
            )
    return BadInput(whats[0], where=where, hint=hint) if whats else None


def _by_link(cells: Sequence[PlannedCell]) -> list[list[PlannedCell]]:
    """Group cells by the settings of their links; those without a network ride in the first guest."""
    groups: dict[LinkSettings, list[PlannedCell]] = {}
    for cell in cells:
        if cell.point.link:
            groups[cell.point.link] = []
    if not groups:
        return [list(cells)]
    first = next(iter(groups))
    for cell in cells:
        groups[cell.point.link or first].append(cell)
    return list(groups.values())


def cpus_of(number: int, vcpus: int) -> tuple[int, ...]:
    """Return host CPUs of the guest of a number, from 0, among several: the next ones, from the last to the first and
    round.

    The first guest has those of `split_cpus`. No CPU is kept for the host: it shares them all once all are dealt.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    positions = range(number * vcpus, (number + 1) * vcpus)
    return tuple(sorted(allowed[position % len(allowed)] for position in positions))


def core_lines(vcpus: int, root: Path = Path("/")) -> list[str]:
    """Return a line on the cores of guests and of everything else, where vtax may use cores of several kinds."""
    guest, rest = split_cpus(vcpus)
    kinds = core_kinds(root)
    usable = kinds_of({*guest, *rest}, kinds)
    if len(usable) < 2:
        return []

    def name_cores(cpus: Sequence[int]) -> str:
        names = [f"{kind.name} cores {kind.cpu_ranges}" for kind in kinds_of(cpus, kinds)]
        return " and ".join(names)

    return [
        f"cores are not alike: guests run on {name_cores(guest)}, peers and vtax on {name_cores(rest)}; "
        f"for one kind alone: taskset -c {usable[0].cpu_ranges} vtax run ..."
    ]


def split_cpus(vcpus: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return host CPUs of the guest and of everything else (peer, emulator, controller).

    The guest gets the last ones, since interrupts and daemons favour the first; the rest get what is left, or
    share the guest's when nothing is left.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return tuple(allowed[-vcpus:]), tuple(allowed[:-vcpus] or allowed)
