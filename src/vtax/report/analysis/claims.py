"""Published findings of a study, judged by a run of it: each check becomes ratios from blocks, see `stats.claims`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from vtax.errors import BadInput
from vtax.report.analysis.claim_cells import Entry, Group, entries_of, logs_of, mean_logs, selected
from vtax.report.analysis.lookup import unknown
from vtax.report.analysis.unpaired import labels
from vtax.report.analysis.values import Analysis
from vtax.report.document import Inline, msg, plural, stored
from vtax.stats.checks import Better, StatsError
from vtax.stats.claims import Check, Claimed, Judgement, Tested, judge_claims
from vtax.stats.contrasts import Contrast, paired_contrast
from vtax.stats.notes import Note
from vtax.stats.ratio import BlockMeans
from vtax.stats.spread import BLOCKS_OF_A_SPREAD, spread_over_blocks, spread_over_points
from vtax.stats.trend import theil_sen
from vtax.study.claims import BENCHMARK, METRIC, CheckTable, ClaimTable, PublishedTable, Side, number_of
from vtax.study.limits import MAX_POINTS

Logs = dict[int, float]
"""Block -> a logarithm."""
Mapped = Mapping[str, str]
"""Platform of a claim -> the platform of the run that stands for it."""


@dataclass(frozen=True)
class Compared:
    """One comparison of a check. of, to: sides with the mapping applied; to: None for a spread or trend alone.

    point: what both have in common, as it is written. tested: None where the statistics have no answer, which reason
    then has.
    """

    check: CheckTable
    of: Side
    to: Side | None
    point: tuple[tuple[str, str], ...]
    low: float
    high: float
    tested: Tested | None = None
    reason: str = ""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its judgement. judgement: None when it is not tested, why then says the reason.

    notes: what a reader should know beside the word. compared: all comparisons, check by check.
    """

    claim: ClaimTable
    judgement: Judgement | None
    why: Inline = ""
    compared: tuple[Compared, ...] = ()
    notes: tuple[Inline, ...] = ()

    @property
    def word(self) -> str:
        """`reproduced`, `contradicted`, `inconclusive` or `not tested`."""
        return self.judgement.kind if self.judgement else "not tested"


@dataclass(frozen=True)
class Claims:
    """All claims of a run. family: how many were judged together."""

    claims: tuple[JudgedClaim, ...]
    mapped: Mapped
    family: int
    alpha: float


@dataclass(frozen=True)
class _Prepared:
    compared: Compared
    claimed: Claimed


def tables_of(analysis: Analysis) -> tuple[ClaimTable, ...]:
    """The claims that the run's study has; none of a run from before there were any."""
    return tuple(ClaimTable.model_validate(each) for each in analysis.declared.get("claim") or ())


def published_of(analysis: Analysis) -> tuple[PublishedTable, ...]:
    """The published numbers that the run's study has."""
    return tuple(PublishedTable.model_validate(each) for each in analysis.declared.get("published") or ())


def claims(analysis: Analysis, mapped: Mapped | None = None) -> Claims:
    """Every claim of the run's study with its judgement. mapped: see Mapped.

    Raises BadInput for a mapping of a platform that no claim names, or to one that the run did not measure.
    """
    found, mapping = tables_of(analysis), dict(mapped or {})
    _check_mapping(analysis, found, mapping)
    entries = entries_of(analysis)
    prepared: dict[str, list[list[_Prepared]]] = {}
    why: dict[str, Inline] = {}
    notes: dict[str, list[Inline]] = {}
    for claim in found:
        reason = stored(claim.not_tested) if claim.not_tested else _why_not(analysis, claim, mapping)
        checks: list[list[_Prepared]] = []
        if reason == "":
            checks = [list(_prepared(analysis, entries, check, mapping)) for check in claim.check]
            reason = "" if all(checks) else msg("the run has no values on both sides of a comparison")
        if reason != "":
            why[claim.id] = reason
        else:
            prepared[claim.id] = checks
            notes[claim.id] = list(_notes(analysis, claim, checks))
    judged = judge_claims(
        analysis.rule,
        {
            name: [
                Check(tuple(p.claimed for p in each), p0.compared.check.needs) for each in checks for p0 in each[:1]
            ]
            for name, checks in prepared.items()
        },
    )
    result = []
    for claim in found:
        if claim.id in why:
            result.append(JudgedClaim(claim, None, why[claim.id]))
            continue
        judgement = judged[claim.id]
        answers = [a for each in judgement.tested for a in each]
        compared = [p.compared for each in prepared[claim.id] for p in each]
        result.append(
            JudgedClaim(
                claim, judgement, "",
                tuple(map(_answered, compared, answers)), tuple(notes[claim.id]),
            )
        )  # fmt: skip
    alpha = next(iter(judged.values())).alpha if judged else analysis.rule.alpha
    return Claims(tuple(result), mapping, len(judged), alpha)


def _answered(compared: Compared, answer: Tested | StatsError) -> Compared:
    return (
        replace(compared, reason=answer.note) if isinstance(answer, StatsError) else replace(compared, tested=answer)
    )


def _check_mapping(analysis: Analysis, found: Sequence[ClaimTable], mapped: Mapped) -> None:
    named = list(dict.fromkeys(name for claim in found for name in claim.platforms(analysis.baseline)))
    there = {platform.name: platform for platform in analysis.platforms}
    for name, other in mapped.items():
        where = f"--map {name}={other}"
        if name not in named:
            what = f"no claim of {analysis.study} names the platform {name!r}"
            raise BadInput(what, where=where, hint=f"claims name {', '.join(named)}" if named else "it has no claims")
        if name in there and there[name].available:
            what = f"{name} was measured itself, so nothing stands for it"
            raise BadInput(what, where=where, hint="map platforms that this run has no values of")
        if other not in there:
            raise unknown("platform", other, list(there), where, analysis.name)
        if not there[other].available:
            what = f"{analysis.name} did not measure {other}: {there[other].reason}"
            raise BadInput(what, where=where, hint=there[other].hint)


def _why_not(analysis: Analysis, claim: ClaimTable, mapped: Mapped) -> Inline:
    """Why a claim cannot be judged by this run; nothing when its platforms are there."""
    there = {platform.name: platform for platform in analysis.platforms}
    used: dict[str, str] = {}
    for name in claim.platforms(analysis.baseline):
        actual = mapped.get(name, name)
        if actual not in there:
            return msg("{platform} is not in this run", platform=name)
        if not there[actual].available:
            reason = stored(there[actual].reason)
            return msg("{platform} was not tested: {reason}", platform=name, reason=reason)
        if actual in used:
            return msg(
                "{first} and {second} are both {platform} here", first=used[actual], second=name, platform=actual
            )
        used[actual] = name
    return ""


def _notes(analysis: Analysis, claim: ClaimTable, checks: Sequence[Sequence[_Prepared]]) -> Iterator[Inline]:
    """What of a claim this run did not measure."""
    for check, each in zip(claim.check, checks, strict=True):
        sides = {(p.compared.of.platform, tuple(p.compared.of.levels.items())) for p in each}
        missing = len(check.sides("of")) - len(sides)
        if missing > 0:
            yield plural(
                "{count} side of a comparison has no values", "{count} sides of comparisons have no values", missing
            )
    untested = {u.platform for u in analysis.untested} & {p.compared.of.platform for each in checks for p in each}
    if untested:
        yield msg("{platforms} could not carry every point", platforms=", ".join(sorted(untested)))


def _prepared(analysis: Analysis, entries: Sequence[Entry], check: CheckTable, mapped: Mapped) -> Iterator[_Prepared]:
    """Every comparison of a check that has values on all sides."""
    ofs, tos = ([_mapped(side, mapped) for side in check.sides(name)] for name in ("of", "to"))
    if check.kind in ("ratio", "equivalence") and not tos:
        tos = [Side(mapped.get(analysis.baseline, analysis.baseline), {})]
    pairs: list[tuple[Side, Side | None]] = [_alike(of, to) for of, to in product(ofs, tos)] or [
        (of, None) for of in ofs
    ]
    count = 0
    for of, to in pairs:
        if of == to:
            continue
        fixed = {*of.levels, *(to.levels if to else ())}
        inner = {*check.average_over, *([check.along] if check.along else [])}
        if check.over == "points":
            inner = {factor for entry in entries for factor in entry.levels} - {BENCHMARK, METRIC} | inner
        left = selected(entries, check, of, fixed, inner)
        right = selected(entries, check, to, fixed, inner) if to else {}
        for key, group in left.items():
            if to and key not in right:
                continue
            count += 1
            if count > MAX_POINTS:
                return
            yield _comparison(analysis, entries, check, (of, to), (group, right.get(key)), mapped)


def _alike(of: Side, to: Side) -> tuple[Side, Side]:
    """The sides with what only the other one fixes held at the same level."""
    return replace(of, levels={**to.levels, **of.levels}), replace(to, levels={**of.levels, **to.levels})


def _mapped(side: Side, mapped: Mapped) -> Side:
    return replace(side, platform=mapped.get(side.platform, side.platform))


def _comparison(
    analysis: Analysis, entries: Sequence[Entry], check: CheckTable, sides: tuple[Side, Side | None],
    groups: tuple[Group, Group | None], mapped: Mapped,
) -> _Prepared:  # fmt: skip
    left, right = groups
    common = [key for key in left.entries if right is None or key in right.entries]
    of = [left.entries[key] for key in common]
    to = [right.entries[key] for key in common] if right else []
    better = of[0].better if of else "higher"
    low, high = _bounds(check, better)
    compared = Compared(check, sides[0], sides[1], left.name, low, high)
    try:
        if not of:
            raise StatsError(Note("no-shared-block"))
        contrast = _contrast(
            analysis, check, (of, to), [dict(key) for key in common], _divisor(entries, check, mapped)
        )
    except StatsError as error:
        empty = Contrast(np.full(1, np.nan), better)
        return _Prepared(replace(compared, reason=error.note), Claimed(empty, low, high))
    withheld = any(entry.is_timed and entry.row.clock_is_wrong for entry in (*of, *to))
    if check.kind not in ("monotone", "spread"):
        failed = (sum(e.row.failed for e in of), sum(e.row.failed for e in to))
        made = (sum(e.row.summary.n for e in of if e.row.summary), sum(e.row.summary.n for e in to if e.row.summary))
        contrast = replace(contrast, failed=failed, tried=(failed[0] + made[0], failed[1] + made[1]))
    blocks_each = BLOCKS_OF_A_SPREAD if check.over == "blocks" else 1
    return _Prepared(compared, Claimed(contrast, low, high, withheld, blocks_each))


def _bounds(check: CheckTable, better: Better) -> tuple[float, float]:
    """(low, high) of the ratio that a check claims."""
    if check.kind == "rank":
        return (1.0, math.inf) if (check.place == "first") == (better == "higher") else (0.0, 1.0)
    if check.kind == "monotone":
        return (1.0, math.inf) if check.direction == "rises" else (0.0, 1.0)
    return check.bounds


Divisor = Callable[[Entry], Entry]


def _divisor(entries: Sequence[Entry], check: CheckTable, mapped: Mapped) -> Divisor | None:
    """What finds the entry of the reference at the levels of another. Raises StatsError where there is none."""
    if check.reference is None:
        return None
    name = mapped.get(check.reference, check.reference)
    there = {tuple(sorted(e.levels.items())): e for e in entries if e.row.platform.name == name}

    def found(entry: Entry) -> Entry:
        key = tuple(sorted(entry.levels.items()))
        if key not in there:
            raise StatsError(Note("no-baseline-here"))
        return there[key]

    return found


def _contrast(
    analysis: Analysis, check: CheckTable, sides: tuple[Sequence[Entry], Sequence[Entry]],
    keys: Sequence[Mapping[str, str]], divisor: Divisor | None,
) -> Contrast:  # fmt: skip
    """One logarithm per block of what a check compares. keys: inner levels of the entries of both sides."""
    of, to = sides
    if check.kind == "monotone":
        found = _slopes(check, of, to, keys, analysis.rule.confidence)
    elif check.kind == "spread":
        found = _spread(check, of, divisor)
        if to:
            found = _difference(found, _spread(check, to, divisor))
    else:
        parts = [_side_logs(of, divisor), _side_logs(to, divisor)]
        if not set(parts[0]) & set(parts[1]):
            raise StatsError(Note("no-shared-block"))
        made = paired_contrast(_means(parts[0]), _means(parts[1]), of[0].better)
        blocks = np.union1d(_means(parts[0]).blocks, _means(parts[1]).blocks)
        return replace(made, sessions=_sessions(analysis, blocks))
    blocks = np.array(sorted(found), np.int64)
    if not blocks.size:
        raise StatsError(Note("no-shared-block"))
    logs = np.array([found[block] for block in blocks.tolist()])
    return Contrast(logs, of[0].better, sessions=_sessions(analysis, blocks))


def _sessions(analysis: Analysis, blocks: Any) -> Any:
    return labels(analysis, blocks) if len(analysis.sessions) > 1 else None


def _side_logs(entries: Sequence[Entry], divisor: Divisor | None) -> Logs:
    own = mean_logs(entries)
    return own if divisor is None else _difference(own, mean_logs([divisor(entry) for entry in entries]))


def _difference(left: Logs, right: Logs) -> Logs:
    return {block: left[block] - right[block] for block in left if block in right}


def _means(logs: Logs) -> BlockMeans:
    blocks = sorted(logs)
    return BlockMeans(np.array(blocks, np.int64), np.exp(np.array([logs[block] for block in blocks])))


def _slopes(
    check: CheckTable, of: Sequence[Entry], to: Sequence[Entry], keys: Sequence[Mapping[str, str]], confidence: float
) -> Logs:
    """Block -> Theil and Sen's slope of the logarithm, by doublings of the factor; over points with the same level
    the logarithms are averaged."""
    assert check.along is not None
    by_level: dict[float, list[int]] = {}
    for place, key in enumerate(keys):
        if (number := number_of(key[check.along])) is not None and number > 0:
            by_level.setdefault(number, []).append(place)
    if len(by_level) < 2:
        raise StatsError(Note("one-level"))
    lines = []
    for number in sorted(by_level):
        places = by_level[number]
        logs = mean_logs([of[place] for place in places])
        lines.append(_difference(logs, mean_logs([to[place] for place in places])) if to else logs)
    x = np.log2(np.array(sorted(by_level)))
    shared = set.intersection(*(set(line) for line in lines))
    return {b: theil_sen(x, np.array([line[b] for line in lines]), confidence).estimate for b in shared}


def _spread(check: CheckTable, entries: Sequence[Entry], divisor: Divisor | None) -> Logs:
    """Block -> the logarithm of a spread; over blocks, of every two the first."""
    if check.over == "blocks":
        logs = _side_logs(entries, divisor)
        own = sorted(logs)
        found = spread_over_blocks(np.array([logs[b] for b in own])).tolist()
        return dict(zip(own[::BLOCKS_OF_A_SPREAD], found, strict=False))
    blocks, values = logs_of(entries)
    if divisor is not None:
        others, divided = logs_of([divisor(entry) for entry in entries])
        _, left, right = np.intersect1d(blocks, others, return_indices=True)
        blocks, values = blocks[left], values[:, left] - divided[:, right]
    spreads = spread_over_points(values)
    return {b: s for b, s in zip(blocks.tolist(), spreads.tolist(), strict=True) if s == s}


def name_of(side: Side) -> str:
    """A side as it is written."""
    levels = ",".join(f"{factor}={level}" for factor, level in side.levels.items())
    return f"{side.platform}@{levels}" if levels else side.platform
