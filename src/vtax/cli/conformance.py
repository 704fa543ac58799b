"""`vtax conformance`: checks a platform, benchmark, topology or view against the plug-in contract."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from vtax.benchmarks.base import Benchmark
from vtax.cli.output import json_option, notify, print_json, print_table, say
from vtax.conformance.check import CheckResult, results
from vtax.conformance.stage import CheckEnvironment
from vtax.conformance.target import Target, find
from vtax.errors import BadInput
from vtax.foreign_data import parse_toml
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.recipe import DEFAULT, Recipe

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("conformance")
@click.argument("module")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    type=_FILE,
    help="Check the parser on this output of the tool.",
)
@click.option(
    "--failed-output",
    "failed",
    multiple=True,
    type=_FILE,
    help="Check the parser on this output of a failed run.",
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the benchmark, as in TOML.",
)
@json_option
def command(
    module: str,
    outputs: tuple[Path, ...],
    failed: tuple[Path, ...],
    values: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check MODULE: a Python file, an importable module, or the name of an installed entry point.

    Its platform, benchmark, topology or view is checked against the plug-in contract. Checks that start guests need
    root and the image, and are skipped otherwise. Exit status: 0 no check failed, 1 a check failed, 2 MODULE cannot
    be loaded.
    """
    targets, parameters = find(module), _parameters(values)
    reports = []
    has_failed = False
    with _guests_allowed(targets) as why_not:
        if why_not:
            environment = CheckEnvironment(Home.from_environment(), None, why_not)
        else:
            environment = CheckEnvironment.here(_recipe(targets, parameters))
        for target in targets:
            checks = []
            for result in _results(target, environment, outputs, failed, parameters):
                checks.append(result)
                has_failed |= result.status == "fail"
                if not as_json:
                    notify(f"{result.status}: {target.kind} {result.name}")
            reports.append((target, checks))
    if as_json:
        print_json([_describe(target, checks) for target, checks in reports])
    else:
        _print(reports)
    sys.exit(1 if has_failed else 0)


def _recipe(targets: Sequence[Target], parameters: Mapping[str, Any]) -> Recipe:
    """Return the image of guests that check plug-ins; nothing of a declaration of another type, which is a
    check's."""
    packages: list[str] = []
    for target in targets:
        declared_packages = getattr(target.plugin, "packages", ())
        if isinstance(declared_packages, tuple):
            packages += declared_packages
    recipe = DEFAULT.with_packages(packages)
    for target in targets:
        plugin = target.plugin
        if isinstance(plugin, Benchmark) and plugin.makes_data:
            with suppress(Exception):
                recipe = recipe.with_data([plugin.data(plugin.Parameters(**parameters))])
    return recipe


def _results(
    target: Target,
    environment: CheckEnvironment,
    outputs: tuple[Path, ...],
    failed: tuple[Path, ...],
    parameters: dict[str, Any],
) -> Iterator[CheckResult]:
    """Yield the results of all checks of a plug-in's kind."""
    from vtax.conformance import benchmark, platform, topology, view

    if target.kind == "platform":
        subject = platform.PlatformSubject(target, environment)
        try:
            yield from results(platform.CHECKS, subject)
        finally:
            subject.close()
    elif target.kind == "benchmark":
        benchmark_subject = benchmark.BenchmarkSubject(
            target, environment, outputs, failed, parameters
        )
        yield from results(benchmark.CHECKS, benchmark_subject)
    elif target.kind == "topology":
        yield from results(topology.CHECKS, topology.TopologySubject(target, environment))
    else:
        yield from results(view.CHECKS, view.ViewSubject(target))


@contextmanager
def _guests_allowed(targets: Sequence[Target]) -> Iterator[str]:
    """Hold the measuring lock, but for views; without root, start no guests. Yields why no guests are started."""
    if all(target.kind == "view" for target in targets):
        yield "a view needs none"
        return
    if os.geteuid() != 0:
        yield "guests are started as root"
        return
    with measuring_lock("vtax conformance"):
        yield ""


def _parameters(values: tuple[str, ...]) -> dict[str, Any]:
    try:
        return parse_toml("\n".join(values))
    except ValueError as error:
        raise BadInput(
            f"{', '.join(values)}: {error}", where="--set", hint="as in TOML: --set 'size=\"1MiB\"'"
        ) from error


def _describe(target: Target, checks: list[CheckResult]) -> dict[str, Any]:
    counts = Counter(result.status for result in checks)
    return {
        "kind": target.kind,
        "module": target.argument,
        "checks": checks,
        "pass": counts["pass"],
        "fail": counts["fail"],
        "skipped": counts["skipped"],
    }


def _print(reports: list[tuple[Target, list[CheckResult]]]) -> None:
    """Print a table per plug-in: checks, results, reasons and hints."""
    for target, checks in reports:
        say(f"{target.kind} of {target.argument}\n")
        rows = [(result.name, result.status, _reason(result)) for result in checks]
        print_table(("check", "result", "reason"), rows)


def _reason(result: CheckResult) -> str:
    """Return a reason and its hint."""
    return f"{result.reason} (hint: {result.hint})" if result.hint else result.reason
