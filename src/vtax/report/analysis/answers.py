"""The sentence that answers: which platforms equal the baseline, which differ and by how much, what is not known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.report import document as doc
from vtax.report.analysis.next_step import withheld
from vtax.report.analysis.values import Analysis, Row, every_row
from vtax.report.document import joined, levels_of, listed, msg, plural
from vtax.stats.checks import MINIMUM_BLOCKS, Better
from vtax.stats.margin import edges
from vtax.store.records import PlatformRecord

_MOST_PLATFORMS = 6  # that are named
_MOST_NAMED = 2  # comparisons
_FAR = 2.0  # times, from which "times slower" is clearer than a percentage
_KINDS = (
    "slower",
    "faster",
    "equivalent",
    "few",
    "perhaps slower",
    "perhaps faster",
)  # in the order they are said
PERHAPS: Mapping[str, doc.Message] = {
    "perhaps slower": msg("perhaps slower"),
    "perhaps faster": msg("perhaps faster"),
}
_DIFFERENT = frozenset(
    {"slower", "faster", *PERHAPS}
)  # said only together where they are at the same places


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
    label: str
    better: Better
    row: Row

    @property
    def kind(self) -> str:
        """See `kind_of`."""
        return kind_of(self.row, self.better)

    @property
    def share(self) -> float:
        """The performance as a share of the baseline's; nan without a ratio."""
        return self.row.ratio.efficiency(self.better).estimate if self.row.ratio else math.nan


def kind_of(row: Row, better: Better) -> str:
    """Return the word of a row's verdict; `few` and `none` where it has none for want of blocks, or at all.

    `perhaps slower` and `perhaps faster` are undecided, with an interval of its own that lies beyond the margin; of
    what else is undecided, `open` has an interval that holds 1.
    """
    ratio, verdict = row.ratio, row.verdict
    if ratio is None or verdict is None:
        return "none"
    if verdict.kind != "undecided":
        return verdict.kind
    if ratio.n_blocks < MINIMUM_BLOCKS:
        return "few"
    found = ratio.efficiency(better)
    lowest, highest = edges(verdict.margin)
    if withheld(row) or (found.low <= highest and found.high >= lowest):
        return "open" if found.low <= 1 <= found.high else "undecided"
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
            text = (
                words_of(judged[each.name], analysis.baseline)
                if judged[each.name]
                else msg("has no results yet")
            )
        found.append(PlatformAnswer(each.name, each.marks, text))
    return tuple(found)


def sentence_of(analysis: Analysis) -> doc.Inline:
    """`podman, docker: no difference shown; intervals reach down to 72 % of native (dd). qemu: 21 times slower.`

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
    """Return the comparisons of primary metrics by platform."""
    found: dict[str, list[SpokenComparison]] = {each.name: [] for each in analysis.platforms}
    labels = Counter(section.label for section in analysis.primary)
    for section, point, row in every_row(analysis.primary):
        name = section.label if labels[section.label] == 1 else section.name
        levels = doc.Factor(levels_of(point.levels)) if point.levels else ""
        found[row.platform.name].append(
            SpokenComparison(joined([name, levels], " "), section.label, section.better, row)
        )
    return found


def words_of(judged: Sequence[SpokenComparison], baseline: str, platforms: int = 1) -> doc.Inline:
    """`slower on iperf3 (91 % of native), no difference shown elsewhere`. platforms: to which they belong."""
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
    return joined([joined(parts), "" if is_decided else _bounds(judged, baseline)], "; ")


def _word(kind: str, these: Sequence[SpokenComparison], baseline: str) -> doc.Inline:
    """Return the name of a kind of comparisons, with the number that says most."""
    if kind == "slower":
        share = _range(these, baseline)
        is_far = max(each.share for each in these) < 1 / _FAR
        return share if is_far else joined([msg("slower"), joined(["(", share, ")"], "")], " ")
    if kind == "faster":
        return joined([msg("faster"), joined(["(", _range(these, baseline), ")"], "")], " ")
    if kind == "equivalent":
        margin = doc.Share(
            max(each.row.verdict.margin for each in these if each.row.verdict), "declared"
        )
        return msg("equivalent within ±{margin}", margin=margin)
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
        return msg("{low} to {high} times slower", low=times[0], high=times[1])
    if low < 1 / _FAR:
        return doc.Range(doc.Relative(high, baseline=baseline), doc.Relative(low))
    return doc.Range(doc.Relative(low), doc.Relative(high, baseline=baseline))


def _bounds(judged: Sequence[SpokenComparison], baseline: str) -> doc.Inline:
    """`intervals reach down to 72 % of native (dd)`: the lowest end shown of what is undecided, each by itself."""
    these = [
        each for each in judged if each.row.ratio and each.kind in ("open", "undecided", *PERHAPS)
    ]
    if not these:
        return ""
    found, worst = min(
        ((each.row.ratio.efficiency(each.better), each) for each in these if each.row.ratio),
        key=lambda of: of[0].low,
    )
    share = doc.Relative(found.estimate, found.low, found.high, shows="low", baseline=baseline)
    if len(these) == 1:
        return msg("its interval reaches down to {share}", share=share)
    if len({each.label for each in these}) == 1:
        return msg("intervals reach down to {share}", share=share)
    return msg("intervals reach down to {share} ({name})", share=share, name=worst.label)


def _names(platforms: Sequence[PlatformRecord]) -> doc.Inline:
    if len(platforms) > _MOST_PLATFORMS:
        return plural("{count} platform", "{count} platforms", len(platforms))
    return joined([doc.PlatformCell(each.name, each.marks) for each in platforms])
