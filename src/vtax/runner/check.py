"""Checks a study's tools, links and platforms before a run starts; reports all problems at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from vtax.benchmarks.base import Context, Timed
from vtax.benchmarks.program import ProgramBenchmark
from vtax.errors import BadInput, Problems, all_of, did_you_mean, placed
from vtax.guest.facts import nearest_names, unknown_names
from vtax.image.image import Image
from vtax.levels import METRIC
from vtax.platforms import registry as platform_registry
from vtax.platforms.base import Platform
from vtax.runner import disk_room, memory
from vtax.runner.points import Point, checked_points
from vtax.study.claims import CheckTable
from vtax.study.load import LoadedStudy, refused
from vtax.study.model import Study
from vtax.units import about_size, format_duration

_NO_IMAGE = Image("none", Path())


def checked_study(loaded: LoadedStudy, image: Image) -> tuple[tuple[Point, ...], list[Platform]]:
    """Return the points and the platforms of a study. Raises BadInput for everything that is wrong with it at
    once."""
    problems = Problems()
    points = problems.of(lambda: checked_points(loaded, image))
    study, guest = loaded.study, loaded.study.guest
    platforms = {}
    for name in dict.fromkeys([*study.platforms, *(table.name for table in study.platform)]):
        platform = problems.of(partial(resolve_platform, study, name, loaded.source))
        if platform:
            platforms[name] = platform
    usable = list(platforms.values())
    problems.of(lambda: _refuse_no_budget(loaded))
    problems.of(lambda: check_host(guest.vcpus, guest.memory, f"{loaded.source}: [guest]", usable))
    problems.found += _unknown_facts(loaded)
    if points:
        problems.found += _unknown_metrics(loaded, points)
        problems.of(lambda: _refuse_too_short_timeout(loaded, points))
        problems.of(lambda: _refuse_too_many_guests(loaded, points, usable))
        problems.found += disk_room.problems(loaded, points, image, usable)
    if problems.found or points is None:
        raise refused(problems.found, loaded.source)
    return points, [platforms[name] for name in study.platforms]


def further_problems(loaded: LoadedStudy | None) -> list[BadInput]:
    """Return what is wrong with the rest of a study that is refused already; None: there is too little left of it."""
    if loaded is None:
        return []
    problems = Problems()
    problems.of(lambda: checked_study(loaded, _NO_IMAGE))
    return problems.found


def resolve_platform(study: Study, name: str, source: str) -> Platform:
    """Return a platform by the name a study gives it: of its own `[[platform]]` table, or a shipped one.

    Raises BadInput naming source, table and key, also for a table that takes the name of a shipped one.
    """
    for number, table in enumerate(study.platform, 1):
        if table.name == name:
            if name in platform_registry.names():
                where = f"{source}: [[platform]] number {number} ({name}), key name"
                raise BadInput(
                    f"there is a platform {name} already",
                    where=where,
                    hint="another name for the table",
                )
            key = "" if table.driver in platform_registry.drivers() else ", key driver"
            with placed(f"{source}: [[platform]] number {number} ({name}){key}"):
                return platform_registry.make(name, table.driver, table.options)
    with placed(f"{source}: key platforms"):
        return platform_registry.get(name, [table.name for table in study.platform])


def check_host(
    vcpus: int, memory_bytes: int, where: str, platforms: Sequence[Platform] = ()
) -> None:
    """Raise BadInput for more CPUs or memory than this host, or the hypervisor of a platform, has.

    where: origin of the request.
    """
    cpus = len(os.sched_getaffinity(0))
    problems: list[BadInput] = []
    is_table = "[guest]" in where
    if vcpus > cpus:
        problem = BadInput(
            f"{vcpus} vCPUs are requested, and this host has {cpus} CPUs to pin them to",
            where=f"{where}, key vcpus" if is_table else where,
            hint=f"request at most {cpus}",
        )
        problems.append(problem)
    for pool in memory.memory_pools(platforms):
        if not pool.fits(1, memory_bytes):
            problem = BadInput(
                f"{about_size(memory_bytes)} of memory are requested, and {pool}",
                where=f"{where}, key memory" if is_table else where,
                hint="use less; the host and the peer of a network benchmark need memory, too",
            )
            problems.append(problem)
    if problems:
        raise all_of(problems, where=where, hint="vtax doctor prints the resources of this host")


def _refuse_too_many_guests(
    loaded: LoadedStudy, points: Sequence[Point], platforms: Sequence[Platform]
) -> None:
    """Raise BadInput when the memory is too small for all guests that run at once; `check_host` checks one."""
    # a point with further guests has no cell where they do not fit
    alone = [point for point in points if point.colocation.total == 1]
    largest = max(alone, key=lambda point: point.guests_here, default=None)
    if largest is None:
        return
    guest_bytes, guests = loaded.study.guest.memory, largest.guests_here
    for pool in memory.memory_pools(platforms):
        if pool.fits(1, guest_bytes) and not pool.fits(guests, guest_bytes):
            limit = pool.available_bytes / guests - pool.overhead_bytes
            raise BadInput(
                f"{guests} guests of {about_size(guest_bytes)} run at once in {largest.topology}, {largest.label}: "
                f"{about_size(guests * guest_bytes)} of memory, and {pool}",
                where=f"{loaded.source}: [guest], key memory",
                hint=f"use less than {about_size(limit)} per guest; the host needs memory, too",
            )


def _unknown_facts(loaded: LoadedStudy) -> Iterator[BadInput]:
    """Yield a problem for each field of must_match that no guest's audit can have."""
    for field in unknown_names(loaded.study.must_match):
        yield BadInput(
            f"no guest's audit has {field}{did_you_mean(nearest_names(field))}",
            where=f"{loaded.source}: key must_match",
            hint="vtax show RUN --audit --all lists the fields of an earlier run",
        )


def _unknown_metrics(loaded: LoadedStudy, points: Sequence[Point]) -> Iterator[BadInput]:
    """Yield a problem for each metric that a claim, a number or a figure names and no benchmark it is about has."""
    metrics_by_label: dict[str, set[str]] = {}
    for point in points:
        names = metrics_by_label.setdefault(point.label, set())
        names.update(metric.name for metric in point.metrics)
    for place, labels, metrics in _named_metrics(loaded.study):
        known: set[str] = set()
        for label in labels or metrics_by_label:
            known |= metrics_by_label.get(label, set())
        for metric in metrics:
            if known and metric not in known:
                near = get_close_matches(metric, sorted(known), 2)
                yield BadInput(
                    f"no benchmark of it has a metric {metric!r}{did_you_mean(near)}",
                    where=f"{loaded.source}: {place}, key metric",
                    hint=f"metrics: {', '.join(sorted(known))}",
                )


def _named_metrics(study: Study) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Yield (table, labels of benchmarks it is about, metrics it names) of everything in a study that names metrics."""
    for number, claim in enumerate(study.claim, 1):
        for index, check in enumerate(claim.check, 1):
            place = f"[[claim]] number {number} ({claim.id}), check {index}"
            yield place, check.benchmarks, _check_metrics(check)
    for number, table in enumerate(study.published, 1):
        yield f"[[published]] number {number}", (table.benchmark,), (table.metric,)
    for number, figure in enumerate(study.figure, 1):
        yield f"[[figure]] number {number} ({figure.id})", figure.benchmarks, figure.metrics


def _check_metrics(check: CheckTable) -> tuple[str, ...]:
    """Return the metrics that a check names, in its sides too."""
    sides = (*check.sides("of"), *check.sides("to"))
    return (*check.metrics, *(str(side.levels[METRIC]) for side in sides if METRIC in side.levels))


def _refuse_no_budget(loaded: LoadedStudy) -> None:
    """Raise BadInput when a time is to end a run and none is given, neither in the study nor by --budget."""
    design = loaded.study.design
    if design.rule_class.needs_budget and design.budget is None:
        raise BadInput(
            f"the rule {design.stop!r} needs a time",
            where=f"{loaded.source}: [design], key budget",
            hint="budget = '2h', or --budget 2h",
        )


def _refuse_too_short_timeout(loaded: LoadedStudy, points: Sequence[Point]) -> None:
    """Raise BadInput when trials of a fixed duration would be ended before it; how long others take is not known."""
    guest, timeout_s = loaded.study.guest, loaded.study.design.timeout
    context = Context(guest.vcpus, guest.memory)
    for point in points:
        if not isinstance(point.parameters, Timed) or isinstance(point.benchmark, ProgramBenchmark):
            continue  # a program declares how long it takes, which its table is checked for
        # the smaller one where something else fixes the work
        duration_s = min(point.parameters.duration_s, point.expected_s(context))
        if timeout_s <= duration_s:
            raise BadInput(
                f"a trial of {point.label} measures for {format_duration(duration_s)}, "
                f"and the timeout ends it after {format_duration(timeout_s)}",
                where=f"{loaded.source}: [design], key timeout",
                hint="a timeout with room for the slowest platform",
            )
