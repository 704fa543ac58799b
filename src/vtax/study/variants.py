"""`[scale.NAME]` and `[protocol.NAME]`: a study made smaller, or repeated as its publication did, by one option.

Both change the plain values of a study before it is validated, and keep with it what they changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field

from vtax.levels import (
    BENCHMARK,
    Level,
    Levels,
    canonical,
    canonical_choices,
    flat,
    link_factor,
    link_factors,
    list_levels,
)
from vtax.messages import Note, packed
from vtax.study import limits
from vtax.study.changes import ChangedPart, changed_by
from vtax.study.claims import side_of
from vtax.study.fields import Name, StudyTable, as_tuple
from vtax.units import format_count, format_size, size_bytes


class ScaledBenchmark(StudyTable):
    """`[[scale.NAME.benchmark]]`: how one benchmark becomes smaller."""

    label: str = Field(description="label of the benchmark")
    divide: dict[str, float] = Field(
        default_factory=dict,
        description="parameter or factor -> the divisor of its value, or of its levels",
    )
    levels: dict[str, list[Level]] = Field(
        default_factory=dict,
        description="factor -> the levels that stay, as they are before a division",
    )


class ScaleTable(StudyTable):
    """`[scale.NAME]`: what `vtax run --scale NAME` makes smaller."""

    blocks: int | None = Field(
        None, ge=1, le=limits.MAX_BLOCKS, description="at most so many, by the rule 'fixed'"
    )
    divide: dict[str, float] = Field(
        default_factory=dict,
        description="parameter -> divisor, in every benchmark that gives it a value",
    )
    benchmark: list[ScaledBenchmark] = Field(default_factory=list, max_length=limits.MAX_BENCHMARKS)


class ProtocolBenchmark(StudyTable):
    """`[[protocol.NAME.benchmark]]`: parameters of one benchmark under a protocol."""

    label: str = Field(description="label of the benchmark")
    parameters: dict[str, Level] = Field(
        default_factory=dict, description="put over those of the benchmark"
    )


class ProtocolTable(StudyTable):
    """`[protocol.NAME]`: order and repetition in place of those of `[design]`, with the rule 'fixed'."""

    blocks: int = Field(ge=1, le=limits.MAX_BLOCKS, description="number of blocks")
    trials: int = Field(
        1, ge=1, le=limits.MAX_TRIALS_OF_A_CELL, description="trials of every cell in each block"
    )
    order: Literal["randomized", "sequential"] = Field("sequential", description="as in [design]")
    benchmark: list[ProtocolBenchmark] = Field(
        default_factory=list, max_length=limits.MAX_BENCHMARKS
    )


_COLOCATED = ("guests", "neighbour")  # keys of a benchmark that are factors
Variant = TypeVar("Variant", ScaleTable, ProtocolTable)
Scales = dict[Name, ScaleTable]
Protocols = dict[Name, ProtocolTable]


@dataclass(frozen=True)
class ScaledLevel:
    """A level of the study as written, and the one that a scale measures in its place; None: it is left out."""

    written: Level
    measured: Level | None


ScaledLevels = Mapping[tuple[str, str], Mapping[str, ScaledLevel]]
"""(label of a benchmark, factor) -> canonical level of the study -> what a scale makes of it."""


@dataclass(frozen=True)
class MissingName:
    """A name of a table that the study does not have. place: in the study. what: a sentence."""

    place: tuple[str | int, ...]
    what: str


def problems_of(
    scales: Mapping[str, ScaleTable],
    protocols: Mapping[str, ProtocolTable],
    benchmarks: Sequence[Any],
) -> Iterator[MissingName]:
    """Yield every label, parameter, factor and level that no benchmark of the study has.

    benchmarks: the BenchmarkTables of the study.
    """
    tables = {table.label or table.name: table for table in benchmarks}
    for name, scale in scales.items():
        for key, divisor in scale.divide.items():
            values = [value for table in tables.values() for value in _values_of(table, key)]
            if problem := _why_not_divided(values, divisor):
                yield MissingName(("scale", name, "divide", key), f"{key} {problem}")
        for number, scaled in enumerate(scale.benchmark):
            place = ("scale", name, "benchmark", number)
            if scaled.label in tables:
                yield from _problems_of_scaled(scaled, tables[scaled.label], place)
            else:
                what = f"the study has no benchmark {scaled.label!r}"
                yield MissingName((*place, "label"), what)
    for name, protocol in protocols.items():
        for number, changed in enumerate(protocol.benchmark):
            if changed.label not in tables:
                where = ("protocol", name, "benchmark", number, "label")
                yield MissingName(where, f"the study has no benchmark {changed.label!r}")


def _values_of(table: Any, key: str) -> list[Level]:
    """Return the values that a benchmark gives a parameter: a fixed one, or its levels."""
    fixed = [table.parameters[key]] if key in table.parameters else []
    return [*fixed, *table.factors.get(key, ())]


def _why_not_divided(values: Sequence[Level], divisor: float) -> str:
    """Return why values cannot be divided; empty when they can."""
    if not values:
        return "has no value to divide: no benchmark gives it one"
    if divisor < 1:
        return f"cannot be divided by {divisor:g}: a divisor is at least 1"
    return "" if all(map(_is_quantity, values)) else "is neither a number nor a size"


def _is_quantity(value: Level) -> bool:
    if not isinstance(value, str):
        return not isinstance(value, bool)
    try:
        return size_bytes(value) >= 0
    except ValueError:
        return False


def _problems_of_scaled(
    scaled: ScaledBenchmark, table: Any, place: tuple[str | int, ...]
) -> Iterator[MissingName]:
    for key, divisor in scaled.divide.items():
        values = _values_of(table, key)
        what = ""
        if not values:
            what = f"{scaled.label} gives {key} no value to divide"
        elif problem := _why_not_divided(values, divisor):
            what = f"{key} of {scaled.label} {problem}"
        if what:
            yield MissingName((*place, "divide", key), what)
    for factor, levels in scaled.levels.items():
        where = (*place, "levels", factor)
        if factor not in table.varied:
            yield MissingName(where, f"{scaled.label} has no factor {factor!r}")
            continue
        known = [canonical(factor, level) for level in table.varied[factor]]
        for level in levels:
            if canonical(factor, level) not in known:
                yield MissingName(where, f"{scaled.label} has no level {level!r} of {factor}")
        if not levels:
            yield MissingName(where, f"no level of {factor} stays")


def with_protocol(data: Mapping[str, Any], name: str, protocol: ProtocolTable) -> dict[str, Any]:
    """Return the values of a study under one of its protocols."""
    design = {
        "stop": "fixed",
        "blocks": protocol.blocks,
        "trials": protocol.trials,
        "order": protocol.order,
    }
    changes = [ChangedPart(what=f"{key} = {design[key]}") for key in ("order", "blocks", "trials")]
    for changed in protocol.benchmark:
        given = ", ".join(f"{key} = {value}" for key, value in changed.parameters.items())
        changes.append(ChangedPart(what=given, label=changed.label))
    tables = [_with_parameters(table, protocol) for table in data["benchmark"]]
    changed_data = {**data, "benchmark": tables, "design": {**_kept_design(data), **design}}
    return _with_changes(changed_data, f"--protocol {name}", changes)


def _with_parameters(table: Mapping[str, Any], protocol: ProtocolTable) -> Mapping[str, Any]:
    """Return the table of a benchmark with the parameters that a protocol puts over its own."""
    for changed in protocol.benchmark:
        if changed.label == _label_of(table):
            table = {**table, "parameters": {**table.get("parameters", {}), **changed.parameters}}
    return table


def with_scale(data: Mapping[str, Any], name: str, scale: ScaleTable) -> dict[str, Any]:
    """Return the values of a study at one of its scales; a claim about levels that are not measured is not tested."""
    changes = [ChangedPart(what=f"{key} ÷ {divisor:g}") for key, divisor in scale.divide.items()]
    of_label = {scaled.label: scaled for scaled in scale.benchmark}
    tables = []
    levels: dict[tuple[str, str], Mapping[str, ScaledLevel]] = {}
    for table in data["benchmark"]:
        label = _label_of(table)
        scaled = of_label.get(label, ScaledBenchmark(label=label))
        divisors = {**scale.divide, **scaled.divide}
        of_table = _scaled_levels(table, scaled.levels, divisors)
        tables.append(_scaled_table(table, divisors, of_table))
        levels |= {(label, factor): of_factor for factor, of_factor in of_table.items()}
        notes = [f"{key} ÷ {divisor:g}" for key, divisor in scaled.divide.items()]
        for factor, of_factor in of_table.items():
            if factor in scaled.levels:
                kept = [
                    str(level.written) for level in of_factor.values() if level.measured is not None
                ]
                notes.append(f"{factor} {', '.join(kept)} of {len(of_factor)} levels")
        if notes:
            changes.append(ChangedPart(what=", ".join(notes), label=label))
    changed = {**data, "benchmark": tables}
    if scale.blocks is not None and (design := _fewer_blocks(data, scale.blocks)):
        changed["design"] = design
        changes.append(ChangedPart(what=format_count(design["blocks"], "block")))
    changed["claim"] = [_scaled_claim(claim, name, levels) for claim in data.get("claim", ())]
    changed["published"] = [
        _judged_in_part(table, name, [table], levels)
        for table in data.get("published", ())
        if not _lost(name, [table], levels)
    ]
    figures = [_scaled_figure(table, levels) for table in data.get("figure", ())]
    changed["figure"] = [table for table in figures if table is not None]
    return _with_changes(changed, f"--scale {name}", changes)


def _label_of(table: Mapping[str, Any]) -> str:
    return str(table.get("label") or table["name"])


def _scaled_levels(
    table: Mapping[str, Any],
    staying: Mapping[str, Sequence[Level]],
    divisors: Mapping[str, float],
) -> dict[str, dict[str, ScaledLevel]]:
    """Return what a scale makes of the levels of every factor of a benchmark.

    table: of the benchmark.
    staying: factor -> the levels that stay; all, of a factor that is not there.
    divisors: parameter -> divisor.
    """
    parameters = table.get("factors", {})
    colocated = {name: table[name] for name in _COLOCATED if name in table}
    varied = {**parameters, **link_factors(table.get("link_factors", {})), **colocated}
    found: dict[str, dict[str, ScaledLevel]] = {}
    for factor, levels in varied.items():
        kept = {canonical(factor, level) for level in staying.get(factor, levels)}
        divisor = divisors.get(factor, 1.0) if factor in parameters else 1.0
        found[factor] = {}
        for level in levels:
            key = canonical(factor, level)
            smaller = level if divisor == 1 else divided(level, divisor)
            found[factor][key] = ScaledLevel(level, smaller if key in kept else None)
    return found


def _scaled_table(
    table: Mapping[str, Any],
    divisors: Mapping[str, float],
    levels: Mapping[str, Mapping[str, ScaledLevel]],
) -> dict[str, Any]:
    """Return the table of a benchmark made smaller. levels: of its factors."""
    changed = dict(table)
    if "parameters" in table:
        changed["parameters"] = {
            key: divided(value, divisors[key]) if key in divisors else value
            for key, value in table["parameters"].items()
        }
    if "factors" in table:
        changed["factors"] = {name: _measured(levels[name]) for name in table["factors"]}
    if "link_factors" in table:
        changed["link_factors"] = {
            name: _measured(levels[link_factor(name)]) for name in table["link_factors"]
        }
    for name in _COLOCATED:
        if name in table:
            changed[name] = _measured(levels[name])
    return changed


def _measured(levels: Mapping[str, ScaledLevel]) -> list[Level]:
    """Return the levels of a factor that are measured."""
    return [level.measured for level in levels.values() if level.measured is not None]


def divided(value: Level, divisor: float) -> Level:
    """Return a number, or a size with its unit, over a divisor; whole numbers stay whole and at least 1."""
    if isinstance(value, str):
        return format_size(max(1, round(size_bytes(value) / divisor)))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value / divisor))
    return value / divisor


def _fewer_blocks(data: Mapping[str, Any], blocks: int) -> dict[str, Any] | None:
    """Return the design with at most so many blocks; None where it has no more."""
    design = data.get("design", {})
    stop, declared = design.get("stop", "fixed"), design.get("blocks", 5)
    if stop not in ("fixed", "open"):
        return {**_kept_design(data), "stop": "fixed", "blocks": blocks}
    if declared <= blocks:
        return None
    return {**_kept_design(data), "stop": stop, "blocks": blocks}


def _kept_design(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return [design] without what only other rules than 'fixed' read."""
    idle = ("precision", "min_blocks", "max_blocks", "budget", "sessions")
    return {key: value for key, value in data.get("design", {}).items() if key not in idle}


def _with_changes(
    data: Mapping[str, Any], option: str, parts: Sequence[ChangedPart]
) -> dict[str, Any]:
    """Return the values with what was changed; further forms of the study do not apply to them."""
    kept = {key: value for key, value in data.items() if key not in ("scale", "protocol")}
    return {**kept, "changed_by": [*data.get("changed_by", ()), changed_by(option, parts)]}


def _scaled_claim(claim: Mapping[str, Any], name: str, levels: ScaledLevels) -> Mapping[str, Any]:
    """Return a claim as it can be judged at a scale.

    It is not tested where levels that its checks name are left out or divided, and judged in part over fewer levels.
    """
    checks = claim.get("check", ())
    if lost := _lost(name, checks, levels):
        kept = {key: value for key, value in claim.items() if key != "check"}
        return {**kept, "not_tested": packed(lost)}
    return _judged_in_part(claim, name, checks, levels)


def _judged_in_part(
    table: Mapping[str, Any], name: str, checks: Sequence[Mapping[str, Any]], levels: ScaledLevels
) -> Mapping[str, Any]:
    """Return a claim or a published number with the factors of which a scale measures fewer levels.

    table: of it.
    name: of the scale.
    checks: what names its levels.
    levels: what the scale makes of them.
    """
    parts = list(dict.fromkeys(part for check in checks for part in _fewer_levels(check, levels)))
    if not parts:
        return table
    return {**table, "in_part": packed(Note("scale-measures", name=name, parts=parts))}


def _scaled_figure(table: Mapping[str, Any], levels: ScaledLevels) -> dict[str, Any] | None:
    """Return a figure with the levels of its `where` that are measured; None where a factor has none.

    The others are kept with it, in `left_out`.
    """
    labels = _labels_of(table)
    where: dict[str, list[Level]] = {}
    left_out: dict[str, list[Level]] = {}
    for factor, given in flat(table.get("where", {})).items():
        for level in list_levels(given):
            measured = _measured_of(factor, level, labels, levels)
            if measured is None:
                left_out.setdefault(factor, []).append(level)
            else:
                where.setdefault(factor, []).append(measured)
        if factor not in where:
            return None
    changed = dict(table)
    if where:
        changed["where"] = where
    if left_out:
        changed["left_out"] = left_out
    return changed


def _measured_of(
    factor: str, level: Level, labels: Sequence[str], levels: ScaledLevels
) -> Level | None:
    """Return the level that is measured in place of one of the study; None where no benchmark measures one.

    labels: the benchmarks that it may be of; none for all.
    """
    tables = [
        of_factor
        for (label, name), of_factor in levels.items()
        if name == factor and label in (labels or (label,))
    ]
    key = canonical(factor, level)
    measured = [of_factor[key].measured for of_factor in tables if key in of_factor]
    if not tables:
        return level
    return next((each for each in measured if each is not None), None)


def _labels_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    return as_tuple(table.get("benchmark", ()))


def _lost(name: str, checks: Sequence[Mapping[str, Any]], levels: ScaledLevels) -> str:
    """Return what a scale took of the levels that checks, or a published number, compare; empty when all are there.

    A level that one names is lost where it is left out or divided. Of other factors of its benchmarks, divided levels
    are lost, and all levels of the factor that it goes along where fewer than two are left.
    """
    gone: dict[str, dict[str, None]] = {}
    smaller: dict[str, dict[str, None]] = {}
    for check in checks:
        named, along = _named_levels(check), check.get("along")
        left_along = set()
        for (_, factor), of_factor in _of_benchmarks(check, levels).items():
            for key, level in of_factor.items():
                is_named = key in named.get(factor, ())
                if level.measured is None:
                    if is_named:
                        gone.setdefault(factor, {})[str(level.written)] = None
                    continue
                measured = canonical(factor, level.measured)
                if measured != key and (is_named or factor not in named):
                    change = f"{level.written} to {level.measured}"
                    smaller.setdefault(factor, {})[change] = None
                if factor == along:
                    left_along.add(measured)
        if along is not None and len(left_along) < 2:
            gone.setdefault(along, {})["all but one"] = None
    left_out = [f"{factor} {', '.join(given)}" for factor, given in gone.items()]
    divided = [f"{factor} {', '.join(given)}" for factor, given in smaller.items()]
    if left_out and divided:
        return Note("scale-leaves-divides", name=name, levels=left_out, others=divided)
    if left_out:
        return Note("scale-leaves", name=name, levels=left_out)
    return Note("scale-divides", name=name, levels=divided) if divided else ""


def _fewer_levels(check: Mapping[str, Any], levels: ScaledLevels) -> Iterator[Note]:
    """Yield `3 of 7 levels of socket_buffer`: factors of which a check names no level, and some are left out."""
    named = _named_levels(check)
    of_factors: dict[str, list[ScaledLevel]] = {}
    for (_, factor), of_factor in _of_benchmarks(check, levels).items():
        of_factors.setdefault(factor, []).extend(of_factor.values())
    for factor, all_levels in of_factors.items():
        kept = sum(level.measured is not None for level in all_levels)
        if kept < len(all_levels) and factor not in named:
            yield Note("levels-kept", kept=kept, total=len(all_levels), factor=factor)


def _sides(table: Mapping[str, Any]) -> Iterator[Levels]:
    """Yield the levels of every side of a check."""
    for key in ("of", "to"):
        for text in as_tuple(table.get(key, ())):
            yield side_of(text).levels


def _named_levels(table: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the canonical levels of every factor that a check or a published number names."""
    found: dict[str, set[str]] = {}
    for levels in (flat(table.get("where", {})), *_sides(table)):
        for factor, given in canonical_choices(levels).items():
            found.setdefault(factor, set()).update(given)
    return found


def _of_benchmarks(table: Mapping[str, Any], levels: ScaledLevels) -> ScaledLevels:
    """Return the factors of the benchmarks that a check or a published number is of; all, where it names none."""
    labels = {*_labels_of(table)}
    labels |= {str(side[BENCHMARK]) for side in _sides(table) if BENCHMARK in side}
    return {key: of_factor for key, of_factor in levels.items() if not labels or key[0] in labels}
