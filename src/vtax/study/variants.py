"""`[scale.NAME]` and `[protocol.NAME]`: a study made smaller, or repeated as its publication did, by one option.

Both change the plain values of a study before it is validated, and keep with it what they changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field

from vtax.messages import Note, packed
from vtax.study import limits
from vtax.study.changes import ChangedPart, changed_by
from vtax.study.claims import BENCHMARK, canonical, side_of
from vtax.study.fields import Level, Name, StudyTable, as_tuple
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


Variant = TypeVar("Variant", ScaleTable, ProtocolTable)
Moved = Mapping[tuple[str, str], Mapping[str, tuple[Level, Level | None]]]
"""(label, factor) -> canonical level of the study -> (that level as written, the one that is measured in its place;
None: left out)."""
Scales = dict[Name, ScaleTable]
Protocols = dict[Name, ProtocolTable]


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
    """Labels, parameters, factors and levels that no benchmark of the study has. benchmarks: its BenchmarkTables."""
    tables = {table.label or table.name: table for table in benchmarks}
    for name, scale in scales.items():
        for key, divisor in scale.divide.items():
            values = [
                each
                for t in tables.values()
                for each in (t.parameters.get(key), *t.factors.get(key, ()))
            ]
            if problem := _not_divided(values, divisor):
                yield MissingName(("scale", name, "divide", key), f"{key} {problem}")
        for number, each in enumerate(scale.benchmark):
            place: tuple[str | int, ...] = ("scale", name, "benchmark", number)
            if (table := tables.get(each.label)) is None:
                yield MissingName((*place, "label"), f"the study has no benchmark {each.label!r}")
                continue
            yield from _problems_of_scaled(each, table, place)
    for name, protocol in protocols.items():
        for number, changed in enumerate(protocol.benchmark):
            if changed.label not in tables:
                where = ("protocol", name, "benchmark", number, "label")
                yield MissingName(where, f"the study has no benchmark {changed.label!r}")


def _not_divided(values: Sequence[Level | None], divisor: float) -> str:
    """Return why values cannot be divided; empty when they can."""
    given = [value for value in values if value is not None]
    if not given:
        return "has no value to divide: no benchmark gives it one"
    if divisor < 1:
        return f"cannot be divided by {divisor:g}: a divisor is at least 1"
    return "" if all(map(_is_quantity, given)) else "is neither a number nor a size"


def _is_quantity(value: Level) -> bool:
    if not isinstance(value, str):
        return not isinstance(value, bool)
    try:
        return size_bytes(value) >= 0
    except ValueError:
        return False


def _problems_of_scaled(
    each: ScaledBenchmark, table: Any, place: tuple[str | int, ...]
) -> Iterator[MissingName]:
    for key, divisor in each.divide.items():
        if key not in {**table.parameters, **table.factors}:
            yield MissingName(
                (*place, "divide", key), f"{each.label} gives {key} no value to divide"
            )
        elif problem := _not_divided(
            [table.parameters.get(key), *table.factors.get(key, ())], divisor
        ):
            yield MissingName((*place, "divide", key), f"{key} of {each.label} {problem}")
    for factor, levels in each.levels.items():
        known = [canonical(level) for level in table.varied.get(factor, ())]
        if not known:
            yield MissingName((*place, "levels", factor), f"{each.label} has no factor {factor!r}")
        for level in levels if known else ():
            if canonical(level) not in known:
                yield MissingName(
                    (*place, "levels", factor), f"{each.label} has no level {level!r} of {factor}"
                )
        if known and not levels:
            yield MissingName((*place, "levels", factor), f"no level of {factor} stays")


def with_protocol(data: Mapping[str, Any], name: str, protocol: ProtocolTable) -> dict[str, Any]:
    """Return the values of a study under one of its protocols."""
    changed = deepcopy(dict(data))
    design = {
        "stop": "fixed",
        "blocks": protocol.blocks,
        "trials": protocol.trials,
        "order": protocol.order,
    }
    changed["design"] = {**_kept_design(changed), **design}
    changes = [ChangedPart(what=f"{key} = {design[key]}") for key in ("order", "blocks", "trials")]
    for each in protocol.benchmark:
        table = _table(changed, each.label)
        table["parameters"] = {**table.get("parameters", {}), **each.parameters}
        given = ", ".join(f"{key} = {value}" for key, value in each.parameters.items())
        changes.append(ChangedPart(what=given, label=each.label))
    return _noted(changed, f"--protocol {name}", changes)


def with_scale(data: Mapping[str, Any], name: str, scale: ScaleTable) -> dict[str, Any]:
    """Return the values of a study at one of its scales; a claim about levels that are not measured is not tested."""
    changed = deepcopy(dict(data))
    changes = [ChangedPart(what=f"{key} ÷ {divisor:g}") for key, divisor in scale.divide.items()]
    own = {each.label: each for each in scale.benchmark}
    moved: dict[tuple[str, str], dict[str, tuple[Level, Level | None]]] = {}
    for table in changed["benchmark"]:
        label = table.get("label") or table["name"]
        each = own.get(label, ScaledBenchmark(label=label))
        changes += _scaled(table, label, each, scale.divide, moved)
    if scale.blocks is not None:
        changes += _fewer_blocks(changed, scale.blocks)
    _prune_claims(changed, name, moved)
    _name_left_out(changed, data, moved)
    return _noted(changed, f"--scale {name}", changes)


def _scaled(
    table: dict[str, Any],
    label: str,
    each: ScaledBenchmark,
    everywhere: Mapping[str, float],
    moved: dict[tuple[str, str], dict[str, tuple[Level, Level | None]]],
) -> Iterator[ChangedPart]:
    """Shrink one benchmark; what was changed. moved: see Moved, of all factors."""
    divisors = {**everywhere, **each.divide}
    notes = [f"{key} ÷ {divisor:g}" for key, divisor in each.divide.items()]
    parameters = table.get("parameters", {})
    for key in divisors.keys() & parameters.keys():
        parameters[key] = divided(parameters[key], divisors[key])
    for kind in ("factors", "link_factors", "guests", "neighbour"):
        given = table.get(kind, {})
        lists = given if isinstance(given, dict) else {kind: given}
        prefix = "link." if kind == "link_factors" else ""
        for factor, levels in lists.items():
            name, kept = f"{prefix}{factor}", list(levels)
            if name in each.levels:
                stay = {canonical(level) for level in each.levels[name]}
                kept = [level for level in levels if canonical(level) in stay]
                notes.append(f"{name} {', '.join(map(str, kept))} of {len(levels)} levels")
            divisor = divisors.get(factor, 1.0) if kind == "factors" else 1.0
            left = [divided(level, divisor) if divisor != 1 else level for level in kept]
            changes = {canonical(old): new for old, new in zip(kept, left, strict=True)}
            moved[label, name] = {
                canonical(old): (old, changes.get(canonical(old))) for old in levels
            }
            if isinstance(given, dict):
                given[factor] = left
            else:
                table[kind] = left
    if notes:
        yield ChangedPart(what=", ".join(notes), label=label)


def _name_left_out(changed: dict[str, Any], data: Mapping[str, Any], moved: Moved) -> None:
    """Keep with every figure the levels of its `where` that are not measured. data: of the whole study."""
    before = {table["id"]: _flat_where(table.get("where", {})) for table in data.get("figure", ())}
    for table in changed.get("figure", ()):
        gone: dict[str, list[Level]] = {}
        for factor, given in before[table["id"]].items():
            for level in given if isinstance(given, list) else [given]:
                if _left(factor, level, _labels_of(table), moved) is None:
                    gone.setdefault(factor, []).append(level)
        if gone:
            table["left_out"] = gone


def divided(value: Level, divisor: float) -> Level:
    """Return a number, or a size with its unit, over a divisor; whole numbers stay whole and at least 1."""
    if isinstance(value, str):
        return format_size(max(1, round(size_bytes(value) / divisor)))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value / divisor))
    return value / divisor


def _fewer_blocks(changed: dict[str, Any], blocks: int) -> Iterator[ChangedPart]:
    design = changed.get("design", {})
    stop = design.get("stop", "fixed")
    is_fixed = stop in ("fixed", "open")
    fewest = min(blocks, design.get("blocks", 5)) if is_fixed else blocks
    if is_fixed and fewest == design.get("blocks", 5):
        return
    changed["design"] = {
        **_kept_design(changed),
        "stop": stop if is_fixed else "fixed",
        "blocks": fewest,
    }
    yield ChangedPart(what=format_count(fewest, "block"))


def _kept_design(changed: Mapping[str, Any]) -> dict[str, Any]:
    """[design] without what only other rules than 'fixed' read."""
    idle = ("precision", "min_blocks", "max_blocks", "budget", "sessions")
    return {key: value for key, value in changed.get("design", {}).items() if key not in idle}


def _table(changed: Mapping[str, Any], label: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        t for t in changed["benchmark"] if (t.get("label") or t["name"]) == label
    )
    return found


def _noted(changed: dict[str, Any], option: str, parts: Sequence[ChangedPart]) -> dict[str, Any]:
    """Return the values with what was changed; further forms of the study do not apply to them."""
    changed = {key: value for key, value in changed.items() if key not in ("scale", "protocol")}
    return {**changed, "changed_by": [*changed.get("changed_by", ()), changed_by(option, parts)]}


def _prune_claims(changed: dict[str, Any], name: str, moved: Moved) -> None:
    """Leave untested a claim about levels that are left out or divided is not tested, and one over fewer levels is
    judged in part.

    Published numbers of such levels are left out, and figures without any level left.
    """
    for claim in changed.get("claim", ()):
        checks = claim.get("check", ())
        if lost := _lost(name, checks, moved):
            del claim["check"]
            claim["not_tested"] = packed(lost)
        elif fewer := _all_fewer(name, checks, moved):
            claim["in_part"] = packed(fewer)
    changed["published"] = [
        each for each in changed.get("published", ()) if not _lost(name, [each], moved)
    ]
    for table in changed["published"]:
        if fewer := _all_fewer(name, [table], moved):
            table["in_part"] = packed(fewer)
    figures = [
        _pruned_where(table, _labels_of(table), moved) for table in changed.get("figure", ())
    ]
    changed["figure"] = [table for table in figures if table is not None]


def _labels_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    return as_tuple(table.get("benchmark", ()))


def _lost(name: str, checks: Sequence[Mapping[str, Any]], moved: Moved) -> str:
    """Return what a scale took of the levels that checks, or a published number, compare; empty when they are all
    there.

    Of a level that one names, that it is left out or divided; of other factors of its benchmarks, that all levels are
    divided, or that fewer than two are left of the one that it goes along.
    """
    gone: dict[str, dict[str, None]] = {}
    smaller: dict[str, dict[str, None]] = {}
    for check in checks:
        named = _named(check)
        lines: list[Level] = []
        for (_, factor), levels in _of(check, moved).items():
            for level, (old, new) in levels.items():
                if new is None and level in named.get(factor, ()):
                    gone.setdefault(factor, {})[str(old)] = None
                elif (
                    new is not None
                    and canonical(new) != level
                    and level in named.get(factor, (level,))
                ):
                    smaller.setdefault(factor, {})[f"{old} to {new}"] = None
            if factor == check.get("along"):
                lines += [new for _, new in levels.values() if new is not None]
        if "along" in check and len({*map(canonical, lines)}) < 2:
            gone.setdefault(check["along"], {})["all but one"] = None
    left_out = [f"{factor} {', '.join(levels)}" for factor, levels in gone.items()]
    divided = [f"{factor} {', '.join(levels)}" for factor, levels in smaller.items()]
    if left_out and divided:
        return Note("scale-leaves-divides", name=name, levels=left_out, others=divided)
    if left_out:
        return Note("scale-leaves", name=name, levels=left_out)
    return Note("scale-divides", name=name, levels=divided) if divided else ""


def _all_fewer(name: str, checks: Sequence[Mapping[str, Any]], moved: Moved) -> str:
    fewer = list(dict.fromkeys(part for check in checks for part in _fewer(check, moved)))
    return Note("scale-measures", name=name, parts=fewer) if fewer else ""


def _fewer(check: Mapping[str, Any], moved: Moved) -> Iterator[Note]:
    """`3 of 7 levels of socket_buffer`: factors of which a check names no level, and some are left out."""
    named = _named(check)
    by_factor: dict[str, list[Level | None]] = {}
    for (_, factor), levels in _of(check, moved).items():
        by_factor.setdefault(factor, []).extend(new for _, new in levels.values())
    for factor, lefts in by_factor.items():
        if None in lefts and factor not in named:
            kept = len(lefts) - lefts.count(None)
            yield Note("levels-kept", kept=kept, total=len(lefts), factor=factor)


def _sides(table: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yield the levels of every side of a check."""
    for key in ("of", "to"):
        given = table.get(key, ())
        for text in [given] if isinstance(given, str) else given:
            yield side_of(text).levels


def _named(table: Mapping[str, Any]) -> dict[str, set[str]]:
    """Factor -> canonical levels, of all that a check or a published number names."""
    found: dict[str, set[str]] = {}
    for levels in (_flat_where(table.get("where", {})), *_sides(table)):
        for factor, given in levels.items():
            each = given if isinstance(given, list) else [given]
            found.setdefault(factor, set()).update(map(canonical, each))
    return found


def _of(table: Mapping[str, Any], moved: Moved) -> Moved:
    """Return the factors of the benchmarks that a check or a published number is of; all, where it names none."""
    labels = {
        *_labels_of(table),
        *(levels[BENCHMARK] for levels in _sides(table) if BENCHMARK in levels),
    }
    return {key: levels for key, levels in moved.items() if not labels or key[0] in labels}


def _left(factor: str, level: Level, labels: Sequence[str], moved: Moved) -> Level | None:
    """Return what is left of a level of a factor in some benchmarks (all, where none is named); None when nothing
    is."""
    tables = [
        left
        for (label, name), left in moved.items()
        if name == factor and (not labels or label in labels)
    ]
    if not tables:
        return level
    return next(
        (
            new
            for left in tables
            if (new := left.get(canonical(level), (level, None))[1]) is not None
        ),
        None,
    )


def _pruned_where(
    table: Mapping[str, Any], labels: Sequence[str], moved: Moved
) -> dict[str, Any] | None:
    found = dict(table)
    where = {}
    for factor, given in _flat_where(table.get("where", {})).items():
        levels = given if isinstance(given, list) else [given]
        left = [new for level in levels if (new := _left(factor, level, labels, moved)) is not None]
        if not left:
            return None
        where[factor] = left
    if where:
        found["where"] = where
    return found


def _flat_where(where: Mapping[str, Any]) -> dict[str, Any]:
    rest = {factor: levels for factor, levels in where.items() if factor != "link"}
    return {**rest, **{f"link.{name}": levels for name, levels in where.get("link", {}).items()}}
