"""From a study to a plan: checked parameters, probed platforms, cells with stable keys, and the order of everything.

A plan is a pure function of the study, the seed, the image and the platforms that were found to run here, so that
`vtax resume` rebuilds the very same plan from what the store holds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vtax.benchmarks.base import Context, Timed
from vtax.errors import BadInput, placed
from vtax.image.image import Image
from vtax.network.settings import LinkSettings
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import HostProgram, Platform, Probe, Resources
from vtax.runner import consent, networks, tuning
from vtax.runner.points import Point, Surroundings, checked_points
from vtax.study.expand import key_of
from vtax.study.load import LoadedStudy
from vtax.study.model import Study
from vtax.study.units import about_size, format_duration


@dataclass(frozen=True)
class PlannedPlatform:
    """A platform of the study with what its probe said."""

    platform: Platform
    probe: Probe


@dataclass(frozen=True)
class Cell:
    """A point on a platform."""

    key: str
    platform: Platform
    point: Point


@dataclass(frozen=True)
class Session:
    """The life of one fresh guest: a platform and its cells in the order they run."""

    block: int
    platform: Platform
    cells: tuple[Cell, ...]

    @property
    def networked(self) -> Point | None:
        """The point whose topology and links this guest is started in; None when it needs no network.

        The same for every platform's guest with the same cells, whatever their order, so that audits compare.
        """
        return min((cell.point for cell in self.cells if cell.point.link), key=lambda point: point.key, default=None)

    @property
    def tuning(self) -> str:
        """The level of `tuning` its guest is started at; empty when it is no factor."""
        return self.cells[0].point.tuning


@dataclass(frozen=True)
class Plan:
    """Everything decided before the first trial.

    programs: what root of this host runs because the study names it. digest: SHA-256 of the study's file.
    """

    study: Study
    source: str
    seed: int
    image: Image
    resources: Resources
    peer_resources: Resources
    platforms: tuple[PlannedPlatform, ...]
    points: tuple[Point, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    programs: tuple[HostProgram, ...] = ()
    digest: str = ""

    @property
    def trials_per_cell(self) -> int:
        """Trials of one cell in one block, warm-up included as far as it is known before the run."""
        warmup = self.study.design.warmup
        return (0 if warmup == "detect" else warmup) + self.study.design.trials

    @property
    def most_blocks(self) -> int:
        """The number of blocks when no rule stops the run earlier."""
        design = self.study.design
        return design.blocks if design.stop == "fixed" else design.max_blocks if design.stop != "budget" else 10**6

    def resources_of(self, session: Session) -> Resources:
        """What the guest of a session may use."""
        return tuning.resources_at(session.tuning, self.resources)

    def context(self, resources: Resources | None = None) -> Context:
        """A context as trials will see it, with addresses of the right form, for checks before the run."""
        chosen = resources or self.resources
        return Context(chosen.vcpus, chosen.memory_bytes, guest_address="198.18.0.1", peer_address="198.18.0.2")

    @property
    def least_blocks(self) -> int:
        """The number of blocks that are made whatever their outcome, unless a time ends the run."""
        design = self.study.design
        return design.blocks if design.stop == "fixed" else design.min_blocks

    def in_a_row(self) -> Iterator[Session]:
        """All fresh guests of a run in the papers' order: every block of one platform, then of the next."""
        for name in self.platform_names:
            for block in range(self.most_blocks):
                yield from (session for session in self.sessions(block) if session.platform.name == name)

    def sessions(self, block: int) -> list[Session]:
        """The fresh guests of one block and their cells, in the order they run.

        Randomized: platforms in random order, cells in random order within a guest; the generator is seeded with
        the plan's seed and the block's number, so any block's order is known without drawing those before it.
        """
        generator = random.Random(f"{self.seed}/{block}")
        sequential = self.study.design.order == "sequential"
        sessions = []
        for together in self._together:
            cells = list(together)
            if not sequential:
                generator.shuffle(cells)
            platform = cells[0].platform
            groups = [cells] if platform.driver.links_change else _by_link(cells)
            sessions += [Session(block, platform, tuple(group)) for group in groups]
        if not sequential:
            generator.shuffle(sessions)
        return sessions

    @property
    def platform_names(self) -> list[str]:
        """The platforms that run here, as the study orders them."""
        return list(dict.fromkeys(cell.platform.name for cell in self.cells))

    def expected_block_s(self) -> float:
        """A first estimate of a block's length, before anything was measured.

        Tools' own times, 3 s a guest, and where CPUs are emulated 1 s more around each trial: what `vtax run` of the
        urschei2007 studies took beside the tools' own times.
        """
        guests = len(self.sessions(0))
        context = self.context()
        emulated = {entry.platform.name for entry in self.platforms if "emulated" in entry.probe.marks}
        trial_s = sum(
            c.point.benchmark.expected_s(c.point.parameters, context) + (c.platform.name in emulated)
            for c in self.cells
        )
        return trial_s * self.trials_per_cell + 3.0 * guests

    @cached_property
    def _together(self) -> list[tuple[Cell, ...]]:
        """The cells that guests of the same platform and surroundings serve, in the study's order.

        Surroundings are every network at every tuning. Benchmarks without a network ride in the first guest of their
        tuning: one guest serves both.
        """
        surroundings = {id(point): point.surroundings for point in self.points}
        networked = dict.fromkeys(surroundings[id(point)] for point in self.points if point.link)
        first: dict[str, Surroundings] = {}
        for found in (*networked, *dict.fromkeys(surroundings.values())):
            first.setdefault(found[0], found)
        order = list(dict.fromkeys((*networked, *first.values())))
        groups: dict[tuple[Surroundings, str], list[Cell]] = {
            (found, entry.platform.name): [] for found in order for entry in self.platforms
        }
        for cell in self.cells:
            found = surroundings[id(cell.point)] if cell.point.link else first[cell.point.tuning]
            groups[found, cell.platform.name].append(cell)
        return [tuple(cells) for cells in groups.values() if cells]


def make_plan(
    loaded: LoadedStudy,
    *,
    image: Image,
    seed: int | None = None,
    probes: Mapping[str, Probe] | None = None,
    agreed: Collection[HostProgram] = (),
    dry: bool = False,
) -> Plan:
    """Check a study against this host and make its plan.

    probes: what an earlier run found (for resume); the others are probed now. agreed: what root of this host may run
    because the study names it. dry: only to be shown, so that nothing of the kind is started, agreed to or not.
    Raises BadInput for anything a study can get wrong: unknown benchmark, parameter, level, topology, platform; more
    vCPUs or memory than the host has; a baseline that cannot run here; a program that was not agreed to.
    """
    study = loaded.study
    _refuse_no_budget(loaded)
    check_host(study.guest.vcpus, study.guest.memory, f"{loaded.source}: [guest]")
    checked = checked_points(loaded, image)
    _refuse_too_short_timeout(loaded, checked)
    named = [resolve_platform(study, name, loaded.source) for name in study.platforms]
    networks.refuse_beyond_platforms(named, checked, loaded.source)
    tuning.refuse_beyond_platforms(study.tuning, named, loaded.source)
    programs = host_programs(study, loaded.source)
    if not dry:
        consent.refuse_unagreed(programs, agreed, loaded.source)
    networks.check_peers(
        checked, lambda name, where: resolve_platform(study, name, where), loaded.source, starting=not dry
    )
    planned = tuple(PlannedPlatform(p, _probe(p, image, probes or {}, dry=dry)) for p in named)
    _refuse_nothing_to_compare(study, planned, loaded.source)
    chosen = (seed, study.design.seed, random.SystemRandom().randrange(2**31))
    guest_cpus, other_cpus = split_cpus(study.guest.vcpus)
    return Plan(
        study=study,
        source=loaded.source,
        seed=next(number for number in chosen if number is not None),
        image=image,
        resources=Resources(study.guest.vcpus, study.guest.memory, guest_cpus),
        peer_resources=Resources(len(other_cpus), study.guest.memory, other_cpus),
        platforms=planned,
        points=checked,
        cells=_cells(planned, checked),
        programs=programs,
        digest=loaded.digest,
    )


def _cells(planned: Sequence[PlannedPlatform], points: Sequence[Point]) -> tuple[Cell, ...]:
    """Every point on every platform that runs here."""
    cells = []
    for platform in (entry.platform for entry in planned if entry.probe.available):
        defining = {"platform": platform.name, **platform.identity()}
        cells += [Cell(key_of({"point": point.key, **defining}), platform, point) for point in points]
    return tuple(cells)


def host_programs(study: Study, source: str) -> tuple[HostProgram, ...]:
    """What root of this host would run because a study names it, for its platforms and for the peers of its links.

    Raises BadInput for a platform that there is not.
    """
    links = [(table.link.get("peer"), *table.link_factors.get("peer", ())) for table in study.benchmark]
    peers = [peer for named in links for peer in named if isinstance(peer, str) and peer]
    return consent.programs_of(resolve_platform(study, name, source) for name in (*study.platforms, *peers))


def _probe(platform: Platform, image: Image, probes: Mapping[str, Probe], *, dry: bool) -> Probe:
    if platform.name in probes:
        return probes[platform.name]
    if dry and platform.host_programs:
        return Probe(True, "not probed: a dry run uses no program and no socket that the study names")
    if dry and platform.driver.reaches_out:
        return Probe(True, "not probed: a dry run talks to no other machine")
    return platform.probe(image)


def _refuse_no_budget(loaded: LoadedStudy) -> None:
    """Raise BadInput when a time is to end a run and none is given, neither in the study nor by --budget."""
    if loaded.study.design.stop == "budget" and loaded.study.design.budget is None:
        raise BadInput(
            "the rule 'budget' needs a time",
            where=f"{loaded.source}: [design], key budget",
            cure="budget = '2h', or --budget 2h",
        )


def _refuse_nothing_to_compare(study: Study, planned: Sequence[PlannedPlatform], source: str) -> None:
    """Raise BadInput when the baseline does not run here or, where verdicts are to end the run, nothing else does."""
    baseline = next(entry for entry in planned if entry.platform.name == study.baseline)
    if not baseline.probe.available:
        raise BadInput(
            f"the baseline {study.baseline} does not run here: {baseline.probe.reason}",
            where=f"{source}: key baseline",
            cure=baseline.probe.cure or "name another baseline; vtax platforms tells what runs here",
        )
    others = [entry for entry in planned if entry.platform.name != study.baseline]
    if study.design.stop == "verdict" and not any(entry.probe.available for entry in others):
        why = "; ".join(f"{entry.platform.name}: {entry.probe.reason}" for entry in others)
        raise BadInput(
            f"the rule 'verdict' has nothing to compare with {study.baseline}" + (f" here ({why})" if why else ""),
            where=f"{source}: [design], key stop",
            cure="name further platforms, or use stop = 'precision'",
        )


def resolve_platform(study: Study, name: str, source: str) -> Platform:
    """A platform by the name a study gives it: of its own `[[platform]]` table, or a shipped one.

    Raises BadInput naming source, table and key, also for a table that takes the name of a shipped one.
    """
    for number, table in enumerate(study.platform, 1):
        if table.name == name:
            if name in platform_registry.names():
                where = f"{source}: [[platform]] number {number} ({name}), key name"
                raise BadInput(f"there is a platform {name} already", where=where, cure="another name for the table")
            key = "" if table.driver in platform_registry.drivers() else ", key driver"
            with placed(f"{source}: [[platform]] number {number} ({name}){key}"):
                return platform_registry.make(name, table.driver, table.options)
    with placed(f"{source}: key platforms"):
        return platform_registry.get(name, [table.name for table in study.platform])


def _by_link(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells by the settings of their links; those without a network ride in the first guest."""
    groups: dict[LinkSettings, list[Cell]] = {cell.point.link: [] for cell in cells if cell.point.link}
    if not groups:
        return [list(cells)]
    first = next(iter(groups))
    for cell in cells:
        groups[cell.point.link or first].append(cell)
    return list(groups.values())


def split_cpus(vcpus: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Host CPUs of the guest and of everything else (peer, emulator, controller).

    The guest gets the last ones, since interrupts and daemons favour the first; the rest get what is left, or
    share the guest's when nothing is left.
    """
    allowed = sorted(os.sched_getaffinity(0))
    return tuple(allowed[-vcpus:]), tuple(allowed[:-vcpus] or allowed)


def check_host(vcpus: int, memory_bytes: int, where: str) -> None:
    """Refuse what this host cannot give. where: what asked for it. Raises BadInput."""
    allowed = len(os.sched_getaffinity(0))
    if vcpus > allowed:
        raise BadInput(
            f"{vcpus} vCPUs are wanted and this host has {allowed} CPUs to pin them to",
            where=f"{where}, key vcpus" if "[guest]" in where else where,
            cure=f"ask for {allowed} or fewer",
        )
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if memory_bytes > total:
        raise BadInput(
            f"{about_size(memory_bytes)} of memory are wanted and this host has {about_size(total)}",
            where=f"{where}, key memory" if "[guest]" in where else where,
            cure="ask for less; the host and the peer of a network benchmark need some too",
        )


def _refuse_too_short_timeout(loaded: LoadedStudy, checked: Sequence[Point]) -> None:
    """Raise BadInput when trials of a fixed duration would be ended before it; how long others take is not known."""
    guest, timeout_s = loaded.study.guest, loaded.study.design.timeout
    context = Context(guest.vcpus, guest.memory, guest_address="198.18.0.1", peer_address="198.18.0.2")
    for point in checked:
        if not isinstance(point.parameters, Timed):
            continue
        expected_s = point.benchmark.expected_s(point.parameters, context)
        duration_s = min(point.parameters.duration_s, expected_s)  # or something else fixes the work
        if timeout_s <= duration_s:
            raise BadInput(
                f"a trial of {point.label} measures for {format_duration(duration_s)}, "
                f"and the timeout ends it after {format_duration(timeout_s)}",
                where=f"{loaded.source}: [design], key timeout",
                cure="a timeout with room for the slowest platform",
            )
