"""Rebuilds the plan of a stored run from the same study, seed, platforms and image."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Set
from typing import Any

from vtax.counters.host import machine_id
from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.image import contents
from vtax.image.build import list_images
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import HostProgram, Probe
from vtax.runner import boots
from vtax.runner.plan import Plan, make_plan
from vtax.runner.plugins import plugins_of
from vtax.store.hosts import IMAGE_DIGEST
from vtax.store.provenance import origin_of
from vtax.store.store import RunHandle, Store
from vtax.study.load import LoadedStudy, validate
from vtax.units import format_duration

SAME_HOST = (
    "cpu_model",
    "cpu_microcode",
    "cpus",
    "hypervisor",
    "kernel",
    "kernel_version",
    "kernel_options",
    "mitigations",
    IMAGE_DIGEST,
)
"""Facts of a host that affect measurements."""


def check_host(
    run: RunHandle,
    facts: Mapping[str, Any],
    session: int | None = None,
    since: Mapping[str, Any] | None = None,
) -> str:
    """Return what changed on the host since the run began, a sentence that is kept with it; empty for nothing.

    facts: of this host now, from counters.host.host_facts. session: that follows, by its number; None where the run
    is resumed. since: earlier facts to compare with, in place of the run's. Raises BadInput on another machine than
    the run's.
    """
    if origin := origin_of(run.provenance):
        raise BadInput(
            f"{run.name} was {origin}, and cannot be resumed",
            hint="resume it where it was measured, or start a new run here with vtax run",
        )
    known, here = run.host.get("machine_id"), facts.get("machine_id")
    if known and known != here:
        raise BadInput(
            f"{run.name} was started on another machine",
            where=f"its id is {known}, this one's {here}",
            hint="resume it there, or start a new run here with vtax run",
        )
    earlier, now = _flat(run.host if since is None else since), _flat(facts)
    both = [name for name in earlier if name in now]
    changed = [
        f"{name} ({earlier[name]}, now {now[name]})" for name in both if earlier[name] != now[name]
    ]
    if not changed:
        return ""
    resumed = Note("host-changed", changes=tuple(changed))
    note = (
        Note("host-changed-session", session=session, changes=tuple(changed))
        if session
        else resumed
    )
    run.add_warning(note)
    return note


def obstacle(store: Store, name: str, home: Home) -> str:
    """Why `vtax resume` cannot complete a run that was not finished; empty when nothing is known to prevent it.

    What kept guests from starting, or trials from being stored, may be put right: that is said as why the run ended,
    and prevents nothing. Starts nothing. Images that this user may not see are taken to be there.
    """
    try:
        run = store.open_run(name)
        if origin := origin_of(run.provenance):
            return f"it was {origin}"
        known = run.host.get("machine_id")
        if known and known != machine_id():
            return "it was started on another machine"
        if run.is_refused():
            return (
                "these guests do not meet the study's requirements; change it and start a new run"
            )
        return _of_plan(run, home)
    except VtaxError as error:
        return error.what


def _of_plan(run: RunHandle, home: Home) -> str:
    """Return what prevents the plan of a run from being rebuilt. Raises BadInput for a study that is refused here."""
    is_hidden = home.images.is_dir() and not os.access(home.images, os.R_OK | os.X_OK)
    image = Image(run.image_key, home.images / "hidden") if is_hidden else _image_of(run, home)
    _planned(run, image, dry=True)
    return ""


def needed_boot(run: RunHandle, home: Home) -> tuple[boots.Here, str]:
    """Return (the boot that this host is in, that which a run over several needs in its place).

    The latter is empty where this one will do. Starts nothing. Raises BadInput for a run in one boot, where its plan
    cannot be rebuilt here, and where its boots are not known.
    """
    plan = _planned(run, _image_of(run, home), dry=True)
    here, left = boots.look(plan.study), boots.visits_left(plan, run)
    if here is None:
        raise BadInput(
            f"{run.name} is measured in one boot of the host", hint=f"vtax resume {run.name}"
        )
    is_here = not left or boots.can_begin(run, left[0], here.name, boot_id())
    return here, "" if is_here else left[0].boot


def known_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a host that affect measurements."""
    return {name: facts[name] for name in SAME_HOST if name in facts}


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    found = known_of(facts)
    mitigations = found.pop("mitigations", {})
    return {**found, **{f"mitigation {name}": text for name, text in mitigations.items()}}


def note_resumption(run: RunHandle, plan: Plan) -> None:
    """Record with the run where it was interrupted and which guests were split.

    Nothing before the first trial of a block. Cells that began a block in one guest go on in another, at another
    hour. Under a rule that may leave cells out of a block, or with a warm-up that was looked for, whether the block
    was complete is not known here, and not said.
    """
    if plugins_of(plan, {}) != tuple(plugin for plugin in run.plugins if plugin.kind != "view"):
        run.add_warning(Note("plugins-changed"))
    done = {(key, block, number) for key, block, number in run.done() if block >= 0}
    if not done:
        return
    block = _last_block(plan, {(key, block) for key, block, _ in done})
    later = "" if run.ended_at is None else f" {format_duration(time.time() - run.ended_at)} later"
    where, parted = "in or after", list[str]()
    design = plan.study.design
    if design.is_counted:
        numbers = range(plan.trials_per_cell)
        guests = [
            (
                session.platform.name,
                [(cell.key, block, n) in done for cell in session.cells for n in numbers],
            )
            for session in plan.sessions(block)
        ]
        where = "after" if all(all(made) for _, made in guests) else "within"
        parted = sorted({platform for platform, made in guests if any(made) and not all(made)})
    said = {"place": where, "block": block + 1, "later": later}
    run.add_warning(
        Note("resumed-parted", platforms=parted, **said) if parted else Note("resumed", **said)
    )


def _last_block(plan: Plan, begun: Set[tuple[str, int]]) -> int:
    """Return the block that a run was in last. begun: (cell key, block)."""
    if plan.study.design.order == "randomized":
        return max(block for _, block in begun)
    return [
        s.block
        for s in plan.sequential_sessions()
        if any((cell.key, s.block) in begun for cell in s.cells)
    ][-1]


def stored_study(run: RunHandle) -> LoadedStudy:
    """Return the study of a run. Raises BadInput when the store's is none."""
    source = f"run {run.name}"
    return LoadedStudy(validate(run.declared, source), source)


def rebuild_plan(run: RunHandle, home: Home, consented: Collection[HostProgram] = ()) -> Plan:
    """Return the plan of a run, equal to the one it began with. consented: see make_plan.

    Platforms are taken as the run found them, so that cells do not appear or vanish half-way. Raises BadInput when
    the image is gone or when the cells would differ (another version of vtax changed a benchmark's defaults), and
    ImageError when the image is not as it was built.
    """
    image = _image_of(run, home)
    for each in {image, image.of_peers}:
        contents.check(each)
    return _planned(run, image, consented)


def _image_of(run: RunHandle, home: Home) -> Image:
    """Return the image that a run was begun with. Raises BadInput when it is gone, or when only root may see it."""
    image = next((image for image in list_images(home) if image.key == run.image_key), None)
    if image is None:
        raise BadInput(
            f"{run.name} ran in image {run.image_key}, which is no longer there",
            hint="vtax image list shows what is; start a new run with vtax run",
        )
    return image


def _planned(
    run: RunHandle, image: Image, consented: Collection[HostProgram] = (), *, dry: bool = False
) -> Plan:
    """Return the plan of a run in its image.

    Raises BadInput when it is refused here, or its cells would be others.
    """
    loaded = stored_study(run)
    unvisited = boots.unvisited(loaded.study, run)
    probes = {
        p.name: Probe(
            p.available,
            p.reason,
            p.hint,
            tuple(p.marks),
            p.version,
            is_made=p.name not in unvisited,
        )
        for p in run.platforms
    }
    plan = make_plan(
        loaded, image=image, seed=run.seed, probes=probes, consented=consented, dry=dry
    )
    if {cell.key for cell in plan.cells} != {cell.key for cell in run.cells}:
        if any(table.files for table in plan.study.program):
            raise BadInput(
                f"{run.name} cannot go on: files of its programs changed, or the cells of vtax {run.vtax_version}",
                hint="put the files back as they were, or start a new run",
            )
        raise BadInput(
            f"{run.name} was started by vtax {run.vtax_version}, whose cells are defined differently",
            hint="resume with that version, or start a new run",
        )
    return plan
