"""`vtax conformance`: checks a platform, benchmark, topology or view against the plug-in contract."""

from __future__ import annotations

import os
import sys
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
    made = []
    with _guests_allowed(targets) as why_not:
        environment = (
            CheckEnvironment(Home.from_environment(), None, why_not)
            if why_not
            else CheckEnvironment.here(_recipe(targets, parameters))
        )
        for target in targets:
            found = []
            for result in _results(target, environment, outputs, failed, parameters):
                found.append(result)
                if not as_json:
                    notify(f"{result.status}: {target.kind} {result.name}")
            made.append((target, found))
    if as_json:
        print_json([_described(target, found) for target, found in made])
    else:
        _print(made)
    sys.exit(1 if any(result.status == "fail" for _, found in made for result in found) else 0)


def _recipe(targets: Sequence[Target], parameters: Mapping[str, Any]) -> Recipe:
    """Return the image of guests that check plug-ins; nothing of a declaration of another type, which is a
    check's."""
    plugins = [target.plugin for target in targets]
    named = [getattr(plugin, "packages", ()) for plugin in plugins]
    recipe = DEFAULT.with_packages(
        package for found in named if isinstance(found, tuple) for package in found
    )
    for plugin in plugins:
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
        tried = benchmark.BenchmarkSubject(target, environment, outputs, failed, parameters)
        yield from results(benchmark.CHECKS, tried)
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


def _described(target: Target, found: list[CheckResult]) -> dict[str, Any]:
    return {
        "kind": target.kind,
        "module": target.argument,
        "checks": found,
        **{
            status: sum(result.status == status for result in found)
            for status in ("pass", "fail", "skipped")
        },
    }


def _print(made: list[tuple[Target, list[CheckResult]]]) -> None:
    """Print a table per plug-in: checks, results, reasons and hints."""
    for target, found in made:
        say(f"{target.kind} of {target.argument}\n")
        rows = [(r.name, r.status, _reason(r)) for r in found]
        print_table(("check", "result", "reason"), rows)


def _reason(result: CheckResult) -> str:
    """Return a reason and its hint."""
    return result.reason + (f" (hint: {result.hint})" if result.hint else "")
