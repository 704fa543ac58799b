"""Reads studies: shipped ones by name, one's own by path. Errors name the file, the table and the key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtax.errors import BadInput, all_of, nearest_of
from vtax.foreign_text import one_line
from vtax.levels import Level
from vtax.stats.rules import RULES, readers_of
from vtax.study import limits, text
from vtax.study.check import checked
from vtax.study.chosen_benchmarks import with_benchmarks
from vtax.study.claim_names import known_platforms, unknown_names
from vtax.study.declared import shorten
from vtax.study.figure_names import unknown_names_of_figures
from vtax.study.ladder import ChosenLadder, ChosenOrders
from vtax.study.model import Study
from vtax.study.placed_factors import with_placed_factors
from vtax.study.programs import with_absolute_files
from vtax.study.two_sides import TwoSides, with_two_sides
from vtax.study.variants import Variant, with_protocol, with_scale

SHIPPED = Path(__file__).parent / "studies"
_DOCS_HINT = "docs/study-files.md explains every key; vtax schema prints them for an editor"
_FILE_HINT = "give the path of a TOML file; vtax studies lists the shipped ones"
_KEYS_OF_RULES = ("blocks", "max_blocks")  # that a file may not have under another rule


@dataclass(frozen=True)
class LoadedStudy:
    """A validated study and where it came from (a path, or `run NAME` when taken from the store).

    digest: SHA-256 of the file as hexadecimal digits; empty for what is no file.
    """

    study: Study
    source: str
    digest: str = ""


def shipped() -> dict[str, Path]:
    """Return the studies that come with vtax, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def find(reference: str) -> Path:
    """Return the file of a shipped study's name or of a path. Raises BadInput with the nearest names."""
    if reference in shipped():
        return shipped()[reference]
    path = Path(reference)
    if reference and os.path.lexists(path):
        return path
    if path.suffix == ".toml" or os.sep in reference:
        raise BadInput("there is no such file", where=shorten(reference), hint=_FILE_HINT)
    raise BadInput(
        f"there is no study {shorten(reference)!r}{nearest_of(reference, shipped())}",
        hint="vtax studies lists the shipped ones; or give the path of a TOML file",
    )


@dataclass(frozen=True)
class Chosen:
    """Choices of the command line: a scale and a protocol of a study, some of its benchmarks, and in place of its
    platforms two sides, a ladder or the orders of its mechanisms.

    benchmarks: labels; empty for all.
    """

    scale: str = ""
    protocol: str = ""
    sides: TwoSides | None = None
    ladder: ChosenLadder | ChosenOrders | None = None
    benchmarks: tuple[str, ...] = ()


def load(
    reference: str,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: Chosen = Chosen(),
) -> LoadedStudy:
    """Read and validate a study, see `examine`. Raises BadInput: no such study, not TOML, or not a valid study."""
    problems, loaded_study = examine(reference, overrides, chosen)
    if problems or loaded_study is None:
        raise refused(problems, str(find(reference)))
    return loaded_study


def examine(
    reference: str,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: Chosen = Chosen(),
) -> tuple[list[BadInput], LoadedStudy | None]:
    """(every problem of a study, the study without what is wrong); None when too little is left of it.

    overrides: top-level key -> value, or table -> {key: value}, put over what the file says (the command line's
    options); absent while these are not known yet.
    chosen: applied before these; the study is valid without it.
    Raises BadInput: no such study, not TOML, or no such scale or protocol.
    """
    path = find(reference)
    source = str(path)
    content = text.read(path)
    data = with_placed_factors(text.parse(content, source))
    values = dict(data) if chosen == Chosen() else _apply_choices(data, chosen, source)
    values = _put_overrides(values, overrides or {})
    problems_of_programs, values = with_absolute_files(values, path)
    problems, study = _validate(values, source)
    problems += problems_of_programs
    design = data.get("design", {})
    names_rule = isinstance(design, Mapping) and "stop" in design
    if not problems or names_rule:  # else the rule may be misspelt
        problems += _idle_keys(design, source)
    if study is None:
        return problems, None
    problems += _idle_programs(study, source)
    file_platforms = _platform_names(data.get("platforms"))
    problems += unknown_names(study, file_platforms, source)
    problems += unknown_names_of_figures(study, known_platforms(study, file_platforms), source)
    if overrides is not None:
        problems += _idle_platforms([*file_platforms, *study.platforms], study, source)
    return problems, LoadedStudy(study, source, hashlib.sha256(content).hexdigest())


def _put_overrides(
    values: Mapping[str, Any], overrides: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the values of a study with those of the command line; a value that stands for a table stays."""
    merged_values = dict(values)
    for key, value in overrides.items():
        table = merged_values.get(key, {})
        if not isinstance(value, Mapping):
            merged_values[key] = value
        elif isinstance(table, Mapping):
            merged_values[key] = {**table, **value}
    return merged_values


def _apply_choices(data: Mapping[str, Any], chosen: Chosen, source: str) -> dict[str, Any]:
    """Return the values of a valid study as chosen.

    Raises BadInput for a scale, protocol or benchmark that it does not have, and where it cannot have two sides or a
    ladder.
    """
    study = validate(data, source)
    values = dict(data)
    if chosen.protocol:
        protocol = _find_variant("protocol", chosen.protocol, study.protocol, study.name)
        values = with_protocol(values, chosen.protocol, protocol)
    if chosen.scale:
        scale = _find_variant("scale", chosen.scale, study.scale, study.name)
        values = with_scale(values, chosen.scale, scale)
    if chosen.sides:
        values = with_two_sides(values, chosen.sides)
    if chosen.ladder:
        values = chosen.ladder.put_into(values)
    if chosen.benchmarks:
        values = with_benchmarks(values, chosen.benchmarks)
    return values


def _find_variant(kind: str, name: str, variants: Mapping[str, Variant], study: str) -> Variant:
    """Return the scale or protocol of a name. Raises BadInput with those that the study has."""
    if name in variants:
        return variants[name]
    hint = f"known: {', '.join(variants)}" if variants else f"it declares none: omit --{kind}"
    raise BadInput(f"{study} has no {kind} {name!r}", where=f"--{kind}", hint=hint)


def refused(problems: Iterable[BadInput], source: str) -> BadInput:
    """Return one error for all problems of a study."""
    return all_of(problems, where=source, hint=_DOCS_HINT)


def _platform_names(platforms: Any) -> list[str]:
    """Return the platforms of a file whose own the command line has replaced, unchecked."""
    if not isinstance(platforms, list):
        return []
    return [name for name in platforms if isinstance(name, str)]


def without_idle_keys(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plain values without the keys of [design] that its rule never reads: no file may have them."""
    design = declared.get("design")
    if not isinstance(design, Mapping):
        return dict(declared)
    stop = design.get("stop", "fixed")
    read_values = {}
    for key, value in design.items():
        if key not in _KEYS_OF_RULES or stop in readers_of(key):
            read_values[key] = value
    return {**declared, "design": read_values}


def _idle_keys(design: Any, source: str) -> Iterator[BadInput]:
    """Yield a problem for each key of [design] that the rule which the file itself declares would never look at."""
    stop = design.get("stop", "fixed") if isinstance(design, Mapping) else None
    if not isinstance(stop, str) or stop not in RULES:
        return
    for key in _KEYS_OF_RULES:
        rules = readers_of(key)
        if key in design and stop not in rules:
            belongs = " and ".join(map(repr, rules))
            yield BadInput(
                f"{key} has no effect under stop = {stop!r}: it belongs to {belongs}",
                where=f"{source}: [design], key {key}",
                hint=f"take {key} out, or set stop = {rules[0]!r}",
            )


def _idle_platforms(platforms: Iterable[str], study: Study, source: str) -> Iterator[BadInput]:
    """Yield a problem for each [[platform]] that is neither among the platforms nor named by a setting of a link.

    platforms: those of the file and those of the command line.
    """
    names_of_links: set[Level] = set()
    for benchmark in study.benchmark:
        names_of_links.update(benchmark.link.values(), *benchmark.link_factors.values())
    for number, table in enumerate(study.platform, 1):
        if table.name not in (*platforms, *names_of_links):
            yield BadInput(
                f"the platform {table.name} is made and not used",
                where=f"{source}: [[platform]] number {number} ({table.name})",
                hint=f"add {table.name} to platforms, or take its table out",
            )


def _idle_programs(study: Study, source: str) -> Iterator[BadInput]:
    """Yield a problem for each [[program]] that no benchmark uses."""
    used_names = {table.name for table in study.benchmark}
    for number, table in enumerate(study.program, 1):
        if table.name not in used_names:
            yield BadInput(
                f"the program {table.name} is declared and not used",
                where=f"{source}: [[program]] number {number} ({table.name})",
                hint=f'add a [[benchmark]] with name = "{table.name}", or take its table out',
            )


def validate(data: Mapping[str, Any], source: str) -> Study:
    """Return a study from plain values. Raises BadInput naming source, table and key of every problem."""
    problems, study = _validate(data, source)
    if problems or study is None:
        raise refused(problems, source)
    return study


def _validate(data: Mapping[str, Any], source: str) -> tuple[list[BadInput], Study | None]:
    """(every problem, the study without what is wrong), as `checked` returns them; no study beyond the limits."""
    excess = limits.problem(data)
    if excess:
        place, what = excess
        where = f"{source}: {describe_location(place, data)}"
        hint = "docs/study-files.md has the limits of a study"
        return [BadInput(what, where=where, hint=hint)], None
    problems, study = checked(data)
    errors = []
    for problem in problems:
        where = f"{source}: {describe_location(problem.place, data)}"
        errors.append(BadInput(problem.what, where=where, hint=problem.hint or _DOCS_HINT))
    return errors, study


def describe_location(location: tuple[int | str, ...], data: Mapping[str, Any]) -> str:
    """Return a place in the words of a TOML file: `[[benchmark]] number 2 (stream), key factors.threads`."""
    if not location:
        return "the file as a whole"
    first, *rest = location
    name = _name_in_text(str(first))
    value = data.get(str(first))
    entries = value if isinstance(value, list) else []
    if rest and isinstance(rest[0], int):
        if isinstance(value, list) and not any(isinstance(entry, dict) for entry in entries):
            return f"key {name}"
        number = int(rest.pop(0))
        table = f"[[{name}]] number {number + 1}"
        if number < len(entries):
            table += _own_name(entries[number])
    elif rest or isinstance(value, dict):
        table = f"[{name}]"
    elif entries and all(isinstance(entry, dict) for entry in entries):
        table = f"[[{name}]]"
    else:
        return f"key {name}"
    return f"{table}, key {_name_in_text(_path(rest))}" if rest else table


def _path(keys: Sequence[int | str]) -> str:
    """Return keys below a table; entries count from 1: `factors.mtu number 2`, `metric number 1, unit`."""
    text = ""
    separator = ""
    for key in keys:
        if isinstance(key, int):
            text += f" number {key + 1}"
            separator = ", "
        else:
            text += separator + key
            separator = "."
    return text.strip()


def _own_name(entry: Any) -> str:
    """Return what a table of several calls itself, in brackets; empty where it has no name."""
    if isinstance(entry, dict):
        for key in ("label", "name", "id"):
            name = entry.get(key)
            if isinstance(name, str) and name:
                return f" ({_name_in_text(name)})"
    return ""


def _name_in_text(text: str) -> str:
    """Return a name out of a file in running text, whatever it is."""
    return one_line(text, 60)


def design_overrides(
    study: Study,
    blocks: int | None,
    sessions: int | None,
    budget: str | None,
) -> dict[str, Any]:
    """Return what --blocks, --sessions and --budget change in a study."""
    design: dict[str, Any] = {}
    if blocks is not None:
        design = {"stop": study.design.rule_class.counted_as, "blocks": blocks}
        if study.design.budget is not None:
            design["budget"] = None
    if budget is not None:
        if blocks is None:
            design["stop"] = study.design.rule_class.timed_as
        design["budget"] = budget
    if sessions is not None:
        design["sessions"] = sessions
    return {"design": design} if design else {}


def load_smaller(reference: str, scale: str, blocks: int) -> LoadedStudy:
    """Return a study as `vtax run --scale --blocks` measures it. blocks: 0 for as many as it has by itself.

    Raises BadInput as `load` does.
    """
    choices = Chosen(scale)
    loaded_study = load(reference, chosen=choices)
    if not blocks:
        return loaded_study
    return load(reference, design_overrides(loaded_study.study, blocks, None, None), choices)
