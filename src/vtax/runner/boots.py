"""Boots of the host as a factor over blocks: which boot is measured next, and what is recorded of each.

A study with `[[boot]]` tables has sessions, each with a boot of its own per table (a *visit*): in it, all blocks of
the session hold the cells of the platforms of that boot. The order of boots in a session is drawn from the run's
seed. No visit shares a boot of the host with that of another session, even of the same entry: the sessions are the
unit of the analysis, and what one boot does to a platform must not be in two of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
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
class Here:
    """The boot that this host is in. name: of the study; empty for none of its boots.

    entries: of the boot loader, by the study's names.
    """

    name: str
    entries: Mapping[str, Entry]


def look(study: Study) -> Here | None:
    """Return which boot of the study this host is in; None for a study without.

    Raises BadInput: an unknown boot loader, no such entry.
    """
    if not study.boot:
        return None
    loader = boot_loaders.loader()
    entries = {}
    for table in used_boots(study):
        try:
            entries[table] = loader.find(
                next(boot.entry for boot in study.boot if boot.name == table)
            )
        except BadInput as error:
            raise BadInput(
                error.what, where=f"[[boot]] {table}, key entry", hint=error.hint
            ) from error
    found = boot_loaders.current_entry(loader, list(entries.values()))
    return Here(next((name for name, entry in entries.items() if entry == found), ""), entries)


def used_boots(study: Study) -> list[str]:
    """Names of the boots that a platform of the study needs, in the study's order."""
    return [boot.name for boot in study.boot if set(boot.platforms) & set(study.platforms)]


def platforms_of(study: Study, boot: str) -> list[str]:
    """Platforms that are measured in a boot, in the study's order."""
    table = next(table for table in study.boot if table.name == boot)
    return [name for name in study.platforms if name in table.platforms]


def probes_elsewhere(study: Study, here: str) -> dict[str, Probe]:
    """In place of probes: of the platforms that only another boot can probe."""
    return {
        platform: Probe(True, Note("not-probed-boot", boot=boot), is_made=False)
        for boot in used_boots(study)
        if boot != here
        for platform in platforms_of(study, boot)
    }


def unvisited(study: Study, run: RunHandle) -> set[str]:
    """Platforms whose boot a run was not in yet."""
    return {
        platform
        for boot in used_boots(study)
        if facts_of(run, boot) is None
        for platform in platforms_of(study, boot)
    }


def probe_here(plan: Plan, run: RunHandle, here: str) -> None:
    """Probe the platforms of this boot that were not probed yet. Raises PlatformError for one that does not run."""
    named = platforms_of(plan.study, here)
    for index, planned in enumerate(plan.platforms):
        if (
            planned.platform.name not in named
            or planned.probe.is_made
            or not planned.probe.available
        ):
            continue
        probe = planned.platform.probe(plan.image)
        if not probe.available:
            name = planned.platform.name
            raise PlatformError(
                Note("not-in-boot", name=name, here=here, reason=probe.reason), hint=probe.hint
            )
        run.set_probe(platform_record(plan, index, probe))


def order(study: Study, seed: int, session: int) -> list[str]:
    """Return the boots of a session, in the order they are made."""
    names = used_boots(study)
    random.Random(f"{seed}/boots/{session}").shuffle(names)
    return names


def visits(study: Study, seed: int) -> list[Visit]:
    """All visits of a run, in their order."""
    sessions = range(1, study.design.sessions + 1)
    return [Visit(session, boot) for session in sessions for boot in order(study, seed, session)]


def guests(plan: Plan) -> Iterator[tuple[Visit, GuestLife]]:
    """Yield the guests of a plan with the visit that each is in, in the order they are started."""
    sizes = blocks_of_sessions(plan.study.design)
    for visit in visits(plan.study, plan.seed):
        first = sum(sizes[: visit.session - 1])
        named = platforms_of(plan.study, visit.boot)
        for block in range(first, first + sizes[visit.session - 1]):
            yield from (
                (visit, each) for each in plan.sessions(block) if each.platform.name in named
            )


def visits_left(plan: Plan, run: RunHandle) -> list[Visit]:
    """Return the visits that have pending trials, in their order."""
    done = run.done()
    return [visit for visit in visits(plan.study, plan.seed) if _is_pending(plan, done, visit)]


def cells_of(plan: Plan, boot: str) -> frozenset[str]:
    """Keys of the cells that are measured in a boot."""
    named = set(platforms_of(plan.study, boot))
    return frozenset(cell.key for cell in plan.cells if cell.platform.name in named)


def can_begin(run: RunHandle, visit: Visit, here: str, boot_id: str) -> bool:
    """Whether this boot of the host is that of a visit: of its entry, and of no other visit."""
    taken = {
        (s.number, name)
        for s in run.sessions
        for name, fact in boots_in(s.host).items()
        if fact == boot_id
    }
    return visit.boot == here and not taken - {(visit.session, visit.boot)}


def boots_in(host: Mapping[str, Any]) -> dict[str, str]:
    """Name of each boot that a session had -> the kernel's name of it. host: facts of the session."""
    found = host.get("boots", {})
    return (
        {name: facts["boot_id"] for name, facts in found.items()}
        if isinstance(found, Mapping)
        else {}
    )


def facts_of(run: RunHandle, boot: str) -> Mapping[str, Any] | None:
    """Facts of the host in the first visit to a boot; None before that."""
    found = (session.host.get("boots", {}).get(boot) for session in run.sessions)
    return next((facts for facts in found if facts is not None), None)


def paused_because(plan: Plan, run: RunHandle) -> str:
    """Why a run is paused: the boot that is next; empty when all visits are made."""
    left = visits_left(plan, run)
    return (
        Note(
            "needs-boot",
            session=left[0].session,
            sessions=plan.study.design.sessions,
            boot=left[0].boot,
        )
        if left
        else ""
    )


def listed(study: Study) -> str:
    """`native: native, lxc; xen: xen-pv`: boots with their platforms."""
    return "; ".join(
        f"{boot}: {', '.join(platforms_of(study, boot))}" for boot in used_boots(study)
    )


def _is_pending(plan: Plan, done: Set[tuple[str, int, int]], visit: Visit) -> bool:
    sizes = blocks_of_sessions(plan.study.design)
    first = sum(sizes[: visit.session - 1])
    return any(
        (key, block, number) not in done
        for key in cells_of(plan, visit.boot)
        for block in range(first, first + sizes[visit.session - 1])
        for number in range(plan.trials_per_cell)
    )
