"""Discovers plug-ins: modules of a package with a known attribute, single files, and entry points of other packages.

A module of the package that defines the attribute holds a plug-in, or a tuple of them, and so does a file that
`add_file` was called with; every entry point of the group named like the package is one. All are objects with a
`name`. A broken third-party package disables only its own plug-ins.
A third-party plug-in has an `Origin`, which is recorded with every run that uses it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.host.trust import refuse_file_of_others

ATTRIBUTES = {
    "platform": "DRIVER",
    "benchmark": "BENCHMARK",
    "topology": "TOPOLOGY",
    "view": "VIEW",
}
"""Kind of plug-in -> what its module calls it."""
SHIPPED = {
    "vtax.benchmarks": "bonnie compile dd fio iperf2 iperf3 kernel_paths linpack memcached "
    "memory_latency netperf nginx pgbench pi pi_flint redis sockperf start stream sysbench_cpu sysbench_oltp",
    "vtax.network.topologies": "guest_to_guest guest_to_host multi_nic point_to_point router router_openflow "
    "vlan_pairs",
    "vtax.platforms": "bubblewrap cloud_hypervisor containerd docker firecracker gvisor libvirt lxc native nspawn "
    "podman qemu ssh virtualbox xen xen_dom0",
}
"""Modules with plug-ins that are part of vtax. Any other module in these packages is found and works as well, and is
recorded as an `Origin`, since no version of vtax brings it back. Of a package that is not here (views, on which no
figure depends) every module beside its `__init__.py` is taken for a part of vtax."""


@dataclass(frozen=True)
class Origin:
    """The origin of a third-party plug-in.

    package, version: of the distribution that registers it; empty for a module without one. source: what the package
    was installed from when no index has it: a URL of a version control system with its revision, `local` for a
    directory or a file. file: name of the module's file, without its directory; sha256: of its content.
    """

    package: str = ""
    version: str = ""
    source: str = ""
    file: str = ""
    sha256: str = ""


_FILES: list[ModuleType] = []
"""Modules of add_file."""


def discover(
    package: ModuleType, attribute: str, shape: type, notify: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Plug-ins by their `name`, the shipped ones first: an entry point may not replace one of them.

    shape: what an entry point must be, see problem_of. notify: called with a line for
    each skipped entry point, by default on stderr. Skipped entry points raise nothing.
    """
    return {
        plugin.name: plugin for plugin, _ in _found(package, attribute, shape, notify or _on_stderr)
    }


def module_of(path: Path) -> ModuleType:
    """Return a Python file as a module. Raises BadInput where there is none, and whatever the file raises."""
    if not path.is_file():
        raise BadInput(f"there is no file {path}", hint="name a Python file, such as unshare.py")
    module = ModuleType(name := f"vtax_file_{path.stem}")
    module.__file__ = str(path)
    sys.modules[name] = module  # pydantic resolves annotations through it
    exec(
        compile(path.read_bytes(), path, "exec"), vars(module)
    )  # not a cached compilation of an earlier version
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
    if not any(hasattr(module, name) for name in ATTRIBUTES.values()):
        what = f"{path} defines none of {', '.join(ATTRIBUTES.values())}"
        raise BadInput(what, where="--plugin", hint="vtax conformance FILE checks a plug-in")
    _FILES.append(module)


def origins(package: ModuleType, attribute: str, shape: type) -> dict[str, Origin]:
    """Return the origins of third-party plug-ins that `discover` finds, by name. Prints nothing."""
    found = _found(package, attribute, shape, lambda _: None)
    return {plugin.name: _origin(entry) for plugin, entry in found if entry is not None}


def _found(
    package: ModuleType, attribute: str, shape: type, notify: Callable[[str], None]
) -> Iterator[tuple[Any, EntryPoint | ModuleType | None]]:
    """Yield every plug-in, with its entry point or, where it is no part of vtax, its module."""
    names = set()
    for module_info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{module_info.name}")
        given = getattr(module, attribute, ())
        for plugin in given if isinstance(given, tuple) else (given,):
            names.add(plugin.name)
            yield plugin, None if _is_shipped(package, module_info.name, module) else module
    for module in _FILES:
        given = getattr(module, attribute, ())
        for plugin in given if isinstance(given, tuple) else (given,):
            problem = problem_of(plugin, shape)
            if not problem and plugin.name in names:
                problem = f"a plug-in with the name {plugin.name!r} exists already"
            if problem:
                raise BadInput(
                    problem,
                    where=f"--plugin {module.__file__}",
                    hint="vtax conformance FILE checks it",
                )
            names.add(plugin.name)
            yield plugin, module
    for entry in entry_points(group=package.__name__):
        try:
            plugin = _loaded(entry, attribute, shape)
            if plugin.name in names:
                raise ValueError(f"a plug-in with the name {plugin.name!r} exists already")
        except (
            Exception,
            SystemExit,
        ) as error:  # a third-party package may raise anything on import
            reason = (
                f"{type(error).__name__}: {error}"
                if not isinstance(error, ValueError)
                else str(error)
            )
            notify(
                f"skipped plug-in: {entry.name} ({entry.value}) of {_package_of(entry)}: {reason}"
            )
        else:
            names.add(plugin.name)
            yield plugin, entry


def _is_shipped(package: ModuleType, name: str, module: ModuleType) -> bool:
    if package.__name__ in SHIPPED:
        return name in SHIPPED[package.__name__].split()
    return Path(str(module.__file__)).parent == Path(str(package.__file__)).parent


def _origin(found: EntryPoint | ModuleType) -> Origin:
    module = found if isinstance(found, ModuleType) else sys.modules[found.module]
    path, sha256 = inspect.getsourcefile(module), ""
    if path is not None:
        with suppress(OSError):
            sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    file = Path(path).name if path else ""
    if isinstance(found, ModuleType) or found.dist is None:
        return Origin(file=file, sha256=sha256)
    return Origin(found.dist.name, found.dist.version, _source(found.dist), file, sha256)


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


def _loaded(entry: EntryPoint, attribute: str, shape: type) -> Any:
    """Return the plug-in of an entry point. Raises whatever its package raises, and ValueError for what is none."""
    plugin = entry.load()
    if isinstance(plugin, ModuleType):
        raise ValueError(
            f"it is a module, not a {shape.__name__.lower()}; write {entry.value}:{attribute}"
        )
    if problem := problem_of(plugin, shape):
        raise ValueError(problem)
    return plugin


def problem_of(plugin: Any, shape: type) -> str:
    """Return why an object is no plug-in of a shape, in one sentence; empty when it is one.

    shape: a protocol, whose attributes and methods the plug-in must have, or a class that it must be an instance of,
    with values of the declared types.
    """
    what = f"a {shape.__name__.lower()}"
    if getattr(shape, "_is_protocol", False):
        names = [
            name for name in {**shape.__annotations__, **vars(shape)} if not name.startswith("_")
        ]
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
    """Return whether a value is of a declared type."""
    if is_dataclass(hint) and isinstance(hint, type):
        return isinstance(value, hint)
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _package_of(entry: EntryPoint) -> str:
    return (
        f"the package {entry.dist.name} {entry.dist.version}"
        if entry.dist
        else "a package without a name"
    )


def _on_stderr(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
