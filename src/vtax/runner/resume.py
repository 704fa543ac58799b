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
from vtax.runner.records import plugin_records
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

    facts: of this host now, from counters.host.host_facts.
    session: that follows, by its number; None where the run is resumed.
    since: earlier facts to compare with, in place of the run's.

    Raises BadInput on another machine than the run's.
    """
    origin = origin_of(run.provenance)
    if origin:
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
    changed = []
    for name, value in earlier.items():
        if name in now and now[name] != value:
            changed.append(f"{name} ({value}, now {now[name]})")
    if not changed:
        return ""
    note = Note("host-changed", changes=tuple(changed))
    if session:
        note = Note("host-changed-session", session=session, changes=tuple(changed))
    run.add_warning(note)
    return note


def resume_obstacle(store: Store, name: str, home: Home) -> str:
    """Return why `vtax resume` cannot complete a run that was not finished; empty when nothing is known to prevent it.

    What kept guests from starting, or trials from being stored, may be put right: that is said as why the run ended,
    and prevents nothing. Starts nothing. Images that this user may not see are taken to be there.
    """
    try:
        run = store.open_run(name)
        origin = origin_of(run.provenance)
        if origin:
            return f"it was {origin}"
        known = run.host.get("machine_id")
        if known and known != machine_id():
            return "it was started on another machine"
        if run.is_refused():
            return (
                "these guests do not meet the study's requirements; change it and start a new run"
            )
        is_hidden = home.images.is_dir() and not os.access(home.images, os.R_OK | os.X_OK)
        image = Image(run.image_key, home.images / "hidden") if is_hidden else _image_of(run, home)
        _rebuild(run, image, dry=True)
    except VtaxError as error:
        return error.what
    return ""


def needed_boot(run: RunHandle, home: Home) -> tuple[boots.CurrentBoot, str]:
    """Return (the boot that this host is in, that which a run over several needs in its place).

    The latter is empty where this one will do. Starts nothing. Raises BadInput for a run in one boot, where its plan
    cannot be rebuilt here, and where its boots are not known.
    """
    plan = _rebuild(run, _image_of(run, home), dry=True)
    here, visits = boots.current_boot(plan.study), boots.pending_visits(plan, run)
    if here is None:
        raise BadInput(
            f"{run.name} is measured in one boot of the host", hint=f"vtax resume {run.name}"
        )
    is_here = not visits or boots.can_begin(run, visits[0], here.name, boot_id())
    return here, "" if is_here else visits[0].boot


def relevant_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a host that affect measurements."""
    return {name: facts[name] for name in SAME_HOST if name in facts}


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that affect measurements, a mitigation being one of its own."""
    flat = relevant_facts(facts)
    for name, text in flat.pop("mitigations", {}).items():
        flat[f"mitigation {name}"] = text
    return flat


def note_resumption(run: RunHandle, plan: Plan) -> None:
    """Record with the run where it was interrupted and which guests were split.

    Nothing before the first trial of a block. Cells that began a block in one guest go on in another, at another
    hour. Under a rule that may leave cells out of a block, or with a warm-up that was looked for, whether the block
    was complete is not known here, and not said.
    """
    if plugin_records(plan, {}) != tuple(plugin for plugin in run.plugins if plugin.kind != "view"):
        run.add_warning(Note("plugins-changed"))
    trials = {(key, block, number) for key, block, number in run.done() if block >= 0}
    if not trials:
        return
    block = _last_block(plan, {(key, block) for key, block, _ in trials})
    later = "" if run.ended_at is None else f" {format_duration(time.time() - run.ended_at)} later"
    place, parted = "in or after", set[str]()
    if plan.study.design.rule_class.is_counted:
        place = "after"
        for life in plan.guests(block):
            planned = {trial.key for trial in plan.trials_of(life)}
            if not planned <= trials:
                place = "within"
                if planned & trials:
                    parted.add(life.platform.name)
    data = {"place": place, "block": block + 1, "later": later}
    if parted:
        run.add_warning(Note("resumed-parted", platforms=sorted(parted), **data))
    else:
        run.add_warning(Note("resumed", **data))


def _last_block(plan: Plan, begun: Set[tuple[str, int]]) -> int:
    """Return the block that a run was in last. begun: (cell key, block)."""
    if plan.study.design.order != "sequential":
        return max(block for _, block in begun)
    last = 0
    for life in plan.sequential_guests():
        if any((cell.key, life.block) in begun for cell in life.cells):
            last = life.block
    return last


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
    for tree in {image, image.of_peers}:
        contents.check(tree)
    return _rebuild(run, image, consented)


def _image_of(run: RunHandle, home: Home) -> Image:
    """Return the image that a run was begun with. Raises BadInput when it is gone, or when only root may see it."""
    for image in list_images(home):
        if image.key == run.image_key:
            return image
    raise BadInput(
        f"{run.name} ran in image {run.image_key}, which is no longer there",
        hint="vtax image list shows what is; start a new run with vtax run",
    )


def _rebuild(
    run: RunHandle, image: Image, consented: Collection[HostProgram] = (), *, dry: bool = False
) -> Plan:
    """Return the plan of a run in its image.

    Raises BadInput when it is refused here, or its cells would be others.
    """
    loaded = stored_study(run)
    unvisited = boots.unvisited_platforms(loaded.study, run)
    probes = {}
    for platform in run.platforms:
        probes[platform.name] = Probe(
            platform.available,
            platform.reason,
            platform.hint,
            tuple(platform.marks),
            platform.version,
            is_made=platform.name not in unvisited,
        )
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
