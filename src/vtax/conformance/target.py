"""The plug-in under test: from a file, an importable module, or an entry point of an installed package."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from vtax.errors import BadInput
from vtax.host.plugins import (
    KINDS,
    NO_PLUGIN,
    module_of,
    plugins_of_entry,
    registered,
    shipped_names,
)

_FORMS = "a file such as my_package/unshare.py, a module such as my_package.unshare, or the name of an entry point"


@dataclass(frozen=True)
class Target:
    """The plug-in under test. kind: a key of KINDS. argument: of the command line."""

    kind: str
    plugin: Any
    argument: str

    @property
    def shipped_names(self) -> frozenset[str]:
        """Names of shipped plug-ins of this kind; empty when the plug-in itself is shipped."""
        is_shipped = self.argument.startswith("vtax.")
        return frozenset() if is_shipped else shipped_names(self.kind)


def find(argument: str) -> list[Target]:
    """Return all plug-ins of a file, a module or an entry point, in the order of the file.

    Raises BadInput when there is none, or when the import fails.
    """
    try:
        plugins = _plugins(argument)
    except (Exception, SystemExit) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{argument} cannot be loaded: {type(error).__name__}: {error}", hint=f"name {_FORMS}"
        ) from error
    if not plugins:
        hint = f"register one in it, or name {_FORMS}"
        raise BadInput(f"{argument} {NO_PLUGIN}", hint=hint)
    return [Target(kind, plugin, argument) for kind, plugin in plugins]


def _plugins(argument: str) -> list[tuple[str, Any]]:
    """Return kind and plug-in of all that an argument names. Raises whatever an import raises."""
    if argument.endswith(".py") or Path(argument).is_file():
        return registered(module_of(Path(argument)))
    pairs: list[tuple[str, Any]] = []
    for kind, group in KINDS.items():
        for entry in entry_points(group=group, name=argument):
            try:
                plugins = plugins_of_entry(entry, kind)
            except ValueError as error:
                raise BadInput(str(error), where=group) from error
            pairs += [(kind, plugin) for plugin in plugins]
    return pairs or registered(importlib.import_module(argument))
