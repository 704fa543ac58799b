"""Any cells against any: platform against platform, level against level, run against run.

A side is written `[RUN:]PLATFORM[@factor=level,...]`, or RUN alone for all cells of a run. Within one run the two
sides are paired by block; across runs, which share no blocks, they are compared as two samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vtax.errors import BadInput
from vtax.report.analysis.lookup import Levels, neither, unknown
from vtax.report.analysis.result import analyse
from vtax.report.analysis.run_differences import differences, setting_differences
from vtax.report.analysis.values import Analysis, Row, Section, lending_group
from vtax.report.document import Inline, joined
from vtax.stats.analysis import Comparison, Contrast
from vtax.stats.analysis import analyse as judge
from vtax.stats.checks import StatsError, check_positive
from vtax.stats.contrasts import unpaired_ratio
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, block_contrast, noise_ratio
from vtax.stats.stopping import interval_confidence
from vtax.stats.verdict import Verdict, judge_unordered
from vtax.store.records import CellRecord
from vtax.store.store import LAST, Store
from vtax.study.units import format_levels


@dataclass(frozen=True)
class Side:
    """One side: a platform of a run, at some levels. text: as it was written. platform: empty for a whole run."""

    text: str
    analysis: Analysis
    platform: str
    levels: Mapping[str, str]

    @property
    def is_run(self) -> bool:
        """Whether the side is a whole run."""
        return not self.platform


@dataclass(frozen=True)
class Compared:
    """One metric of one pair of cells. ratio: left / right; None when there is no answer, reason then says why."""

    section: Section
    levels: Mapping[str, Any]
    left: Row
    right: Row
    ratio: Ratio | None = None
    verdict: Verdict | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """`direction=send`: what the two sides have in common."""
        return format_levels(self.levels)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of ratio and verdict, each text once."""
        found = [text for part in (self.ratio, self.verdict) if part is not None for text in part.warnings]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Mismatch:
    """Two cells of whole runs, of one label and the same levels, whose settings differ. reasons: how."""

    left: CellRecord
    right: CellRecord
    reasons: tuple[Inline, ...]


@dataclass(frozen=True)
class Contrasts:
    """All contrasts of two sides. warnings: about the runs. unmatched: cells of whole runs that one run alone has.
    mismatched: cells that both have with other settings, which are not compared.

    margin, confidence: of the run; of two runs the smaller margin and the larger confidence.
    """

    left: Side
    right: Side
    is_paired: bool
    margin: float
    confidence: float
    compared: tuple[Compared, ...]
    warnings: tuple[Inline, ...] = ()
    unmatched: tuple[tuple[CellRecord, ...], tuple[CellRecord, ...]] = ((), ())
    mismatched: tuple[Mismatch, ...] = ()

    @property
    def family(self) -> int:
        """How many contrasts the verdicts are corrected for."""
        return sum(each.ratio is not None for each in self.compared)

    def why_nothing(self) -> Inline:
        """Why there is no ratio at all: what each side lacks, or else what stands between them."""
        if not self.compared:
            reasons = {repr(reason): reason for each in self.mismatched for reason in each.reasons}
            return joined(list(reasons.values()), "; ")
        lacks = [
            f"{side.text}: {row.reason or 'no values'}"
            for each in self.compared
            for side, row in ((self.left, each.left), (self.right, each.right))
            if row.summary is None
        ]
        return "; ".join(dict.fromkeys(lacks or [each.reason for each in self.compared]))


def contrast(
    store: Store, left: str, right: str, *, metric: str = "", label: str = "", run: Analysis | None = None
) -> Contrasts:
    """Every contrast of two sides: all primary metrics they share, or the metric and benchmark label named.

    run: of a side that names none; the last one by default. Raises BadInput, with near names, for what does not
    exist, and when the sides have nothing in common.
    """
    runs = {run.name: run} if run else {}
    name = run.name if run else LAST
    sides = side_of(store, left, runs, name), side_of(store, right, runs, name)
    _check_alike(sides)
    _check_names(sides, metric, label)
    pairs = list(_pairs(sides[0], sides[1], metric, label))
    if not pairs:
        raise BadInput(
            f"{left} and {right} have nothing in common that was measured",
            hint="name runs with the same benchmarks and levels, or a metric with --metric",
        )
    pairs, mismatched = _split(pairs) if sides[0].is_run else (pairs, ())
    if pairs and all(pair.left is pair.right for pair in pairs):
        raise BadInput(f"{left} and {right} are the same cells", hint="vary the platform, a level, or the run")
    is_paired = sides[0].analysis.name == sides[1].analysis.name
    rules = [side.analysis.rule for side in sides]
    margin, confidence = min(rule.margin for rule in rules), max(rule.confidence for rule in rules)
    judged = _paired(pairs, sides[1]) if is_paired else _unpaired(pairs, sides, margin, confidence)
    if is_paired:
        return Contrasts(sides[0], sides[1], is_paired, margin, confidence, tuple(judged))
    unmatched = (
        _unmatched(sides[0], [*(p.left.cell for p in pairs), *(m.left for m in mismatched)], metric, label),
        _unmatched(sides[1], [*(p.right.cell for p in pairs), *(m.right for m in mismatched)], metric, label),
    )
    return Contrasts(
        sides[0], sides[1], is_paired, margin, confidence, tuple(judged), tuple(_differences(sides, pairs)),
        unmatched, mismatched,
    )  # fmt: skip


def run_of(store: Store, text: str, run_name: str = LAST) -> tuple[str, str]:
    """(name of the run, what follows it) of a side's text. run_name: where it names no run.

    Nothing follows a whole run. The name of a run is the whole of it, unless `run_name` has such a platform.
    """
    head, colon, rest = text.partition(":")
    names = {run.name for run in store.runs()} | {LAST}
    if head in names and (colon or text not in [p.name for p in store.open_run(run_name).platforms]):
        return store.open_run(head).name, rest
    return store.open_run(run_name).name, text


def side_of(store: Store, text: str, runs: dict[str, Analysis] | None = None, run_name: str = LAST) -> Side:
    """A side from its text. runs: analyses that were made already, by run name; added to. run_name: see run_of.

    What stands before the first colon is a run, unless the whole is a platform of that run (`ssh:server`).
    """
    known = {} if runs is None else runs
    name, chosen = run_of(store, text, run_name)
    head, colon, _ = chosen.partition(":")
    if name not in known:
        known[name] = analyse(store, name)
    analysis = known[name]
    if not chosen:
        return Side(text, analysis, "", {})
    platforms = [p.name for p in analysis.platforms]
    platform = max(
        (p for p in platforms if chosen == p or chosen.startswith(f"{p}@")), key=len, default=chosen.partition("@")[0]
    )
    if platform not in platforms:
        if colon and chosen == text and not any(p.partition(":")[0] == head for p in platforms):
            store.open_run(head)  # raises, with the nearest names
        if chosen == text == platform:
            raise neither(text, platforms, [run.name for run in store.runs()])
        raise unknown("platform", platform, platforms, text, analysis.name)
    record = next(p for p in analysis.platforms if p.name == platform)
    if not record.available:
        raise BadInput(f"{analysis.name} could not test {platform}: {record.reason}", where=text, hint=record.hint)
    _, at, written = chosen[len(platform) :].partition("@")
    return Side(text, analysis, platform, _levels(written.split(","), text, analysis) if at else {})


def _levels(written: Sequence[str], text: str, analysis: Analysis) -> dict[str, str]:
    """factor -> level as the run spells it."""
    there = Levels(analysis.name, analysis.cells)
    return dict(there.find(part, text, "write PLATFORM@factor=level,... or just PLATFORM") for part in written)


def _check_alike(sides: tuple[Side, Side]) -> None:
    """Refuse a whole run beside a platform, and beside itself."""
    runs = [side for side in sides if side.is_run]
    if len(runs) == 1:
        (other,) = (side for side in sides if not side.is_run)
        hint = f"write {runs[0].text}:{other.platform}, or two runs"
        raise BadInput(f"{runs[0].text} is a whole run, and {other.text} a platform of one", hint=hint)
    if len(runs) == 2 and sides[0].analysis.name == sides[1].analysis.name:
        raise BadInput(f"{sides[0].text} and {sides[1].text} are the same run", hint="name another run: vtax list")


def _check_names(sides: tuple[Side, Side], metric: str, label: str) -> None:
    for side in sides:
        sections = side.analysis.sections
        labels = list(dict.fromkeys(section.label for section in sections))
        if label and label not in labels:
            raise unknown("benchmark", label, labels, "--benchmark", side.analysis.name)
        metrics = list(dict.fromkeys(s.metric.name for s in sections if not label or s.label == label))
        if metric and metric not in metrics:
            raise unknown("metric", metric, metrics, "--metric", side.analysis.name)


def _pairs(left: Side, right: Side, metric: str, label: str) -> Iterator[Compared]:
    """Cells of the two sides that are alike but for what the sides say."""
    others = {(s.label, s.benchmark, s.metric.name): s for s in right.analysis.sections}
    fixed = (*left.levels, *right.levels)
    for section in left.analysis.sections:
        if not (section.metric.name == metric if metric else section.metric.is_primary):
            continue
        other = others.get((section.label, section.benchmark, section.metric.name))
        if other is None or (label and section.label != label):
            continue
        if left.is_run:
            factors = sorted(
                {factor for each in (section, other) for point in each.points for factor in point.levels}
            )
            of_left, of_right = _every_row(section, factors), _every_row(other, factors)
        else:
            of_left, of_right = _rows(left, right, section, fixed), _rows(right, left, other, fixed)
        reason = "" if section.metric.unit == other.metric.unit else Note("different-units")
        for common in (key for key in of_left if key in of_right):
            levels = {**of_right[common].cell.levels, **of_left[common].cell.levels}
            levels = {f: v for f, v in levels.items() if f not in fixed}
            yield Compared(section, levels, of_left[common], of_right[common], reason=reason)


def _every_row(section: Section, factors: Sequence[str]) -> dict[tuple[str, ...], Row]:
    """All rows by their platform and the levels of some factors; what is fixed in this run counts as its level."""
    return {
        (row.platform.name, *(str(_setting(row.cell, factor)) for factor in factors)): row
        for point in section.points
        for row in point.rows
    }


def _setting(cell: CellRecord, factor: str) -> Any:
    return next((each[factor] for each in (cell.levels, cell.parameters, cell.link) if factor in each), None)


def _split(pairs: Sequence[Compared]) -> tuple[list[Compared], tuple[Mismatch, ...]]:
    """Pairs of whole runs with the same settings, and the cells of the others, each once.

    Factors of either cell are settings that the pairs were matched by.
    """
    same, others = [], dict[tuple[str, str], Mismatch]()
    for pair in pairs:
        left, right = pair.left.cell, pair.right.cell
        if reasons := tuple(setting_differences(left, right, {*left.levels, *right.levels})):
            others[left.key, right.key] = Mismatch(left, right, reasons)
        else:
            same.append(pair)
    return same, tuple(others.values())


def _unmatched(side: Side, matched: Sequence[CellRecord], metric: str, label: str) -> tuple[CellRecord, ...]:
    """Cells of a whole run that have the metrics and are in no pair."""
    if not side.is_run:
        return ()
    keys = {cell.key for cell in matched}
    found = {
        row.cell.key: row.cell
        for section in side.analysis.sections
        if (section.metric.name == metric if metric else section.metric.is_primary)
        and (not label or section.label == label)
        for point in section.points
        for row in point.rows
    }
    return tuple(cell for key, cell in found.items() if key not in keys)


def _rows(side: Side, other: Side, section: Section, fixed: Sequence[str]) -> dict[tuple[str, ...], Row]:
    """The side's rows by what is left of their levels without the fixed factors.

    A factor that only the other side fixes is held at the same level here, where this side has it.
    """
    found: dict[tuple[str, ...], Row] = {}
    for point in section.points:
        levels = {factor: str(level) for factor, level in point.levels.items()}
        own = all(levels.get(factor) == level for factor, level in side.levels.items())
        other_alike = all(
            factor in side.levels or levels.get(factor, level) == level for factor, level in other.levels.items()
        )
        if own and other_alike:
            key = tuple(f"{factor}={level}" for factor, level in sorted(levels.items()) if factor not in fixed)
            found.update((key, row) for row in point.rows if row.platform.name == side.platform)
    return found


def _paired(pairs: Sequence[Compared], side: Side) -> list[Compared]:
    """Block-paired ratios and verdicts of one family, under the rule that ended the run."""
    contrasts: dict[str, Contrast] = {}
    result = list(pairs)
    for number, pair in enumerate(pairs):
        try:
            _check(pair)
            logs = block_contrast(pair.left.means_of_blocks, pair.right.means_of_blocks)
            if np.isnan(logs).all():
                raise StatsError(Note("no-shared-block"))
            noise = noise_ratio(pair.left.means_of_blocks, pair.right.means_of_blocks)
            contrasts[str(number)] = Contrast(logs, pair.section.better, noise, lending_group(pair.left.platform))
        except StatsError as error:
            result[number] = replace(pair, reason=error.note)
    for name, answer in judge(side.analysis.rule, contrasts).items():
        result[int(name)] = _answered(pairs[int(name)], answer)
    return result


def _unpaired(
    pairs: Sequence[Compared], sides: tuple[Side, Side], margin: float, confidence: float
) -> list[Compared]:
    """Ratios of runs that share no blocks, and verdicts of one family, whichever side is written first.

    Either run may have been looked at while it was made, so intervals and verdicts are all of one level: the
    strictest that the rule of either run asks for after the blocks it made.
    """
    result, ratios = list(pairs), dict[int, Ratio]()
    for number, pair in enumerate(pairs):
        try:
            _check(pair)
        except StatsError as error:
            result[number] = replace(pair, reason=error.note)
    level = max(
        (
            interval_confidence(side.analysis.rule, row.block_means.size)
            for pair in result
            if not pair.reason
            for side, row in zip(sides, (pair.left, pair.right), strict=True)
        ),
        default=confidence,
    )
    for number, pair in enumerate(result):
        if pair.reason:
            continue
        try:
            ratio = unpaired_ratio(pair.left.block_means, pair.right.block_means, level)
            ratios[number] = replace(ratio, confidence=confidence)
        except StatsError as error:
            result[number] = replace(pair, reason=error.note)
    better = [pairs[number].section.better for number in ratios]
    verdicts = judge_unordered(list(ratios.values()), margin, better, 1 - level)
    if any(side.analysis.rule.method > 1 for side in sides):
        verdicts = tuple(_of_two_sessions(verdict) for verdict in verdicts)
    for number, verdict in zip(ratios, verdicts, strict=True):
        result[number] = replace(pairs[number], ratio=ratios[number], verdict=verdict)
    return result


def _of_two_sessions(verdict: Verdict) -> Verdict:
    """No verdict from one session a side: were its effect as large as a block's, half of all would be false."""
    note = Note("one-session")
    return replace(
        verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=(*verdict.warnings, note)
    )


def _check(pair: Compared) -> None:
    """Raises StatsError when a pair cannot be compared."""
    if pair.reason:
        raise StatsError(pair.reason)
    for name, row in (("left", pair.left), ("right", pair.right)):
        if row.summary is None:
            raise StatsError(Note(f"{name}-without-values"))
        check_positive(row.block_means, f"values of the {name} side")


def _answered(pair: Compared, answer: Comparison | StatsError) -> Compared:
    if isinstance(answer, StatsError):
        return replace(pair, reason=answer.note)
    return replace(pair, ratio=answer.ratio, verdict=answer.verdict)


def _differences(sides: tuple[Side, Side], pairs: Sequence[Compared]) -> Iterator[Inline]:
    left, right = sides
    platforms = {pair.left.platform.name for pair in pairs} & {pair.right.platform.name for pair in pairs}
    cells = [(pair.left.cell, pair.right.cell) for pair in pairs]
    return differences(left.analysis, right.analysis, platforms, cells, {*left.levels, *right.levels})
