"""Any cells against any: platform against platform, level against level, run against run.

A side is written `[RUN:]PLATFORM[@factor=level,...]`. Within one run the two sides are paired by block; across runs,
which share no blocks, they are compared as two samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vtax.errors import BadInput
from vtax.report.analysis.lookup import Levels, unknown
from vtax.report.analysis.result import analyse
from vtax.report.analysis.values import Analysis, Row, Section
from vtax.report.document import Inline, msg
from vtax.stats.analysis import Comparison, Contrast
from vtax.stats.analysis import analyse as judge
from vtax.stats.checks import StatsError, check_positive
from vtax.stats.contrasts import unpaired_ratio
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, block_contrast
from vtax.stats.stopping import interval_confidence
from vtax.stats.verdict import Verdict, judge_either_way
from vtax.store.records import CellRecord
from vtax.store.store import LAST, Store
from vtax.study.units import format_levels

_MOMENTS = frozenset({"measured_at"})  # of a host, not what it is


@dataclass(frozen=True)
class Side:
    """One side: a platform of a run, at some levels. text: as it was written."""

    text: str
    analysis: Analysis
    platform: str
    levels: Mapping[str, str]


@dataclass(frozen=True)
class Compared:
    """One metric of one pair of cells. ratio: left / right; None when there is no answer, trouble then says why."""

    section: Section
    levels: Mapping[str, Any]
    left: Row
    right: Row
    ratio: Ratio | None = None
    verdict: Verdict | None = None
    trouble: str = ""

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
class Contrasts:
    """All contrasts of two sides. warnings: about the runs.

    margin, confidence: of the run; of two runs the smaller margin and the larger confidence.
    """

    left: Side
    right: Side
    is_paired: bool
    margin: float
    confidence: float
    compared: tuple[Compared, ...]
    warnings: tuple[Inline, ...]

    @property
    def family(self) -> int:
        """How many contrasts the verdicts are corrected for."""
        return sum(each.ratio is not None for each in self.compared)

    def why_nothing(self) -> str:
        """Why there is no ratio at all: what each side lacks, or else what stands between them."""
        lacks = [
            f"{side.text}: {row.trouble or 'no values'}"
            for each in self.compared
            for side, row in ((self.left, each.left), (self.right, each.right))
            if row.summary is None
        ]
        return "; ".join(dict.fromkeys(lacks or [each.trouble for each in self.compared]))


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
    _check_names(sides, metric, label)
    pairs = list(_pairs(sides[0], sides[1], metric, label))
    if not pairs:
        raise BadInput(
            f"{left} and {right} have nothing in common that was measured",
            cure="name runs with the same benchmarks and levels, or a metric with --metric",
        )
    if all(pair.left is pair.right for pair in pairs):
        raise BadInput(f"{left} and {right} are the same cells", cure="vary the platform, a level, or the run")
    is_paired = sides[0].analysis.name == sides[1].analysis.name
    rules = [side.analysis.rule for side in sides]
    margin, confidence = min(rule.margin for rule in rules), max(rule.confidence for rule in rules)
    judged = _paired(pairs, sides[1]) if is_paired else _unpaired(pairs, sides, margin, confidence)
    found = Contrasts(sides[0], sides[1], is_paired, margin, confidence, tuple(judged), ())
    return found if is_paired else replace(found, warnings=tuple(_differences(sides[0], sides[1], pairs)))


def run_of(store: Store, text: str, run_name: str = LAST) -> tuple[str, str]:
    """(name of the run, what follows it) of a side's text. run_name: where it names no run."""
    head, colon, rest = text.partition(":")
    names = {run.name for run in store.runs()} | {LAST} if colon else set()
    return (store.open_run(head).name, rest) if head in names else (store.open_run(run_name).name, text)


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
    platforms = [p.name for p in analysis.platforms]
    platform = max(
        (p for p in platforms if chosen == p or chosen.startswith(f"{p}@")), key=len, default=chosen.partition("@")[0]
    )
    if platform not in platforms:
        if colon and chosen == text and not any(p.partition(":")[0] == head for p in platforms):
            store.open_run(head)  # raises, with the nearest names
        raise unknown("platform", platform, platforms, text, analysis.name)
    record = next(p for p in analysis.platforms if p.name == platform)
    if not record.available:
        raise BadInput(f"{analysis.name} could not test {platform}: {record.reason}", where=text, cure=record.cure)
    _, at, written = chosen[len(platform) :].partition("@")
    return Side(text, analysis, platform, _levels(written.split(","), text, analysis) if at else {})


def _levels(written: Sequence[str], text: str, analysis: Analysis) -> dict[str, str]:
    """factor -> level as the run spells it."""
    there = Levels(analysis.name, analysis.cells)
    return dict(there.find(part, text, "write PLATFORM@factor=level,... or just PLATFORM") for part in written)


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
        of_left, of_right = _rows(left, right, section, fixed), _rows(right, left, other, fixed)
        trouble = "" if section.metric.unit == other.metric.unit else Note("different-units")
        for common in (key for key in of_left if key in of_right):
            levels = {f: v for f, v in of_left[common].cell.levels.items() if f not in fixed}
            yield Compared(section, levels, of_left[common], of_right[common], trouble=trouble)


def _rows(side: Side, other: Side, section: Section, fixed: Sequence[str]) -> dict[tuple[str, ...], Row]:
    """The side's rows by what is left of their levels without the fixed factors.

    A factor that only the other side fixes is held at the same level here, where this side has it.
    """
    found: dict[tuple[str, ...], Row] = {}
    for point in section.points:
        levels = {factor: str(level) for factor, level in point.levels.items()}
        own = all(levels.get(factor) == level for factor, level in side.levels.items())
        theirs = all(
            factor in side.levels or levels.get(factor, level) == level for factor, level in other.levels.items()
        )
        if own and theirs:
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
            contrasts[str(number)] = Contrast(logs, pair.section.better)
        except StatsError as error:
            result[number] = replace(pair, trouble=error.note)
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
            result[number] = replace(pair, trouble=error.note)
    level = max(
        (
            interval_confidence(side.analysis.rule, row.block_means.size)
            for pair in result
            if not pair.trouble
            for side, row in zip(sides, (pair.left, pair.right), strict=True)
        ),
        default=confidence,
    )
    for number, pair in enumerate(result):
        if pair.trouble:
            continue
        try:
            ratio = unpaired_ratio(pair.left.block_means, pair.right.block_means, level)
            ratios[number] = replace(ratio, confidence=confidence)
        except StatsError as error:
            result[number] = replace(pair, trouble=error.note)
    better = [pairs[number].section.better for number in ratios]
    verdicts = judge_either_way(list(ratios.values()), margin, better, 1 - level)
    for number, verdict in zip(ratios, verdicts, strict=True):
        result[number] = replace(pairs[number], ratio=ratios[number], verdict=verdict)
    return result


def _check(pair: Compared) -> None:
    """Raises StatsError when a pair cannot be compared."""
    if pair.trouble:
        raise StatsError(pair.trouble)
    for name, row in (("left", pair.left), ("right", pair.right)):
        if row.summary is None:
            raise StatsError(Note(f"{name}-without-values"))
        check_positive(row.block_means, f"values of the {name} side")


def _answered(pair: Compared, answer: Comparison | StatsError) -> Compared:
    if isinstance(answer, StatsError):
        return replace(pair, trouble=answer.note)
    return replace(pair, ratio=answer.ratio, verdict=answer.verdict)


def _differences(left: Side, right: Side, pairs: Sequence[Compared]) -> Iterator[Inline]:
    """What differs between two runs besides what is compared: each is part of every ratio."""
    a, b = left.analysis, right.analysis
    facts = [f for f in sorted({*a.host, *b.host} - _MOMENTS) if a.host.get(f) != b.host.get(f)]
    for fact in facts:
        sides = {"left": _short(a.host.get(fact)), "right": _short(b.host.get(fact))}
        yield msg("hosts differ in {fact}: {left} and {right}", fact=fact, **sides)
    if a.image_key != b.image_key:
        yield msg("images differ: {left} and {right}", left=a.image_key, right=b.image_key)
    if a.vtax_version != b.vtax_version:
        yield msg("versions of vtax differ: {left} and {right}", left=a.vtax_version, right=b.vtax_version)
    for key in ("guest", "design"):
        yield from _unlike(key, a.declared.get(key) or {}, b.declared.get(key) or {})
    kinds = {p.name: p for p in b.platforms}
    for platform in a.platforms:
        other = kinds.get(platform.name)
        if left.platform == right.platform == platform.name and other and other.version != platform.version:
            yield _versions(platform.name, platform.version, other.version)
    found = [text for pair in pairs for text in _of_cells(pair.left.cell, pair.right.cell, left, right)]
    yield from {repr(each): each for each in found}.values()


def _versions(of: str, left: str, right: str) -> Inline:
    return msg("versions of {name} differ: {left} and {right}", name=of, left=left, right=right)


def _of_cells(left_cell: CellRecord, right_cell: CellRecord, left: Side, right: Side) -> Iterator[Inline]:
    if left_cell.tool_version != right_cell.tool_version:
        yield _versions(left_cell.benchmark, left_cell.tool_version, right_cell.tool_version)
    if left_cell.topology != right_cell.topology:
        sides = {"left": left_cell.topology, "right": right_cell.topology}
        yield msg("topologies of {name} differ: {left} and {right}", name=left_cell.label, **sides)
    fixed = {*left.levels, *right.levels}
    parameters, links = (
        [{k: v for k, v in getattr(cell, kind).items() if k not in fixed} for cell in (left_cell, right_cell)]
        for kind in ("parameters", "link")
    )
    yield from _unlike(msg("parameters of {name}", name=left_cell.label), *parameters)
    yield from _unlike(msg("link of {name}", name=left_cell.label), *links)


def _unlike(what: Inline, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Inline]:
    for key in sorted({*left, *right}):
        if left.get(key) != right.get(key):
            sides = {"left": _short(left.get(key)), "right": _short(right.get(key))}
            yield msg("{what} differs in {key}: {left} and {right}", what=what, key=key, **sides)


def _short(value: Any) -> Inline:
    if value is None:
        return msg("not known")
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
