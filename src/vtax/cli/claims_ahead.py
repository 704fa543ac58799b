"""Which claims of its study a run can judge, and how many blocks each takes: asked of the plan, before the run.

A claim is judged by the cells that its checks select, so this looks for them among the planned ones. What only
shows while measuring (a caution, a trial that fails) is not known yet; `report/answers/claims/compute.py` judges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vtax.counters.host import XEN_BELOW, host_facts, machine_id
from vtax.levels import BENCHMARK, METRIC, PLATFORM, Levels
from vtax.question import Selection
from vtax.report.analysis.claim_cells import compared
from vtax.report.analysis.noise import ASSUMED, BlockNoise, noise_of_host
from vtax.report.renderers.numbers import plain_percent
from vtax.runner.plan import Plan
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.planning import POWER, blocks_needed
from vtax.stats.spread import BLOCKS_OF_A_SPREAD
from vtax.store.store import Store
from vtax.study.claims import OVER_BLOCKS, CheckTable, ClaimTable
from vtax.units import format_count, format_duration

_BEYOND = 1.25
"""Where a publication prints no number, the ratio is assumed to be this many times beyond the bound of its claim."""
_MOST_BLOCKS = 1000
_HYPERVISORS: Mapping[str, str] = {"kvm": "KVM", "xen": "Xen", "virtualbox": "VirtualBox"}
"""Beginning of the names of platforms -> what a host must have for them."""
_BOOT, _HOST, _BLOCKS = "another boot", "a second machine", "more blocks"
_OTHER = "other settings"


@dataclass(frozen=True)
class ClaimAhead:
    """A claim before the run.

    needs: what this run lacks to judge it, such as `Xen`; nothing where it can.
    missing: the platforms that it lacks.
    why: the same as a sentence.
    is_in_part: whether the scale leaves out a part of it.
    unprobed: platforms that it rests on, and of which no guest was started here yet.
    blocks: that it takes at the noise of this host; None for more than 1000.
    has_estimate: whether noise is in that number; else it is the fewest that a word needs.
    """

    claim: ClaimTable
    needs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    why: str = ""
    is_in_part: bool = False
    unprobed: tuple[str, ...] = ()
    blocks: int | None = None
    has_estimate: bool = False


@dataclass(frozen=True)
class ClaimsAhead:
    """All claims of a plan. noise: benchmark -> noise of a block's ratio. planned_blocks: at most so many."""

    study: str
    claims: tuple[ClaimAhead, ...]
    noise: Mapping[str, BlockNoise]
    planned_blocks: int
    block_s: float

    @property
    def judged(self) -> list[ClaimAhead]:
        """The claims that the run can judge."""
        return [claim for claim in self.claims if not claim.needs]

    def summary(self) -> str:
        """Return how many claims the run can judge, and what the others need."""
        total = format_count(len(self.claims), "claim")
        counts = Counter(need for claim in self.claims for need in claim.needs)
        needs = ", ".join(f"{count} {_verb(count)} {need}" for need, count in counts.most_common())
        if not self.judged:
            return f"this run can judge none of the {total} of {self.study}: {needs}"
        can = f"this run can judge {len(self.judged)} of the {total} of {self.study}"
        return f"{can}; {needs}" if needs else can

    def lines(self) -> Iterator[str]:
        """Yield the summary, a line for each claim, and what the numbers of blocks rest on."""
        yield self.summary()
        for claim in self.claims:
            yield f"  {claim.claim.id}: {self._answer(claim)}"
        if any(claim.has_estimate for claim in self.judged):
            spreads = []
            for name, noise in self.noise.items():
                spreads.append(f"{name} {plain_percent(noise.sd)} ({noise.source})")
            yield (
                f"  blocks: to judge it with a chance of {plain_percent(POWER)}, if the ratio is as published, or "
                f"{plain_percent(_BEYOND - 1)} beyond its bound; noise of a block's ratio: {'; '.join(spreads)}"
            )

    def as_json(self) -> dict[str, Any]:
        """Return the claims as JSON: how many can be judged, and each of them."""
        claims = []
        for claim in self.claims:
            duration_s = None if claim.blocks is None else claim.blocks * self.block_s
            entry = {
                "id": claim.claim.id,
                "can_be_judged": not claim.needs,
                "in_part": claim.is_in_part,
                "needs": list(claim.needs),
                "missing_platforms": list(claim.missing),
                "why_not": claim.why,
                "not_probed": list(claim.unprobed),
                "blocks": claim.blocks,
                "duration_s": duration_s,
                "by_noise": claim.has_estimate,
            }
            claims.append(entry)
        noise = {
            name: {"sd": block_noise.sd, "source": block_noise.source}
            for name, block_noise in self.noise.items()
        }
        return {"can_be_judged": len(self.judged), "of": claims, "noise": noise}

    def _answer(self, claim: ClaimAhead) -> str:
        if claim.needs:
            missing = f" ({', '.join(claim.missing)})" if claim.missing else ""
            why = "" if claim.missing else f": {claim.why}"
            return f"needs {' and '.join(claim.needs)}{missing}{why}"
        part = ", in part" if claim.is_in_part else ""
        condition = f", if {_names(claim.unprobed)} here" if claim.unprobed else ""
        return f"can be judged{part}{condition}; {self._blocks(claim)}"

    def _blocks(self, claim: ClaimAhead) -> str:
        if claim.blocks is None:
            return f"more than {_MOST_BLOCKS} blocks at this noise"
        at_least = "" if claim.has_estimate else "at least "
        duration = format_duration(claim.blocks * self.block_s)
        text = f"{at_least}{format_count(claim.blocks, 'block')}, about {duration}"
        if claim.blocks > self.planned_blocks:
            text += f"; this run has {format_count(self.planned_blocks, 'block')} at most"
        return text


@dataclass(frozen=True)
class _Cell:
    """A planned cell in one of its metrics. benchmark: the name of its tool."""

    levels: Levels
    benchmark: str
    is_primary: bool


@dataclass(frozen=True)
class _CheckAhead:
    """Comparisons of a check. benchmarks: names of tools. comparisons: how many there are."""

    check: CheckTable
    benchmarks: frozenset[str]
    comparisons: int


def claims_ahead(plan: Plan, store: Store | None) -> ClaimsAhead | None:
    """Return what a plan can judge of its study's claims; None for a study without any.

    store: with runs of this host, for its noise; None without one.
    """
    study = plan.study
    if not study.claim:
        return None
    cells = list(_cells(plan))
    is_dom0 = host_facts().get("hypervisor") == XEN_BELOW
    claims_and_checks = [
        _examine_claim(plan, claim, cells, is_dom0=is_dom0) for claim in study.claim
    ]
    compared_checks = [checks for claim_ahead, checks in claims_and_checks if not claim_ahead.needs]
    names: set[str] = set()
    for checks in compared_checks:
        names.update(*(check.benchmarks for check in checks))
    noise = dict.fromkeys(sorted(names), ASSUMED)
    if store is not None:
        noise |= noise_of_host(store, machine_id(), names, study.platforms)
    claims = []
    for claim_ahead, checks in claims_and_checks:
        if claim_ahead.needs:
            claims.append(claim_ahead)
        else:
            claims.append(_with_blocks(claim_ahead, checks, noise, len(compared_checks), plan))
    return ClaimsAhead(
        study.name, tuple(claims), noise, _most_blocks(plan), plan.expected_block_s()
    )


def _most_blocks(plan: Plan) -> int:
    """Return the most blocks of a plan, and no more than its budget holds."""
    budget_s = plan.study.design.budget
    if budget_s is None:
        return plan.max_blocks
    return min(plan.max_blocks, int(budget_s / plan.expected_block_s()))


def _cells(plan: Plan) -> Iterator[_Cell]:
    """Yield every planned cell in each of its metrics."""
    for cell in plan.cells:
        point = cell.point
        place = {**point.levels, PLATFORM: cell.platform.name, BENCHMARK: point.label}
        for metric in point.metrics:
            levels = Levels({**place, METRIC: metric.name})
            yield _Cell(levels, point.benchmark.name, metric.primary)


def _examine_claim(
    plan: Plan, claim: ClaimTable, cells: Sequence[_Cell], *, is_dom0: bool
) -> tuple[ClaimAhead, list[_CheckAhead]]:
    """Return a claim with what it needs, and what its checks compare where it needs nothing."""
    if claim.not_tested:
        return ClaimAhead(claim, (_OTHER,), why=str(claim.not_tested)), []
    unmet_claim = _find_unmet_needs(plan, claim, is_dom0=is_dom0)
    if unmet_claim is not None:
        return unmet_claim, []
    checks = [_count_comparisons(plan, check, cells) for check in claim.check]
    if not all(check.comparisons for check in checks):
        return ClaimAhead(claim, (_OTHER,), why=_why_no_values(plan, claim)), []
    if _most_blocks(plan) < MINIMUM_BLOCKS:
        why = f"a claim needs {MINIMUM_BLOCKS}, and this run has {_most_blocks(plan)} at most"
        return ClaimAhead(claim, (_BLOCKS,), why=why), []
    names = claim.platforms(plan.study.baseline)
    unprobed = [name for name in names if name != plan.study.baseline and _is_unprobed(plan, name)]
    is_in_part = bool(claim.in_part) or _misses_points(plan, claim)
    return ClaimAhead(claim, is_in_part=is_in_part, unprobed=tuple(unprobed)), checks


def _find_unmet_needs(plan: Plan, claim: ClaimTable, *, is_dom0: bool) -> ClaimAhead | None:
    """Return a claim with the platforms, boots and hosts that it needs and this run lacks; None where it has all."""
    study = plan.study
    needs: dict[str, None] = {}
    reasons: list[str] = []
    hosts = {host for check in claim.check for host in check.hosts}
    if len(hosts) > 1:
        needs[_HOST] = None
        reasons.append(f"it compares {len(hosts)} hosts; vtax merge combines their runs")
    names = claim.platforms(study.baseline)
    probes = {entry.platform.name: entry.probe for entry in plan.platforms}
    missing = []
    for name in names:
        if name in probes and probes[name].available:
            continue
        missing.append(name)
        needs[_host_needs(name)] = None
        reason = probes[name].reason if name in probes else "not in this run"
        reasons.append(f"{name}: {reason}")
    if not study.boot and _needs_boots(plan, names, is_dom0=is_dom0):
        needs[_BOOT] = None
        reasons.append("one boot cannot run all of its platforms; see --boot")
    if not needs:
        return None
    return ClaimAhead(claim, tuple(needs), tuple(missing), "; ".join(reasons))


def _host_needs(platform: str) -> str:
    """Return what a host must have for a platform, by the beginning of its name; else the name."""
    return _HYPERVISORS.get(platform.split("-")[0], platform)


def _needs_boots(plan: Plan, names: Sequence[str], *, is_dom0: bool) -> bool:
    """Return whether platforms need several boots of the host: by the study, or as this host runs Xen (is_dom0)."""
    study = plan.study
    boots = study.paper.boots if study.paper else {}
    boots_needed = [boot for boot, platforms in boots.items() if set(platforms) & set(names)]
    return len(boots_needed) > 1 or (is_dom0 and study.baseline in names)


def _is_unprobed(plan: Plan, name: str) -> bool:
    """Return whether no guest of a platform was started yet to see that it runs here."""
    return any(entry.platform.name == name and not entry.probe.is_made for entry in plan.platforms)


def _misses_points(plan: Plan, claim: ClaimTable) -> bool:
    """Return whether a platform of a claim cannot carry a point that a check selects."""
    names = claim.platforms(plan.study.baseline)
    for pair in plan.untested:
        levels = Levels({**pair.point.levels, BENCHMARK: pair.point.label})
        if pair.platform.name in names and any(_is_of(check, levels) for check in claim.check):
            return True
    return False


def _is_of(check: CheckTable, levels: Levels) -> bool:
    """Return whether a point is one of a check, by its benchmarks and `where`."""
    benchmarks = Selection({BENCHMARK: check.benchmarks} if check.benchmarks else {})
    return benchmarks.and_also(check.selection).selects(levels)


def _why_no_values(plan: Plan, claim: ClaimTable) -> str:
    """Return why a comparison of a claim has no cells on both sides: what a platform cannot carry, if that is it."""
    names = claim.platforms(plan.study.baseline)
    for pair in plan.untested:
        if pair.platform.name in names:
            return f"{pair.platform.name} in {pair.point.label}: {pair.error.what}"
    return "this run has no values on both sides of a comparison"


def _count_comparisons(plan: Plan, check: CheckTable, cells: Sequence[_Cell]) -> _CheckAhead:
    """Return the comparisons of a check among planned cells, as a run of them has them."""
    pairs = check.pairs(plan.study.baseline)
    places = [place for of, to in pairs for place in compared(cells, check, of, to) if place.of]
    benchmarks = frozenset(cell.benchmark for place in places for cell in place.of)
    return _CheckAhead(check, benchmarks, len(places))


def _with_blocks(
    claim: ClaimAhead,
    checks: Sequence[_CheckAhead],
    noise: Mapping[str, BlockNoise],
    family: int,
    plan: Plan,
) -> ClaimAhead:
    """Return a claim with the blocks that it takes.

    checks: what it compares.
    noise: of a block's ratio, by the name of the benchmark.
    family: claims that are judged together.
    """
    level = plan.study.design.rule.alpha / family
    blocks: int | None = MINIMUM_BLOCKS
    has_estimate = True
    for number, check_ahead in enumerate(checks):
        check = check_ahead.check
        if check.kind in ("monotone", "spread"):
            has_estimate = False
            blocks_of_check: int | None = MINIMUM_BLOCKS * (
                BLOCKS_OF_A_SPREAD if check.over in OVER_BLOCKS else 1
            )
        else:
            published_ratio = claim.claim.published if number == 0 else None
            distance, bounds = _distance(check, published_ratio)
            sd = max(noise[name].sd for name in check_ahead.benchmarks)
            power = 1 - (1 - POWER) / (bounds * check_ahead.comparisons)
            blocks_of_check = blocks_needed(sd, distance, 1 - level / 2, power, _MOST_BLOCKS)
        blocks = None if blocks is None or blocks_of_check is None else max(blocks, blocks_of_check)
    return replace(claim, blocks=blocks, has_estimate=has_estimate)


def _distance(check: CheckTable, published_ratio: float | None) -> tuple[float, int]:
    """Return (distance of the assumed log-ratio from the nearest bound of a check, how many bounds there are)."""
    low, high = (1.0, math.inf) if check.kind == "rank" else check.bounds
    if published_ratio is not None and low < published_ratio < high:
        ratio = published_ratio
    elif low and math.isfinite(high):
        ratio = math.sqrt(low * high)
    else:
        ratio = low * _BEYOND or high / _BEYOND
    distances = []
    if low:
        distances.append(math.log(ratio / low))
    if math.isfinite(high):
        distances.append(math.log(high / ratio))
    return min(distances), len(distances)


def _names(platforms: Sequence[str]) -> str:
    """Return `xen-pv runs`, or `xen-pv, lxc run`."""
    return f"{', '.join(platforms)} {'runs' if len(platforms) == 1 else 'run'}"


def _verb(count: int) -> str:
    return "needs" if count == 1 else "need"
