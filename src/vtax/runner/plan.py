"""From a study to a plan: checked parameters, probed platforms, cells with stable keys, and the order of everything.

A plan is a pure function of the study, the seed, the image and the platforms that were found to run here, so that
`vtax resume` rebuilds the very same plan from what the store holds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from vtax.runner import consent, elsewhere, networks, tuning
from vtax.runner.check import checked_study, resolve_platform
from vtax.runner.points import GuestConfiguration, GuestKind, Point, programs_of
from vtax.runner.untested import why_not, why_not_here
from vtax.stats.stopping import UNBOUNDED
from vtax.store.costs import StoredCosts
from vtax.study.expand import Colocation, key_of
from vtax.study.fields import Privilege, Scratch
from vtax.study.load import LoadedStudy
from vtax.study.model import Study


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
        return min(
            (cell.point for cell in self.cells if cell.point.link),
            key=lambda point: point.key,
            default=None,
        )

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

    programs: what root of this host runs because the study names it. digest: SHA-256 of the study's file. untested:
    points that have no cell on a platform which runs others. stored_costs: what time is estimated from;
    None where no stored run has these cells, see `expected_block_s`.
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
        design = self.study.design
        return (
            design.blocks
            if design.is_counted
            else design.max_blocks
            if design.stop != "budget"
            else UNBOUNDED
        )

    def resources_of(self, session: GuestLife, number: int = 0) -> Resources:
        """Return what a guest of a session may use. number: of the guest, from 0; CPUs are dealt out round robin."""
        cpus = cpus_of(number, self.resources.vcpus) if number else self.resources.cpus
        return tuning.resources_at(session.tuning, replace(self.resources, cpus=cpus))

    def largest_of(self, platform: str) -> Point | None:
        """Return the point at which most guests of a platform run at once; None when it has no cells."""
        points = (cell.point for cell in self.cells if cell.platform.name == platform)
        return max(points, key=lambda point: point.guests, default=None)

    def context(self) -> Context:
        """Return a context as trials will see it, for checks before the run."""
        return Context(self.resources.vcpus, self.resources.memory_bytes)

    @property
    def min_blocks(self) -> int:
        """The number of blocks that are made whatever their outcome, unless a time ends the run."""
        design = self.study.design
        return design.blocks if design.is_counted else design.min_blocks

    def sequential_sessions(self) -> Iterator[GuestLife]:
        """All fresh guests of a run in sequential order: every block of one platform, then of the next."""
        for name in self.platform_names:
            for block in range(self.max_blocks):
                yield from (
                    session for session in self.sessions(block) if session.platform.name == name
                )

    def sessions(self, block: int) -> list[GuestLife]:
        """Return the fresh guests of one block and their cells, in the order they run.

        Randomized: platforms in random order, cells in random order within a guest; the generator is seeded with
        the plan's seed and the block's number, so any block's order is known without drawing those before it.
        """
        generator = random.Random(f"{self.seed}/{block}")
        sequential = self.study.design.order == "sequential"
        sessions = []
        for together in self._cells_by_guest:
            cells = list(together)
            if not sequential:
                generator.shuffle(cells)
            platform = cells[0].platform
            groups = [cells] if platform.network_limits.links_change else _by_link(cells)
            sessions += [GuestLife(block, platform, tuple(group)) for group in groups]
        if not sequential:
            generator.shuffle(sessions)
        return sessions

    @property
    def platform_names(self) -> list[str]:
        """The platforms that run here, as the study orders them."""
        return list(dict.fromkeys(cell.platform.name for cell in self.cells))

    def expected_block_s(self) -> float:
        """Return an estimate of a block's length.

        By stored costs, warm-up as it was there. Without these by defaults, too long for containers and too short for
        some machines: expected times of the tools, 3 s per guest, and on emulated CPUs 1 s per trial (the measured
        overhead of `vtax run` with the urschei2007 studies).
        """
        if self.stored_costs is not None:
            known = [self.stored_costs.of_cells[cell.key] for cell in self.cells]
            return sum(each.block_s + each.trial_s * self.study.design.trials for each in known)
        guests = len(self.sessions(0))
        context = self.context()
        emulated = {
            entry.platform.name for entry in self.platforms if "emulated" in entry.probe.marks
        }
        trial_s = sum(
            c.point.expected_s(context) + (c.platform.name in emulated) for c in self.cells
        )
        return trial_s * self.trials_per_cell + 3.0 * guests

    @cached_property
    def _cells_by_guest(self) -> list[tuple[PlannedCell, ...]]:
        """The cells that guests of the same platform and configuration serve, in the study's order.

        A configuration is a network of a kind of guest. Benchmarks without a network ride in the first guest of their
        kind, of the networks that their platform can be joined to: one guest serves both.
        """
        configuration = {id(point): point.configuration for point in self.points}
        networked = dict.fromkeys(configuration[id(point)] for point in self.points if point.link)
        carried = {
            (cell.platform.name, configuration[id(cell.point)])
            for cell in self.cells
            if cell.point.link
        }
        first: dict[tuple[str, GuestKind], GuestConfiguration] = {}
        for name in self.platform_names:
            joined = [found for found in networked if (name, found) in carried]
            for found in (*joined, *dict.fromkeys(configuration.values())):
                first.setdefault((name, found[0]), found if found in joined else (found[0], None))
        groups: dict[tuple[GuestConfiguration, str], list[PlannedCell]] = {
            (found, entry.platform.name): []
            for found in dict.fromkeys((*networked, *first.values()))
            for entry in self.platforms
        }
        for cell in self.cells:
            name = cell.platform.name
            found = (
                configuration[id(cell.point)] if cell.point.link else first[name, cell.point.kind]
            )
            groups[found, name].append(cell)
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

    probes: results of an earlier run (for resume); other platforms are probed now. consented: programs named by the
    study that root of this host may run. dry: plan for a dry run, which starts no guest and no program of the study. Raises
    BadInput for an invalid study: unknown benchmark, parameter, level, topology, platform; more vCPUs or memory than
    the host has; a baseline that cannot run here; a program without consent.
    """
    study = loaded.study
    checked, named = checked_study(loaded, image)
    untested = _untested(study, named, checked, image, loaded.source)
    used = (point.benchmark for point in checked)
    own = {each.name: each for each in used if isinstance(each, ProgramBenchmark)}
    programs = (*platform_programs(study, loaded.source), *consent.of_programs(study, own))
    if not dry:
        consent.require_consent(programs, consented, loaded.source)
    resolve = partial(resolve_platform, study)
    networks.check_machines(checked, resolve, loaded.source, starting=not dry)
    known = {**(probes or {}), **_carrying_nothing(named, checked, untested)}
    planned = tuple(PlannedPlatform(p, _probe(p, image, known, dry=dry)) for p in named)
    _refuse_nothing_to_compare(study, planned, loaded.source)
    chosen = (seed, study.design.seed, random.SystemRandom().randrange(2**31))
    guest_cpus, other_cpus = split_cpus(study.guest.vcpus)
    available = [entry.platform for entry in planned if entry.probe.available]
    elsewhere.check(
        checked, () if dry else available, resolve, image.key, study.guest, loaded.source
    )
    return Plan(
        study=study,
        source=loaded.source,
        seed=next(number for number in chosen if number is not None),
        image=image,
        resources=Resources(study.guest.vcpus, study.guest.memory, guest_cpus),
        peer_resources=Resources(len(other_cpus), study.guest.memory, other_cpus),
        platforms=planned,
        points=checked,
        cells=_cells(planned, checked, untested),
        programs=programs,
        digest=loaded.digest,
        untested=tuple(
            each for each in untested if any(each.platform is platform for platform in available)
        ),
    )


def _untested(
    study: Study, platforms: Sequence[Platform], points: Sequence[Point], image: Image, source: str
) -> list[Untested]:
    """Return the points that platforms cannot carry. Raises BadInput for one of the baseline's."""
    found = []
    for platform in platforms:
        for point in points:
            if error := why_not_here(platform, point, study.guest.memory, source):
                found.append(Untested(platform, point, error))
            elif error := why_not(platform, point, image, source):
                if platform.name == study.baseline:
                    raise error
                found.append(Untested(platform, point, error))
    return found


def _carrying_nothing(
    platforms: Sequence[Platform], points: Sequence[Point], untested: Sequence[Untested]
) -> dict[str, Probe]:
    """Platforms that can carry no point of the study, in place of their probes: why not the first one."""
    found = {}
    for platform in platforms:
        errors = [each.error for each in untested if each.platform is platform]
        if errors and len(errors) == len(points):
            found[platform.name] = Probe(False, errors[0].what, errors[0].hint)
    return found


def _cells(
    planned: Sequence[PlannedPlatform], points: Sequence[Point], untested: Sequence[Untested]
) -> tuple[PlannedCell, ...]:
    """Every point on every platform that runs here and can carry it."""
    beyond = {(each.platform.name, each.point.key) for each in untested}
    cells = []
    for platform in (entry.platform for entry in planned if entry.probe.available):
        defining = {"platform": platform.name, **platform.identity()}
        cells += [
            PlannedCell(key_of({"point": point.key, **defining}), platform, point)
            for point in points
            if (platform.name, point.key) not in beyond
        ]
    return tuple(cells)


def host_programs(loaded: LoadedStudy) -> tuple[HostProgram, ...]:
    """Programs of a study that root of this host would run, for its platforms and peers, and in its guests.

    Raises BadInput for a platform that there is not, and for files of programs that cannot be used.
    """
    named = platform_programs(loaded.study, loaded.source)
    used = {table.name for table in loaded.study.benchmark}
    own = {name: program for name, program in programs_of(loaded).items() if name in used}
    return (*named, *consent.of_programs(loaded.study, own))


def platform_programs(study: Study, source: str) -> tuple[HostProgram, ...]:
    """Programs of a study that root of this host would run, for its platforms and the peers of its links.

    Raises BadInput for a platform that there is not.
    """
    roles = dict.fromkeys(
        role for topology in topology_registry.topologies().values() for role in topology.natives
    )
    links = [
        (t.link.get(role), *t.link_factors.get(role, ())) for t in study.benchmark for role in roles
    ]
    elsewhere = [name for named in links for name in named if isinstance(name, str) and name]
    return consent.programs_of(
        resolve_platform(study, name, source) for name in (*study.platforms, *elsewhere)
    )


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
    baseline = next(entry for entry in planned if entry.platform.name == study.baseline)
    if not baseline.probe.available:
        raise BadInput(
            f"the baseline {study.baseline} does not run here: {baseline.probe.reason}",
            where=f"{source}: key baseline",
            hint=baseline.probe.hint
            or "name another baseline; vtax platforms lists what runs here",
        )
    others = [entry for entry in planned if entry.platform.name != study.baseline]
    if study.design.stop == "verdict" and not any(entry.probe.available for entry in others):
        why = "; ".join(f"{entry.platform.name}: {entry.probe.reason}" for entry in others)
        raise BadInput(
            f"the rule 'verdict' has nothing to compare with {study.baseline}"
            + (f" here ({why})" if why else ""),
            where=f"{source}: [design], key stop",
            hint="name further platforms, or use stop = 'precision'",
        )


def _by_link(cells: Sequence[PlannedCell]) -> list[list[PlannedCell]]:
    """Cells by the settings of their links; those without a network ride in the first guest."""
    groups: dict[LinkSettings, list[PlannedCell]] = {
        cell.point.link: [] for cell in cells if cell.point.link
    }
    if not groups:
        return [list(cells)]
    first = next(iter(groups))
    for cell in cells:
        groups[cell.point.link or first].append(cell)
    return list(groups.values())


def cpus_of(number: int, vcpus: int) -> tuple[int, ...]:
    """Host CPUs of the guest of a number, from 0, among several: the next ones, from the last to the first and round.

    The first guest has those of `split_cpus`. No CPU is kept for the host: it shares them all once all are dealt.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    return tuple(sorted(allowed[(number * vcpus + each) % len(allowed)] for each in range(vcpus)))


def core_lines(vcpus: int, root: Path = Path("/")) -> list[str]:
    """Return a line on the cores of guests and of everything else, where vtax may use cores of several kinds."""
    guest, rest = split_cpus(vcpus)
    kinds = core_kinds(root)
    usable = kinds_of({*guest, *rest}, kinds)
    if len(usable) < 2:
        return []
    of_guest, of_rest = (
        " and ".join(f"{kind.name} cores {kind.cpu_ranges}" for kind in kinds_of(cpus, kinds))
        for cpus in (guest, rest)
    )
    return [
        f"cores are not alike: guests run on {of_guest}, peers and vtax on {of_rest}; for one kind alone: "
        f"taskset -c {usable[0].cpu_ranges} vtax run ..."
    ]


def split_cpus(vcpus: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Host CPUs of the guest and of everything else (peer, emulator, controller).

    The guest gets the last ones, since interrupts and daemons favour the first; the rest get what is left, or
    share the guest's when nothing is left.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return tuple(allowed[-vcpus:]), tuple(allowed[:-vcpus] or allowed)
