"""The plug-ins that a plan uses and vtax does not ship."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from vtax.benchmarks import registry as benchmarks
from vtax.host.plugins import Origin
from vtax.network import registry as topologies
from vtax.platforms import registry as platforms
from vtax.runner.check import resolve_platform
from vtax.runner.plan import Plan
from vtax.store.records import PluginRecord


def plugins_of(plan: Plan, views: Mapping[str, Origin]) -> tuple[PluginRecord, ...]:
    """Return a record of every one: platforms first, then benchmarks, topologies and views. views: those that are
    used."""
    tested = [entry.platform.driver.name for entry in plan.platforms]
    named = [
        name
        for p in plan.points
        if p.link
        for name in topologies.get(p.topology).machines(p.link).values()
    ]
    elsewhere = [resolve_platform(plan.study, name, plan.source).driver.name for name in named]
    return (
        *_records("platform", [*tested, *elsewhere], platforms.foreign()),
        *_records(
            "benchmark", [point.benchmark.name for point in plan.points], benchmarks.foreign()
        ),
        *_records(
            "topology",
            [point.topology for point in plan.points if point.link],
            topologies.foreign(),
        ),
        *_records("view", views, views),
    )


def _records(
    kind: str, effective: Iterable[str], foreign: Mapping[str, Origin]
) -> Iterable[PluginRecord]:
    return (
        PluginRecord(kind, name, **asdict(foreign[name]))
        for name in dict.fromkeys(effective)
        if name in foreign
    )
