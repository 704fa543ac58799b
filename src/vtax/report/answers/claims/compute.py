"""Published findings of a study, judged by a run of it: each check becomes ratios from blocks, see `stats.claims`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from vtax.described import BESIDE, Means, Only
from vtax.levels import HOST, Levels
from vtax.messages import Note
from vtax.pairing import mean_logs
from vtax.report import document as doc
from vtax.report.analysis.claim_cells import (
    ComparedCells,
    Mapped,
    blocks_of_host,
    check_mapping,
    compared,
    entries_of,
    has_values_on,
    mapped_side,
    means_of,
    packets_apart,
)
from vtax.report.analysis.compared import Cell, cells_of
from vtax.report.analysis.published import Published, Repeated, published, repeated
from vtax.report.analysis.result import tried
from vtax.report.analysis.sessions import blocks_of, of_hosts
from vtax.report.analysis.values import Analysis, is_other_quantity
from vtax.report.answers.claims.cautions import cautions
from vtax.report.answers.claims.contrasts import (
    Divisor,
    contrast_of,
    divisor_of,
    fills_link,
    samples_of,
)
from vtax.report.answers.claims.obstacles import missing_parts, why_not
from vtax.report.document import msg, plural
from vtax.stats.checks import Better, StatsError
from vtax.stats.claims import Judgement, RangeTest, judge_claims, withheld
from vtax.stats.contrasts import Contrast
from vtax.stats.ranges import Claimed, Tested
from vtax.stats.ratio import Ratio
from vtax.stats.resolution import coarsest
from vtax.stats.spread import BLOCKS_OF_A_SPREAD
from vtax.study.claims import OVER_BLOCKS, CheckTable, ClaimSide, ClaimTable
from vtax.study.limits import MAX_POINTS

PACKETS_APART = 1.25
"""Ratio of two mean sizes of packets from which a claim says so."""


@dataclass(frozen=True)
class ClaimedComparison:
    """One comparison of a check. of, to: sides with the mapping applied; to: None for a spread or trend alone.

    point: what both have in common, as it is written. answer: None where the statistics have none. left_out:
    blocks of the run in which a cell of it has no value that a logarithm can be taken of. fills_link: an equivalence
    of sides that both send as fast as their link. packets_apart: how many times as large packets of one side are as
    those of the other.
    """

    check: Annotated[
        CheckTable,
        Only("kind", "reference", "along", meaning="as the study has it"),
        Means("factors that were averaged over", name="averaged_over", take="average_over"),
    ]
    of: Annotated[ClaimSide, Means("one side, with the mapping applied", take="text")]
    to: Annotated[ClaimSide | None, Means("the other one, or null", take="text")]
    point: tuple[tuple[str, str], ...]
    low: float
    high: float
    answer: Annotated[Tested | None, BESIDE] = None
    reason: Annotated[str, Means("why there is no ratio")] = ""
    left_out: int = 0
    fills_link: bool = False
    packets_apart: float = 1.0

    @property
    def levels(self) -> Annotated[Mapping[str, str], Means("levels that both sides have")]:
        """The point, by factor."""
        return dict(self.point)

    @property
    def claimed_low(self) -> Annotated[float | None, Means("the claimed range; null for no bound")]:
        """None for no bound."""
        return self.low or None

    @property
    def claimed_high(
        self,
    ) -> Annotated[float | None, Means("the claimed range; null for no bound")]:
        """Infinite for no bound."""
        return self.high

    @property
    def is_inside(self) -> bool:
        """Whether its interval lies inside the claimed range."""
        if (ratio := self._ratio) is None:
            return False
        return self.low <= ratio.low and ratio.high <= self.high

    @property
    def is_outside(self) -> bool:
        """Whether its interval lies outside the claimed range."""
        if (ratio := self._ratio) is None:
            return False
        return ratio.high < self.low or self.high < ratio.low

    @property
    def _ratio(self) -> Ratio | None:
        """Its ratio, where blocks are enough for an interval."""
        return self.answer.ratio if self.answer and self.answer.ratio.n_blocks > 1 else None


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its judgement: None when it is not tested, why then says the reason. comparisons: check by check."""

    claim: Annotated[
        ClaimTable,
        Only(
            "id",
            "statement",
            "statement_pt",
            "source",
            "note",
            "published",
            meaning="as the study has it",
        ),
    ]
    platforms: Annotated[
        tuple[str, ...], Means("platforms that it compares, as the publication calls them")
    ]
    judgement: Annotated[
        Judgement | None, Only("p_reproduced", "p_contradicted", "blocks_low", "blocks_needed")
    ]
    why: Annotated[doc.Inline, Means("why it is not tested, or what decides it")] = ""
    comparisons: Annotated[
        tuple[ClaimedComparison, ...], Means("the ratios that it was judged by")
    ] = ()
    notes: Annotated[
        tuple[doc.Inline, ...],
        Means("sentences of what was not measured, and of what else a reader should know"),
    ] = ()
    missing: Annotated[
        tuple[doc.Inline, ...],
        Means(
            "those of the notes that name a part of the claim without values: it is judged in part"
        ),
    ] = ()

    @property
    def assumptions(
        self,
    ) -> Annotated[
        tuple[str, ...], Means("what the judgement rests on beside its blocks, one sentence each")
    ]:
        """None where it is not tested."""
        return self.judgement.assumptions if self.judgement else ()

    @property
    def word(
        self,
    ) -> Annotated[
        str, Means("`reproduced`, `contradicted`, `inconclusive` or `not tested`", name="judgement")
    ]:
        """`reproduced`, `contradicted`, `inconclusive` or `not tested`."""
        return self.judgement.kind if self.judgement else "not tested"


@dataclass(frozen=True)
class Claims:
    """All claims of a run."""

    analysis: Annotated[Analysis, Only("confidence")]
    claims: Annotated[tuple[JudgedClaim, ...], Means("every claim with its judgement")]
    mapped: Annotated[
        Mapped,
        Means(
            "platform of the publication -> platform of the run that stands for it, by request",
            name="map",
        ),
    ]
    family: Annotated[int, Means("claims that were judged together")]
    alpha: Annotated[float, Means("error rate of all words together")]
    repeated: Annotated[Repeated, BESIDE]
    published: Annotated[
        tuple[Published, ...], Means("numbers of the publication beside those of the run")
    ]


@dataclass(frozen=True)
class _Prepared:
    """A comparison before it is judged. cells: of both sides."""

    comparison: ClaimedComparison
    claimed: Claimed
    cells: tuple[Cell, ...]


def tables_of(analysis: Analysis) -> tuple[ClaimTable, ...]:
    """Return the claims that the run's study has."""
    return tuple(ClaimTable.model_validate(table) for table in analysis.declared.get("claim") or ())


def claims(analysis: Analysis, mapped: Mapped | None = None) -> Claims:
    """Every claim of the run's study with its judgement. mapped: see Mapped.

    Raises BadInput for a mapping of a platform that no claim names, or to one that the run did not measure.
    """
    tables, mapping = tables_of(analysis), dict(mapped or {})
    check_mapping(analysis, mapping, *named_in_claims(analysis), "claim")
    planned_cells, entries = cells_of(analysis), entries_of(analysis)
    prepared: dict[str, list[list[_Prepared]]] = {}
    result = []
    for claim in tables:
        reason = why_not(analysis, claim, mapping, entries)
        judged_claim = JudgedClaim(claim, claim.platforms(analysis.baseline), None, reason)
        if reason == "":
            checks = [list(_prepared(analysis, entries, check, mapping)) for check in claim.check]
            if all(checks):
                prepared[claim.id] = checks
                comparisons = tuple(
                    prepared_comparison.comparison
                    for check in checks
                    for prepared_comparison in check
                )
                parts = (
                    *missing_parts(analysis, planned_cells, claim, mapping),
                    *not_carried(analysis, comparisons),
                )
                notes = *parts, *notes_of(analysis, comparisons)
                judged_claim = replace(
                    judged_claim, comparisons=comparisons, missing=parts, notes=notes
                )
            else:
                reason = msg("the run has no values on both sides of a comparison")
                judged_claim = replace(judged_claim, why=reason)
        result.append(judged_claim)
    tests = {name: list(map(_test_of, checks)) for name, checks in prepared.items()}
    judgements = judge_claims(analysis.rule, tests)
    for name, checks in prepared.items():
        cells: list[Cell] = []
        for check in checks:
            for comparison in check:
                cells += comparison.cells
        judgements[name] = withheld(judgements[name], cautions(analysis, cells))
    alpha = next(iter(judgements.values())).alpha if judgements else analysis.rule.alpha
    return Claims(
        analysis,
        tuple(_answered(claim, judgements.get(claim.claim.id)) for claim in result),
        mapping,
        len(judgements),
        round(alpha, 12),
        repeated(analysis),
        tuple(published(analysis, mapping)),
    )


def _test_of(check: Sequence[_Prepared]) -> RangeTest:
    """Return the test that the comparisons of a check are all in their ranges, or as many as it needs."""
    return RangeTest(
        tuple(comparison.claimed for comparison in check), check[0].comparison.check.needs
    )


def _answered(claim: JudgedClaim, judgement: Judgement | None) -> JudgedClaim:
    """Return a claim with its judgement, and each comparison with its ratio or the reason why there is none."""
    if judgement is None:
        return claim
    answers = (answer for answers_of_check in judgement.answers for answer in answers_of_check)
    comparisons = []
    for comparison, answer in zip(claim.comparisons, answers, strict=True):
        if isinstance(answer, StatsError):
            comparisons.append(replace(comparison, reason=answer.note))
        else:
            comparisons.append(replace(comparison, answer=answer))
    return replace(claim, judgement=judgement, comparisons=tuple(comparisons))


def named_in_claims(analysis: Analysis) -> tuple[list[str], set[int]]:
    """Return the platforms and the numbers of the hosts that the study's claims name."""
    platforms: dict[str, None] = {}
    hosts: set[int] = set()
    for claim in tables_of(analysis):
        platforms.update(dict.fromkeys(claim.platforms(analysis.baseline)))
        for check in claim.check:
            hosts.update(check.hosts)
    return list(platforms), hosts


def _prepared(
    analysis: Analysis, entries: Sequence[Cell], check: CheckTable, mapped: Mapped
) -> Iterator[_Prepared]:
    """Every comparison of a check that has values on all sides."""
    pairs = [
        (mapped_side(of, mapped), to and mapped_side(to, mapped))
        for of, to in check.pairs(analysis.baseline)
    ]
    hosts = range(1, 1 + len(of_hosts(analysis.sessions)))
    if check.each_host and len(hosts) > 1:
        pairs = [(_on(of, host), to and _on(to, host)) for of, to in pairs for host in hosts]
    count = 0
    for of, to in pairs:
        if not _is_on_its_host(analysis, entries, of, to):
            continue
        for cells in compared(entries, check, of, to):
            count += 1
            if count > MAX_POINTS:
                return
            yield _comparison(analysis, entries, check, (of, to), cells, mapped)


def _on(side: ClaimSide, host: int) -> ClaimSide:
    """Return a side on one host."""
    return replace(side, levels=Levels({**side.levels, HOST: str(host)}))


def _is_on_its_host(analysis: Analysis, entries: Sequence[Cell], *sides: ClaimSide | None) -> bool:
    """Whether every side has values on the host that it names, where it names one."""
    return all(
        side is None
        or side.host is None
        or has_values_on(analysis, entries, side.platform, side.host)
        for side in sides
    )


def _blocks_of(analysis: Analysis, side: ClaimSide | None) -> set[int] | None:
    """Return the blocks of a side's host; None without one."""
    if side is None or side.host is None:
        return None
    return blocks_of_host(analysis, side.host)


def _left_out(
    analysis: Analysis,
    sides: tuple[ClaimSide, ClaimSide | None],
    entries: tuple[Sequence[Cell], Sequence[Cell]],
    divisor: Divisor | None,
) -> int:
    """Blocks in which an entry of a comparison has no value that a logarithm can be taken of."""
    blocks_of_run = set(blocks_of(analysis.sessions))
    of, to = ([*cells, *map(divisor, cells)] if divisor else cells for cells in entries)
    wanted_blocks = [_blocks_of(analysis, side) or blocks_of_run for side in sides]
    parts = [(wanted_blocks[0], of), (wanted_blocks[1], to)]
    if not to or wanted_blocks[0] == wanted_blocks[1]:
        parts = [(wanted_blocks[0], [*of, *to])]
    return sum(
        len(blocks - {*mean_logs(means_of(cells)).units.tolist()}) for blocks, cells in parts
    )


def _comparison(
    analysis: Analysis,
    entries: Sequence[Cell],
    check: CheckTable,
    sides: tuple[ClaimSide, ClaimSide | None],
    compared_cells: ComparedCells[Cell],
    mapped: Mapped,
) -> _Prepared:
    of, to = compared_cells.of, compared_cells.to
    better = of[0].section.better if of else "higher"
    low, high = _bounds(check, better)
    comparison = ClaimedComparison(
        check,
        sides[0],
        sides[1],
        compared_cells.name,
        low,
        high,
        fills_link=check.kind == "equivalence" and bool(of) and all(map(fills_link, (*of, *to))),
        packets_apart=packets_apart(entries, of, to),
    )
    cells = (*of, *to)
    is_wrong = any(entry.row.clock_is_wrong for entry in cells)
    empty = Contrast(np.full(1, np.nan), better)
    try:
        if not of:
            raise StatsError(Note("no-shared-block"))
        divisor = divisor_of(entries, check, mapped)
        references = [*map(divisor, cells)] if divisor else []
        if is_other_quantity([e.row for e in of], [e.row for e in to or of]) or any(
            entry.row.is_other_quantity for entry in references
        ):
            raise StatsError(Note("other-quantity"))
        comparison = replace(comparison, left_out=_left_out(analysis, sides, (of, to), divisor))
        blocks = [_blocks_of(analysis, side) for side in sides]
        if blocks[0] is not None and blocks[1] is not None and blocks[0] != blocks[1]:
            samples = samples_of(analysis, (of, to), (blocks[0], blocks[1]), divisor)
            claimed = Claimed(_with_trials(empty, of, to), low, high, is_wrong, apart=samples)
            return _Prepared(comparison, claimed, cells)
        contrast = contrast_of(analysis, check, (of, to), compared_cells.keys, divisor, blocks[0])
    except StatsError as error:
        return _Prepared(comparison, Claimed(empty, low, high, why_not=error.note), cells)
    if check.kind not in ("monotone", "spread"):
        contrast = _with_trials(contrast, of, to)
    blocks_each = BLOCKS_OF_A_SPREAD if check.over in OVER_BLOCKS else 1
    return _Prepared(comparison, Claimed(contrast, low, high, is_wrong, blocks_each), cells)


def _with_trials(contrast: Contrast, of: Sequence[Cell], to: Sequence[Cell]) -> Contrast:
    """Return the contrast with what failed on either side, and how finely they measured."""
    failed = sum(entry.row.failed for entry in of), sum(entry.row.failed for entry in to)
    return replace(
        contrast,
        failed=failed,
        tried=(sum(tried(e.row) for e in of), sum(tried(e.row) for e in to)),
        resolution=coarsest([entry.row.resolution for entry in (*of, *to)]),
    )


def _bounds(check: CheckTable, better: Better) -> tuple[float, float]:
    """(low, high) of the ratio that a check claims."""
    if check.kind == "rank":
        return (1.0, math.inf) if (check.place == "first") == (better == "higher") else (0.0, 1.0)
    if check.kind == "monotone":
        return (1.0, math.inf) if check.direction == "rises" else (0.0, 1.0)
    return check.bounds


def notes_of(analysis: Analysis, comparisons: Sequence[ClaimedComparison]) -> Iterator[doc.Inline]:
    """Blocks that are left out, equality that is the link's, and packets of unlike sizes."""
    left_out = max((comparison.left_out for comparison in comparisons), default=0)
    if left_out:
        total = doc.Count(len(blocks_of(analysis.sessions)))
        yield plural(
            "{count} block of {total} is left out: not every value of a comparison is there",
            "{count} blocks of {total} are left out: not every value of a comparison is there",
            left_out,
            total=total,
        )
    filled_links = sum(comparison.fills_link for comparison in comparisons)
    if filled_links:
        yield plural(
            "both sides of {count} comparison fill their link: equality may be the link's",
            "both sides of {count} comparisons fill their link: equality may be the link's",
            filled_links,
        )
    packets_ratio = max((comparison.packets_apart for comparison in comparisons), default=1.0)
    if packets_ratio > PACKETS_APART:
        yield msg(
            "packets of one side are up to {factor} times as large as those of the other: part of the ratio is "
            "their number",
            factor=doc.Number(packets_ratio, 2),
        )


def not_carried(
    analysis: Analysis, comparisons: Sequence[ClaimedComparison]
) -> Iterator[doc.Inline]:
    """Yield which platforms could not carry every point: a part of the claim that is missing."""
    untested_platforms = {point.platform for point in analysis.untested}
    untested_platforms &= {comparison.of.platform for comparison in comparisons}
    if untested_platforms:
        yield msg(
            "{platforms} could not carry every point",
            platforms=", ".join(sorted(untested_platforms)),
        )
