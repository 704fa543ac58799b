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
    canonical,
    flat,
    link_factor,
    link_factors,
    list_levels,
)
from vtax.messages import Note, packed
from vtax.question import Selection
from vtax.stats.rules import rule_class
from vtax.study import limits
from vtax.study.changes import ChangedPart, changed_by
from vtax.study.claims import ClaimSide, side_of
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


Variant = TypeVar("Variant", ScaleTable, ProtocolTable)
Scales = dict[Name, ScaleTable]
Protocols = dict[Name, ProtocolTable]
_COLOCATED = ("guests", "neighbour")
"""Keys of a benchmark that are factors."""
_KEYS_OF_OTHER_RULES = ("precision", "min_blocks", "max_blocks", "budget", "sessions")
"""Keys of [design] that the rule 'fixed' does not read, and sessions."""


@dataclass(frozen=True)
class MissingName:
    """A name of a table that the study does not have. place: in the study. what: a sentence."""

    place: tuple[str | int, ...]
    what: str


def find_missing_names(
    scales: Mapping[str, ScaleTable],
    protocols: Mapping[str, ProtocolTable],
    benchmarks: Sequence[Any],
) -> Iterator[MissingName]:
    """Yield every label, parameter, factor and level that no benchmark of the study has.

    benchmarks: the BenchmarkTables of the study.
    """
    tables = {table.title: table for table in benchmarks}
    for name, scale in scales.items():
        yield from _missing_names_of_scale(name, scale, tables)
    for name, protocol in protocols.items():
        for number, table_of_protocol in enumerate(protocol.benchmark):
            if table_of_protocol.label not in tables:
                place = ("protocol", name, "benchmark", number, "label")
                yield MissingName(place, f"the study has no benchmark {table_of_protocol.label!r}")


def _missing_names_of_scale(
    name: str, scale: ScaleTable, tables: Mapping[str, Any]
) -> Iterator[MissingName]:
    for key, divisor in scale.divide.items():
        values: list[Level] = []
        for table in tables.values():
            values += _values_of(table, key)
        problem = _why_not_divided(values, divisor)
        if problem:
            yield MissingName(("scale", name, "divide", key), f"{key} {problem}")
    for number, scaled_table in enumerate(scale.benchmark):
        place = ("scale", name, "benchmark", number)
        if scaled_table.label in tables:
            yield from _missing_names_of_benchmark(scaled_table, tables[scaled_table.label], place)
        else:
            what = f"the study has no benchmark {scaled_table.label!r}"
            yield MissingName((*place, "label"), what)


def _missing_names_of_benchmark(
    scaled_table: ScaledBenchmark, table: Any, place: tuple[str | int, ...]
) -> Iterator[MissingName]:
    for key, divisor in scaled_table.divide.items():
        values = _values_of(table, key)
        what = ""
        if not values:
            what = f"{scaled_table.label} gives {key} no value to divide"
        elif problem := _why_not_divided(values, divisor):
            what = f"{key} of {scaled_table.label} {problem}"
        if what:
            yield MissingName((*place, "divide", key), what)
    for factor, levels in scaled_table.levels.items():
        where = (*place, "levels", factor)
        if factor not in table.varied:
            yield MissingName(where, f"{scaled_table.label} has no factor {factor!r}")
            continue
        known_levels = [canonical(factor, level) for level in table.varied[factor]]
        for level in levels:
            if canonical(factor, level) not in known_levels:
                yield MissingName(where, f"{scaled_table.label} has no level {level!r} of {factor}")
        if not levels:
            yield MissingName(where, f"no level of {factor} stays")


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


def with_protocol(data: Mapping[str, Any], name: str, protocol: ProtocolTable) -> dict[str, Any]:
    """Return the values of a study under one of its protocols."""
    design = {
        "stop": "fixed",
        "blocks": protocol.blocks,
        "trials": protocol.trials,
        "order": protocol.order,
    }
    changes = []
    for key in ("order", "blocks", "trials"):
        changes.append(ChangedPart(what=f"{key} = {design[key]}"))
    for benchmark in protocol.benchmark:
        parameters = ", ".join(f"{key} = {value}" for key, value in benchmark.parameters.items())
        changes.append(ChangedPart(what=parameters, label=benchmark.label))
    own_design = _design_for_fixed(data)
    if protocol.order == "sequential":
        own_design.pop("sessions", None)
    values = {
        **data,
        "benchmark": [_put_parameters(table, protocol) for table in data["benchmark"]],
        "design": {**own_design, **design},
    }
    return _with_changes(values, f"--protocol {name}", changes)


def _put_parameters(table: Mapping[str, Any], protocol: ProtocolTable) -> Mapping[str, Any]:
    """Return the table of a benchmark with the parameters that a protocol puts over its own."""
    for benchmark in protocol.benchmark:
        if benchmark.label == _label_of(table):
            table = {**table, "parameters": {**table.get("parameters", {}), **benchmark.parameters}}
    return table


def with_scale(data: Mapping[str, Any], name: str, scale: ScaleTable) -> dict[str, Any]:
    """Return the values of a study at one of its scales.

    A claim about levels that are not measured is not tested, and a published number of them is left out.
    """
    changes = [ChangedPart(what=text) for text in _show_divisors(scale.divide)]
    factors: list[ScaledFactor] = []
    benchmarks = []
    for table in data["benchmark"]:
        label = _label_of(table)
        scaled_table = _find_scaled(scale, label)
        divisors = {**scale.divide, **scaled_table.divide}
        own_factors = _scale_factors(table, scaled_table.levels, divisors)
        factors += own_factors
        benchmarks.append(_scale_benchmark(table, divisors, own_factors))
        texts = [
            *_show_divisors(scaled_table.divide),
            *_show_kept_levels(scaled_table, own_factors),
        ]
        if texts:
            changes.append(ChangedPart(what=", ".join(texts), label=label))
    values = {**data, "benchmark": benchmarks}
    design = _limit_blocks(data, scale.blocks)
    if design is not None:
        values["design"] = design
        changes.append(ChangedPart(what=format_count(design["blocks"], "block")))
    measured_levels = _MeasuredLevels(name, factors)
    values["claim"] = list(map(measured_levels.scale_claim, data.get("claim", ())))
    published = map(measured_levels.scale_published, data.get("published", ()))
    values["published"] = [table for table in published if table is not None]
    figures = map(measured_levels.scale_figure, data.get("figure", ()))
    values["figure"] = [table for table in figures if table is not None]
    return _with_changes(values, f"--scale {name}", changes)


def _label_of(table: Mapping[str, Any]) -> str:
    return str(table.get("label") or table["name"])


def _find_scaled(scale: ScaleTable, label: str) -> ScaledBenchmark:
    """Return how a scale makes one benchmark smaller; the last of several tables about it counts."""
    for scaled_table in reversed(scale.benchmark):
        if scaled_table.label == label:
            return scaled_table
    return ScaledBenchmark(label=label)


def _show_divisors(divisors: Mapping[str, float]) -> list[str]:
    return [f"{key} ÷ {divisor:g}" for key, divisor in divisors.items()]


def _show_kept_levels(scaled_table: ScaledBenchmark, factors: Sequence[ScaledFactor]) -> list[str]:
    """Return `file_size 64MiB, 1GiB of 3 levels` of every factor of which a scale names the levels that stay."""
    texts = []
    for factor in factors:
        if factor.name in scaled_table.levels:
            kept_levels = [
                str(level.written) for level in factor.levels if level.measured is not None
            ]
            texts.append(f"{factor.name} {', '.join(kept_levels)} of {len(factor.levels)} levels")
    return texts


@dataclass(frozen=True)
class ScaledLevel:
    """A level of a study, and the one that a scale measures in its place.

    key: the canonical form of the level.
    written: as the study has it.
    measured: None where it is left out.
    measured_key: its canonical form; empty where it is left out.
    """

    key: str
    written: Level
    measured: Level | None
    measured_key: str


@dataclass(frozen=True)
class ScaledFactor:
    """A factor of the benchmark of a label, with every level that the study gives it."""

    label: str
    name: str
    levels: tuple[ScaledLevel, ...]

    @property
    def measured(self) -> list[Level]:
        """The levels that are measured."""
        return [level.measured for level in self.levels if level.measured is not None]


def _scale_factors(
    table: Mapping[str, Any],
    staying_levels: Mapping[str, Sequence[Level]],
    divisors: Mapping[str, float],
) -> list[ScaledFactor]:
    """Return what a scale makes of the levels of every factor of a benchmark.

    table: of the benchmark.
    staying_levels: by factor; all stay of a factor that is not there.
    divisors: parameter -> divisor.
    """
    parameters = table.get("factors", {})
    colocated = {name: table[name] for name in _COLOCATED if name in table}
    levels_by_name = {**parameters, **link_factors(table.get("link_factors", {})), **colocated}
    factors = []
    for name, written_levels in levels_by_name.items():
        kept_keys = {canonical(name, level) for level in staying_levels.get(name, written_levels)}
        divisor = divisors.get(name, 1.0) if name in parameters else 1.0
        levels: dict[str, ScaledLevel] = {}
        for study_level in written_levels:
            key = canonical(name, study_level)
            if key in kept_keys:
                smaller = study_level if divisor == 1 else divided(study_level, divisor)
                levels[key] = ScaledLevel(key, study_level, smaller, canonical(name, smaller))
            else:
                levels[key] = ScaledLevel(key, study_level, None, "")
        factors.append(ScaledFactor(_label_of(table), name, tuple(levels.values())))
    return factors


def _scale_benchmark(
    table: Mapping[str, Any], divisors: Mapping[str, float], factors: Sequence[ScaledFactor]
) -> dict[str, Any]:
    """Return the table of a benchmark made smaller. factors: its own."""
    levels_by_factor = {factor.name: factor.measured for factor in factors}
    scaled_table = dict(table)
    if "parameters" in table:
        parameters = dict(table["parameters"])
        for key in parameters.keys() & divisors.keys():
            parameters[key] = divided(parameters[key], divisors[key])
        scaled_table["parameters"] = parameters
    if "factors" in table:
        scaled_table["factors"] = {name: levels_by_factor[name] for name in table["factors"]}
    if "link_factors" in table:
        settings = table["link_factors"]
        scaled_table["link_factors"] = {
            name: levels_by_factor[link_factor(name)] for name in settings
        }
    for name in _COLOCATED:
        if name in table:
            scaled_table[name] = levels_by_factor[name]
    return scaled_table


def divided(value: Level, divisor: float) -> Level:
    """Return a number, or a size with its unit, over a divisor; whole numbers stay whole and at least 1."""
    if isinstance(value, str):
        return format_size(max(1, round(size_bytes(value) / divisor)))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(1, round(value / divisor))
    return value / divisor


def _limit_blocks(data: Mapping[str, Any], blocks: int | None) -> dict[str, Any] | None:
    """Return the design with at most so many blocks; None where a scale limits none, or the design has no more."""
    if blocks is None:
        return None
    design = data.get("design", {})
    rule = rule_class(design)
    if rule.is_counted and design.get("blocks", 5) <= blocks:
        return None
    return {**_design_for_fixed(data), "stop": rule.counted_as, "blocks": blocks}


def _design_for_fixed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return [design] without what only other rules than 'fixed' read."""
    design = dict(data.get("design", {}))
    for key in _KEYS_OF_OTHER_RULES:
        design.pop(key, None)
    return design


def _with_changes(
    data: Mapping[str, Any], option: str, parts: Sequence[ChangedPart]
) -> dict[str, Any]:
    """Return the values with what was changed; further forms of the study do not apply to them."""
    values = {**data, "changed_by": [*data.get("changed_by", ()), changed_by(option, parts)]}
    values.pop("scale", None)
    values.pop("protocol", None)
    return values


class _MeasuredLevels:
    """The levels that a scale measures: what becomes of the claims, published numbers and figures about them."""

    def __init__(self, scale: str, factors: Sequence[ScaledFactor]) -> None:
        """Know all levels of a study. scale: its name."""
        self._scale = scale
        self._factors = factors

    def scale_claim(self, claim: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a claim as it can be judged at the scale.

        It is not tested where levels that its checks name are left out or divided, and judged in part over fewer
        levels.
        """
        checks = claim.get("check", ())
        reason = self._why_not_judged(checks)
        if not reason:
            return self._mark_part(claim, checks)
        untested_claim = {**claim, "not_tested": packed(reason)}
        untested_claim.pop("check", None)
        return untested_claim

    def scale_published(self, table: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a published number, with the factors that have fewer levels; None where its own are not measured."""
        return None if self._why_not_judged([table]) else self._mark_part(table, [table])

    def scale_figure(self, table: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a figure with the levels of its `where` that are measured; None where a factor has none.

        The others are kept with it, in `left_out`.
        """
        labels = as_tuple(table.get("benchmark", ()))
        where: dict[str, list[Level]] = {}
        omitted_levels: dict[str, list[Level]] = {}
        for factor, choices in flat(table.get("where", {})).items():
            for level in list_levels(choices):
                measured_level = self._measured_level(factor, level, labels)
                if measured_level is None:
                    omitted_levels.setdefault(factor, []).append(level)
                else:
                    where.setdefault(factor, []).append(measured_level)
            if factor not in where:
                return None
        scaled_table = dict(table)
        if where:
            scaled_table["where"] = where
        if omitted_levels:
            scaled_table["left_out"] = omitted_levels
        return scaled_table

    def _measured_level(self, name: str, study_level: Level, labels: Sequence[str]) -> Level | None:
        """Return the level that is measured in place of one of the study; None where no benchmark measures one.

        name: of the factor.
        study_level: as the study has it.
        labels: the benchmarks that it may be of; none for all.
        """
        key = canonical(name, study_level)
        is_factor = False
        for factor in self._factors:
            if factor.name != name or (labels and factor.label not in labels):
                continue
            is_factor = True
            for level in factor.levels:
                if level.key == key and level.measured is not None:
                    return level.measured
        return None if is_factor else study_level

    def _mark_part(
        self, table: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Return a claim or a published number with the factors of which fewer levels are measured.

        checks: what names its levels.
        """
        parts: list[Note] = []
        for check in checks:
            parts += self._reduced_factors(check)
        if not parts:
            return table
        note = Note("scale-measures", name=self._scale, parts=list(dict.fromkeys(parts)))
        return {**table, "in_part": packed(note)}

    def _reduced_factors(self, check: Mapping[str, Any]) -> Iterator[Note]:
        """Yield `3 of 7 levels of socket_buffer`: factors of which a check names no level, and some are left out."""
        levels_named = _named_levels(check)
        levels: dict[str, list[ScaledLevel]] = {}
        for factor in self._factors_of(check):
            levels.setdefault(factor.name, []).extend(factor.levels)
        for name, all_levels in levels.items():
            kept_count = sum(level.measured is not None for level in all_levels)
            if kept_count < len(all_levels) and name not in levels_named:
                yield Note("levels-kept", kept=kept_count, total=len(all_levels), factor=name)

    def _why_not_judged(self, checks: Sequence[Mapping[str, Any]]) -> str:
        """Return which levels that checks, or a published number, compare are lost; empty when all are there.

        A level that one names is lost where it is left out or divided. Of other factors of its benchmarks, divided
        levels are lost, and all levels of the factor that it goes along where fewer than two are left.
        """
        omitted_levels = _LevelList()
        divided_levels = _LevelList()
        for check in checks:
            levels_named = _named_levels(check)
            along = check.get("along")
            keys_along = set()
            for factor in self._factors_of(check):
                for level in factor.levels:
                    is_named = level.key in levels_named.get(factor.name, ())
                    is_judged = is_named or factor.name not in levels_named
                    if level.measured is None:
                        if is_named:
                            omitted_levels.add(factor.name, str(level.written))
                    elif level.measured_key != level.key and is_judged:
                        divided_levels.add(factor.name, f"{level.written} to {level.measured}")
                    if level.measured is not None and factor.name == along:
                        keys_along.add(level.measured_key)
            if along is not None and len(keys_along) < 2:
                omitted_levels.add(along, "all but one")
        if omitted_levels.lines and divided_levels.lines:
            code = "scale-leaves-divides"
            return Note(
                code, name=self._scale, levels=omitted_levels.lines, others=divided_levels.lines
            )
        if omitted_levels.lines:
            return Note("scale-leaves", name=self._scale, levels=omitted_levels.lines)
        if divided_levels.lines:
            return Note("scale-divides", name=self._scale, levels=divided_levels.lines)
        return ""

    def _factors_of(self, check: Mapping[str, Any]) -> list[ScaledFactor]:
        """Return the factors of the benchmarks that a check or a published number is of; all, where it names none."""
        labels = set(as_tuple(check.get("benchmark", ())))
        for side in _sides_of(check):
            if BENCHMARK in side.levels:
                labels.add(str(side.levels[BENCHMARK]))
        return [factor for factor in self._factors if not labels or factor.label in labels]


class _LevelList:
    """Levels by factor, each once."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add(self, factor: str, text: str) -> None:
        texts = self._texts.setdefault(factor, [])
        if text not in texts:
            texts.append(text)

    @property
    def lines(self) -> list[str]:
        """`file_size 64MiB, 1GiB` of every factor."""
        return [f"{factor} {', '.join(texts)}" for factor, texts in self._texts.items()]


def _sides_of(check: Mapping[str, Any]) -> Iterator[ClaimSide]:
    """Yield every side of a check."""
    for key in ("of", "to"):
        for text in as_tuple(check.get(key, ())):
            yield side_of(text)


def _named_levels(table: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the canonical levels of every factor that a check or a published number names."""
    levels: dict[str, set[str]] = {}
    for choices in (flat(table.get("where", {})), *(side.levels for side in _sides_of(table))):
        for factor, keys in Selection.of(choices).canonical.items():
            levels.setdefault(factor, set()).update(keys)
    return levels
