"""Cautions of the cells of a claim that leave it open: its host was not the same throughout, or not its own.

Blocks take a steady load out of ratios, not one that comes and goes between two guests of a block. What a run warns of
anyway is small; beyond these bounds no word about a publication stands on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.compared import Cell
from vtax.report.analysis.values import Analysis
from vtax.report.document import levels_of
from vtax.stats.checks import StatsError
from vtax.stats.steadiness import find_drift

DRIFT = 0.2
"""Relative change of a cell over the run."""
SHARE_OF_TRIALS = 0.2
"""The share of the trials of a run, beyond which its host counts as busy."""
OTHERS_CPUS, STEAL = 0.5, 0.1
"""CPUs that other programs used during a trial, and the share of CPU time that an outer host took away."""


def cautions(analysis: Analysis, cells: Iterable[Cell]) -> tuple[Note, ...]:
    """Return why no word stands on these cells; empty where one does."""
    objections = [*_drifts(analysis, cells)]
    objections += _often(analysis, "host-busy", "cpus", OTHERS_CPUS, "claim-busy")
    objections += _often(analysis, "host-steal", "share", STEAL, "claim-steal")
    return tuple(objections)


def _drifts(analysis: Analysis, cells: Iterable[Cell]) -> Iterator[Note]:
    """Yield the largest drift of cells of which the run warns, if it is beyond the bound."""
    warned_places: set[doc.WarnedPlace] = set()
    for warning in analysis.warnings:
        if warning.code.startswith("drift"):
            warned_places.update(warning.places)
    changes: list[tuple[float, str]] = []
    for cell in cells:
        row = cell.row
        levels = levels_of(row.cell.levels)
        if doc.WarnedPlace(row.platform.name, cell.section.name, levels) not in warned_places:
            continue
        try:
            drift = find_drift(row.block_means, row.blocks, analysis.confidence)
        except StatsError:
            continue
        changes.append((drift.change, row.platform.name))
    change, platform = max(changes, key=lambda pair: abs(pair[0]), default=(0.0, ""))
    if abs(change) > DRIFT:
        yield Note("claim-drift", change=change, platform=platform)


def _often(analysis: Analysis, code: str, name: str, bound: float, caution: str) -> Sequence[Note]:
    """Return the caution where a warning was given beyond a bound in too many trials.

    code: of the warning. name: of its number. caution: code of the note.
    """
    times = 0
    for warning in analysis.warnings:
        if warning.code != code:
            continue
        for part in warning.given:
            value = part.data.get(name)
            if isinstance(value, doc.Number | doc.Share) and value.value > bound:
                times += part.times
    if times <= SHARE_OF_TRIALS * analysis.trials:
        return ()
    return (Note(caution, share=times / analysis.trials, bound=bound),)
