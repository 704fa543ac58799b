"""Finds plug-ins: what the modules of a package define under a known name, and what other packages register.

A module of the package that defines the attribute is a plug-in; so is every entry point of the group named like
the package. Both are objects with a `name`.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any


def discover(package: ModuleType, attribute: str) -> dict[str, Any]:
    """Plug-ins by their `name`. An entry point may not replace a shipped plug-in: the shipped one wins."""
    found: dict[str, Any] = {}
    for entry in entry_points(group=package.__name__):
        plugin = entry.load()
        found[plugin.name] = plugin
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        if (plugin := getattr(module, attribute, None)) is not None:
            found[plugin.name] = plugin
    return found
