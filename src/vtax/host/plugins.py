"""Finds plug-ins: what the modules of a package define under a known name, and what other packages register.

A module of the package that defines the attribute is a plug-in; so is every entry point of the group named like
the package. Both are objects with a `name`. Somebody else's broken package costs its own plug-ins and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, get_type_hints


def discover(
    package: ModuleType, attribute: str, shape: type, tell: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Plug-ins by their `name`, the shipped ones first: an entry point may not replace one of them.

    shape: what an entry point must be, see problem_of. tell: given a sentence for
    every entry point that is left out; standard error when absent. Raises nothing for those.
    """
    found: dict[str, Any] = {}
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        if (plugin := getattr(module, attribute, None)) is not None:
            found[plugin.name] = plugin
    for entry in entry_points(group=package.__name__):
        try:
            plugin = _loaded(entry, shape)
            if plugin.name in found:
                raise ValueError(f"there is one of the name {plugin.name!r} already")
        except (Exception, SystemExit) as error:  # whatever somebody else's package does when it is imported
            told = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
            (tell or _on_stderr)(f"left out: {entry.name} ({entry.value}) of {_package_of(entry)}: {told}")
        else:
            found[plugin.name] = plugin
    return found


def _loaded(entry: EntryPoint, shape: type) -> Any:
    """The plug-in of an entry point. Raises whatever its package raises, and ValueError for what is none."""
    plugin = entry.load()
    if problem := problem_of(plugin, shape):
        raise ValueError(problem)
    return plugin


def problem_of(plugin: Any, shape: type) -> str:
    """Why an object is no plug-in of a shape, in one sentence; empty when it is one.

    shape: a protocol, whose attributes and methods the plug-in must have, or a class that it must be an instance of,
    with values of the declared types.
    """
    what = f"a {shape.__name__.lower()}"
    if getattr(shape, "_is_protocol", False):
        names = [name for name in {**shape.__annotations__, **vars(shape)} if not name.startswith("_")]
        missing = [name for name in names if not hasattr(plugin, name)]
        return f"{what} must have {', '.join(missing)}, and it has not" if missing else ""
    if not isinstance(plugin, shape):
        return f"{what} must be an instance of {shape.__module__}.{shape.__qualname__}, or of a class derived from it"
    for name, hint in get_type_hints(shape).items():
        if not hasattr(plugin, name):
            return f"{what} must have {name}, and it has not"
        if not _is_of(getattr(plugin, name), hint):
            return f"{what} has {name} = {getattr(plugin, name)!r}, which is not of the type {hint}"
    return ""


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type."""
    if is_dataclass(hint) and isinstance(hint, type):
        return isinstance(value, hint)
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _package_of(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def _on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
