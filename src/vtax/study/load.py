"""Reads studies: shipped ones by name, one's own by path. Errors name the file, the table and the key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from vtax.errors import BadInput, all_of
from vtax.foreign_text import one_line
from vtax.levels import Level
from vtax.stats.terms import COUNTED, Stop
from vtax.study import limits, text
from vtax.study.check import checked
from vtax.study.claim_names import known_platforms, unknown_names
from vtax.study.declared import cut
from vtax.study.figure_names import unknown_names_of_figures
from vtax.study.job_files import with_job_files
from vtax.study.model import Study
from vtax.study.placed_factors import with_placed_factors
from vtax.study.programs import with_absolute_files
from vtax.study.two_sides import TwoSides, with_two_sides
from vtax.study.variants import Variant, with_protocol, with_scale

SHIPPED = Path(__file__).parent / "studies"
_DOCS_HINT = "docs/study-files.md explains every key; vtax schema prints them for an editor"
_FILE_HINT = "give the path of a TOML file; vtax studies lists the shipped ones"
_KEYS_OF_RULES = {"blocks": COUNTED, "max_blocks": ("precision", "verdict")}


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
        raise BadInput("there is no such file", where=cut(reference), hint=_FILE_HINT)
    near = get_close_matches(reference, shipped(), 3)
    raise BadInput(
        f"there is no study {cut(reference)!r}"
        + (f"; did you mean {', '.join(near)}?" if near else ""),
        hint="vtax studies lists the shipped ones; or give the path of a TOML file",
    )


@dataclass(frozen=True)
class Chosen:
    """The scale and the protocol of a study that the command line names, and two sides in place of its platforms."""

    scale: str = ""
    protocol: str = ""
    sides: TwoSides | None = None


def load(
    reference: str,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: Chosen = Chosen(),
) -> LoadedStudy:
    """Read and validate a study, see `examine`. Raises BadInput: no such study, not TOML, or not a valid study."""
    problems, loaded = examine(reference, overrides, chosen)
    if problems or loaded is None:
        raise refused(problems, str(find(reference)))
    return loaded


def examine(
    reference: str,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    chosen: Chosen = Chosen(),
) -> tuple[list[BadInput], LoadedStudy | None]:
    """(every problem of a study, the study without what is wrong); None when too little is left of it.

    overrides: top-level key -> value, or table -> {key: value}, put over what the file says (the command line's
    options); absent while these are not known yet. chosen: applied before these; the study is valid without it.
    Raises BadInput: no such study, not TOML, or no such scale or protocol.
    """
    path = find(reference)
    content = text.read(path)
    data = with_placed_factors(text.parse(content, str(path)))
    merged = _varied(data, chosen, str(path)) if chosen != Chosen() else dict(data)
    for key, value in (overrides or {}).items():
        below = merged.get(key, {})
        if not isinstance(value, Mapping):
            merged[key] = value
        elif isinstance(below, Mapping):
            merged[key] = {**below, **value}
    elsewhere, merged = with_absolute_files(merged, path)
    unread, merged = with_job_files(merged, path)
    problems, study = _examined(merged, str(path))
    problems += [*elsewhere, *unread]
    design = data.get("design", {})
    if not problems or (
        isinstance(design, Mapping) and "stop" in design
    ):  # else it may be misspelt
        problems += _idle_keys(design, str(path))
    if study is None:
        return problems, None
    problems += _idle_programs(study, str(path))
    listed = _names(data.get("platforms"))
    problems += unknown_names(study, listed, str(path))
    problems += unknown_names_of_figures(study, known_platforms(study, listed), str(path))
    if overrides is not None:
        problems += _idle_tables(
            [*_names(data.get("platforms")), *study.platforms], study, str(path)
        )
    return problems, LoadedStudy(study, str(path), hashlib.sha256(content).hexdigest())


def _varied(data: Mapping[str, Any], chosen: Chosen, source: str) -> dict[str, Any]:
    """Return the values of a valid study as chosen. Raises BadInput for a scale or protocol that it has not, and
    where it cannot have two sides."""
    study = validate(data, source)
    changed = dict(data)
    if chosen.protocol:
        name, protocols = chosen.protocol, study.protocol
        changed = with_protocol(changed, name, _named("protocol", name, protocols, study.name))
    if chosen.scale:
        changed = with_scale(
            changed, chosen.scale, _named("scale", chosen.scale, study.scale, study.name)
        )
    if chosen.sides:
        changed = with_two_sides(changed, chosen.sides)
    return changed


def _named(kind: str, name: str, known: Mapping[str, Variant], study: str) -> Variant:
    """Return the scale or protocol of a name. Raises BadInput with those that the study has."""
    if name in known:
        return known[name]
    hint = f"known: {', '.join(known)}" if known else f"it declares none: omit --{kind}"
    raise BadInput(f"{study} has no {kind} {name!r}", where=f"--{kind}", hint=hint)


def refused(problems: Iterable[BadInput], source: str) -> BadInput:
    """Return one error for all problems of a study."""
    return all_of(problems, where=source, hint=_DOCS_HINT)


def _names(platforms: Any) -> list[str]:
    """Return the platforms of a file whose own the command line has replaced, unchecked."""
    return (
        [name for name in platforms if isinstance(name, str)] if isinstance(platforms, list) else []
    )


def without_idle_keys(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's plain values without those keys of [design] that its rule never reads, which a file may not
    have."""
    design = declared.get("design")
    if not isinstance(design, Mapping):
        return dict(declared)
    stop = design.get("stop", "fixed")
    return {
        **declared,
        "design": {k: v for k, v in design.items() if stop in _KEYS_OF_RULES.get(k, (stop,))},
    }


def _idle_keys(design: Any, source: str) -> Iterator[BadInput]:
    """Yield a problem for each key of [design] that the rule which the file itself declares would never look at."""
    stop = design.get("stop", "fixed") if isinstance(design, Mapping) else None
    if stop not in get_args(Stop):
        return
    for key, rules in _KEYS_OF_RULES.items():
        if key in design and stop not in rules:
            belongs = " and ".join(map(repr, rules))
            yield BadInput(
                f"{key} has no effect under stop = {stop!r}: it belongs to {belongs}",
                where=f"{source}: [design], key {key}",
                hint=f"take {key} out, or set stop = {rules[0]!r}",
            )


def _idle_tables(platforms: Iterable[str], study: Study, source: str) -> Iterator[BadInput]:
    """Yield a problem for each [[platform]] that is neither among the platforms nor named by a setting of a link.

    platforms: those of the file and those of the command line.
    """
    named: set[Level] = set()
    for benchmark in study.benchmark:
        named.update(benchmark.link.values(), *benchmark.link_factors.values())
    for number, table in enumerate(study.platform, 1):
        if table.name not in (*platforms, *named):
            yield BadInput(
                f"the platform {table.name} is made and not used",
                where=f"{source}: [[platform]] number {number} ({table.name})",
                hint=f"add {table.name} to platforms, or take its table out",
            )


def _idle_programs(study: Study, source: str) -> Iterator[BadInput]:
    """Yield a problem for each [[program]] that no benchmark uses."""
    used = {table.name for table in study.benchmark}
    for number, table in enumerate(study.program, 1):
        if table.name not in used:
            yield BadInput(
                f"the program {table.name} is declared and not used",
                where=f"{source}: [[program]] number {number} ({table.name})",
                hint=f'add a [[benchmark]] with name = "{table.name}", or take its table out',
            )


def validate(data: Mapping[str, Any], source: str) -> Study:
    """Return a study from plain values. Raises BadInput naming source, table and key of every problem."""
    problems, study = _examined(data, source)
    if problems or study is None:
        raise refused(problems, source)
    return study


def _examined(data: Mapping[str, Any], source: str) -> tuple[list[BadInput], Study | None]:
    if found := limits.problem(data):
        place, what = found
        where = f"{source}: {describe_location(place, data)}"
        return [
            BadInput(what, where=where, hint="docs/study-files.md has the limits of a study")
        ], None
    problems, study = checked(data)
    return [
        BadInput(
            each.what,
            where=f"{source}: {describe_location(each.place, data)}",
            hint=each.hint or _DOCS_HINT,
        )
        for each in problems
    ], study


def describe_location(location: tuple[int | str, ...], data: Mapping[str, Any]) -> str:
    """Return a pydantic location in the words of a TOML file: `[[benchmark]] number 2 (stream), key
    factors.threads`."""
    if not location:
        return "the file as a whole"
    first, *rest = location
    if rest and isinstance(rest[0], int):
        number = int(rest.pop(0))
        entries = data.get(str(first))
        if isinstance(entries, list) and not any(isinstance(entry, dict) for entry in entries):
            return f"key {_shown(str(first))}"
        table = f"[[{_shown(str(first))}]] number {number + 1}"
        table += (
            _called(entries[number]) if isinstance(entries, list) and number < len(entries) else ""
        )
    elif rest or isinstance(data.get(str(first)), dict):
        table = f"[{_shown(str(first))}]"
    elif (
        isinstance(entries := data.get(str(first)), list)
        and entries
        and all(isinstance(e, dict) for e in entries)
    ):
        table = f"[[{_shown(str(first))}]]"
    else:
        return f"key {_shown(str(first))}"
    return table + (f", key {_shown(_path(rest))}" if rest else "")


def _path(keys: Sequence[int | str]) -> str:
    """Return keys below a table; entries count from 1: `factors.mtu number 2`, `metric number 1, unit`."""
    text = ""
    for before, key in zip(["", *keys], keys, strict=False):
        if isinstance(key, int):
            text += f" number {key + 1}"
        else:
            text += (", " if isinstance(before, int) else "." if text else "") + key
    return text.strip()


def _called(entry: Any) -> str:
    """Return what a table of several calls itself, in brackets."""
    names = (
        [entry.get("label"), entry.get("name"), entry.get("id")] if isinstance(entry, dict) else []
    )
    name = next((name for name in names if isinstance(name, str) and name), "")
    return f" ({_shown(name)})" if name else ""


def _shown(text: str) -> str:
    """Return a name out of a file in running text, whatever it is."""
    return one_line(text, 60)
