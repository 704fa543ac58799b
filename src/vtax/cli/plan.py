"""Summary of a plan as text and as JSON, printed before a run and by a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from math import ceil
from typing import Any

from vtax.cli.output import notify
from vtax.errors import with_hint
from vtax.platforms.base import Platform
from vtax.report.renderers.numbers import plain_percent
from vtax.runner import boots
from vtax.runner.disk_room import cache_lines, memory_lines
from vtax.runner.host_sessions import blocks_of_sessions
from vtax.runner.plan import GuestLife, Plan, PlannedPlatform, core_lines
from vtax.runner.points import Point
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.units import about_size, format_count, format_duration

_ORDER_SHOWN = 3  # blocks
_CELLS_LISTED = 100_000
_A_MINUTE_S = 60


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON.

    block_s: estimated duration of a block in seconds. block_s_from: `run NAME` behind it; null where by defaults.
    order: guests of the certain blocks in the order they start, up to 100 000 cells; of a study with boots with
    session and boot.
    """
    described = {point.key: _described(point) for point in plan.points}
    return {
        "study": plan.study.name,
        "title": plan.study.title,
        "seed": plan.seed,
        "image": plan.image.key,
        "baseline": plan.study.baseline,
        **_declared(plan),
        **_estimate(plan),
        "caches": _cache_lines(plan),
        "cautions": _cautions(plan),
        "order": list(_order_as_json(plan)),
        "platforms": [
            {
                "name": planned.platform.name,
                **planned.platform.identity(),
                "available": planned.probe.available,
                "reason": planned.probe.reason,
                "hint": planned.probe.hint,
                "guests": _guests(plan, planned),
            }
            for planned in plan.platforms
        ],
        "not_tested": [
            {
                "platform": each.platform.name,
                **described[each.point.key],
                "reason": each.error.what,
                "hint": each.error.hint,
            }
            for each in plan.untested
        ],
        "privileges": sorted(plan.privileges),
        "runs_as_root": [
            {"platform": p.platform, "option": p.option, "value": p.value, "what": p.what}
            for p in plan.programs
        ],
        "cells": [
            {"key": cell.key, "platform": cell.platform.name, **described[cell.point.key]}
            for cell in plan.cells
        ],
    }


def _declared(plan: Plan) -> dict[str, Any]:
    """Return the design, and what --scale, --protocol and --ab changed of the study, as JSON."""
    return {
        "design": plan.study.design.model_dump(mode="json"),
        "changed_by": [change.model_dump() for change in plan.study.changed_by],
    }


def _estimate(plan: Plan) -> dict[str, Any]:
    """Return the estimated duration of a block, and the reboots beside it, as JSON. reboot_s: assumed."""
    source = plan.stored_costs.source if plan.stored_costs else None
    return {
        "block_s": plan.expected_block_s(),
        "block_s_from": source,
        "host_boots": _boots_as_json(plan),
    }


def _order_as_json(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield the guests in the order they start, as JSON."""
    visit_of = (
        {(id(s.platform), s.block): visit for visit, s in boots.guests_by_visit(plan)}
        if plan.study.boot
        else {}
    )
    for session in _limited(_certain_sessions(plan)):
        visit = visit_of.get((id(session.platform), session.block))
        yield {
            **(vars(visit) if visit else {}),
            "block": session.block + 1,
            "platform": session.platform.name,
            "cells": [cell.key for cell in session.cells],
        }


def _guests(plan: Plan, planned: PlannedPlatform) -> dict[str, Any] | None:
    """Resource limits of a platform's guests, as JSON; None without limits or without cells.

    at_once: number of concurrent guests. memory_at_once_bytes: memory of all of them.
    """
    largest = plan.largest_of(planned.platform.name)
    if largest is None or not planned.platform.driver.tunings:
        return None
    return {
        "vcpus": plan.resources.vcpus,
        "memory_bytes": plan.resources.memory_bytes,
        "at_once": largest.guests,
        "memory_at_once_bytes": largest.guests * plan.resources.memory_bytes,
        "scratch": _scratch_places(plan, planned.platform),
    }


def _described(point: Point) -> dict[str, Any]:
    """Return a point as JSON."""
    return {
        "benchmark": point.benchmark.name,
        "label": point.label,
        "levels": dict(point.levels),
        "parameters": point.parameters.model_dump(mode="json"),
        "topology": point.topology,
        "link": point.link.model_dump(mode="json") if point.link else {},
    }


def announce(plan: Plan, notify: Callable[[str], None] = notify) -> None:
    """Print the plan: cells, platforms, order, estimated time. notify: prints a line, by default on stderr."""
    design = plan.study.design
    available = [p.platform.name for p in plan.platforms if p.probe.available]
    rules = {
        "fixed": f"{format_count(design.blocks, 'block')}{_sessions(plan)}",
        "open": f"{format_count(design.blocks, 'block')}{_sessions(plan)}, and more whenever wanted",
        "precision": f"{design.min_blocks}-{design.max_blocks} blocks until every interval is within "
        f"±{plain_percent(design.precision)}",
        "verdict": f"{design.min_blocks}-{design.max_blocks} blocks until every comparison is decided",
        "budget": f"as many blocks as the budget allows{_sessions(plan)}",
    }
    notify(plan.study.title or plan.study.name)
    for change in plan.study.changed_by:
        notify(f"changed by {change}")
    notify(
        f"cells: {len(plan.cells)}, on {', '.join(available)}; {rules[design.stop]}, "
        f"{design.order} order, seed {plan.seed}"
    )
    notify(
        f"about {format_duration(plan.expected_block_s())} per block{_total_duration(plan)}; {_source(plan)}"
    )
    for line in _factor_lines(plan):
        notify(line)
    for line in [*_guest_resources(plan), *_cache_lines(plan), *_cautions(plan)]:
        notify(line)
    notify(_order(plan))
    for line in _boots(plan):
        notify(line)
    more = f"{'--blocks' if design.is_counted else 'min_blocks ='} {MINIMUM_BLOCKS}"
    few = (
        "" if design.stop in ("verdict", "budget") else _too_few_for_verdicts(plan.min_blocks, more)
    )
    notify(
        f"compared with {plan.study.baseline}; equivalent: within ±{plain_percent(design.margin)}{few}"
    )
    if design.budget is not None:
        bought = int(design.budget / plan.expected_block_s())
        few = _too_few_for_verdicts(
            bought, f"--budget {_written(MINIMUM_BLOCKS * plan.expected_block_s())}"
        )
        blocks = format_count(bought, "whole block")
        notify(
            f"the budget of {format_duration(design.budget)} fits about {blocks} by that estimate{few}"
        )
    if plan.privileges:
        notify(
            f"all guests may do what its benchmarks need beyond their confinement: {', '.join(sorted(plan.privileges))}"
        )
    for program in plan.programs:
        notify(f"this study runs as root of this host: {program}")
    for planned in plan.platforms:
        if not planned.probe.available:
            notify(
                f"not tested: {planned.platform.name}: {with_hint(planned.probe.reason, planned.probe.hint)}"
            )
    for line in _not_tested(plan):
        notify(line)


def _sessions(plan: Plan) -> str:
    """` in 3 sessions of 4, 3 and 3 blocks`; empty for a single session."""
    design = plan.study.design
    if design.sessions == 1:
        return ""
    if design.stop == "budget":
        return f" in {design.sessions} sessions of {format_duration((design.budget or 0.0) / design.sessions)} each"
    counts = Counter(blocks_of_sessions(design))
    of = " and ".join(
        f"{number} of {format_count(blocks, 'block')}"
        if len(counts) > 1
        else f"{format_count(blocks, 'block')} each"
        for blocks, number in counts.items()
    )
    return f" in {design.sessions} sessions, {of}"


def _too_few_for_verdicts(blocks: int, more: str) -> str:
    """`; a verdict needs 5 blocks: --budget 12min`; empty when so many blocks suffice. more: how to get them."""
    return (
        ""
        if blocks >= MINIMUM_BLOCKS
        else "; " + f"a verdict needs {format_count(MINIMUM_BLOCKS, 'block')}: {more}"
    )


def _written(seconds: float) -> str:
    """`12min`: as options take it, rounded up; below a minute `40s`."""
    return f"{ceil(seconds)}s" if seconds < _A_MINUTE_S else f"{ceil(seconds / _A_MINUTE_S)}min"


def _guest_resources(plan: Plan) -> list[str]:
    """`guests of native, lxc: 1 vCPU and 512 MiB each, /scratch: volume; 2 at once in guest-to-guest: 1 GiB`; a disk
    that is set."""
    limits = f"{format_count(plan.resources.vcpus, 'vCPU')} and {about_size(plan.resources.memory_bytes)} each"
    disk = plan.study.guest.disk
    groups: dict[str, list[str]] = {}
    for planned in plan.platforms:
        name = planned.platform.name
        if (largest := plan.largest_of(name)) is None:
            continue
        each = f"{limits}, disk of {about_size(disk)}" if disk and planned.platform.disk else limits
        each += f", /scratch: {', '.join(_scratch_places(plan, planned.platform))}"
        uses = (
            each
            if planned.platform.driver.tunings
            else "all of the machine; vtax sets no limits there"
        )
        if largest.guests > 1 and uses is each:
            memory = about_size(largest.guests * plan.resources.memory_bytes)
            uses += f"; {largest.guests} at once in {largest.topology or largest.label}: {memory}"
        groups.setdefault(uses, []).append(name)
    return [f"guests of {', '.join(names)}: {uses}" for uses, names in groups.items()]


def _scratch_places(plan: Plan, platform: Platform) -> list[str]:
    """Return where /scratch of a platform's guests lies, at each level of the factor."""
    cells = [cell for cell in plan.cells if cell.platform is platform]
    return list(dict.fromkeys(platform.scratch(cell.point.scratch) for cell in cells))


def _cache_lines(plan: Plan) -> list[str]:
    """See disk_room.cache_lines."""
    available = [planned.platform for planned in plan.platforms if planned.probe.available]
    return cache_lines(plan.points, plan.context(), available)


def _cautions(plan: Plan) -> list[str]:
    """Return what makes this host measure something else than a reader takes it for."""
    return [*memory_lines(plan.points), *core_lines(plan.resources.vcpus)]


def _not_tested(plan: Plan) -> list[str]:
    """`not tested: gvisor-ptrace in iperf3, router: REASON`; points with the same reason together."""
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    for each in plan.untested:
        place = (each.platform.name, each.point.label, each.point.topology, each.error.what)
        groups.setdefault(place, []).append(each.point)
    of_label = Counter(point.label for point in plan.points)
    lines = []
    for (platform, label, topology, why), points in groups.items():
        some = (
            ""
            if len(points) == of_label[label]
            else f" ({len(points)} of {of_label[label]} points)"
        )
        of = ", ".join(filter(None, (label, topology)))
        lines.append(f"not tested: {platform} in {of}{some}: {why}")
    return lines


def _certain_sessions(plan: Plan) -> Iterator[GuestLife]:
    """Return the guests of the blocks that any outcome needs, in their order."""
    if plan.study.design.order == "sequential":
        return plan.sequential_sessions()
    if plan.study.boot:
        return (session for _, session in boots.guests_by_visit(plan))
    return (session for block in range(plan.min_blocks) for session in plan.sessions(block))


def _limited(sessions: Iterator[GuestLife]) -> Iterator[GuestLife]:
    """Sessions until they hold _CELLS_LISTED."""
    listed = 0
    for session in sessions:
        if listed >= _CELLS_LISTED:
            return
        yield session
        listed += len(session.cells)


def _order(plan: Plan) -> str:
    """`order: block 1: lxc, native; block 2: native, lxc; ...`."""
    if plan.study.design.order == "sequential":
        return f"order: all blocks of {', then of '.join(plan.platform_names)}"
    if plan.study.boot:
        return _order_by_boot(plan)
    groups = groupby(_certain_sessions(plan), key=lambda session: session.block)
    blocks = [
        f"block {block + 1}: {', '.join(dict.fromkeys(session.platform.name for session in sessions))}"
        for block, sessions in islice(groups, _ORDER_SHOWN + 1)
    ]
    return f"order: {'; '.join(blocks[:_ORDER_SHOWN])}" + (
        "; ..." if len(blocks) > _ORDER_SHOWN else ""
    )


def _order_by_boot(plan: Plan) -> str:
    """`order: session 1, boot xen, block 1: xen-pv; session 1, boot linux, block 1: native, lxc; ...`."""
    groups = groupby(boots.guests_by_visit(plan), key=lambda each: (each[0], each[1].block))
    shown = [
        f"session {visit.session}, boot {visit.boot}, block {block + 1}: "
        f"{', '.join(dict.fromkeys(session.platform.name for _, session in each))}"
        for (visit, block), each in islice(groups, _ORDER_SHOWN + 1)
    ]
    return f"order: {'; '.join(shown[:_ORDER_SHOWN])}" + (
        "; ..." if len(shown) > _ORDER_SHOWN else ""
    )


def _boots(plan: Plan) -> Iterator[str]:
    """Yield the boots of the host that a study needs, their order, and the number and duration of its reboots."""
    if not plan.study.boot:
        return
    for table in plan.study.boot:
        if table.name in boots.used_boots(plan.study):
            yield f"boot {table.name} ({table.entry}): {', '.join(boots.platforms_of(plan.study, table.name))}"
        if idle := [name for name in table.platforms if name not in plan.study.platforms]:
            yield f"boot {table.name} names {', '.join(idle)} too, which this run does not measure"
    sessions = range(1, plan.study.design.sessions + 1)
    orders = [
        f"session {session}: {', '.join(boots.boot_order(plan.study, plan.seed, session))}"
        for session in islice(sessions, _ORDER_SHOWN)
    ]
    yield f"order of boots: {'; '.join(orders)}" + ("; ..." if len(sessions) > _ORDER_SHOWN else "")
    most, assumed = (
        len(boots.planned_visits(plan.study, plan.seed)),
        format_duration(boots.REBOOT_S),
    )
    yield (
        f"at most {format_count(most, 'reboot')}, one fewer when this host is in the first of these boots: about "
        f"{format_duration(most * boots.REBOOT_S)} beside that estimate, each assumed at {assumed}"
    )


def _boots_as_json(plan: Plan) -> dict[str, Any] | None:
    """Boots, their order by session and the largest number of reboots; None for a study of one boot."""
    if not plan.study.boot:
        return None
    found = boots.planned_visits(plan.study, plan.seed)
    return {
        "boots": {
            name: boots.platforms_of(plan.study, name) for name in boots.used_boots(plan.study)
        },
        "order": [{"session": visit.session, "boot": visit.boot} for visit in found],
        "max_reboots": len(found),
        "reboot_s": boots.REBOOT_S,
    }


def _factor_lines(plan: Plan) -> list[str]:
    """Return each benchmark with its topology and its factors' levels: `iperf3, point-to-point: link.mtu = 500,
    1500`."""
    lines = []
    topologies_of = {point.label: point.topology for point in plan.points}
    for table in plan.study.benchmark:
        label = table.label or table.name
        topology = topologies_of[label]
        tool = f" ({table.name})" if label != table.name else ""
        varied = "; ".join(
            f"{name} = {', '.join(map(str, levels))}" for name, levels in table.varied.items()
        )
        lines.append(
            f"  {label}{tool}"
            + (f", {topology}" if topology else "")
            + (f": {varied}" if varied else "")
        )
    for factor, levels in plan.study.start_factors.items():
        lines.append(f"  {factor} = {', '.join(levels)}")
    return lines


def _source(plan: Plan) -> str:
    """Return what the estimated time was made from."""
    if plan.stored_costs:
        return f"estimated from {plan.stored_costs.source}"
    return "a rough estimate"


def longest_s(plan: Plan) -> float:
    """Estimated duration of all blocks in seconds, at the most blocks that the rule allows."""
    design = plan.study.design
    bounds = [design.budget] if design.budget is not None else []
    return min([plan.max_blocks * plan.expected_block_s(), *bounds])


def _total_duration(plan: Plan) -> str:
    """Estimated duration of all blocks; empty under a time budget."""
    design, each = plan.study.design, plan.expected_block_s()
    if design.stop == "budget":
        return ""
    if design.is_counted:
        return f", {format_duration(design.blocks * each)} in total"
    return f", {format_duration(design.min_blocks * each)} to {format_duration(design.max_blocks * each)} in total"
