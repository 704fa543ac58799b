"""What was done, in sentences for the report, with the run's own numbers in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from vtax.report.analysis import Analysis, Row, Section
from vtax.report.numbers import plain_percent
from vtax.study.units import format_count, format_duration

_ORDER_SHOWN = 10  # blocks
_BROUGHT = ("ssh", "libvirt")
"""Drivers of machines that are not made from the image."""


def method(analysis: Analysis) -> Iterator[str]:
    """How the run was made and how its figures were computed, a paragraph each."""
    design = analysis.declared.get("design", {})
    rule = analysis.rule
    in_a_row = design.get("order", "randomized") == "sequential"
    order = "the order of the study" if in_a_row else "seeded random order"
    warm, trials = design.get("warmup", 0), design.get("trials", 1)
    yield (
        f"The run is made of {format_count(analysis.blocks, 'block')}. A complete block runs every cell "
        f"once in {order}, each platform in a freshly started guest{_equal_text(analysis)}. "
        + ("All blocks of one platform ran before those of the next. " if in_a_row else "")
        + f"A cell has {format_count(trials, 'measured trial')} in a block"
        + _warmup_text(warm)
    )
    if order_of(analysis):
        yield _order_text(analysis)
    yield _rule_text(analysis)
    yield (
        "The block is the unit of replication. Trials are averaged within a block; the mean and its interval "
        "(Student's t) are those of the blocks' averages. SD and CV are of all trials. The median is that of "
        "the blocks' medians, its interval lies between two of them and says what it covers. Outliers (modified z "
        "above 3.5) are flagged and never removed."
    )
    bootstrap = (
        " Beside it, and beside means, stands the BCa bootstrap interval, which no verdict uses."
        if _has_bootstrap(analysis)
        else ""
    )
    yield (
        f"Ratios to {analysis.baseline} are formed within a block, so that what both share in a block (the hour, the "
        f"heat, the neighbours) cancels; their geometric mean is shown with a Student's t-interval on the log-ratios."
        + bootstrap
    )
    yield (
        f"A verdict needs significance and size: slower or faster, when a ratio of 1 is rejected and the estimate "
        f"lies outside ±{plain_percent(rule.margin)}; equivalent, when two one-sided tests (TOST) place the ratio "
        f"inside ±{plain_percent(rule.margin)}; else undecided. Both kinds of p-values are adjusted by Holm's method "
        f"over the comparisons of one table, so that the chance of any false word of a kind in a table is at most "
        f"{plain_percent(rule.alpha)}."
    )


def order_of(analysis: Analysis) -> list[tuple[int, tuple[str, ...]]]:
    """Blocks (from 0) in the order they ran, each with its platforms in the order of their guests."""
    blocks = groupby((guest for guest in analysis.guests if guest.block >= 0), key=lambda guest: guest.block)
    return [(block, tuple(dict.fromkeys(guest.platform for guest in guests))) for block, guests in blocks]


def notes_under(section: Section, analysis: Analysis) -> Iterator[str]:
    """What a reader of a table would stumble over, where it has that; of ratios under the first table only."""
    if any(_is_undecided_by_correction(row) for point in section.points for row in point.rows):
        yield (
            f"undecided beside an interval without 1: the interval is of one comparison alone, the verdict is "
            f"corrected for {section.family}"
        )
    if section is next((each for each in analysis.primary if each.family), None):
        yield "ratios are geometric means of the ratios within blocks, not ratios of the two means"


def _is_undecided_by_correction(row: Row) -> bool:
    if row.ratio is None or row.verdict is None or row.verdict.kind != "undecided":
        return False
    has_no_one = row.ratio.low > 1 or row.ratio.high < 1
    return has_no_one and row.verdict.family > 1 and row.verdict.p_difference > row.verdict.alpha


def _equal_text(analysis: Analysis) -> str:
    """What was the same for all guests; of machines that were the user's, nothing is."""
    brought = [p.name for p in analysis.platforms if p.available and p.identity.get("driver") in _BROUGHT]
    pinned = "" if analysis.declared.get("tuning") else ", on the same pinned CPUs"
    equal = f" from the same image{pinned} and with the same limits"
    if not brought:
        return equal
    return f"{equal}; {', '.join(brought)}: with files, CPUs and limits of its own, which the audit tells"


def _order_text(analysis: Analysis) -> str:
    told = [f"{block + 1}: {', '.join(platforms)}" for block, platforms in order_of(analysis)]
    more = (
        f"; and {len(told) - _ORDER_SHOWN} more, by the positions in the CSV file" if len(told) > _ORDER_SHOWN else ""
    )
    first = "; ".join(told[:_ORDER_SHOWN])
    return f"Guests started in this order (seed {analysis.seed}), block by block: {first}{more}."


def _rule_text(analysis: Analysis) -> str:
    rule = analysis.rule
    texts = {
        "fixed": f"The number of blocks ({rule.blocks}) was declared before the run.",
        "precision": (
            f"Declared before the run: stop when every ratio's interval is within ±{plain_percent(rule.precision)}, "
            f"after {rule.min_blocks} to {rule.max_blocks} blocks, judged on whole blocks; intervals are widened for "
            "having looked more than once."
        ),
        "verdict": (
            f"Declared before the run: stop when every comparison has its verdict, after {rule.looks[0]} to "
            f"{rule.looks[1]} blocks, with group-sequential boundaries for having looked more than once."
        ),
        "budget": "Declared before the run: as many whole blocks as fit into the time budget"
        + (
            f"; after {rule.min_blocks} of them, blocks held the half of the comparisons with the widest intervals, "
            "and intervals are widened for that choice."
            if rule.spend == "widest"
            else "."
        ),
    }
    budget = f" The time budget is {format_duration(rule.budget_s)}." if rule.budget_s else ""
    because = f" It ended because: {analysis.stopped_because}." if analysis.stopped_because else ""
    return texts[rule.stop] + budget + because


def _has_bootstrap(analysis: Analysis) -> bool:
    return any(
        row.ratio is not None and row.ratio.bootstrap_low is not None
        for section in analysis.sections
        for point in section.points
        for row in point.rows
    )


def _warmup_text(warmup: int | str) -> str:
    if warmup == "detect":
        return " after a warm-up whose length was found by change point in a first guest; it is stored and not used."
    return f" after {format_count(int(warmup), 'warm-up trial')}, which are stored and not used." if warmup else "."
