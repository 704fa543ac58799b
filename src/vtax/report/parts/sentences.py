"""The sentence that answers: which platforms equal the baseline, which differ and by how much, what is not known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis.host_cpu import unit_of_work
from vtax.report.analysis.next_step import reasons_of, withheld
from vtax.report.analysis.values import Analysis, Row, Section, every_row
from vtax.report.document import factors, in_brackets, joined, listed, msg, plural, range_of
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.margin import edges
from vtax.stats.ratio import Loss, Ratio
from vtax.stats.verdict import Verdict
from vtax.store.records import PlatformRecord
from vtax.units import safe_bound

_MOST_PLATFORMS = 6  # that are named
_MOST_NAMED = 2  # comparisons
_MUCH = 2  # times
_FAR = 2.0  # times, from which "times slower" is clearer than a percentage
_KINDS = (
    "slower",
    "faster",
    "costs-more",
    "costs-less",
    "equivalent",
    "equal-cost",
    "at-most",
    "few",
    *doc.PERHAPS,
)  # in the order they are said
_DIFFERENT = frozenset(
    {"slower", "faster", "costs-more", "costs-less", *doc.PERHAPS}
)  # said only together where they are at the same places
_OPEN = frozenset({"open", "undecided"})
_DECIDED_COSTS = frozenset({"costs-more", "costs-less", "equal-cost", "at-most"})
_PLAIN: Mapping[str, doc.Message] = {
    "slower": msg("slower"),
    "faster": msg("faster"),
    "costs-more": msg("more CPU"),
    "costs-less": msg("less CPU"),
}
_WITH_AMOUNT = frozenset(_PLAIN)
_DIFFERENT_COSTS = frozenset({"costs-more", "costs-less"})


@dataclass(frozen=True)
class PlatformAnswer:
    """Answer of a run about one platform."""

    platform: Annotated[str, Means("name")]
    marks: Annotated[tuple[str, ...], Means("its marks")]
    text: Annotated[doc.Inline, Means("what is said of it, after its name and a colon")]


@dataclass(frozen=True)
class SpokenComparison:
    """A comparison of which a sentence speaks. name: of its benchmark, with metric and levels where these vary."""

    name: doc.Inline
    section: Section
    row: Row

    @property
    def label(self) -> str:
        """The benchmark table it is of."""
        return self.section.label

    @property
    def is_cost(self) -> bool:
        """Whether it is of a cost rather than of a speed."""
        return self.section.metric.role == "cost"

    @property
    def kind(self) -> str:
        """See `kind_of`."""
        return kind_of(self.row, self.section)

    @property
    def share(self) -> float:
        """The performance as a share of the baseline's, or how much it costs of that; nan without a ratio."""
        if self.row.ratio is None:
            return math.nan
        return self.row.ratio.efficiency(self.section.share_better).estimate


def kind_of(row: Row, section: Section) -> str:
    """Return the word of a row's verdict; `few` and `none` where it has none for want of blocks, or at all.

    What is undecided may have one of the words of `doc.PERHAPS`; of what else is, `open` has an interval that holds 1.
    """
    ratio, verdict = row.ratio, row.verdict
    if ratio is None or verdict is None:
        return "none"
    if verdict.kind != "undecided":
        return verdict.kind
    if ratio.n_blocks < MINIMUM_BLOCKS:
        return "few"
    efficiency = ratio.efficiency(section.better)
    return leaning_of(verdict, ratio, section) or (
        "open" if efficiency.low <= 1 <= efficiency.high else "undecided"
    )


def leaning_of(verdict: Verdict, ratio: Ratio, section: Section) -> str:
    """Return `perhaps slower` of what is undecided, though its interval lies beyond the margin; empty without one."""
    if verdict.kind != "undecided" or ratio.n_blocks < MINIMUM_BLOCKS or reasons_of(verdict):
        return ""
    efficiency = ratio.efficiency(section.better)
    lowest, highest = edges(verdict.margin)
    if efficiency.low <= highest and efficiency.high >= lowest:
        return ""
    if section.metric.role == "cost":
        return "perhaps costs more" if efficiency.high < 1 else "perhaps costs less"
    return "perhaps slower" if efficiency.high < 1 else "perhaps faster"


def is_measured(analysis: Analysis) -> bool:
    """Whether the run has a single figure."""
    return any(row.summary for *_, row in every_row(analysis.sections))


def answers(analysis: Analysis) -> tuple[PlatformAnswer, ...]:
    """One answer for every platform but the baseline, in study order: how it compares, or why it was not tested."""
    by_platform = _judged(analysis)
    result: list[PlatformAnswer] = []
    for platform in analysis.platforms:
        if platform.is_baseline:
            continue
        text: doc.Inline = msg("was not tested: {reason}", reason=platform.reason)
        if platform.available:
            text = msg("has no results yet")
            if by_platform[platform.name]:
                text = words_of(by_platform[platform.name], analysis.baseline)
        result.append(PlatformAnswer(platform.name, platform.marks, text))
    return tuple(result)


def sentence_of(analysis: Analysis) -> doc.Inline:
    """`docker: at least 24 % more CPU per request; a slowdown of up to 9.1 % cannot be excluded. qemu: 21 times slower.`

    Platforms with the same marks and verdicts stand together, where they differ at the same places. Empty where
    nothing is judged.
    """
    by_platform = _judged(analysis)
    groups: dict[
        tuple[frozenset[tuple[str, doc.Inline]], tuple[str, ...]], list[PlatformRecord]
    ] = {}
    for platform in analysis.platforms:
        kinds = frozenset(map(_likeness, by_platform[platform.name]))
        if not platform.is_baseline and platform.available and kinds:
            groups.setdefault((kinds, platform.marks), []).append(platform)
    return joined(
        [
            msg(
                "{platforms}: {words}.",
                platforms=_names(of),
                words=words_of(
                    [comparison for platform in of for comparison in by_platform[platform.name]],
                    analysis.baseline,
                    len(of),
                ),
            )
            for of in groups.values()
        ],
        " ",
    )


def _likeness(comparison: SpokenComparison) -> tuple[str, doc.Inline]:
    """Return the common part of platforms that stand together: verdicts, and the places of differences."""
    if comparison.kind in _DIFFERENT:
        return comparison.kind, comparison.name
    return comparison.row.verdict.kind if comparison.row.verdict else "", ""


def _judged(analysis: Analysis) -> dict[str, list[SpokenComparison]]:
    """Return the comparisons of what answers by platform."""
    by_platform: dict[str, list[SpokenComparison]] = {
        platform.name: [] for platform in analysis.platforms
    }
    labels = Counter(section.label for section in analysis.primary)
    for section, point, row in every_row(analysis.answered):
        is_alone = section.metric.role == "cost" or labels[section.label] == 1
        name = section.label if is_alone else section.name
        place = joined([name, factors(point.levels)], " ")
        by_platform[row.platform.name].append(SpokenComparison(place, section, row))
    return by_platform


def words_of(
    comparisons: Sequence[SpokenComparison], baseline: str, platforms: int = 1
) -> doc.Inline:
    """`slower in 3 of 5, most on iperf3 (20 times); elsewhere a slowdown of up to 39 % (dd) cannot be excluded`.

    What was found stands first, then what is not excluded. platforms: to which they belong.
    """
    costs = [
        comparison for comparison in comparisons if comparison.is_cost and comparison.row.ratio
    ]
    speeds = [comparison for comparison in comparisons if not comparison.is_cost]
    if not (costs or speeds):
        return msg("no result")
    speed = joined(_words_of_speeds(speeds, baseline, platforms))
    cost = _words_of_costs(costs, platforms, is_short=speed != "")
    if speed != "" and {comparison.kind for comparison in costs} <= {"few", "none"}:
        cost = ""
    kinds = {comparison.kind for comparison in speeds}
    is_decided = "slower" in kinds
    is_open = bool(kinds & _OPEN) or (is_decided and "perhaps slower" in kinds)
    if speed != "" and is_open and any(comparison.kind in _DIFFERENT_COSTS for comparison in costs):
        is_counted = kinds & {"equivalent", "at-most"}
        return joined([speed, cost, "" if is_counted else msg("undecided elsewhere")], "; ")
    excluded = _not_excluded(speeds, costs if cost == "" else ())
    if speed == "" and (speeds or cost == ""):
        phrase = msg("no difference found")
        if "undecided" in kinds:
            phrase = msg("undecided")
        elif cost != "":
            phrase = msg("no difference in speed found")
        return joined([cost, phrase, excluded], "; ")
    if is_open and (is_decided or not kinds & doc.PERHAPS.keys()):
        elsewhere = msg("elsewhere {words}", words=excluded)
        excluded = elsewhere if excluded != "" else msg("undecided elsewhere")
    return joined([speed, cost, excluded], "; ")


def _not_excluded(
    speeds: Sequence[SpokenComparison], costs: Sequence[SpokenComparison]
) -> doc.Inline:
    """Return `a slowdown of up to 39 % (dd) and up to 18 % more CPU (iperf3) cannot be excluded`; empty without a bound."""
    bounds = [*_bound(speeds), *_bound(costs)]
    if not bounds:
        return ""
    placed = []
    for number, (text, name) in enumerate(bounds):
        is_repeated = any(name == other for _, other in bounds[number + 1 :])
        where = "" if is_repeated else in_brackets(name)
        placed.append(joined([text, where], " "))
    return msg("{bounds} cannot be excluded", bounds=listed(placed))


def _words_of_costs(
    costs: Sequence[SpokenComparison], platforms: int, *, is_short: bool
) -> doc.Inline:
    """`at least 24 % more CPU per request on nginx`: what is decided, else what may be so; empty without both.

    is_short: without the number of places where the furthest is named.
    """
    of = _by_kind(costs)
    kinds = [kind for kind in _KINDS if kind in of]
    for told in (_DIFFERENT_COSTS, _DECIDED_COSTS):
        if any(kind in told for kind in kinds):
            kinds = [kind for kind in kinds if kind in told]
    if is_short and {"costs-more", "costs-less"} <= {*kinds}:
        less = _placed(msg("less"), _where(of["costs-less"], len(costs), platforms))
        return joined(
            [_of_kind("costs-more", of["costs-more"], len(costs), platforms, is_short=True), less]
        )
    return joined(
        _of_kind(kind, of[kind], len(costs), platforms, is_short=is_short) for kind in kinds
    )


def _words_of_speeds(
    comparisons: Sequence[SpokenComparison], baseline: str, platforms: int
) -> Iterator[doc.Inline]:
    """Yield `slower in 3 of 5, most on iperf3 (20 times)`, and why there is no verdict."""
    of = _by_kind(comparisons)
    if "equivalent" in of and "at-most" in of:
        of["at-most"] = [*of.pop("equivalent"), *of["at-most"]]  # what is equivalent costs no more
    for kind in _KINDS:
        if kind in of and not (kind == "perhaps slower" and "slower" in of):
            yield _of_kind(kind, of[kind], len(comparisons), platforms)
    if "none" in of:
        yield from _without(of["none"], _where(of["none"], len(comparisons), platforms), baseline)


def _by_kind(comparisons: Sequence[SpokenComparison]) -> dict[str, list[SpokenComparison]]:
    return by_key((comparison.kind, comparison) for comparison in comparisons)


def _of_kind(
    kind: str,
    comparisons: Sequence[SpokenComparison],
    total: int,
    platforms: int,
    *,
    is_short: bool = False,
) -> doc.Inline:
    """Return what is said of comparisons of one kind, where, and with the number that says most.

    total: comparisons of speeds, or of costs. is_short: see `_words_of_costs`.
    """
    where = _where(comparisons, total, platforms)
    if kind not in _WITH_AMOUNT:
        if where != "" and len(comparisons) > 1:
            where = _count(comparisons, total, platforms)
        return _placed(_word(kind, comparisons), where)
    names = _names_of(comparisons)
    far = [comparison for comparison in comparisons if _is_far(comparison)]
    hides_much = len(names) > 1 and _differ_much(kind, comparisons)
    if not (far or hides_much) and (total == platforms or len(names) <= _MOST_NAMED):
        return _placed(_least(kind, comparisons), where)
    worst = max(
        comparisons,
        key=lambda comparison: (
            abs(math.log(comparison.share)) if comparison.share > 0 else math.inf
        ),
    )
    if is_short and not far:
        return _placed(_least(kind, [worst]), msg("on {names}", names=worst.name))
    most = msg("most on {name}", name=worst.name)
    if len(far) == len(comparisons) or (far and kind == "costs-more"):
        if len(names) == 1:
            return _placed(_times(kind, comparisons), where)
        return joined([_placed(_times(kind, comparisons), "" if is_short else where), most])
    if len(names) == 1:
        times = msg("up to {times} times", times=doc.Number(_factors([worst])[1], 2))
        return joined([_placed(_least(kind, comparisons), where), times])
    amount = _least(kind, [worst], is_short=True)
    if _is_far(worst):
        amount = msg("{times} times", times=doc.Number(_factors([worst])[1], 2))
    if where == "":
        where = msg("everywhere")
    else:
        where = _count(comparisons, total, platforms)
    return joined([_placed(_PLAIN[kind], where), joined([most, in_brackets(amount)], " ")])


def _differ_much(kind: str, comparisons: Sequence[SpokenComparison]) -> bool:
    """Return whether one bound for all would hide the largest."""
    amounts = [_amount(kind, comparison) for comparison in comparisons]
    return max(amounts) > _MUCH * min(amounts)


def _amount(kind: str, comparison: SpokenComparison) -> float:
    return least_difference(kind, comparison.row.loss) or 0.0


def _is_far(comparison: SpokenComparison) -> bool:
    """Whether times are clearer than a percentage."""
    return not 1 / _FAR <= comparison.share <= _FAR


def _factors(comparisons: Sequence[SpokenComparison]) -> list[float]:
    """Return the least and the largest number of times by which they differ from the baseline."""
    shares = [comparison.share for comparison in comparisons]
    factors = [max(share, 1 / share) if share > 0 else math.inf for share in shares]
    return [min(factors), max(factors)]


def _times(kind: str, comparisons: Sequence[SpokenComparison]) -> doc.Inline:
    """`2.1 to 22 times slower`, `8.1 to 16 times the CPU per GB`."""
    low, high = (doc.Number(factor, 2) for factor in _factors(comparisons))
    times = range_of(low, high)
    if kind == "slower":
        return msg("{times} times slower", times=times)
    if kind == "faster":
        return msg("{times} times faster", times=times)
    if kind == "costs-more":
        return msg("{times} times the {cpu}", times=times, cpu=_cpu(comparisons))
    return msg("{times} times less {cpu}", times=times, cpu=_cpu(comparisons))


def _least(
    kind: str, comparisons: Sequence[SpokenComparison], *, is_short: bool = False
) -> doc.Inline:
    """`at least 9.4 % slower`: what holds for all of them; the word alone without a bound.

    is_short: without the word.
    """
    shares = [least_difference(kind, comparison.row.loss) for comparison in comparisons]
    least = min((share for share in shares if share is not None), default=0.0)
    if least <= 0 or None in shares:
        return _PLAIN[kind]
    share = doc.Share(safe_bound(least, is_most=False))
    if is_short:
        return msg("at least {share}", share=share)
    if kind == "slower":
        return msg("at least {share} slower", share=share)
    if kind == "faster":
        return msg("at least {share} faster", share=share)
    if kind == "costs-more":
        return msg("at least {share} more {cpu}", share=share, cpu=_cpu(comparisons))
    return msg("at least {share} less {cpu}", share=share, cpu=_cpu(comparisons))


def least_difference(kind: str, loss: Loss | None) -> float | None:
    """Return by how much at least a side is slower, faster, or costs more or less; None without a bound."""
    if loss is None:
        return None
    if kind in ("slower", "costs-more"):
        return loss.at_least
    if loss.at_most is None or loss.at_most <= -1:  # nothing is left that a bound is a share of
        return None
    return 1 / (1 + loss.at_most) - 1 if kind == "faster" else -loss.at_most


def _cpu(comparisons: Sequence[SpokenComparison]) -> doc.Inline:
    """`CPU per request` where all have the same unit of work."""
    units = {unit_of_work(comparison.section) for comparison in comparisons}
    return msg("CPU per {unit}", unit=units.pop()) if len(units) == 1 else msg("CPU")


def _word(kind: str, comparisons: Sequence[SpokenComparison]) -> doc.Inline:
    """Return the words of a kind that has no amount."""
    if kind in doc.PERHAPS:
        return doc.PERHAPS[kind]
    if kind == "few":
        if comparisons[0].is_cost:
            return msg("no verdict on CPU cost")
        return plural(
            "no verdict, since {count} block is too few",
            "no verdict, since {count} blocks are too few",
            min(
                comparison.row.ratio.n_blocks for comparison in comparisons if comparison.row.ratio
            ),
        )
    if kind == "none":
        return msg("no verdict on CPU cost")
    margins = [
        comparison.row.verdict.margin for comparison in comparisons if comparison.row.verdict
    ]
    margin = doc.Share(max(margins), "declared")
    if kind == "equivalent":
        return msg("equivalent within ±{margin}", margin=margin)
    if kind == "equal-cost":
        return msg("equal CPU within ±{margin}", margin=margin)
    if comparisons[0].is_cost:
        return msg("at most {margin} more CPU", margin=margin)
    return msg("costs at most {margin}", margin=margin)


def _without(
    comparisons: Sequence[SpokenComparison], where: doc.Inline, baseline: str
) -> Iterator[doc.Inline]:
    """Yield why there is no verdict, with the range of the ratios, and where there is no result."""
    if with_ratio := [comparison for comparison in comparisons if comparison.row.ratio]:
        yield joined([_placed(with_ratio[0].row.reason, where), _range(with_ratio, baseline)], "; ")
    if len(with_ratio) < len(comparisons):
        yield _placed(msg("no result"), where)


def _placed(word: doc.Inline, where: doc.Inline) -> doc.Inline:
    return joined([word, where], " ")


def _where(comparisons: Sequence[SpokenComparison], total: int, platforms: int) -> doc.Inline:
    """`on dd and stream`, `in 3 of 20`; empty for all. Of platforms alike it counts the places of one."""
    if len(comparisons) == total:
        return ""
    names = _names_of(comparisons)
    if len(comparisons) == platforms * len(names) and len(names) <= _MOST_NAMED:
        return msg("on {names}", names=listed(names))
    return _count(comparisons, total, platforms)


def _count(comparisons: Sequence[SpokenComparison], total: int, platforms: int) -> doc.Inline:
    """Return `in 3 of 20`; of platforms alike it counts the places of one."""
    count = len(comparisons)
    names = len(_names_of(comparisons))
    if count == platforms * names:
        count, total = names, total // platforms
    return msg("in {count} of {total}", count=doc.Count(count), total=doc.Count(total))


def _names_of(comparisons: Sequence[SpokenComparison]) -> list[doc.Inline]:
    """Return the names, each once."""
    names: list[doc.Inline] = []
    for comparison in comparisons:
        if comparison.name not in names:
            names.append(comparison.name)
    return names


def _range(comparisons: Sequence[SpokenComparison], baseline: str) -> doc.Inline:
    """`82 % of native`, `91 % to 95 % of native`, `1.6 to 3.4 times faster`: of what has no verdict."""
    shares = [comparison.share for comparison in comparisons]
    low, high = min(shares), max(shares)
    if low == high:
        return doc.Relative(low, baseline=baseline)
    if any(_is_far(comparison) for comparison in comparisons):
        if low >= 1 or high <= 1:
            return _times("faster" if low >= 1 else "slower", comparisons)
        worst, best = (
            [comparison for comparison in comparisons if comparison.share == share]
            for share in (low, high)
        )
        return doc.Range(_times("slower", worst), _times("faster", best))
    return doc.Range(doc.Relative(low), doc.Relative(high, baseline=baseline))


def _bound(comparisons: Sequence[SpokenComparison]) -> Iterator[tuple[doc.Inline, doc.Inline]]:
    """Yield (`a slowdown of up to 39 %`, `dd`): the largest loss that is not excluded where nothing is decided, as its
    cell has it.

    It holds for all of them at once: it is wrong only if the bound of the one that truly loses most is wrong.
    """
    open_comparisons = [
        comparison
        for comparison in comparisons
        if comparison.kind in _OPEN or comparison.kind in doc.PERHAPS
    ]
    if not open_comparisons:
        return
    worst = max(open_comparisons, key=_largest_loss)
    loss = _largest_loss(worst)
    if not 0 < loss < math.inf:
        return
    text = loss_up_to(loss, is_cost=worst.is_cost)
    name = worst.name if len(_names_of(comparisons)) > 1 else ""
    yield text, name


def loss_up_to(loss: float, *, is_cost: bool) -> doc.Inline:
    """Return `a slowdown of up to 39 %`, or `a slowdown of up to 2.4 times`; of a cost `up to 18 % more CPU`.

    loss: the end of an interval, above 0.
    """
    loss = safe_bound(loss, is_most=True)
    times, share = doc.Number(1 + loss, 2), doc.Share(loss)
    if is_cost and loss >= 1:
        return msg("up to {times} times the CPU", times=times)
    if is_cost:
        return msg("up to {share} more CPU", share=share)
    if loss >= 1:
        return msg("a slowdown of up to {times} times", times=times)
    return msg("a slowdown of up to {share}", share=share)


def _largest_loss(comparison: SpokenComparison) -> float:
    """Return the loss that a comparison does not exceed; infinite where it is not known.

    It is not known where a verdict is withheld: what withholds it may have moved the interval.
    """
    loss = comparison.row.loss
    if withheld(comparison.row) or loss is None or loss.at_most is None:
        return math.inf
    return loss.at_most


def _names(platforms: Sequence[PlatformRecord]) -> doc.Inline:
    if len(platforms) > _MOST_PLATFORMS:
        return plural("{count} platform", "{count} platforms", len(platforms))
    return joined([doc.PlatformCell(platform.name, platform.marks) for platform in platforms])
