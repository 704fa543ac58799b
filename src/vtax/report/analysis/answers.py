"""The sentence that answers: which platforms equal the baseline, which differ and by how much, what is not known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.report import document as doc
from vtax.report.analysis.host_cpu import unit_of_work
from vtax.report.analysis.next_step import withheld
from vtax.report.analysis.values import Analysis, Row, Section, every_row
from vtax.report.document import joined, levels_of, listed, msg, plural
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.margin import edges
from vtax.store.records import PlatformRecord
from vtax.units import safe_bound

_MOST_PLATFORMS = 6  # that are named
_MOST_NAMED = 2  # comparisons
_FAR = 2.0  # times, from which "times slower" is clearer than a percentage
PERHAPS: Mapping[str, doc.Message] = {
    "perhaps slower": msg("perhaps slower"),
    "perhaps faster": msg("perhaps faster"),
    "perhaps costs more": msg("perhaps costs more"),
    "perhaps costs less": msg("perhaps costs less"),
}
_KINDS = (
    "slower",
    "faster",
    "costs-more",
    "costs-less",
    "equivalent",
    "equal-cost",
    "at-most",
    "few",
    *PERHAPS,
)  # in the order they are said
_DIFFERENT = frozenset(
    {"slower", "faster", "costs-more", "costs-less", *PERHAPS}
)  # said only together where they are at the same places
_DECIDED_COSTS = frozenset({"costs-more", "costs-less", "equal-cost", "at-most"})


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

    `perhaps slower`, `perhaps costs more` and their opposites are undecided, with an interval of its own that lies
    beyond the margin; of what else is undecided, `open` has an interval that holds 1.
    """
    ratio, verdict = row.ratio, row.verdict
    if ratio is None or verdict is None:
        return "none"
    if verdict.kind != "undecided":
        return verdict.kind
    if ratio.n_blocks < MINIMUM_BLOCKS:
        return "few"
    found = ratio.efficiency(section.better)
    lowest, highest = edges(verdict.margin)
    if withheld(row) or (found.low <= highest and found.high >= lowest):
        return "open" if found.low <= 1 <= found.high else "undecided"
    if section.metric.role == "cost":
        return "perhaps costs more" if found.high < 1 else "perhaps costs less"
    return "perhaps slower" if found.high < 1 else "perhaps faster"


def is_measured(analysis: Analysis) -> bool:
    """Whether the run has a single figure."""
    return any(row.summary for *_, row in every_row(analysis.sections))


def answers(analysis: Analysis) -> tuple[PlatformAnswer, ...]:
    """One answer for every platform but the baseline, in study order: how it compares, or why it was not tested."""
    judged = _judged(analysis)
    found: list[PlatformAnswer] = []
    for each in analysis.platforms:
        if each.is_baseline:
            continue
        text: doc.Inline = msg("was not tested: {reason}", reason=each.reason)
        if each.available:
            text = msg("has no results yet")
            if judged[each.name]:
                text = words_of(judged[each.name], analysis.baseline)
        found.append(PlatformAnswer(each.name, each.marks, text))
    return tuple(found)


def sentence_of(analysis: Analysis) -> doc.Inline:
    """`docker: 24 % more CPU per request; speed: no difference shown. qemu: 21 times slower.`

    Platforms with the same marks and verdicts stand together, where they differ at the same places. Empty where
    nothing is judged.
    """
    judged = _judged(analysis)
    groups: dict[
        tuple[frozenset[tuple[str, doc.Inline]], tuple[str, ...]], list[PlatformRecord]
    ] = {}
    for each in analysis.platforms:
        kinds = frozenset(map(_likeness, judged[each.name]))
        if not each.is_baseline and each.available and kinds:
            groups.setdefault((kinds, each.marks), []).append(each)
    return joined(
        [
            msg(
                "{platforms}: {words}.",
                platforms=_names(of),
                words=words_of(
                    [one for each in of for one in judged[each.name]], analysis.baseline, len(of)
                ),
            )
            for of in groups.values()
        ],
        " ",
    )


def _likeness(one: SpokenComparison) -> tuple[str, doc.Inline]:
    """Return the common part of platforms that stand together: verdicts, and the places of differences."""
    if one.kind in _DIFFERENT:
        return one.kind, one.name
    return one.row.verdict.kind if one.row.verdict else "", ""


def _judged(analysis: Analysis) -> dict[str, list[SpokenComparison]]:
    """Return the comparisons of what answers by platform."""
    found: dict[str, list[SpokenComparison]] = {each.name: [] for each in analysis.platforms}
    labels = Counter(section.label for section in analysis.primary)
    for section, point, row in every_row(analysis.answered):
        is_alone = section.metric.role == "cost" or labels[section.label] == 1
        name = section.label if is_alone else section.name
        levels = doc.Factor(levels_of(point.levels)) if point.levels else ""
        found[row.platform.name].append(SpokenComparison(joined([name, levels], " "), section, row))
    return found


def words_of(judged: Sequence[SpokenComparison], baseline: str, platforms: int = 1) -> doc.Inline:
    """`24 % more CPU per request; speed: slower on iperf3 (91 % of native), no difference shown elsewhere`.

    platforms: to which they belong.
    """
    costs = [each for each in judged if each.is_cost and each.row.ratio]
    speeds = [each for each in judged if not each.is_cost]
    if not costs:
        return _words_of_speeds(speeds, baseline, platforms) if speeds else msg("no result")
    cost = _words_of_costs(costs, platforms)
    if not speeds:
        return cost
    speed = _words_of_speeds(speeds, baseline, platforms)
    if any(each.kind in _DECIDED_COSTS for each in costs):
        return joined([cost, msg("speed: {words}", words=speed)], "; ")
    return joined([speed, cost], "; ")


def _words_of_costs(costs: Sequence[SpokenComparison], platforms: int) -> doc.Inline:
    """`24 % more CPU per request on nginx, CPU cost undecided elsewhere`."""
    of: dict[str, list[SpokenComparison]] = {}
    for each in costs:
        of.setdefault(each.kind, []).append(each)
    parts = [
        _placed(_word_of_cost(kind, of[kind]), _where(of[kind], len(costs), platforms))
        for kind in _KINDS
        if kind in of
    ]
    if of.keys() & {"open", "undecided"}:
        bound = _bounds(costs)
        undecided = bound if bound != "" else msg("CPU cost undecided")
        parts.append(msg("undecided elsewhere") if parts else undecided)
    return joined(parts) if parts else msg("no verdict on CPU cost")


def _word_of_cost(kind: str, these: Sequence[SpokenComparison]) -> doc.Inline:
    """`24 % more CPU per request`, `2 % to 24 % more CPU`, `8 times the CPU`: the unit where all have the same."""
    if kind == "few":
        return msg("no verdict on CPU cost")
    if kind in ("equal-cost", "at-most"):
        margins = [each.row.verdict.margin for each in these if each.row.verdict]
        margin = doc.Share(max(margins), "declared")
        if kind == "at-most":
            return msg("at most {margin} more CPU", margin=margin)
        return msg("equal CPU within ±{margin}", margin=margin)
    if kind in PERHAPS:
        return PERHAPS[kind]
    units = {unit_of_work(each.section) for each in these}
    cpu: doc.Inline = msg("CPU")
    if len(units) == 1:
        cpu = msg("CPU per {unit}", unit=units.pop())
    low, high = (pick(each.share for each in these) for pick in (min, max))
    if high >= _FAR:
        times = _from_to(doc.Number(low, 2), doc.Number(high, 2))
        return msg("{times} times the {cpu}", times=times, cpu=cpu)
    shares = sorted(abs(share - 1) for share in (low, high))
    amount = _from_to(doc.Share(shares[0]), doc.Share(shares[1]))
    if kind == "costs-more":
        return msg("{share} more {cpu}", share=amount, cpu=cpu)
    return msg("{share} less {cpu}", share=amount, cpu=cpu)


def _from_to(low: doc.Inline, high: doc.Inline) -> doc.Inline:
    """Return both ends, or one where they are alike."""
    return low if low == high else doc.Range(low, high)


def _words_of_speeds(
    judged: Sequence[SpokenComparison], baseline: str, platforms: int
) -> doc.Inline:
    """`slower on iperf3 (91 % of native), no difference shown elsewhere`."""
    of: dict[str, list[SpokenComparison]] = {}
    for each in judged:
        of.setdefault(each.kind, []).append(each)
    rest = [*of.pop("open", ()), *of.get("undecided", ())]
    parts = [
        _placed(_word(kind, of[kind], baseline), _where(of[kind], len(judged), platforms))
        for kind in _KINDS
        if kind in of
    ]
    if rest:
        word = msg("undecided") if "undecided" in of else msg("no difference shown")
        parts.append(msg("{word} elsewhere", word=word) if parts else word)
    if "none" in of:
        parts += _without(of["none"], _where(of["none"], len(judged), platforms), baseline)
    is_decided = "slower" in of or "faster" in of
    return joined([joined(parts), "" if is_decided else _bounds(judged)], "; ")


def _word(kind: str, these: Sequence[SpokenComparison], baseline: str) -> doc.Inline:
    """Return the name of a kind of comparisons, with the number that says most."""
    if kind == "slower":
        share = _range(these, baseline)
        is_far = max(each.share for each in these) < 1 / _FAR
        return share if is_far else joined([msg("slower"), joined(["(", share, ")"], "")], " ")
    if kind == "faster":
        return joined([msg("faster"), joined(["(", _range(these, baseline), ")"], "")], " ")
    if kind in ("equivalent", "at-most"):
        margin = doc.Share(
            max(each.row.verdict.margin for each in these if each.row.verdict), "declared"
        )
        if kind == "equivalent":
            return msg("equivalent within ±{margin}", margin=margin)
        return msg("costs at most {margin}", margin=margin)
    if kind == "few":
        blocks = min(each.row.ratio.n_blocks for each in these if each.row.ratio)
        return plural(
            "no verdict, since {count} block is too few",
            "no verdict, since {count} blocks are too few",
            blocks,
        )
    return PERHAPS[kind]


def _without(
    these: Sequence[SpokenComparison], where: doc.Inline, baseline: str
) -> Iterator[doc.Inline]:
    """Yield why there is no verdict, with the range of the ratios, and where there is no result."""
    if compared := [each for each in these if each.row.ratio]:
        yield joined([_placed(compared[0].row.reason, where), _range(compared, baseline)], "; ")
    if len(compared) < len(these):
        yield _placed(msg("no result"), where)


def _placed(word: doc.Inline, where: doc.Inline) -> doc.Inline:
    return joined([word, where], " ")


def _where(these: Sequence[SpokenComparison], total: int, platforms: int) -> doc.Inline:
    """`on dd and stream`, `in 3 of 20`; empty for all."""
    if len(these) == total:
        return ""
    names = [
        each.name
        for n, each in enumerate(these)
        if all(each.name != other.name for other in these[:n])
    ]
    if len(names) <= _MOST_NAMED and len(these) == platforms * len(names):
        return msg("on {names}", names=listed(names))
    return msg("in {count} of {total}", count=doc.Count(len(these)), total=doc.Count(total))


def _range(judged: Sequence[SpokenComparison], baseline: str) -> doc.Inline:
    """`2.1 to 22 times slower`, `82 % of native to 2.4 times slower`, `91 % to 95 % of native`."""
    shares = [each.share for each in judged]
    low, high = min(shares), max(shares)
    if low == high:
        return doc.Relative(low, baseline=baseline)
    if high < 1 / _FAR:
        times = [doc.Number(1 / share if share else math.inf, 2) for share in (high, low)]
        if low > 0 and f"{1 / low:.2g}" == f"{1 / high:.2g}":
            return doc.Relative(low, baseline=baseline)
        return msg("{low} to {high} times slower", low=times[0], high=times[1])
    if low < 1 / _FAR:
        return doc.Range(doc.Relative(high, baseline=baseline), doc.Relative(low))
    return doc.Range(doc.Relative(low), doc.Relative(high, baseline=baseline))


def _bounds(judged: Sequence[SpokenComparison]) -> doc.Inline:
    """`at most 39 % slower (dd)`: the largest loss that is not excluded where nothing is decided.

    It is the bound of the family, which holds for all comparisons of a table at once. Empty without one.
    """
    these = [
        each for each in judged if each.row.ratio and each.kind in ("open", "undecided", *PERHAPS)
    ]
    if not these:
        return ""
    worst = max(these, key=_largest_loss)
    loss = _largest_loss(worst)
    if not 0 < loss < math.inf:
        return ""
    loss = safe_bound(loss, is_most=True)
    name = worst.label if len({each.label for each in these}) > 1 else ""
    if worst.is_cost:
        text = msg("at most {loss} more CPU", loss=doc.Share(loss))
    elif loss >= 1:
        text = msg("at most {times} times slower", times=doc.Number(1 + loss, 2))
    else:
        text = msg("at most {loss} slower", loss=doc.Share(loss))
    return joined([text, joined(["(", name, ")"], "") if name else ""], " ")


def _largest_loss(one: SpokenComparison) -> float:
    """Return the loss that a comparison does not exceed, for its whole family; infinite where it is not known.

    It is not known where a verdict is withheld: what withholds it may have moved the interval.
    """
    if withheld(one.row):
        return math.inf
    loss = one.row.ratio.loss(one.section.better) if one.row.ratio else None
    if loss is None or loss.at_most_family is None:
        return math.inf
    return loss.at_most_family


def _names(platforms: Sequence[PlatformRecord]) -> doc.Inline:
    if len(platforms) > _MOST_PLATFORMS:
        return plural("{count} platform", "{count} platforms", len(platforms))
    return joined([doc.PlatformCell(each.name, each.marks) for each in platforms])
