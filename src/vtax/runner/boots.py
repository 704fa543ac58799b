"""Boots of the host as a factor over blocks: which boot is measured next, and what is recorded of each.

A study with `[[boot]]` tables has sessions, each with a boot of its own per table (a *visit*): in it, all blocks of
the session hold the cells of the platforms of that boot. The order of boots in a session is drawn from the run's
seed. No visit shares a boot of the host with that of another session, even of the same entry: the sessions are the
unit of the analysis, and what one boot does to a platform must not be in two of them.

In sequential order there is one session with all blocks, and its boots are in the order of the study: one boot after
the other, and in each of them one platform after the other, as published studies ran.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import product
from typing import Any

from vtax.errors import BadInput, PlatformError
from vtax.host import boot_loaders
from vtax.host.boot_loaders import Entry
from vtax.messages import Note
from vtax.platforms.base import Probe
from vtax.runner.host_sessions import blocks_of_sessions
from vtax.runner.plan import GuestLife, Plan
from vtax.runner.records import platform_record
from vtax.store.run import RunHandle
from vtax.study.model import Study

REBOOT_S = 120.0
"""Assumed duration of a reboot, for estimates."""


@dataclass(frozen=True)
class Visit:
    """One boot of the host in a session. session: its number from 1. boot: its name in the study."""

    session: int
    boot: str


@dataclass(frozen=True)
class CurrentBoot:
    """The boot that this host is in. name: of the study; empty for none of its boots.

    entries: of the boot loader, by the study's names.
    """

    name: str
    entries: Mapping[str, Entry]


def current_boot(study: Study) -> CurrentBoot | None:
    """Return which boot of the study this host is in; None for a study without.

    Raises BadInput: an unknown boot loader, no such entry.
    """
    if not study.boot:
        return None
    loader = boot_loaders.loader()
    needed = used_boots(study)
    entries = {}
    for table in study.boot:
        if table.name not in needed:
            continue
        try:
            entries[table.name] = loader.find(table.entry)
        except BadInput as error:
            where = f"[[boot]] {table.name}, key entry"
            raise BadInput(error.what, where=where, hint=error.hint) from error
    booted = boot_loaders.current_entry(loader, list(entries.values()))
    for name, entry in entries.items():
        if entry == booted:
            return CurrentBoot(name, entries)
    return CurrentBoot("", entries)


def used_boots(study: Study) -> list[str]:
    """Return names of the boots that a platform of the study needs, in the study's order."""
    return [boot.name for boot in study.boot if set(boot.platforms) & set(study.platforms)]


def platforms_of(study: Study, boot: str) -> list[str]:
    """Return platforms that are measured in a boot, in the study's order."""
    table = next(table for table in study.boot if table.name == boot)
    return [name for name in study.platforms if name in table.platforms]


def probes_elsewhere(study: Study, here: str) -> dict[str, Probe]:
    """Return what stands in place of the probes of platforms that only another boot can probe."""
    probes = {}
    for boot in used_boots(study):
        if boot != here:
            probe = Probe(True, Note("not-probed-boot", boot=boot), is_made=False)
            probes.update(dict.fromkeys(platforms_of(study, boot), probe))
    return probes


def unvisited_platforms(study: Study, run: RunHandle) -> set[str]:
    """Return the platforms whose boot a run was not in yet."""
    platforms: set[str] = set()
    for boot in used_boots(study):
        if boot_facts(run, boot) is None:
            platforms.update(platforms_of(study, boot))
    return platforms


def probe_here(plan: Plan, run: RunHandle, here: str) -> None:
    """Probe the platforms of this boot that were not probed yet. Raises PlatformError for one that does not run."""
    platforms_here = platforms_of(plan.study, here)
    for index, planned in enumerate(plan.platforms):
        name = planned.platform.name
        if name not in platforms_here or planned.probe.is_made or not planned.probe.available:
            continue
        probe = planned.platform.probe(plan.image)
        if not probe.available:
            raise PlatformError(
                Note("not-in-boot", name=name, here=here, reason=probe.reason), hint=probe.hint
            )
        run.set_probe(platform_record(plan, index, probe))


def boot_order(study: Study, seed: int, session: int) -> list[str]:
    """Return the boots of a session, in the order they are made."""
    names = used_boots(study)
    if study.design.order == "randomized":
        random.Random(f"{seed}/boots/{session}").shuffle(names)
    return names


def planned_visits(study: Study, seed: int) -> list[Visit]:
    """Return all visits of a run, in their order."""
    visits = []
    for session in range(1, study.design.sessions + 1):
        visits += [Visit(session, boot) for boot in boot_order(study, seed, session)]
    return visits


def guests_by_visit(plan: Plan) -> Iterator[tuple[Visit, GuestLife]]:
    """Yield the guests of a plan with the visit that each is in, in the order they are started."""
    for visit in planned_visits(plan.study, plan.seed):
        platforms = platforms_of(plan.study, visit.boot)
        for guest in _visit_guests(plan, visit):
            if guest.platform.name in platforms:
                yield visit, guest


def pending_visits(plan: Plan, run: RunHandle) -> list[Visit]:
    """Return the visits that have pending trials, in their order."""
    done = run.done()
    visits = planned_visits(plan.study, plan.seed)
    return [visit for visit in visits if _is_pending(plan, done, visit)]


def cells_of(plan: Plan, boot: str) -> frozenset[str]:
    """Return the keys of the cells that are measured in a boot."""
    platforms = platforms_of(plan.study, boot)
    return frozenset(cell.key for cell in plan.cells if cell.platform.name in platforms)


def can_begin(run: RunHandle, visit: Visit, here: str, boot_id: str) -> bool:
    """Return whether this boot of the host is that of a visit: of its entry, and of no other visit."""
    if visit.boot != here:
        return False
    for session in run.sessions:
        for name, visited_id in boot_ids(session.host).items():
            if visited_id == boot_id and Visit(session.number, name) != visit:
                return False
    return True


def boot_ids(host: Mapping[str, Any]) -> dict[str, str]:
    """Return the kernel's name of each boot that a session had, by the boot's name in the study.

    host: facts of the session.
    """
    boots = host.get("boots", {})
    if not isinstance(boots, Mapping):
        return {}
    return {name: facts["boot_id"] for name, facts in boots.items()}


def boot_facts(run: RunHandle, boot: str) -> Mapping[str, Any] | None:
    """Return facts of the host in the first visit to a boot; None before that."""
    for session in run.sessions:
        facts: Mapping[str, Any] | None = session.host.get("boots", {}).get(boot)
        if facts is not None:
            return facts
    return None


def paused_because(plan: Plan, run: RunHandle) -> str:
    """Return why a run is paused: the boot that is next; empty when all visits are made."""
    visits = pending_visits(plan, run)
    if not visits:
        return ""
    sessions = plan.study.design.sessions
    return Note("needs-boot", session=visits[0].session, sessions=sessions, boot=visits[0].boot)


def format_boots(study: Study) -> str:
    """Return `native: native, lxc; xen: xen-pv`: boots with their platforms."""
    boots = []
    for boot in used_boots(study):
        boots.append(f"{boot}: {', '.join(platforms_of(study, boot))}")
    return "; ".join(boots)


def _is_pending(plan: Plan, done: Set[tuple[str, int, int]], visit: Visit) -> bool:
    cells = cells_of(plan, visit.boot)
    trials = product(cells, _visit_blocks(plan, visit), range(plan.trials_per_cell))
    return any(trial not in done for trial in trials)


def _visit_guests(plan: Plan, visit: Visit) -> Iterator[GuestLife]:
    """Yield the guests of the blocks of a visit, of all platforms, in their order."""
    if plan.study.design.order == "sequential":
        yield from plan.sequential_guests()
    else:
        for block in _visit_blocks(plan, visit):
            yield from plan.guests(block)


def _visit_blocks(plan: Plan, visit: Visit) -> range:
    """Return the blocks of the session that a visit belongs to."""
    sizes = blocks_of_sessions(plan.study.design)
    first = sum(sizes[: visit.session - 1])
    return range(first, first + sizes[visit.session - 1])
