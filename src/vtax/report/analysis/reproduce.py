"""How to make a run again: the study as TOML, and the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.network.registry import packages_of
from vtax.report.analysis.values import Analysis


def study_toml(declared: Mapping[str, Any]) -> str:
    """A study's plain values as TOML that `vtax run FILE` takes; values left to vtax (null) are left out.

    Knows what studies hold: texts, numbers, truth values, lists of them, tables, and lists of tables.
    """
    return "\n".join(_table(declared, ())).strip() + "\n"


def commands(analysis: Analysis) -> tuple[str, ...]:
    """What to type on a like host, in a checkout of the version that measured, with the study saved as STUDY.toml."""
    named = [table.get("topology") for table in analysis.declared.get("benchmark", [])]
    more = "".join(f" --with {package}" for package in packages_of(filter(None, named)))
    tune = " --tune" if any(warning.code == "tuned" for warning in analysis.warnings) else ""
    of_drivers = {p.identity.get("driver") for p in analysis.platforms if p.available}
    return (
        f"# in a checkout of vtax {analysis.vtax_version}:",
        "sudo ./quickstart --install-only",
        "sudo .venv/bin/vtax image build" + more,
        *(["sudo .venv/bin/vtax image uml"] if "uml" in of_drivers else []),
        f"sudo .venv/bin/vtax run {analysis.study}.toml --seed {analysis.seed}{tune}",
    )


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    later: list[tuple[str, Any]] = []
    for key, value in table.items():
        is_list_of_tables = isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value)
        if is_list_of_tables or (isinstance(value, Mapping) and value and not path):
            later.append((key, value))
        elif value is not None and value not in ({}, []):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in later:
        name = ".".join(map(_key, (*path, key)))
        for each in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _table(each, (*path, key))


def _key(key: str) -> str:
    plain = key and all(c.isascii() and (c.isalnum() or c in "_-") for c in key)
    return key if plain else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
