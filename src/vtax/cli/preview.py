"""Preview of a drafted study: its plan on this host, its blocks, and the differences that they find."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.cli.needed_image import recipe_for
from vtax.cli.output import built_image, existing_store
from vtax.cli.plan import platforms_not_tested, source_of_estimate
from vtax.cli.probing import probing_lock
from vtax.counters.host import machine_id
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.image.build import checked
from vtax.image.image import Image
from vtax.platforms.probing import unprobed
from vtax.platforms.registry import get, names
from vtax.report.analysis.noise import ASSUMED, BlockNoise, noise_of_host
from vtax.report.replacing import replacing
from vtax.runner.estimates import with_costs
from vtax.runner.plan import Plan, make_plan
from vtax.stats.margin import log_margin
from vtax.stats.planning import detectable_distance, smallest_overhead
from vtax.stats.terms import MINIMUM_BLOCKS
from vtax.store.store import Store
from vtax.study.drafts import Draft
from vtax.study.load import load
from vtax.units import duration_s, format_count, format_duration

_SEEN_WITH = 0.8  # probability


@dataclass(frozen=True)
class Sight:
    """Noise of a benchmark. noise: of a block's log-ratio. difference: the smallest overhead that is found.

    shows_equality: whether equal platforms are said to be within the margin. None with fewer than two blocks.
    """

    label: str
    noise: float
    noise_from: str
    difference: float | None
    shows_equality: bool | None


@dataclass(frozen=True)
class Preview:
    """The plan of a draft in numbers.

    notes: what did not go as asked, one sentence each. command: runs it.
    """

    study: str
    platforms: tuple[str, ...]
    points: int
    block_s: float
    block_s_from: str
    blocks: int
    sees: tuple[Sight, ...]
    notes: tuple[str, ...]
    cells: int
    command: str


def startable() -> tuple[list[str], str]:
    """Return (platforms that start here, or were tested in the newest run, and why they were not probed)."""
    if os.geteuid() != 0:
        return _newest_platforms(), "probing needs root"
    image = checked(Home.from_environment())
    with probing_lock("vtax new") as why_not:
        if why_not:
            return _newest_platforms(), why_not
        return [name for name in names() if get(name).probe(image).available], ""


def _newest_platforms() -> list[str]:
    """Return the platforms that the newest run of this host tested."""
    with suppress(BadInput):
        for run in existing_store().newest(machine_id()):
            return [record.name for record in run.platforms if record.available]
    return []


def preview(draft: Draft, path: Path) -> Preview:
    """Write the study of a draft and plan it. Raises BadInput, and writes nothing, where it cannot run here."""
    with replacing(path) as new:
        new.write_text(draft.text(), encoding="utf-8")
        plan, why_not = _plan(new)
        _check_comparison(plan, why_not)
        block_s = plan.expected_block_s()
        blocks = plan.blocks_within(duration_s(draft.time))
        if blocks < MINIMUM_BLOCKS:
            fits = (
                f"{draft.time} fits {format_count(blocks, 'block')} of about {math.ceil(block_s)} s"
            )
            need = format_duration(MINIMUM_BLOCKS * math.ceil(block_s))
            raise BadInput(
                f"{fits}, and a verdict needs {MINIMUM_BLOCKS}",
                where="--time",
                hint=f"give {need} or more, or fewer platforms or resources",
            )
        if draft.question == "difference":
            draft = draft.within(blocks)
            blocks = min(blocks, draft.max_blocks)
            new.write_text(draft.text(), encoding="utf-8")
            load(str(new))
    return Preview(
        draft.name,
        draft.platforms,
        len(plan.points),
        block_s,
        source_of_estimate(plan),
        blocks,
        tuple(_sights(draft, plan, blocks)),
        tuple(_notes(plan, why_not)),
        len(plan.cells),
        f"sudo vtax run {path}{' --trust' if plan.programs else ''}",
    )


def _plan(path: Path) -> tuple[Plan, str]:
    """Return (the plan, why platforms were not looked at). No guest is started."""
    loaded_study, home = load(str(path)), Home.from_environment()
    why_not = "" if os.geteuid() == 0 else "probing needs root"
    image = Image("none", home.images)
    with suppress(BadInput):  # it is not built yet, or only root sees it
        image = built_image(home, recipe_for(loaded_study))
    probes = unprobed(loaded_study.study.platforms) if why_not else None
    plan = make_plan(loaded_study, image=image, probes=probes, dry=True)
    with suppress(BadInput):  # no store yet
        plan = with_costs(plan, Store.existing(home.store_url))
    return plan, why_not


def _check_comparison(plan: Plan, why_not: str) -> None:
    """Raise BadInput with the reasons where no platform has a point in common with the baseline."""
    baseline = plan.study.baseline
    points: dict[bool, set[str]] = {True: set(), False: set()}
    for cell in plan.cells:
        points[cell.platform.name == baseline].add(cell.point.key)
    if points[True] & points[False]:
        return
    reasons = "; ".join(_notes(plan, why_not))
    raise BadInput(
        f"nothing can be compared with {baseline} here: {reasons}",
        where="--platforms",
        hint="name platforms that vtax platforms lists as available, or another --question",
    )


def _lost_before(plan: Plan) -> list[str]:
    """Return why the newest run of this host that has a platform of the plan could not test it."""
    reasons: dict[str, str] = {}
    with suppress(BadInput):
        for run in existing_store().newest(machine_id()):
            for record in run.platforms:
                reason = f"not tested in {run.name}: {record.name}: {record.reason}"
                reasons.setdefault(record.name, "" if record.available else reason)
    reasons_of_plan = [reasons.get(entry.platform.name, "") for entry in plan.platforms]
    return list(filter(None, reasons_of_plan))


def _sights(draft: Draft, plan: Plan, blocks: int) -> list[Sight]:
    benchmarks = {point.label: point.benchmark.name for point in plan.points}
    noise_by_benchmark: dict[str, BlockNoise] = {}
    with suppress(BadInput):
        store = existing_store()
        noise_by_benchmark = noise_of_host(
            store, machine_id(), set(benchmarks.values()), draft.platforms
        )
    sights = []
    for label, benchmark in benchmarks.items():
        noise = noise_by_benchmark.get(benchmark, ASSUMED)
        if blocks < 2:
            sights.append(Sight(label, noise.sd, noise.source, None, None))
            continue
        # both tests of equality must pass, so each with the root of the probability
        reach = detectable_distance(noise.sd, blocks, 0.95, power=(1 + _SEEN_WITH) / 2)
        difference = smallest_overhead(noise.sd, blocks)
        equality = blocks >= MINIMUM_BLOCKS and reach <= log_margin(draft.margin)
        sights.append(Sight(label, noise.sd, noise.source, difference, equality))
    return sights


def _notes(plan: Plan, why_not: str) -> list[str]:
    notes = [f"the platforms were not probed: {why_not}"] if why_not else []
    notes += _lost_before(plan)
    notes += platforms_not_tested(plan)
    points: dict[str, None] = {}
    for untested_point in plan.untested:
        place = f"{untested_point.platform.name} in {untested_point.point.label}"
        points[f"not tested: {place}: {untested_point.error.what}"] = None
    return [*notes, *points]
