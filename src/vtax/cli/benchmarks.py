"""`vtax benchmarks`: lists benchmarks, what they measure, their parameters and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from vtax.benchmarks.base import Benchmark, counted_metrics
from vtax.benchmarks.registry import about, benchmarks, get, packages_of, resource_of
from vtax.cli.language import translate
from vtax.cli.output import json_option, print_json, print_keys, print_table, say
from vtax.errors import BadInput
from vtax.runner.points import programs_of
from vtax.study.keys import keys
from vtax.study.load import load


@click.command("benchmarks")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List benchmarks; with NAME, print what it measures, its pitfall, packages, parameters and
    metrics.

    NAME may be a study file (TOML): then the programs that it declares are printed.
    """
    benchmarks_shown = _find_benchmarks(name) if name else list(benchmarks().values())
    if as_json:
        print_json([_describe(benchmark) for benchmark in benchmarks_shown])
    elif name:
        for benchmark in benchmarks_shown:
            _explain(benchmark)
    else:
        rows = []
        for benchmark in benchmarks_shown:
            metrics = ", ".join(metric.name for metric in benchmark.metrics)
            rows.append((benchmark.name, translate(benchmark.title), metrics))
        print_table(("benchmark", "description", "metrics"), sorted(rows))


def _find_benchmarks(name: str) -> Sequence[Benchmark]:
    """Return the benchmark of a name, or the programs of a study file. Raises BadInput."""
    if not name.endswith(".toml"):
        return [get(name)]
    programs = list(programs_of(load(name)).values())
    if programs:
        return programs
    raise BadInput(
        "the study declares no program", where=name, hint="docs/add-a-benchmark.md shows how"
    )


def _describe(benchmark: Benchmark) -> dict[str, Any]:
    metrics = []
    for metric in (*benchmark.metrics, *counted_metrics(benchmark)):
        description = {
            "name": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "role": metric.effective_role,
            "primary": metric.primary,
            "title": metric.title,
        }
        metrics.append(description)
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "about": about(benchmark),
        "tool": benchmark.tool,
        "needs_network": benchmark.needs_network,
        "resource": resource_of(benchmark.name),
        "packages": packages_of([benchmark.name]),
        "parameters": [key.as_json() for key in keys(benchmark.Parameters)],
        "metrics": metrics,
    }


def _explain(benchmark: Benchmark) -> None:
    click.echo(f"{benchmark.name}: {translate(benchmark.title)}\n")  # a name is no word
    text = about(benchmark)
    if text:
        say(translate(text))
        say()
    say(f"{translate('tool')}: {benchmark.tool}")
    packages = packages_of([benchmark.name])
    if packages:
        say(f"{translate('Debian packages')}: {', '.join(packages)}")
    say(f"{translate('resource')}: {translate(resource_of(benchmark.name))}")
    print_keys("parameter", benchmark.Parameters)
    rows = []
    for metric in (*benchmark.metrics, *counted_metrics(benchmark)):
        name = f"{metric.name} *" if metric.primary else metric.name
        texts = map(translate, (metric.unit, metric.better, metric.title))
        rows.append((name, *texts))
    print_table(("metric", "unit", "better", "meaning"), rows)
    say(translate("* primary metric"))
