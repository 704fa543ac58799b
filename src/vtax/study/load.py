"""Reads studies: shipped ones by name, one's own by path. Errors name the file, the table and the key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vtax.errors import BadInput
from vtax.study.keys import refusal
from vtax.study.model import Study

SHIPPED = Path(__file__).parent / "studies"
_KEYS_OF_RULES = {"blocks": ("fixed",), "max_blocks": ("precision", "verdict"), "spend": ("budget",)}


@dataclass(frozen=True)
class LoadedStudy:
    """A validated study and where it came from (a path, or `run NAME` when taken from the store)."""

    study: Study
    source: str


def shipped() -> dict[str, Path]:
    """The studies that come with vtax, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def find(reference: str) -> Path:
    """The file of a shipped study's name or of a path. Raises BadInput with the nearest names."""
    if reference in shipped():
        return shipped()[reference]
    path = Path(reference)
    if path.is_file():
        return path
    if path.is_dir():
        raise BadInput(
            f"{reference!r} is a directory, not a study",
            cure="give the path of a TOML file; vtax studies lists the shipped ones",
        )
    near = get_close_matches(reference, shipped(), 3)
    raise BadInput(
        f"there is no study {reference!r}" + (f"; did you mean {', '.join(near)}?" if near else ""),
        cure="vtax studies lists the shipped ones; or give the path of a TOML file",
    )


def load(reference: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> LoadedStudy:
    """Read and validate a study.

    overrides: top-level key -> value, or table -> {key: value}, put over what the file says (the command line's
    options); absent while these are not known yet. Raises BadInput: no such study, not TOML, or not a valid study.
    """
    path = find(reference)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        cure = "mend that place; docs/study-files.md shows how a study is written"
        raise BadInput(f"the study is not valid TOML: {error}", where=str(path), cure=cure) from error
    except OSError as error:
        cure = "make it readable, or give another file"
        raise BadInput(f"the study cannot be read: {error.strerror}", where=str(path), cure=cure) from error
    merged = dict(data)
    for key, value in (overrides or {}).items():
        merged[key] = {**data.get(key, {}), **value} if isinstance(value, Mapping) else value
    study = validate(merged, str(path))
    _refuse_idle_keys(data.get("design", {}), str(path))
    if overrides is not None:
        _refuse_idle_tables({*data.get("platforms", ()), *study.platforms}, study, str(path))
    return LoadedStudy(study, str(path))


def _refuse_idle_keys(design: Mapping[str, Any], source: str) -> None:
    """Raise BadInput for a key of [design] that the rule which the file itself declares would never look at."""
    stop = design.get("stop", "fixed")
    for key, rules in _KEYS_OF_RULES.items():
        if key in design and stop not in rules:
            belongs = " and ".join(map(repr, rules))
            raise BadInput(
                f"{key} does nothing under stop = {stop!r}: it belongs to {belongs}",
                where=f"{source}: [design], key {key}",
                cure=f"take {key} out, or set stop = {rules[0]!r}",
            )


def _refuse_idle_tables(platforms: Iterable[str], study: Study, source: str) -> None:
    """Raise BadInput for a [[platform]] that is neither among the platforms nor the peer of a link.

    platforms: those of the file and those of the command line.
    """
    links = [(table.link, table.link_factors) for table in study.benchmark]
    peers = [peer for link, factors in links for peer in (link.get("peer"), *factors.get("peer", ()))]
    for number, table in enumerate(study.platform, 1):
        if table.name not in (*platforms, *peers):
            raise BadInput(
                f"the platform {table.name} is made and not used",
                where=f"{source}: [[platform]] number {number} ({table.name})",
                cure=f"add {table.name} to platforms, or take its table out",
            )


def validate(data: Mapping[str, Any], source: str) -> Study:
    """A study from plain values. Raises BadInput naming source, table and key of the first problem."""
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        place, told = refusal(Study, error)
        raise BadInput(
            told,
            where=f"{source}: {describe_location(place, data)}",
            cure="docs/study-files.md explains every key; vtax schema prints them for an editor",
        ) from error


def describe_location(location: tuple[int | str, ...], data: Mapping[str, Any]) -> str:
    """A pydantic location in the words of a TOML file: `[[benchmark]] number 2 (stream), key factors.threads`."""
    if not location:
        return "the file as a whole"
    first, *rest = location
    if rest and isinstance(rest[0], int):
        number = rest.pop(0)
        entries = data.get(str(first))
        if isinstance(entries, list) and not any(isinstance(entry, dict) for entry in entries):
            return f"key {first}"
        table = f"[[{first}]] number {int(number) + 1}"
        try:
            entry = data[str(first)][number]
            table += f" ({entry.get('label') or entry['name']})" if isinstance(entry, dict) else ""
        except (KeyError, IndexError, TypeError):
            pass
    elif rest or isinstance(data.get(str(first)), dict):
        table = f"[{first}]"
    else:
        return f"key {first}"
    return table + (f", key {'.'.join(map(str, rest))}" if rest else "")
