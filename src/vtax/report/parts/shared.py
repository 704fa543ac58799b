"""Parts that several views show alike: platforms, headings of metrics, rows below the names of their points."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from vtax.levels import LINK, number_of
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section
from vtax.report.analysis.host_cpu import is_host_cpu, unit_of_work
from vtax.report.analysis.next_step import reasons_of
from vtax.report.document import factors, first_of, joined, msg, muted, scale_for, term
from vtax.report.document.terms import unit_of
from vtax.report.parts.sentences import leaning_of, least_difference
from vtax.stats.assumptions import unmet_share
from vtax.stats.host_change import Effect
from vtax.stats.intervals import Interval
from vtax.stats.ratio import Loss, Ratio
from vtax.stats.terms import MINIMUM_BLOCKS, has_words, is_time
from vtax.stats.verdict import Verdict
from vtax.store.records import PlatformRecord
from vtax.units import safe_bound

_MIN_SHOWN = 0.01
_NO_USE = (
    1.0  # a loss, from which its bound says too little, and the times of the estimate say more
)
_MOST_NAMED = 8  # in a sentence
_BYTES = re.compile(r"(^|[._])(size|buffer|length)$|_(size|buffer|length)$")  # factors
_FLAGS = re.compile(r"; -[^()]*(?=\))")  # of a compiler: `(gcc 14.2.0; -O2 -pthread)`
PLATFORM = doc.Column("platform", msg("platform"))


def platform_of(
    record: PlatformRecord, numbers: Mapping[str, int] | None = None
) -> doc.PlatformCell:
    """Return a platform with its marks."""
    return doc.PlatformCell(record.name, record.marks, (numbers or {}).get(record.name, -1))


def resource(name: str) -> doc.Inline:
    """Return a resource in the reader's language."""
    return {
        "cpu": msg("cpu"),
        "memory": msg("memory"),
        "disk": msg("disk"),
        "network": msg("network"),
        "kernel": msg("kernel"),
        "start": msg("start"),
        "application": msg("application"),
        "guest-memory": msg("memory of a guest"),
        "guest-start": msg("start of a guest"),
        "host-cpu": msg("CPU time of the host"),
        "energy": msg("energy"),
    }[name]


def verdict_of(
    verdict: Verdict, ratio: Ratio | None, section: Section, *, is_compact: bool = False
) -> doc.VerdictCell:
    """Return the word, and the range of blocks that it still needs where that is known.

    What differs or is not decided is told by the bound of its loss, see `bound_of`, unless blocks are too few for a
    verdict or one is withheld. ratio: that is judged.
    """
    block_counts = verdict.blocks_needed or 0, verdict.blocks_needed_low or 0
    is_open = verdict.kind == "undecided"
    bound: doc.Inline = ""
    leaning = leaning_of(verdict, ratio, section) if ratio is not None else ""
    if ratio is not None and ratio.n_blocks >= MINIMUM_BLOCKS and not reasons_of(verdict):
        bound = bound_of(verdict.kind, ratio.loss(section.better), section, is_compact=is_compact)
    blocks = block_counts if is_open else (0, 0)
    return doc.VerdictCell(verdict.kind, *blocks, verdict.margin, bound, leaning)


def bound_of(kind: str, loss: Loss, section: Section, *, is_compact: bool = False) -> doc.Inline:
    """Return `at least 1.4 % slower` or `at most 7.4 % slower`: the end of the interval of a comparison.

    Empty where the word says as much, and where the bound is of no use: beyond a factor of two.

    kind: of its verdict.
    is_compact: whether it reads `≥ 1.4 % slower`.
    """
    is_cost = section.metric.role == "cost"
    direction = msg("more") if is_cost else msg("slower")
    if kind in ("faster", "costs-less"):
        direction = msg("less") if is_cost else msg("faster")
    is_least = kind in ("slower", "costs-more", "faster", "costs-less")
    share = least_difference("costs-less" if is_cost and kind == "faster" else kind, loss)
    if kind == "undecided" and loss.at_most is not None and loss.at_most > -1:
        share = max(loss.at_most, 0.0)
    elif share is None or not is_least:
        return ""
    if share >= _NO_USE or (is_least and share <= 0):
        return ""
    if share == 0:
        return msg("not more") if is_cost else msg("not slower")
    bound_cell = doc.Share(safe_bound(share, is_most=not is_least))
    if is_compact:
        sign = "≥" if is_least else "≤"
        return joined([joined([sign, bound_cell], "\N{NO-BREAK SPACE}"), direction], " ")
    if is_least:
        return msg("at least {share} {direction}", share=bound_cell, direction=direction)
    return msg("at most {share} {direction}", share=bound_cell, direction=direction)


def no_verdict(section: Section) -> doc.Inline:
    """Return the verdict of a ratio that is not judged; nothing where no ratio of its metric is."""
    return muted(msg("no verdict")) if has_words(section.metric.role) else ""


def as_far_as_shown(word: doc.Inline, blocks: Iterable[int]) -> Iterator[doc.Inline]:
    """Yield what no blocks can exclude of a word that says something is absent. blocks: of each such word."""
    for fewest in sorted(blocks)[:1]:
        yield msg(
            "{word}: {blocks} blocks can miss a slow phase that occurs in up to {share} of blocks",
            word=word,
            blocks=doc.Count(fewest),
            share=doc.Share(unmet_share(fewest), "whole"),
        )


def absence_as_far_as_shown(
    ratios_and_verdicts: Iterable[tuple[Ratio | None, Verdict | None]],
) -> Iterator[doc.Inline]:
    """Yield the same of the comparisons that are equivalent, and of those that cost at most the margin."""
    blocks: dict[str, list[int]] = {"equivalent": [], "at-most": []}
    for ratio, verdict in ratios_and_verdicts:
        if ratio and verdict and verdict.kind in blocks:
            blocks[verdict.kind].append(ratio.n_blocks)
    yield from as_far_as_shown(msg("equivalent"), blocks["equivalent"])
    yield from as_far_as_shown(msg("costs at most the margin"), blocks["at-most"])


def few_of(names: Sequence[str]) -> doc.Inline:
    """Return names for a sentence, the first few and how many more."""
    return joined(first_of(names, _MOST_NAMED))


def relative_of(
    ratio: Ratio | Effect, section: Section, baseline: str | doc.Message = ""
) -> doc.Relative:
    """Return a ratio as a share of the baseline: of a speed its performance, of all else how much of it there is.

    A time is told by how much longer it is. section: of its metric. baseline: to be named.
    """
    efficiency = ratio.efficiency(section.share_better)
    is_of: Literal["performance", "amount", "time", "value"] = "amount"
    if is_inverse(section):
        is_of = "time" if is_time(section.metric.unit.partition("/")[0]) else "value"
    elif section.metric.role == "speed":
        is_of = "performance"
    return doc.Relative(
        efficiency.estimate, efficiency.low, efficiency.high, is_of, baseline=baseline
    )


def is_inverse(section: Section) -> bool:
    """Whether a section's ratios are told by how much more or less there is, not as a share of performance."""
    return section.metric.role == "speed" and section.better == "lower"


def share_of(value: float, low: float | None, high: float | None) -> doc.Relative:
    """Return an efficiency as a share of the baseline; without bounds it has no interval."""
    return doc.Relative(value) if low is None or high is None else doc.Relative(value, low, high)


def amount_of(share: Interval | Ratio) -> doc.Relative:
    """Return what one side is of another, of any quantity, with its interval."""
    return doc.Relative(share.estimate, share.low, share.high, "amount")


def predicted_of(ratio: Ratio, section: Section) -> doc.Inline:
    """Return the interval of one more session as a share of the baseline, see `relative_of`; nothing without one."""
    predicted = ratio if section.share_better == "higher" else ratio.inverse
    if predicted.predicted_low is None or predicted.predicted_high is None:
        return doc.Nothing()
    share = relative_of(ratio, section)
    return replace(
        share, low=predicted.predicted_low, high=predicted.predicted_high, shows="interval"
    )


def percent_title(baseline: doc.Inline, interval: doc.Inline) -> doc.Inline:
    """Return the head of a column of shares of a baseline with their intervals."""
    return msg("percent of {baseline}\n[{interval}]", baseline=baseline, interval=interval)


def title_of(section: Section) -> doc.Inline:
    """`stream · triad`."""
    return joined([section.label, metric_of(section)], " · ")


def own_margin(section: Section, analysis: Analysis) -> doc.Inline:
    """Return `(±5 %)` of a benchmark whose margin is not that of the design."""
    if section.margin in (0.0, analysis.margin):
        return ""
    return joined(["(±", doc.Share(section.margin, "declared"), ")"], "")


def name_of(section: Section, sections: Iterable[Section]) -> str:
    """Return `stream`, or `redis get` where several metrics of a benchmark are among those shown."""
    names = {candidate.name for candidate in sections if candidate.label == section.label}
    return section.name if len(names) > 1 else section.label


def metric_of(section: Section) -> doc.Inline:
    """Return what a section's metric is called."""
    if is_host_cpu(section):
        return msg("host CPU per {unit}", unit=unit_of_work(section))
    return term(section.metric.title or section.metric.name)


def subtitle_of(section: Section) -> doc.Inline:
    """Return which way is better, where its metric is judged, and the tool."""
    direction = direction_of(section) if has_words(section.metric.role) else ""
    return joined([direction, tool_of(section)], ", ")


def tool_of(section: Section) -> str:
    """Return `iperf3 3.18`, `sysbench 1.0.20`, without flags of a compiler; after the benchmark where no title names
    it."""
    if not section.tool_version:
        return ""
    name, _, version_text = section.tool_version.partition(" ")
    is_doubled = bool(name and version_text) and section.tool.lower().startswith(
        name.lower()
    )  # python3: Python 3.13.5
    version = _FLAGS.sub("", version_text if is_doubled else section.tool_version)
    if section.tool in ("", section.benchmark):
        return f"{section.benchmark} {version}"
    tool = f"{section.tool} {version}"
    return tool if section.label == section.benchmark else f"{section.benchmark} ({tool})"


def direction_of(section: Section) -> doc.Message:
    """Return which way is better."""
    return msg("higher is better") if section.better == "higher" else msg("lower is better")


def levels(point: ResultPoint) -> doc.Inline:
    """Return the levels of a point; nothing when nothing varies."""
    return factors(point.levels)


def scale_of(section: Section) -> doc.Scale:
    """Return the unit that a section's tables and figures share."""
    return scale_for(section.metric.unit, [row.summary.mean for row in section.rows if row.summary])


def scales_of(section: Section) -> tuple[doc.Scale, ...]:
    """Return the unit of each point: that of the section, or its own where one would read below 0.01 in that."""
    common_scale = scale_of(section)
    means = [[r.summary.mean for r in point.rows if r.summary] for point in section.points]
    largest = [
        max(map(abs, section_means), default=0.0) / common_scale.divisor for section_means in means
    ]
    if all(value == 0 or value >= _MIN_SHOWN for value in largest):
        return (common_scale,) * len(means)
    return tuple(scale_for(section.metric.unit, section_means) for section_means in means)


def scaled_groups(
    section: Section,
    cells_of: Callable[[Row, doc.Scale], Sequence[doc.Inline] | None],
    numbers: Mapping[str, int] | None = None,
) -> tuple[doc.Group, ...]:
    """As groups of all points, with the unit beside the name of each point where units differ."""
    scales = scales_of(section)
    scaled: list[doc.Group] = []
    for point, scale in zip(section.points, scales, strict=True):
        for group in groups((point,), lambda row, scale=scale: cells_of(row, scale), numbers):  # type: ignore[misc]
            unit = unit_of(scale.unit) if len(set(scales)) > 1 else ""
            scaled.append(replace(group, title=joined([group.title, unit], ", ")))
    return tuple(scaled)


def mean_cells(row: Row, scale: doc.Scale) -> tuple[doc.Inline, doc.Inline]:
    """Return the mean of a row and the half-width of its interval; two empty cells without values."""
    if row.summary is None:
        return "", ""
    half_width = (row.summary.high - row.summary.low) / 2
    mean = doc.Mean(row.summary.mean, half_width, scale, step=row.step)
    return mean, muted(replace(mean, shows="half-width"))


def by_point(
    rows: Iterable[tuple[ResultPoint, PlatformRecord, Sequence[doc.Inline]]],
) -> tuple[doc.Group, ...]:
    """Return a row for each platform and its cells, below the name of their point."""
    points: dict[str, tuple[doc.Inline, list[doc.TableRow]]] = {}
    for point, platform, cells in rows:
        _, of_point = points.setdefault(point.key, (levels(point), []))
        of_point.append(doc.TableRow((platform_of(platform), *cells)))
    return tuple(doc.Group(tuple(of_point), name) for name, of_point in points.values())


def groups(
    points: Iterable[ResultPoint],
    cells_of: Callable[[Row], Sequence[doc.Inline] | None],
    numbers: Mapping[str, int] | None = None,
) -> tuple[doc.Group, ...]:
    """Return a row for each for which there is something, below the name of its point where there are several."""
    groups_of_rows = []
    for point in points:
        rows = []
        for row in point.rows:
            cells = cells_of(row)
            if cells is not None:
                name = platform_of(row.platform, numbers)
                role: Literal["", "baseline"] = "baseline" if row.platform.is_baseline else ""
                rows.append(doc.TableRow((name, *cells), role))
        if rows or point.levels:
            groups_of_rows.append(doc.Group(tuple(rows), levels(point)))
    return tuple(groups_of_rows)


def named(section: Section) -> dict[str, str]:
    """Return what entries for programs begin with."""
    return {"label": section.label, "benchmark": section.benchmark, "metric": section.metric.name}


def of_blocks(document: doc.Document, analysis: Analysis) -> doc.Document:
    """Return a document whose figures are of blocks alone, with a sentence about it for a run of several sessions."""
    if len(analysis.sessions) < 2 or document.nothing != "":
        return document
    text = msg(
        "These figures are of blocks, as if sessions did not differ: they look surer than they are."
    )
    return replace(document, parts=(*document.parts, doc.Paragraph(text, "caution")))


def warnings_part(warnings: Sequence[doc.Warning], *, shows_code: bool = False) -> list[doc.Titled]:
    """Return a section of warnings; none without any."""
    if not warnings:
        return []
    return [doc.Titled(msg("Warnings"), (doc.Warnings(tuple(warnings), shows_code),))]


def factor_words(factor: str) -> str:
    """Return a factor as words: `link.mtu` is `mtu`, `socket_buffer` is `socket buffer`."""
    return factor.removeprefix(LINK).replace("_", " ")


def level_label(factor: str, level: str) -> doc.Inline:
    """Return a level as figures label it: sizes as `64 KiB`."""
    number = number_of(level)
    return doc.Size(number) if number is not None and _BYTES.search(factor) else level
