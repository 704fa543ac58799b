"""The sentence that answers a comparison: on which metrics the treatment is slower, faster, equal or undecided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.analysis.next_step import Comparison, next_step_of
from vtax.report.document import (
    Count,
    Factor,
    Inline,
    Paragraph,
    Part,
    Relative,
    Share,
    joined,
    levels_of,
    listed,
    msg,
    plural,
    styled,
)
from vtax.report.document import Section as Titled
from vtax.report.parts import shared
from vtax.report.parts.first_screen import next_line

_MOST_NAMED = 6


def summary(found: Contrasts, shown: Sequence[Compared]) -> Iterator[Titled]:
    """Yield the answer, and what to do about what is undecided. shown: of the comparisons."""
    if shown:
        sides = {"treatment": found.treatment.text, "baseline": found.baseline.text}
        answer = msg("{treatment} against {baseline}: {parts}.", parts=joined(_parts(found, shown), "; "), **sides)
        parts = (Paragraph(styled(answer, "strong")), *_next(found, shown))
        yield Titled(msg("Summary"), parts, key="answer", role="summary")


def _parts(found: Contrasts, shown: Sequence[Compared]) -> Iterator[Inline]:
    """`slower on iperf3 (91 %); undecided on dd (at least 65 %)`, of many how many and the one that is farthest."""
    total = Count(len(shown))
    of = {kind: [each for each in shown if each.verdict and each.verdict.kind == kind]
          for kind in ("slower", "faster", "equivalent", "undecided")}  # fmt: skip
    if these := sorted(of["slower"], key=_performance):
        places, count, worst = _places(these, found), Count(len(these)), _place(these[0], found)
        yield (
            msg("slower in {count} of {total}, most on {place}", count=count, total=total, place=worst)
            if len(these) > _MOST_NAMED else msg("slower on {places}", places=places)
        )  # fmt: skip
    if these := sorted(of["faster"], key=_performance, reverse=True):
        places, count, best = _places(these, found), Count(len(these)), _place(these[0], found)
        yield (
            msg("faster in {count} of {total}, most on {place}", count=count, total=total, place=best)
            if len(these) > _MOST_NAMED else msg("faster on {places}", places=places)
        )  # fmt: skip
    if these := of["equivalent"]:
        margin, count = Share(found.margin, "declared"), Count(len(these))
        yield (
            msg("equivalent within ±{margin} in {count} of {total}", margin=margin, count=count, total=total)
            if len(these) > _MOST_NAMED
            else msg("equivalent within ±{margin} on {places}", margin=margin, places=_places(these, found))
        )  # fmt: skip
    if these := sorted(of["undecided"], key=_bound):
        places, count, least = _places(these, found), Count(len(these)), _place(these[0], found)
        yield (
            msg("undecided in {count} of {total}, least known on {place}", count=count, total=total, place=least)
            if len(these) > _MOST_NAMED else msg("undecided on {places}", places=places)
        )  # fmt: skip
    if unjudged := [each for each in shown if each.ratio and not each.verdict]:
        places = _places(unjudged[:_MOST_NAMED], found) if len(unjudged) < len(shown) else ""
        yield joined([unjudged[0].reason, places], ": ")
    if without := sum(each.ratio is None for each in shown):
        yield plural("{count} has no result", "{count} have no result", without)


def _performance(each: Compared) -> float:
    return each.ratio.efficiency(each.section.better).estimate if each.ratio else math.nan


def _bound(each: Compared) -> float:
    """The smallest share of the baseline that is not ruled out; 0 where none is known."""
    costs = each.verdict.costs_at_most if each.verdict else None
    return 0.0 if costs is None else 1 - costs


def _places(these: Sequence[Compared], found: Contrasts) -> Inline:
    return listed(_place(each, found) for each in these)


def _place(each: Compared, found: Contrasts) -> Inline:
    """`iperf3 direction=send (91 %)`; of runs `podman on iperf3 (91 %)`; a bound where nothing is decided."""
    name = shared.name_of(each.section, (other.section for other in found.compared))
    text = joined([name, Factor(levels_of(each.levels)) if each.levels else ""], " ")
    if found.treatment.is_run:
        text = msg("{platforms} on {name}", platforms=shared.platform_of(each.treatment.platform), name=text)
    share: Inline = ""
    if each.verdict and each.verdict.kind in ("slower", "faster"):
        share = replace(shared.relative_of(each.ratio, each.section.better), shows="estimate") if each.ratio else ""
    elif each.verdict and each.verdict.kind == "undecided" and _bound(each):
        share = msg("at least {bounds}", bounds=Relative(_bound(each), is_of="amount"))
    return text if share == "" else msg("{name} ({levels})", name=text, levels=share)


def _next(found: Contrasts, shown: Sequence[Compared]) -> Iterator[Part]:
    """Yield what would decide: blocks within a run, sessions across runs."""
    undecided = [each for each in shown if each.ratio and (not each.verdict or each.verdict.kind == "undecided")]
    if not undecided:
        return
    if not found.is_paired:
        yield Paragraph(
            msg("Next: measure both sides in several sessions, by further runs or vtax resume --session.")
            if any(each.verdict is None for each in undecided) else msg("Next: only more sessions would decide.")
        )  # fmt: skip
        return
    rows = [
        Comparison(each.section, each.section.point_of(each.treatment),
                   replace(each.treatment, ratio=each.ratio, verdict=each.verdict))
        for each in undecided if each.verdict
    ]  # fmt: skip
    analysis = found.treatment.analysis
    yield from next_line(analysis, next_step_of(analysis, rows))
