"""What a reader should know beside the word of a claim, and no part of it that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vtax.report.analysis.values import Analysis
from vtax.report.document import Count, Inline, Number, msg, plural

if TYPE_CHECKING:
    from vtax.report.analysis.claims import ClaimedComparison

PACKETS_APART = 1.25
"""Ratio of two mean sizes of packets from which a claim says so."""


def notes_of(analysis: Analysis, compared: Sequence[ClaimedComparison]) -> Iterator[Inline]:
    """Blocks that are left out, equality that is the link's, and files that a cache held on one side alone."""
    if lacking := max((each.left_out for each in compared), default=0):
        total = Count(sum(len(session.blocks) for session in analysis.sessions))
        yield plural(
            "{count} block of {total} is left out: not every value of a comparison is there",
            "{count} blocks of {total} are left out: not every value of a comparison is there", lacking, total=total,
        )  # fmt: skip
    if full := sum(each.fills_link for each in compared):
        yield plural(
            "both sides of {count} comparison fill their link: equality may be the link's",
            "both sides of {count} comparisons fill their link: equality may be the link's", full,
        )  # fmt: skip
    if (apart := max((each.packets_apart for each in compared), default=1.0)) > PACKETS_APART:
        yield msg(
            "packets of one side are up to {factor} times as large as those of the other: part of the ratio is "
            "their number",
            factor=Number(apart, 2),
        )
    if any(each.is_held_below for each in compared):
        yield msg("on one side the page cache of the host, below the disk of the guest, held the files")


def not_carried(analysis: Analysis, compared: Sequence[ClaimedComparison]) -> Iterator[Inline]:
    """Yield which platforms could not carry every point: a part of the claim that is missing."""
    untested = {each.platform for each in analysis.untested} & {each.of.platform for each in compared}
    if untested:
        yield msg("{platforms} could not carry every point", platforms=", ".join(sorted(untested)))
