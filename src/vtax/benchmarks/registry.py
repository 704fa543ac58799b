"""Finds benchmarks: modules that register one, of this package, of files and of other packages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

from vtax.benchmarks.base import Benchmark, Resource
from vtax.errors import BadInput, nearest_of
from vtax.host.plugins import Origin, discover, has_foreign_plugin, origins, shipped_plugin


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """Return all benchmarks by name."""
    return cast(Mapping[str, Benchmark], discover("benchmark", Benchmark))


@cache
def has_foreign() -> bool:
    """Return whether there may be benchmarks that vtax does not ship."""
    return has_foreign_plugin("benchmark")


def find_benchmark(name: str) -> Benchmark | None:
    """Return the benchmark of a name; None of one that is not installed, such as a program of a study.

    Of those that vtax ships it imports no other, unless there are some that vtax does not ship.
    """
    benchmark: Benchmark | None = shipped_plugin("benchmark", name)
    if benchmark is None and has_foreign():
        return benchmarks().get(name)
    return benchmark


def foreign() -> Mapping[str, Origin]:
    """Return where benchmarks that vtax does not ship come from, by name."""
    return origins("benchmark", Benchmark)


def packages_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the Debian packages of the tools of benchmarks; unknown names are left out."""
    packages: list[str] = []
    for name in dict.fromkeys(names):
        benchmark = find_benchmark(name)
        if benchmark is not None:
            packages += benchmark.packages
    return tuple(packages)


def resource_of(name: str) -> Resource:
    """Return the resource that a benchmark loads; `application` for one that is not installed here."""
    benchmark = find_benchmark(name)
    return benchmark.resource if benchmark else "application"


def about(benchmark: Benchmark) -> str:
    """Return the paragraphs of documentation of a benchmark's module: what it measures, what not, and its known trap."""
    module = inspect.getmodule(type(benchmark))
    return inspect.cleandoc(module.__doc__) if module and module.__doc__ else ""


def get(name: str, further: Iterable[str] = ()) -> Benchmark:
    """Return the benchmark of a name. Raises BadInput with the nearest names. further: more names to suggest."""
    benchmark = find_benchmark(name)
    if benchmark is not None:
        return benchmark
    suggestion = nearest_of(name, [*further, *benchmarks()])
    raise BadInput(f"there is no benchmark {name!r}{suggestion}", hint="vtax benchmarks lists them")
