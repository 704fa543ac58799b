"""The plug-in under test: from a file, an importable module, or an entry point of an installed package."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from vtax.errors import BadInput
from vtax.host.plugins import ATTRIBUTES, SHIPPED, module_of

GROUPS = {
    "platform": "vtax.platforms",
    "benchmark": "vtax.benchmarks",
    "topology": "vtax.network.topologies",
    "view": "vtax.report.views",
}
_FORMS = "a file such as my_package/unshare.py, a module such as my_package.unshare, or the name of an entry point"


@dataclass(frozen=True)
class Target:
    """The plug-in under test. kind: a key of ATTRIBUTES. argument: of the command line."""

    kind: str
    plugin: Any
    argument: str

    @property
    def shipped_names(self) -> frozenset[str]:
        """Names of shipped plug-ins of this kind; empty when the plug-in itself is shipped."""
        modules = "" if self.argument.startswith("vtax.") else SHIPPED.get(GROUPS[self.kind], "")
        return frozenset(modules.replace("_", "-").split())


def find(argument: str) -> list[Target]:
    """Return all plug-ins of a file, a module or an entry point, in the order of ATTRIBUTES.

    Raises BadInput when there is none, or when the import fails.
    """
    try:
        found = _plugins(argument)
    except (Exception, SystemExit) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{argument} cannot be loaded: {type(error).__name__}: {error}", hint=f"name {_FORMS}"
        ) from error
    if not found:
        hint = f"define one of them in it, or name {_FORMS}"
        raise BadInput(f"{argument} defines none of {', '.join(ATTRIBUTES.values())}", hint=hint)
    return [Target(kind, plugin, argument) for kind, plugin in found]


def _plugins(argument: str) -> list[tuple[str, Any]]:
    if argument.endswith(".py") or Path(argument).is_file():
        return _defined(module_of(Path(argument)))
    entries = [
        (k, e)
        for k, group in GROUPS.items()
        for e in entry_points(group=group)
        if e.name == argument
    ]
    if entries:
        return [(kind, _loaded(kind, entry)) for kind, entry in entries]
    return _defined(importlib.import_module(argument))


def _loaded(kind: str, entry: EntryPoint) -> Any:
    """Return the plug-in of an entry point. Raises BadInput for a whole module, and what its package raises."""
    plugin = entry.load()
    if isinstance(plugin, ModuleType):
        what = f"the entry point {entry.name} = {entry.value} is a module, not a {kind}"
        raise BadInput(what, where=GROUPS[kind], hint=f"write {entry.value}:{ATTRIBUTES[kind]}")
    return plugin


def _defined(module: ModuleType) -> list[tuple[str, Any]]:
    return [(kind, vars(module)[name]) for kind, name in ATTRIBUTES.items() if name in vars(module)]
