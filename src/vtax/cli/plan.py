"""A plan for people, in a few lines, and for programs: what a run is about to do, or what a dry run shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import Any

from vtax.cli.output import notify
from vtax.errors import with_hint
from vtax.report.renderers.numbers import plain_percent
from vtax.runner.plan import Plan, PlannedPlatform, Session
from vtax.runner.points import Point
from vtax.stats.moderation import MINIMUM_BLOCKS
from vtax.study.units import about_size, format_count, format_duration

_ORDER_SHOWN = 3  # blocks
_CELLS_LISTED = 100_000
_ENOUGH = f"{MINIMUM_BLOCKS} blocks"


def as_json(plan: Plan) -> dict[str, Any]:
    """A plan as JSON.

    block_s: a first estimate of a block's length. order: guests of the blocks that are certain, until they hold
    100 000 cells.
    """
    described = {point.key: _described(point) for point in plan.points}
    return {
        "study": plan.study.name,
        "title": plan.study.title,
        "seed": plan.seed,
        "image": plan.image.key,
        "baseline": plan.study.baseline,
        "design": plan.study.design.model_dump(mode="json"),
        "block_s": plan.expected_block_s(),
        "order": [
            {
                "block": session.block + 1,
                "platform": session.platform.name,
                "cells": [cell.key for cell in session.cells],
            }
            for session in _as_many(_first_sessions(plan))
        ],
        "platforms": [
            {
                "name": planned.platform.name,
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
        "runs_as_root": [
            {"platform": p.platform, "option": p.option, "value": p.value, "what": p.what} for p in plan.programs
        ],
        "cells": [
            {"key": cell.key, "platform": cell.platform.name, **described[cell.point.key]} for cell in plan.cells
        ],
    }


def _guests(plan: Plan, planned: PlannedPlatform) -> dict[str, Any] | None:
    """What the guests of a platform may use, as JSON; None when vtax sets no limits there, or it has no cells.

    at_once: how many run at the same time. memory_at_once_bytes: of all of them.
    """
    largest = plan.largest_of(planned.platform.name)
    if largest is None or not planned.platform.driver.tunings:
        return None
    return {
        "vcpus": plan.resources.vcpus,
        "memory_bytes": plan.resources.memory_bytes,
        "at_once": largest.guests,
        "memory_at_once_bytes": largest.guests * plan.resources.memory_bytes,
    }


def _described(point: Point) -> dict[str, Any]:
    """A point as JSON."""
    return {
        "benchmark": point.benchmark.name,
        "label": point.label,
        "levels": dict(point.levels),
        "parameters": point.parameters.model_dump(mode="json"),
        "topology": point.topology,
        "link": point.link.model_dump(mode="json") if point.link else {},
    }


def announce(plan: Plan, notify: Callable[[str], None] = notify) -> None:
    """What is about to happen, on stderr unless told elsewhere: cells, platforms, order, how long."""
    design = plan.study.design
    available = [p.platform.name for p in plan.platforms if p.probe.available]
    rules = {
        "fixed": format_count(design.blocks, "block"),
        "precision": f"{design.min_blocks}-{design.max_blocks} blocks until every interval is within "
        f"±{plain_percent(design.precision)}",
        "verdict": f"{design.min_blocks}-{design.max_blocks} blocks until every contrast has its verdict",
        "budget": f"as many blocks as the time allows, after {design.min_blocks} of them where intervals are widest"
        if design.spend == "widest"
        else "as many blocks as the time allows",
    }
    notify(plan.study.title or plan.study.name)
    notify(
        f"cells: {len(plan.cells)}, on {', '.join(available)}; {rules[design.stop]}, "
        f"{design.order} order, seed {plan.seed}; "
        f"about {format_duration(plan.expected_block_s())} a block{_in_all(plan)}"
    )
    for line in _what_varies(plan):
        notify(line)
    for line in _what_guests_use(plan):
        notify(line)
    notify(_order(plan))
    few = "" if plan.min_blocks >= MINIMUM_BLOCKS or design.stop == "verdict" else f"; a verdict needs {_ENOUGH}"
    notify(f"compared with {plan.study.baseline}; equivalent: within ±{plain_percent(design.margin)}{few}")
    if design.budget is not None:
        bought = int(design.budget / plan.expected_block_s())
        few = f"; a verdict needs {_ENOUGH}" if bought < MINIMUM_BLOCKS else ""
        notify(
            f"the budget of {format_duration(design.budget)} buys about {format_count(bought, 'whole block')}{few}"
        )
    for program in plan.programs:
        notify(f"run by root of this host, since the study names it: {program}")
    for planned in plan.platforms:
        if not planned.probe.available:
            notify(f"not tested: {planned.platform.name}: {with_hint(planned.probe.reason, planned.probe.hint)}")
    for line in _not_tested(plan):
        notify(line)


def _what_guests_use(plan: Plan) -> list[str]:
    """`guests of native, lxc: 1 vCPU and 512 MiB each; 2 at once in guest-to-guest: 1 GiB`."""
    each = f"{format_count(plan.resources.vcpus, 'vCPU')} and {about_size(plan.resources.memory_bytes)} each"
    groups: dict[str, list[str]] = {}
    for planned in plan.platforms:
        name = planned.platform.name
        if (largest := plan.largest_of(name)) is None:
            continue
        uses = each if planned.platform.driver.tunings else "what the machine has; vtax sets no limit there"
        if largest.guests > 1 and uses is each:
            memory = about_size(largest.guests * plan.resources.memory_bytes)
            uses += f"; {largest.guests} at once in {largest.topology}: {memory}"
        groups.setdefault(uses, []).append(name)
    return [f"guests of {', '.join(names)}: {uses}" for uses, names in groups.items()]


def _not_tested(plan: Plan) -> list[str]:
    """`not tested: gvisor-ptrace in iperf3, router: REASON`; points with the same reason together."""
    groups: dict[tuple[str, str, str, str], list[Point]] = {}
    for each in plan.untested:
        why = with_hint(each.error.what, each.error.hint)
        groups.setdefault((each.platform.name, each.point.label, each.point.topology, why), []).append(each.point)
    of_label = Counter(point.label for point in plan.points)
    lines = []
    for (platform, label, topology, why), points in groups.items():
        some = "" if len(points) == of_label[label] else f" ({len(points)} of {of_label[label]} points)"
        lines.append(f"not tested: {platform} in {label}, {topology}{some}: {why}")
    return lines


def _first_sessions(plan: Plan) -> Iterator[Session]:
    """The guests of the blocks that are certain to be made, in the order they run."""
    if plan.study.design.order == "sequential":
        return plan.in_a_row()
    return (session for block in range(plan.min_blocks) for session in plan.sessions(block))


def _as_many(sessions: Iterator[Session]) -> Iterator[Session]:
    """Sessions until they hold _CELLS_LISTED."""
    listed = 0
    for session in sessions:
        if listed >= _CELLS_LISTED:
            return
        yield session
        listed += len(session.cells)


def _order(plan: Plan) -> str:
    """`order: block 1: lxc, native; block 2: native, lxc; and so on`."""
    if plan.study.design.order == "sequential":
        return f"order: all blocks of {', then of '.join(plan.platform_names)}"
    groups = groupby(_first_sessions(plan), key=lambda session: session.block)
    told = [
        f"block {block + 1}: {', '.join(dict.fromkeys(session.platform.name for session in sessions))}"
        for block, sessions in islice(groups, _ORDER_SHOWN + 1)
    ]
    return f"order: {'; '.join(told[:_ORDER_SHOWN])}" + ("; and so on" if len(told) > _ORDER_SHOWN else "")


def _what_varies(plan: Plan) -> list[str]:
    """Every benchmark with its topology and its factors' levels: `iperf3, point-to-point: link.mtu = 500, 1500`."""
    lines = []
    topologies_of = {point.label: point.topology for point in plan.points}
    for table in plan.study.benchmark:
        label = table.label or table.name
        topology = topologies_of[label]
        tool = f" ({table.name})" if label != table.name else ""
        told = "; ".join(f"{name} = {', '.join(map(str, levels))}" for name, levels in table.varied.items())
        lines.append(f"  {label}{tool}" + (f", {topology}" if topology else "") + (f": {told}" if told else ""))
    if plan.study.tuning:
        lines.append(f"  everything with tuning = {', '.join(plan.study.tuning)}")
    return lines


def _in_all(plan: Plan) -> str:
    """How long all blocks take at first sight; nothing when a time decides how many there are."""
    design, each = plan.study.design, plan.expected_block_s()
    if design.stop == "budget":
        return ""
    if design.stop == "fixed":
        return f", {format_duration(design.blocks * each)} in all"
    return f", {format_duration(design.min_blocks * each)} to {format_duration(design.max_blocks * each)} in all"
