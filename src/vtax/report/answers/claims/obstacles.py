"""Obstacles to judging a claim by a run, in whole or in part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.counters.host import XEN_BELOW
from vtax.grouping import by_key
from vtax.levels import HOST, canonical, list_levels
from vtax.report import document as doc
from vtax.report.analysis.claim_cells import Mapped, has_values_on, host_here, mapped_side, selected
from vtax.report.analysis.compared import Cell
from vtax.report.analysis.sessions import of_hosts
from vtax.report.analysis.values import Analysis
from vtax.report.document import msg, plural, term
from vtax.study.claims import CheckTable, ClaimSide, ClaimTable


def why_not(
    analysis: Analysis, claim: ClaimTable, mapped: Mapped, entries: Sequence[Cell]
) -> doc.Inline:
    """Return why a claim cannot be judged by this run; nothing when it can."""
    if claim.not_tested:
        return term(claim.not_tested)
    return (
        _why_not_there(analysis, claim, mapped)
        or _why_no_bare_linux(analysis, claim, mapped)
        or _why_no_link_rate(analysis, entries, claim, mapped)
    )


def missing_parts(
    analysis: Analysis, entries: Sequence[Cell], claim: ClaimTable, mapped: Mapped
) -> Iterator[doc.Inline]:
    """Yield a sentence for all that the claim's checks name and the run has no value of. entries: without values too.

    A claim of which a part is missing is judged in part.
    """
    sentences: dict[str, doc.Inline] = {"scale": claim.in_part} if claim.in_part else {}
    for check in claim.check:
        for side in _sides(check, analysis.baseline, mapped):
            of_side = [entry for entry in entries if entry.row.platform.name == side.platform]
            for factor, levels in _absent_levels(check, side, of_side):
                sentences[f"{factor} {levels}"] = msg(
                    "not measured: {factor} {levels}", factor=factor, levels=levels
                )
            sentences |= dict(_without_value(check, side, of_side))
            sentences |= dict(_without_host(analysis, check, side, of_side))
    yield from sentences.values()


def _why_not_there(analysis: Analysis, claim: ClaimTable, mapped: Mapped) -> doc.Inline:
    """Return which platform or host of a claim the run did not measure; nothing when it measured all."""
    hosts = {host for check in claim.check for host in check.hosts}
    needed = max((host_here(host, mapped) for host in hosts), default=1)
    count = len(of_hosts(analysis.sessions))
    if needed > count:
        return plural(
            "it compares {needed} hosts, and this run is of {count} host; vtax merge combines runs of several",
            "it compares {needed} hosts, and this run is of {count} hosts; vtax merge combines runs of several",
            count,
            needed=doc.Count(needed),
        )
    if len({host_here(host, mapped) for host in hosts}) < len(hosts):
        return msg("two hosts are mapped to one")
    platforms = {platform.name: platform for platform in analysis.platforms}
    claimed_names: dict[str, str] = {}
    for name in claim.platforms(analysis.baseline):
        actual = mapped.get(name, name)
        if actual not in platforms:
            return msg("{platform} is not in this run", platform=name)
        if not platforms[actual].available:
            reason = platforms[actual].reason
            return msg("{platform} was not tested: {reason}", platform=name, reason=reason)
        if actual in claimed_names:
            return msg(
                "{first} and {second} are both {platform} here",
                first=claimed_names[actual],
                second=name,
                platform=actual,
            )
        claimed_names[actual] = name
    return ""


def _why_no_link_rate(
    analysis: Analysis, entries: Sequence[Cell], claim: ClaimTable, mapped: Mapped
) -> doc.Inline:
    """Return why values cannot be compared with the rates of links; nothing when they can, or no check does."""
    for check in (check for check in claim.check if check.kind == "link_rate"):
        for side in check.sides("of"):
            for entry in selected(entries, check, mapped_side(side, mapped)):
                if entry.section.metric.unit != "Mbit/s":
                    return msg("{metric} is no rate of a link", metric=entry.section.metric.name)
                if entry.link_rate is None:
                    return msg("the link of this run has no rate limit to compare with")
    return ""


def _why_no_bare_linux(analysis: Analysis, claim: ClaimTable, mapped: Mapped) -> doc.Inline:
    """Return why the baseline is no bare Linux beside a hypervisor below the host's kernel; nothing where it is."""
    from vtax.platforms.registry import drivers

    baseline = analysis.baseline
    below = {name for name, driver in drivers().items() if driver.is_below_host}
    available = [platform for platform in analysis.platforms if platform.available]
    names_below = {
        platform.name for platform in available if platform.identity.get("driver") in below
    }
    is_dom0 = any(session.host.get("hypervisor") == XEN_BELOW for session in analysis.sessions)
    has_hypervisor = (names_below or is_dom0) and baseline not in names_below
    is_claimed = mapped.get(baseline, baseline) == baseline and baseline in claim.platforms(
        baseline
    )
    if not has_hypervisor or not is_claimed:
        return ""
    boot_platforms = [set(boot["platforms"]) for boot in analysis.declared.get("boot") or ()]
    boots = [platforms for platforms in boot_platforms if baseline in platforms]
    if boots and not boots[0] & names_below:
        return ""
    return msg(
        "{baseline} has a hypervisor below it in this run; bare Linux needs a boot of its own: [[boot]]",
        baseline=baseline,
    )


def _sides(check: CheckTable, baseline: str, mapped: Mapped) -> Iterator[ClaimSide]:
    """Yield every side of a check and its reference, as platforms of the run."""
    reference = [ClaimSide(check.reference)] if check.reference else []
    for side in (*check.sides("of"), *check.compared_with(baseline), *reference):
        yield ClaimSide(
            mapped.get(side.platform, side.platform),
            side.levels.without((HOST,)),
        )


def _absent_levels(
    check: CheckTable, side: ClaimSide, entries: Sequence[Cell]
) -> Iterator[tuple[str, str]]:
    """(factor, levels) that are named and in no cell of the platform."""
    for factor, levels in {**check.where, **side.levels}.items():
        measured_levels = {
            entry.levels.canonical[factor] for entry in entries if factor in entry.levels
        }
        lacking = [
            str(level)
            for level in list_levels(levels)
            if canonical(factor, level) not in measured_levels
        ]
        if lacking and measured_levels:
            yield factor, ", ".join(lacking)


def _without_host(
    analysis: Analysis, check: CheckTable, side: ClaimSide, entries: Sequence[Cell]
) -> Iterator[tuple[str, doc.Inline]]:
    """Yield a sentence for each host on which a platform was not measured, of checks that are judged on each."""
    hosts = len(of_hosts(analysis.sessions)) if check.each_host else 0
    for host in range(1, 1 + hosts):
        if not has_values_on(analysis, entries, side.platform, host):
            name = str(host)
            text = msg(
                "{platform} has no value on host {number}", platform=side.platform, number=name
            )
            yield f"{side.platform} {name}", text


def _without_value(
    check: CheckTable, side: ClaimSide, entries: Sequence[Cell]
) -> Iterator[tuple[str, doc.Inline]]:
    """Yield a sentence for each metric that has no value at some of the side's points."""
    points = by_key(
        (entry.section.metric.name, entry.row.summary is not None)
        for entry in selected(entries, check, side)
    )
    for metric, has_value in points.items():
        lacking = has_value.count(False)
        if not lacking:
            continue
        text = msg("{platform} has no value of {metric}", platform=side.platform, metric=metric)
        if lacking < len(has_value):
            text = msg(
                "{platform} has no value of {metric} at {count} of {total} points",
                platform=side.platform,
                metric=metric,
                count=doc.Count(lacking),
                total=doc.Count(len(has_value)),
            )
        yield f"{side.platform} {metric}", text
