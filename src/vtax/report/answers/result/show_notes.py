"""Notes and further statistics below the table of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.analysis.next_step import withheld
from vtax.report.document import joined, listed, msg, range_of
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.stats.margin import holds_interval
from vtax.stats.rules import Rule


def notes_under(section: Section, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what a reader of a table would stumble over, where it has that; of ratios under the first table only."""
    yield from shared.absence_as_far_as_shown((row.ratio, row.verdict) for row in section.rows)
    if any(_is_undecided_by_correction(row) for row in section.rows):
        yield msg(
            "an interval may exclude 100 % and still be undecided: the verdict allows for {family} comparisons",
            family=doc.Count(section.family),
        )
    yield from _withheld(section, analysis)
    yield from _out_of_reach(section, analysis)
    judged_sections = [section for section in analysis.primary if section.family]
    if section is next(iter(judged_sections), None):
        yield msg("percents are geometric means of the ratios within blocks, not of the two means")
        if analysis.declared.get("design", {}).get("trials", 1) != 1:
            yield msg("a block has several trials: its ratio is that of the averages of its trials")
        yield from _widened(judged_sections, analysis)


def _withheld(section: Section, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield why a verdict is not given that the interval seems to support."""
    of_reason: dict[Note, list[doc.PlatformCell]] = {}
    for row in section.rows:
        if row.ratio is not None and holds_interval(row.ratio.low, row.ratio.high, section.margin):
            for reason in withheld(row):
                of_reason.setdefault(reason, []).append(shared.platform_of(row.platform))
    for reason, platforms in of_reason.items():
        yield msg(
            "undecided although the interval lies inside the margin: {platforms}: {reason}",
            platforms=listed(dict.fromkeys(platforms)),
            reason=reason,
        )


def _out_of_reach(section: Section, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield the time that comparisons need which were left out because the time left would hardly decide them."""
    rule = analysis.rule
    if not (rule.budget_s and rule.allows_for_looks and analysis.blocks and analysis.duration_s):
        return
    block_s = analysis.duration_s / analysis.blocks
    times = []
    for row in section.rows:
        verdict = row.verdict
        if verdict is None or verdict.is_settled or not row.settled or withheld(row):
            continue
        platform = shared.platform_of(row.platform)
        further_blocks = _blocks_needed(row)
        if further_blocks is None:
            times.append(msg("{platform} not known", platform=platform))
        else:
            duration = doc.Duration(further_blocks * block_s)
            times.append(msg("{platform} about {duration}", platform=platform, duration=duration))
    if times:
        yield msg(
            "not measured further, because the time left would hardly decide it; time needed at this run's pace: "
            "{times}",
            times=listed(times),
        )


def _blocks_needed(row: Row) -> int | None:
    """Return the fewest further blocks that are likely to decide a row; None where they are not known."""
    if row.verdict is None or row.ratio is None:
        return None
    if row.verdict.blocks_needed is not None:
        return row.verdict.blocks_needed
    needed = row.verdict.needed
    if needed is None:
        return None
    return max(1, min(needed.equal[0], needed.different[0]) - row.ratio.n_blocks)


def _widened(judged_sections: Sequence[Section], analysis: Analysis) -> Iterator[doc.Inline]:
    """At which level intervals are computed under a rule that looks at figures to decide what it measures."""
    rows = (row for *_, row in every_row(judged_sections))
    levels = {
        _level(analysis.rule, row, row.ratio.n_blocks) for row in rows if row.ratio is not None
    }
    if levels and max(levels) > analysis.rule.confidence:
        low, high = (doc.Share(round(level, 3), "declared") for level in (min(levels), max(levels)))
        yield msg(
            "intervals are computed at {level} so that they hold at {confidence}: the rule {rule} looks "
            "at figures to decide what else to measure",
            level=range_of(low, high),
            confidence=analysis.level,
            rule=analysis.rule.name,
        )


def _level(rule: Rule, row: Row, blocks: int) -> float:
    """Return the level of a row's interval: that of the last look where the row stands in the last block."""
    last_block = int(row.blocks[-1]) if row.blocks.size else -1
    return rule.of_blocks(blocks, last_block).interval_confidence(blocks)


def _is_undecided_by_correction(row: Row) -> bool:
    if row.ratio is None or row.verdict is None or row.verdict.kind != "undecided":
        return False
    has_no_one = row.ratio.low > 1 or row.ratio.high < 1
    return has_no_one and row.verdict.family > 1 and row.verdict.p_difference > row.verdict.alpha


def further_statistics(section: Section, analysis: Analysis) -> doc.Table:
    """Return what the table of the result leaves out of its cells; all in the mean's unit."""
    scales = set(shared.scales_of(section))
    unit = unit_of(scales.pop().unit) if len(scales) == 1 else ""
    labels = {"SD": "sd", "min": "min", "median": "median", "max": "max"}
    titles = {"SD": msg("SD"), "min": msg("min"), "median": msg("median"), "max": msg("max")}
    columns = [
        shared.PLATFORM,
        *(
            doc.Column(key, joined([titles[title], unit], ",\n"), is_number=True)
            for title, key in labels.items()
        ),
        doc.Column("median_interval", msg("median interval,\nconfidence level"), of="median"),
    ]

    def cells(row: Row, scale: doc.Scale) -> Sequence[doc.Inline] | None:
        if row.summary is None:
            return None
        s = row.summary
        quantities = [
            doc.Quantity(statistic, scale) for statistic in (s.sd, s.minimum, s.median, s.maximum)
        ]
        return [*quantities, _median_interval(row, scale)]

    label = msg("further statistics of {name}", name=section.name)
    return doc.Table(
        tuple(columns),
        shared.scaled_groups(section, cells, analysis.colours),
        key=f"{section.name} figures",
        label=label,
    )


def _median_interval(row: Row, scale: doc.Scale) -> doc.Inline:
    s = row.summary
    if (
        s is None
        or s.blocks < 2
        or not (math.isfinite(s.median_low) and math.isfinite(s.median_high))
    ):
        return ""
    return joined(
        [
            doc.IntervalCell(s.median_low, s.median_high, "quantity", scale),
            doc.Share(s.median_confidence),
        ],
        " ",
    )
