"""Finds plug-ins: platforms, benchmarks, topologies and views, each in a module that registers it.

`register_platform`, `register_benchmark`, `register_topology` and `register_view` register what they are called with in
the module that calls them. Modules are looked for in three places: the directory of the kind's package, files that
`add_file` was called with, and entry points of other packages, whose group is named like the package of the kind. All
plug-ins have a `name`. A broken third-party package disables only its own plug-ins.
A third-party plug-in has an `Origin`, which is recorded with every run that uses it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distribution,
    entry_points,
)
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, get_args, get_type_hints

import vtax
from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.host.trust import refuse_file_of_others

KINDS = {
    "platform": "vtax.platforms",
    "benchmark": "vtax.benchmarks",
    "topology": "vtax.network.topologies",
    "view": "vtax.report.views",
}
"""Kind of plug-in -> its group of entry points, which is also the package of the shipped ones, but for views."""
_ANSWERS = "vtax.report.answers"
NO_PLUGIN = f"registers no {', '.join(KINDS)}"
"""Problem of a module in which nothing is registered."""
PUT_BESIDE = "PUT_BESIDE"
"""File of a wheel's metadata that names the files which `campaign.wheel` found beside those of vtax, a line each."""
_REGISTERED = "_vtax_plugins"  # the name of a module's list of them, in the module


@dataclass(frozen=True)
class Origin:
    """The origin of a third-party plug-in.

    package, version: of the distribution that registers it; empty for a module without one.
    source: where the package was installed from when no index has it: a URL of a version control system with its
        revision, or `local` for a directory or a file.
    file: name of the module's file, without its directory.
    sha256: of the content of that file.
    """

    package: str = ""
    version: str = ""
    source: str = ""
    file: str = ""
    sha256: str = ""


_FILES: list[ModuleType] = []
"""Modules of add_file."""


def register(kind: str, plugin: Any) -> None:
    """Register a plug-in in the module that called the caller, which is `register_platform` or one of its like."""
    sys._getframe(2).f_globals.setdefault(_REGISTERED, []).append((kind, plugin))


def registered(module: ModuleType) -> list[tuple[str, Any]]:
    """Return kind and plug-in of all that a module registered, in its order."""
    return list(vars(module).get(_REGISTERED, ()))


def discover(kind: str, shape: type, notify: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Return all plug-ins of a kind by their `name`, the shipped ones first: nothing else may replace one of them.

    kind: a key of KINDS.
    shape: of third-party plug-ins, as problem_of takes it.
    notify: called with a line for each skipped entry point, by default on stderr. They raise nothing.
    """
    return {plugin.name: plugin for plugin, _ in _find(kind, shape, notify or _print_on_stderr)}


@cache
def shipped_plugin(kind: str, name: str) -> Any | None:
    """Return a shipped plug-in whose module, or package, has its name; None for any other. Imports no other modules.

    kind: a key of KINDS.
    name: of the plug-in, as others wrote it.
    """
    own_name = name.replace("-", "_")
    for module in _shipped_modules(kind):
        if own_name in module.split("."):
            for plugin in _plugins_in(importlib.import_module(module), kind):
                if plugin.name == name:
                    return plugin
    return None


def has_foreign_plugin(kind: str) -> bool:
    """Return whether there may be a plug-in of a kind that vtax does not ship. Imports none.

    kind: a key of KINDS.
    """
    if _FILES or entry_points(group=KINDS[kind]):
        return True
    files = []
    for module in _shipped_modules(kind):
        spec = importlib.util.find_spec(module)
        files.append(Path(str(spec.origin if spec else "")))
    return not are_files_of_vtax(files)


def shipped_names(kind: str) -> frozenset[str]:
    """Return the names of the plug-ins of a kind that are part of vtax."""
    names: set[str] = set()
    for module in _modules_beside(kind):
        if _is_part_of_vtax(module):
            names.update(plugin.name for plugin in _plugins_in(module, kind))
    return frozenset(names)


def module_of(path: Path) -> ModuleType:
    """Return a Python file as a module. Raises BadInput where there is none, and whatever the file raises."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}", hint="name a Python file, such as unshare.py")
    module = ModuleType(f"vtax_file_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # pydantic resolves annotations through it
    code = compile(path.read_bytes(), path, "exec")  # a cached one may be of an earlier version
    exec(code, vars(module))
    return module


def add_file(path: Path) -> None:
    """Let this process find the plug-ins of a Python file too. Raises BadInput where it must not or cannot."""
    if path.is_file():
        refuse_file_of_others(path, path.stat())
    try:
        module = module_of(path)
    except (Exception, SystemExit) as error:  # a third-party file may raise anything on import
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{path} cannot be imported: {type(error).__name__}: {error}", where="--plugin"
        ) from error
    if not registered(module):
        what = f"{path} {NO_PLUGIN}"
        raise BadInput(what, where="--plugin", hint="vtax conformance FILE checks a plug-in")
    _FILES.append(module)


def origins(kind: str, shape: type) -> dict[str, Origin]:
    """Return the origins of the third-party plug-ins that `discover` finds, by name. Prints nothing."""
    return {
        plugin.name: _origin(source)
        for plugin, source in _find(kind, shape, lambda _: None)
        if not _is_part_of_vtax(source)
    }


def _find(
    kind: str, shape: type, notify: Callable[[str], None]
) -> Iterator[tuple[Any, EntryPoint | ModuleType]]:
    """Yield every plug-in of a kind, with its module, or with its entry point where it has one."""
    names: set[str] = set()
    for module in _modules_beside(kind):
        for plugin in _plugins_in(module, kind):
            names.add(plugin.name)
            yield plugin, module
    for module in _FILES:
        try:
            plugins = _check_plugins(_plugins_in(module, kind), shape, names)
        except ValueError as error:
            where = f"--plugin {module.__file__}"
            raise BadInput(
                str(error), where=where, hint="vtax conformance FILE checks it"
            ) from None
        for plugin in plugins:
            names.add(plugin.name)
            yield plugin, module
    for entry in entry_points(group=KINDS[kind]):
        try:
            plugins = _check_plugins(plugins_of_entry(entry, kind), shape, names)
        except (Exception, SystemExit) as error:  # a third-party package may raise anything
            is_ours = isinstance(error, ValueError)
            reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
            place = f"{entry.name} ({entry.value}) of {_package_of(entry)}"
            notify(f"skipped plug-in: {place}: {reason}")
            continue
        for plugin in plugins:
            names.add(plugin.name)
            yield plugin, entry


def _modules_beside(kind: str) -> Iterator[ModuleType]:
    """Yield the modules of the shipped plug-ins of a kind, imported.

    A plug-in is a module in the directory of its kind, or in a package there. An answer of a report is a package whose
    module `view` registers it, as `answers/result/view.py` does: the others are imported when they are needed.
    """
    return map(importlib.import_module, _shipped_modules(kind))


def _shipped_modules(kind: str) -> Iterator[str]:
    package = _ANSWERS if kind == "view" else KINDS[kind]
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, f"{package}."):
        in_package = module.name.count(".") > package.count(".") + 1
        if package != _ANSWERS or not in_package or module.name.endswith(".view"):
            yield module.name


def _plugins_in(module: ModuleType, kind: str) -> list[Any]:
    return [plugin for its_kind, plugin in registered(module) if its_kind == kind]


def plugins_of_entry(entry: EntryPoint, kind: str) -> list[Any]:
    """Return the plug-ins of a kind that the module of an entry point registers.

    Raises ValueError where it names no module, or one that registers none; and whatever its package raises.
    """
    module = entry.load()
    if not isinstance(module, ModuleType):
        raise ValueError(f"{entry.value} is not a module; write {entry.module}")
    plugins = _plugins_in(module, kind)
    if not plugins:
        raise ValueError(f"{entry.value} registers no {kind}")
    return plugins


def _check_plugins(plugins: list[Any], shape: type, names: set[str]) -> list[Any]:
    """Return third-party plug-ins. Raises ValueError for one of a wrong shape, or with a name of `names`."""
    for plugin in plugins:
        problem = problem_of(plugin, shape)
        if not problem and plugin.name in names:
            problem = f"a plug-in with the name {plugin.name!r} exists already"
        if problem:
            raise ValueError(problem)
    return plugins


def _is_part_of_vtax(source: EntryPoint | ModuleType) -> bool:
    """Tell whether a plug-in came with vtax, rather than with another package or as a file of its own."""
    return is_file_of_vtax(Path(str(getattr(source, "__file__", ""))))


def is_file_of_vtax(file: Path) -> bool:
    """Tell whether whoever has this version of vtax has a file as well; see `are_files_of_vtax`."""
    return are_files_of_vtax([file])


def are_files_of_vtax(files: Iterable[Path]) -> bool:
    """Tell whether whoever has this version of vtax has all of these files as well.

    The list of files of an installed package says so. In a checkout, what Git tracks is part of vtax; a file that was
    only put there is not. Without Git, every file in the directory of vtax is taken for a part of it.
    """
    package = Path(vtax.__file__).parent
    names = []
    for file in files:
        if not file.is_relative_to(package):
            return False
        names.append(file.relative_to(package.parent).as_posix())
    installed = _installed_files()
    if f"{package.name}/__init__.py" in installed:
        return installed.issuperset(names)
    tracked = _git_index(package.parents[1])
    is_compressed = tracked[4:8] == b"\0\0\0\4"  # version 4: names are not in it as they are
    if not tracked or is_compressed:
        return True
    return all(f"{package.parent.name}/{name}\0".encode() in tracked for name in names)


def _installed_files() -> set[str]:
    """Return the files of vtax in its installed package; of an editable one these are no modules."""
    try:
        package = distribution("vtax")
    except PackageNotFoundError:
        return set()
    record = (package.read_text("RECORD") or "").splitlines()
    put_beside = (package.read_text(PUT_BESIDE) or "").splitlines()
    return {line.partition(",")[0] for line in record} - {*put_beside}


def _git_index(checkout: Path) -> bytes:
    """Return the content of Git's index of a checkout; nothing where there is none that can be read."""
    directory = checkout / ".git"
    try:
        if directory.is_file():  # of a worktree: a line that says where it is
            directory = checkout / directory.read_text().removeprefix("gitdir:").strip()
        return (directory / "index").read_bytes()
    except OSError:
        return b""


def _origin(source: EntryPoint | ModuleType) -> Origin:
    module = source if isinstance(source, ModuleType) else sys.modules[source.module]
    path, sha256 = inspect.getsourcefile(module), ""
    if path is not None:
        with suppress(OSError):
            sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    file = Path(path).name if path else ""
    if isinstance(source, ModuleType) or source.dist is None:
        return Origin(file=file, sha256=sha256)
    return Origin(source.dist.name, source.dist.version, _source(source.dist), file, sha256)


def _source(distribution: Distribution) -> str:
    """Return what a distribution was installed from when it was no index (PEP 610); empty when it was one."""
    try:
        direct = parse_json(distribution.read_text("direct_url.json") or "{}")
        if not direct:
            return ""
        vcs = direct.get("vcs_info")
        return f"{vcs['vcs']}+{direct['url']}@{vcs['commit_id']}" if vcs else "local"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "local"


def problem_of(plugin: Any, shape: type) -> str:
    """Return why an object is no plug-in of a shape, in one sentence; empty when it is one.

    shape: a protocol, whose attributes and methods the plug-in must have, or a class that it must be an instance of,
    with values of the declared types.
    """
    what = f"a {shape.__name__.lower()}"
    if getattr(shape, "_is_protocol", False):
        missing = []
        for name in {**shape.__annotations__, **vars(shape)}:
            if not name.startswith("_") and not hasattr(plugin, name):
                missing.append(name)
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
    """Return whether a value is of a declared type, or of one of several."""
    alternatives = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return any(_is_of_one(value, alternative) for alternative in alternatives)


def _is_of_one(value: Any, hint: Any) -> bool:
    if is_dataclass(hint) and isinstance(hint, type):
        return isinstance(value, hint)
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _package_of(entry: EntryPoint) -> str:
    if entry.dist is None:
        return "a package without a name"
    return f"the package {entry.dist.name} {entry.dist.version}"


def _print_on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
