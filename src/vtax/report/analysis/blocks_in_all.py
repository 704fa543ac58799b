"""How many blocks the noisiest of some undecided comparisons takes, in words."""

from __future__ import annotations

from vtax.report.analysis.values import Analysis, Row
from vtax.report.document import Count, Duration, Inline, Number, Range, Share, joined, msg
from vtax.stats.outlook import Needed

_ROUNDED = 100  # blocks, from which two digits are all that is known


def blocks_in_all(name: Inline, rows: tuple[Row, ...], noise: float, found: Needed, analysis: Analysis) -> Inline:
    """`noise of dd ...: if equal 90 to 640 blocks in all, to show 5 % 20 to 98, of 34 s each`.

    rows: both sides. noise: standard deviation of the log-ratio from block to block.
    """
    noises = joined([joined([row.platform.name, Share(_block_noise(row))], " ") for row in rows], ", ")
    text = msg(
        "noise of {name} from block to block ({noises}; of the ratio {noise}): if equal {equal} blocks in all, to "
        "show {size} {different}",
        name=name, noises=noises, noise=Share(noise), size=Share(found.size, "declared"),
        equal=_range(found.equal), different=_range(found.different),
    )  # fmt: skip
    if not (analysis.duration_s and analysis.blocks):
        return text
    return msg("{text}, of {duration} each", text=text, duration=Duration(analysis.duration_s / analysis.blocks))


def _range(blocks: tuple[int, int | None]) -> Inline:
    low, high = blocks
    if high is None:
        return msg("{low} or many more", low=_count(low))
    return _count(low) if low == high else Range(_count(low), _count(high))


def _count(blocks: int) -> Inline:
    return Count(blocks) if blocks < _ROUNDED else Number(blocks, 2)


def _block_noise(row: Row) -> float:
    """Coefficient of variation of the block means."""
    return float(row.block_means.std(ddof=1) / abs(row.block_means.mean()))
