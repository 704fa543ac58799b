"""The gate of a campaign: whether a planned change made anything slower or costlier, or hosts lie apart.

Without a change it is the gate of the campaign's merged run, every platform against the baseline. With one it is every
platform's own performance after the change against before, over hosts; families and words are those of every gate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from vtax.errors import BadInput
from vtax.report.analysis.compared import Cell, CellPair, by_table
from vtax.report.analysis.values import Analysis
from vtax.report.answers.gate.compute import (
    Checked,
    CheckedHost,
    Checks,
    NotTested,
    Outcome,
    check,
    known_margins,
    margin_of,
    of_pairs,
    refuse_other_role,
)
from vtax.report.answers.hosts.fleet import Fleet
from vtax.report.answers.hosts.host_change import ChangeEffect, ChangeOfHosts
from vtax.report.document import msg
from vtax.stats.host_change import Effect, p_of_limit
from vtax.stats.margin import edges
from vtax.stats.ranges import HolmStep, holm_of_ranges
from vtax.stats.ratio import Ratio
from vtax.stats.terms import Conditions


def check_fleet(analysis: Analysis, fleet: Fleet, conditions: Conditions) -> Checks:
    """Return what the gate of a campaign finds.

    Raises BadInput where there is nothing that could be slower, and for costs that were not counted.
    """
    declared_changes = [change for change in fleet.changes if change[0].is_declared]
    if declared_changes and conditions.margins:
        checks = _after_change(analysis, fleet, declared_changes[0], conditions)
    elif conditions.margins:
        _require_platforms(analysis)
        checks = check(None, analysis, conditions)
    else:
        checks = Checks(analysis, (), "", {}, (), (), analysis.rule.alpha, strict=conditions.strict)
    if not conditions.odd_hosts:
        return checks
    return replace(
        checks,
        hosts=tuple(_hosts(fleet)),
        not_tested=(*checks.not_tested, *_too_few(fleet), *_unmeasured(fleet)),
    )


def _require_platforms(analysis: Analysis) -> None:
    names = [platform.name for platform in analysis.platforms if platform.available]
    if len(names) < 2:
        raise BadInput(
            f"the campaign measured {', '.join(names)} alone and carried out no planned change",
            where="--fail-if",
            hint="--fail-if odd-hosts judges its hosts",
        )


def _after_change(
    analysis: Analysis,
    fleet: Fleet,
    change_and_effects: tuple[ChangeOfHosts, tuple[ChangeEffect, ...]],
    conditions: Conditions,
) -> Checks:
    """Return every platform's own performance after a change against before."""
    change, effects = change_and_effects
    limits = known_margins(conditions.margins, [analysis])
    refuse_other_role([analysis], "", limits)
    judged_effects = [e for e in effects if e.base is None and e.section.metric.role in limits]
    pairs = [_pair(effect, analysis) for effect in judged_effects]
    by_number: dict[int, Checked] = {}
    for family in by_table(pairs):
        margins = [margin_of(pairs[n], conditions.margins) for n in family]
        ps = [
            _p_values(judged_effects[n], margin) for n, margin in zip(family, margins, strict=True)
        ]
        steps = holm_of_ranges(ps)
        for number, margin, step in zip(family, margins, steps, strict=True):
            checked = _checked(pairs[number], judged_effects[number], step, analysis.rule.alpha)
            by_number[number] = replace(checked, margin=margin, family=len(family))
    lost_hosts = [
        NotTested(fleet.short[name], msg("no session after the change")) for name in change.lost
    ]
    return Checks(
        analysis,
        tuple(dict.fromkeys(effect.platform for effect in judged_effects)),
        "before",
        of_pairs(limits, pairs),
        tuple(by_number[number] for number in range(len(pairs))),
        tuple(lost_hosts),
        analysis.rule.alpha,
        strict=conditions.strict,
        change=change,
    )


def _pair(effect: ChangeEffect, analysis: Analysis) -> CellPair:
    cell = (Cell(analysis, effect.section, effect.row),)
    return CellPair(effect.section, effect.levels, effect.row, effect.row, (cell, cell))


def _p_values(effect: ChangeEffect, margin: float) -> tuple[float, float]:
    """Return (p that the effect is within the margin, p that it is beyond it)."""
    lowest, highest = edges(margin)
    is_rate = effect.section.better == "higher"
    limit = math.log(lowest if is_rate else highest)
    p_value, is_above = p_of_limit(*effect.shifts, limit)
    return (p_value, 1.0) if is_above == is_rate else (1.0, p_value)


def _checked(pair: CellPair, effect: ChangeEffect, step: HolmStep, alpha: float) -> Checked:
    outcome: Outcome = "undecided"
    if step.p_inside <= alpha:
        outcome = "passed"
    elif step.p_outside <= alpha:
        outcome = "costs-more" if pair.section.metric.role == "cost" else "slower"
    return Checked(pair, outcome, _ratio(effect.effect), step.p_outside, step.p_inside)


def _ratio(effect: Effect) -> Ratio:
    """Return an effect as a ratio over hosts."""
    hosts = effect.changed + effect.controls
    return Ratio(
        effect.estimate,
        effect.low,
        effect.high,
        effect.confidence,
        hosts,
        math.log(effect.estimate),
        math.nan,
        effect.df,
        effect.p_value,
        (),
        (),
        n_sessions=hosts,
        n_hosts=hosts,
    )


def _hosts(fleet: Fleet) -> Iterator[CheckedHost]:
    """Yield every host that was measured, with where it lies apart, the farthest first."""
    few = {host.name for peers in fleet.too_few for host in peers}
    odd_names = list(dict.fromkeys(name for finding in fleet.odd for name in finding.hosts))
    places = {name: place for place, name in enumerate(odd_names)}
    for host in sorted(fleet.hosts_before, key=lambda host: places.get(host.name, len(odd_names))):
        findings = tuple(finding for finding in fleet.odd if host.name in finding.hosts)
        if host.name not in few:
            yield CheckedHost(
                fleet.short[host.name], "odd-host" if findings else "passed", findings
            )


def _too_few(fleet: Fleet) -> Iterator[NotTested]:
    """Yield the hosts of which too few are alike."""
    for peers in fleet.too_few:
        for host in peers:
            yield NotTested(
                fleet.short[host.name], msg("fewer than 5 hosts of its CPU model were measured")
            )


def _unmeasured(fleet: Fleet) -> Iterator[NotTested]:
    """Yield the hosts of the campaign without a result."""
    for host in fleet.campaign.missing if fleet.campaign else ():
        if not host.sessions:
            yield NotTested(fleet.short[host.host], host.detail or host.state)
