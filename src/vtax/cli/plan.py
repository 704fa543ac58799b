"""Summary of a plan as text and as JSON, printed before a run and by a dry run; asks before a long run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import ceil
from typing import Any

import click

from vtax.cli.output import notify
from vtax.errors import BadInput, with_hint
from vtax.platforms.base import Platform
from vtax.report.renderers.numbers import plain_percent
from vtax.runner import boots
from vtax.runner.disk_room import cache_lines, memory_lines
from vtax.runner.host_sessions import blocks_of_sessions
from vtax.runner.plan import GuestLife, Plan, PlannedPlatform, core_lines
from vtax.runner.points import Point
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.study.model import BenchmarkTable, DesignTable
from vtax.units import about_size, format_count, format_duration

_ORDER_SHOWN = 3  # blocks
_CELLS_LISTED = 100_000
_A_MINUTE_S = 60
CONFIRMED_ABOVE_S = 3600.0

yes_option = click.option(
    "--yes", "-y", is_flag=True, help="Skip confirmation of a run of more than an hour."
)


def as_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON.

    block_s: estimated duration of a block in seconds.
    block_s_from: `run NAME` behind it; null where by defaults.
    order: guests of the certain blocks in the order they start, up to 100 000 cells; of a study with boots with
        session and boot.
    """
    points = {point.key: _describe_point(point) for point in plan.points}
    platforms, not_tested, programs, cells = [], [], [], []
    for planned_platform in plan.platforms:
        platform = {
            "name": planned_platform.platform.name,
            **planned_platform.platform.identity(),
            "available": planned_platform.probe.available,
            "reason": planned_platform.probe.reason,
            "hint": planned_platform.probe.hint,
            "guests": _guests(plan, planned_platform),
        }
        platforms.append(platform)
    for untested_point in plan.untested:
        entry = {"platform": untested_point.platform.name, **points[untested_point.point.key]}
        not_tested.append(
            {**entry, "reason": untested_point.error.what, "hint": untested_point.error.hint}
        )
    for program in plan.programs:
        entry = {"platform": program.platform, "option": program.option}
        programs.append({**entry, "value": program.value, "what": program.what})
    for cell in plan.cells:
        cells.append({"key": cell.key, "platform": cell.platform.name, **points[cell.point.key]})
    return {
        "study": plan.study.name,
        "title": plan.study.title,
        "seed": plan.seed,
        "image": plan.image.key,
        "baseline": plan.study.baseline,
        **_design_as_json(plan),
        **_estimate(plan),
        "caches": _cache_lines(plan),
        "cautions": _cautions(plan),
        "order": list(_order_as_json(plan)),
        "platforms": platforms,
        "not_tested": not_tested,
        "privileges": sorted(plan.privileges),
        "runs_as_root": programs,
        "cells": cells,
    }


def _design_as_json(plan: Plan) -> dict[str, Any]:
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
    visits = {}
    if plan.study.boot:
        for visit, session in boots.guests_by_visit(plan):
            visits[id(session.platform), session.block] = vars(visit)
    for session in _first_lives(_certain_guests(plan)):
        yield {
            **visits.get((id(session.platform), session.block), {}),
            "block": session.block + 1,
            "platform": session.platform.name,
            "cells": [cell.key for cell in session.cells],
        }


def _guests(plan: Plan, planned_platform: PlannedPlatform) -> dict[str, Any] | None:
    """Return resource limits of a platform's guests, as JSON; None without limits or without cells.

    at_once: number of concurrent guests. memory_at_once_bytes: memory of all of them.
    """
    largest = plan.largest_of(planned_platform.platform.name)
    if largest is None or not planned_platform.platform.driver.tunings:
        return None
    return {
        "vcpus": plan.resources.vcpus,
        "memory_bytes": plan.resources.memory_bytes,
        "at_once": largest.guests,
        "memory_at_once_bytes": largest.guests * plan.resources.memory_bytes,
        "scratch": _scratch_places(plan, planned_platform.platform),
    }


def _describe_point(point: Point) -> dict[str, Any]:
    """Return a point as JSON."""
    return {
        "benchmark": point.benchmark.name,
        "label": point.label,
        "levels": dict(point.levels),
        "parameters": point.stored_parameters,
        "topology": point.topology,
        "link": point.link.model_dump(mode="json") if point.link else {},
    }


def announce(
    plan: Plan, notify: Callable[[str], None] = notify, *, budget_part: float = 1.0
) -> None:
    """Print the plan: cells, platforms, order, estimated time. notify: prints a line, by default on stderr."""
    design, block_s = plan.study.design, plan.expected_block_s()
    available = [entry.platform.name for entry in plan.platforms if entry.probe.available]
    notify(plan.study.title or plan.study.name)
    for change in plan.study.changed_by:
        notify(f"changed by {change}")
    notify(
        f"cells: {len(plan.cells)}, on {', '.join(available)}; {design.rule.planned(_sessions(plan))}, "
        f"{_order_in_words(design)}, seed {plan.seed}"
    )
    notify(
        f"about {format_duration(block_s)} per block{_total_duration(plan)}; {source_of_estimate(plan)}"
    )
    for line in _factor_lines(plan):
        notify(line)
    for line in [*_guest_resources(plan), *_cache_lines(plan), *_cautions(plan)]:
        notify(line)
    notify(_order(plan))
    for line in _boots(plan):
        notify(line)
    compared = (
        f"compared with {plan.study.baseline}; equivalent: within ±{plain_percent(design.margin)}"
    )
    for table in plan.study.benchmark:
        if table.margin not in (None, design.margin):
            compared += f", {table.title} ±{plain_percent(table.margin)}"
    option = "--blocks" if design.rule.is_counted else "min_blocks ="
    compared += _too_few_for_verdicts(plan.min_blocks, f"{option} {MINIMUM_BLOCKS}")
    notify(compared)
    if design.budget is not None:
        affordable = plan.blocks_within(design.budget)
        option = f"--budget {rounded_up(MINIMUM_BLOCKS * block_s / budget_part)}"
        notify(
            f"{phrase_of_budget(design.budget, budget_part)} fits about {format_count(affordable, 'whole block')} "
            f"by that estimate{_expected_to_leave(plan, affordable)}{_too_few_for_verdicts(affordable, option)}"
        )
    if plan.privileges:
        notify(
            f"all guests may do what its benchmarks need beyond their confinement: {', '.join(sorted(plan.privileges))}"
        )
    for program in plan.programs:
        notify(f"this study runs as root of this host: {program}")
    for line in [*platforms_not_tested(plan), *_not_tested(plan)]:
        notify(line)


def _expected_to_leave(plan: Plan, blocks: int) -> str:
    """Return what an estimate of so many blocks supposes about platforms that are far slower than the others."""
    if blocks <= MINIMUM_BLOCKS or not plan.leaving_early:
        return ""
    return f", about {MINIMUM_BLOCKS} of them with {', '.join(plan.leaving_early)} (emulated, leaves early)"


def _sessions(plan: Plan) -> str:
    """Return ` in 3 sessions of 4, 3 and 3 blocks`; empty for a single session."""
    design = plan.study.design
    if design.sessions == 1:
        return ""
    if design.rule.needs_budget:
        session_s = (design.budget or 0.0) / design.sessions
        return f" in {design.sessions} sessions of {format_duration(session_s)} each"
    counts = Counter(blocks_of_sessions(design))
    if len(counts) == 1:
        (blocks,) = counts
        return f" in {design.sessions} sessions, {format_count(blocks, 'block')} each"
    parts = [f"{number} of {format_count(blocks, 'block')}" for blocks, number in counts.items()]
    return f" in {design.sessions} sessions, {' and '.join(parts)}"


def _too_few_for_verdicts(blocks: int, option: str) -> str:
    """Return `; a verdict needs 5 blocks: --budget 12min`; empty when so many blocks suffice. option: to get them."""
    if blocks >= MINIMUM_BLOCKS:
        return ""
    return f"; a verdict needs {format_count(MINIMUM_BLOCKS, 'block')}: {option}"


def phrase_of_budget(budget: float, part: float) -> str:
    """Return `the budget of 10 min 00 s`, or `6 min 40 s of the budget`. budget: in seconds. part: see RunOptions."""
    duration = format_duration(budget)
    return f"{duration} of the budget" if part < 1 else f"the budget of {duration}"


def rounded_up(seconds: float) -> str:
    """Return `12min`: as options take it, rounded up; below a minute `40s`."""
    return f"{ceil(seconds)}s" if seconds < _A_MINUTE_S else f"{ceil(seconds / _A_MINUTE_S)}min"


def _guest_resources(plan: Plan) -> list[str]:
    """Return `guests of native, lxc: 1 vCPU and 512 MiB each, /scratch: volume; 2 at once in guest-to-guest: 1 GiB`; a
    disk that is set."""
    vcpus, disk = format_count(plan.resources.vcpus, "vCPU"), plan.study.guest.disk
    memory_bytes = plan.resources.memory_bytes
    names_by_text: dict[str, list[str]] = {}
    for planned_platform in plan.platforms:
        name = planned_platform.platform.name
        largest = plan.largest_of(name)
        if largest is None:
            continue
        text = "all of the machine; vtax sets no limits there"
        if planned_platform.platform.driver.tunings:
            text = f"{vcpus} and {about_size(memory_bytes)} each"
            if disk and planned_platform.platform.disk:
                text += f", disk of {about_size(disk)}"
            text += f", /scratch: {', '.join(_scratch_places(plan, planned_platform.platform))}"
            if largest.guests > 1:
                place = largest.topology or largest.label
                total = about_size(largest.guests * memory_bytes)
                text += f"; {largest.guests} at once in {place}: {total}"
        names_by_text.setdefault(text, []).append(name)
    lines = [f"guests of {', '.join(names)}: {text}" for text, names in names_by_text.items()]
    if plan.study.design.order == "rounds":
        guests = plan.guests_at_once
        lines.append(f"{guests} guests are alive at once: {about_size(guests * memory_bytes)}")
    return lines


def _scratch_places(plan: Plan, platform: Platform) -> list[str]:
    """Return where /scratch of a platform's guests lies, at each level of the factor."""
    cells = [cell for cell in plan.cells if cell.platform is platform]
    return list(dict.fromkeys(platform.scratch(cell.point.scratch) for cell in cells))


def _cache_lines(plan: Plan) -> list[str]:
    """Return what disk_room.cache_lines says of the plan."""
    available = [
        planned_platform.platform
        for planned_platform in plan.platforms
        if planned_platform.probe.available
    ]
    return cache_lines(plan.points, plan.context(), available)


def _cautions(plan: Plan) -> list[str]:
    """Return what makes this host measure something else than a reader takes it for."""
    return [*memory_lines(plan.points), *core_lines(plan.resources.vcpus)]


def platforms_not_tested(plan: Plan) -> Iterator[str]:
    """Yield `not tested: xen-pv: REASON` for every platform that does not run here."""
    for planned_platform in plan.platforms:
        if not planned_platform.probe.available:
            reason = with_hint(planned_platform.probe.reason, planned_platform.probe.hint)
            yield f"not tested: {planned_platform.platform.name}: {reason}"


def _not_tested(plan: Plan) -> list[str]:
    """Return `not tested: gvisor-ptrace in iperf3, router: REASON`; points with the same reason together."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for untested_point in plan.untested:
        point = untested_point.point
        counts[
            untested_point.platform.name, point.label, point.topology, untested_point.error.what
        ] += 1
    points_of = Counter(point.label for point in plan.points)
    lines = []
    for (platform, label, topology, reason), count in counts.items():
        place = f"{label}, {topology}" if topology else label
        if count != points_of[label]:
            place += f" ({count} of {points_of[label]} points)"
        lines.append(f"not tested: {platform} in {place}: {reason}")
    return lines


def _certain_guests(plan: Plan) -> Iterator[GuestLife]:
    """Yield the guests of the blocks that any outcome needs, in their order."""
    if plan.study.boot:
        for _, session in boots.guests_by_visit(plan):
            yield session
    elif plan.study.design.order == "sequential":
        yield from plan.sequential_guests()
    else:
        for block in range(plan.min_blocks):
            yield from plan.guests(block)


def _first_lives(sessions: Iterator[GuestLife]) -> Iterator[GuestLife]:
    """Yield sessions until they hold _CELLS_LISTED."""
    cells = 0
    for session in sessions:
        if cells >= _CELLS_LISTED:
            return
        yield session
        cells += len(session.cells)


def _order_in_words(design: DesignTable) -> str:
    if design.order == "rounds":
        return f"{design.trials} rounds over guests that are all alive"
    return f"{design.order} order"


def _order(plan: Plan) -> str:
    """Return `order: block 1: lxc, native; block 2: native, lxc; ...`."""
    if plan.study.design.order == "sequential":
        names = [guest.platform.name for guest in _certain_guests(plan)]
        return f"order: all blocks of {', then of '.join(dict.fromkeys(names))}"
    if plan.study.boot:
        return _order_by_boot(plan)
    groups = groupby(_certain_guests(plan), key=lambda session: session.block)
    blocks = []
    for block, sessions in islice(groups, _ORDER_SHOWN + 1):
        blocks.append(f"block {block + 1}: {_platforms_in_order(sessions)}")
    return f"order: {_first_shown(blocks)}"


def _platforms_in_order(sessions: Iterable[GuestLife]) -> str:
    return ", ".join(dict.fromkeys(session.platform.name for session in sessions))


def _first_shown(parts: Sequence[str]) -> str:
    """Return the first of the parts of an order, and whether there are more."""
    ellipsis = ["..."] if len(parts) > _ORDER_SHOWN else []
    return "; ".join([*parts[:_ORDER_SHOWN], *ellipsis])


def _order_by_boot(plan: Plan) -> str:
    """Return `order: session 1, boot xen, block 1: xen-pv; session 1, boot linux, block 1: native, lxc; ...`."""
    guests = boots.guests_by_visit(plan)
    groups = groupby(guests, key=lambda guest: (guest[0], guest[1].block))
    parts = []
    for (visit, block), group in islice(groups, _ORDER_SHOWN + 1):
        platforms = _platforms_in_order(session for _, session in group)
        place = f"session {visit.session}, boot {visit.boot}, block {block + 1}"
        parts.append(f"{place}: {platforms}")
    return f"order: {_first_shown(parts)}"


def _boots(plan: Plan) -> Iterator[str]:
    """Yield the boots of the host that a study needs, their order, and the number and duration of its reboots."""
    study = plan.study
    if not study.boot:
        return
    for table in study.boot:
        if table.name in boots.used_boots(study):
            platforms = ", ".join(boots.platforms_of(study, table.name))
            yield f"boot {table.name} ({table.entry}): {platforms}"
        idle = [name for name in table.platforms if name not in study.platforms]
        if idle:
            yield f"boot {table.name} names {', '.join(idle)} too, which this run does not measure"
    orders = []
    for session in range(1, study.design.sessions + 1):
        names = ", ".join(boots.boot_order(study, plan.seed, session))
        orders.append(f"session {session}: {names}")
    yield f"order of boots: {_first_shown(orders)}"
    visit_count = len(boots.planned_visits(study, plan.seed))
    yield (
        f"at most {format_count(visit_count, 'reboot')}, one fewer when this host is in the first of these boots: about "
        f"{format_duration(visit_count * boots.REBOOT_S)} beside that estimate, each assumed at {format_duration(boots.REBOOT_S)}"
    )


def _boots_as_json(plan: Plan) -> dict[str, Any] | None:
    """Return boots, their order by session and the largest number of reboots; None for a study of one boot."""
    if not plan.study.boot:
        return None
    visits = boots.planned_visits(plan.study, plan.seed)
    platforms = {}
    for name in boots.used_boots(plan.study):
        platforms[name] = boots.platforms_of(plan.study, name)
    return {
        "boots": platforms,
        "order": list(map(vars, visits)),
        "max_reboots": len(visits),
        "reboot_s": boots.REBOOT_S,
    }


def _factor_lines(plan: Plan) -> list[str]:
    """Return each benchmark with its topology and its factors' levels: `iperf3, point-to-point: link.mtu = 500,
    1500`."""
    lines = []
    topologies = {point.label: point.topology for point in plan.points}
    for table in plan.study.benchmark:
        label = table.title
        line = f"  {label}"
        if label != table.name:
            line += f" ({table.name})"
        if topologies[label]:
            line += f", {topologies[label]}"
        if table.trial_time is not None:
            line += f", trials of {table.trial_time:g} s"
        if table.varied:
            line += f": {format_factors(table)}"
        lines.append(line)
    for factor, levels in plan.study.start_factors.items():
        lines.append(f"  {factor} = {', '.join(levels)}")
    return lines


def format_factors(table: BenchmarkTable) -> str:
    """Return `link.mtu = 500, 1500; size = 64`: the factors of a benchmark with their levels."""
    factors = []
    for name, levels in table.varied.items():
        text = f"{name} = {', '.join(map(str, levels))}"
        if name == "guests" and table.guests_until is not None:
            text += f" while {table.guests_until}"
        factors.append(text)
    return "; ".join(factors)


def source_of_estimate(plan: Plan) -> str:
    """Return what the estimated time was made from."""
    if plan.stored_costs:
        return f"estimated from {plan.stored_costs.source}"
    return "a rough estimate"


def longest_s(plan: Plan) -> float:
    """Return the estimated duration of all blocks in seconds, at the most blocks that the rule allows."""
    budget_s = plan.study.design.budget
    duration_s = plan.max_blocks * plan.expected_block_s()
    return duration_s if budget_s is None else min(duration_s, budget_s)


def _total_duration(plan: Plan) -> str:
    """Return the estimated duration of all blocks; empty under a time budget."""
    rule = plan.study.design.rule
    if rule.needs_budget:
        return ""
    shortest, longest = plan.expected_s(rule.fewest_blocks), plan.expected_s(rule.most_blocks)
    if rule.is_counted:
        return f", {format_duration(longest)} in total"
    return f", {format_duration(shortest)} to {format_duration(longest)} in total"


def confirm(plan: Plan) -> None:
    """Ask whether to start a run that may last more than an hour. Raises BadInput for no, and without a terminal."""
    duration_s = longest_s(plan)
    if duration_s <= CONFIRMED_ABOVE_S:
        return
    up_to = f"the run may last up to {format_duration(duration_s)}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "--yes starts it; --blocks, --budget, --scale or fewer --platforms shorten it"
        raise BadInput(
            f"{up_to}, and there is no terminal to confirm that on", where="--yes", hint=hint
        )
    try:
        answer = click.confirm(f"{up_to[0].upper()}{up_to[1:]}. Start it?", err=True)
    except click.Abort:
        answer = False
    if not answer:
        raise BadInput(
            "nothing was run", hint="--blocks, --budget, --scale or fewer --platforms shorten a run"
        )
