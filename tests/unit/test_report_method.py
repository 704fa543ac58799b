"""The report's account of what was done: the run's own order, conditions and numbers."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, PLATFORMS, begin, fill
from shown import english, terminal, values

import vtax.report
from vtax.platforms.registry import drivers
from vtax.report.analysis import analyse
from vtax.report.answers.method import method
from vtax.store.records import PlatformRecord
from vtax.store.store import Store


def printed(store: Store, **changes: Any) -> str:
    fill(begin(store, **changes), blocks=2, trials=1, warmup=0)
    return "\n".join(map(english, method(analyse(store))))


STRANGER = PlatformRecord("docker", {"driver": "ssh", "options": {}}, True, version="x")
GONE = PlatformRecord("docker", {"driver": "gone", "options": {}}, True)
RUNS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "in the order of papers": {"declared": {**DECLARED, "design": {"order": "sequential"}}},
    "tuned": {"declared": {**DECLARED, "tuning": ["default", "pinned"]}},
    "a machine that was brought": {
        "platforms": [STRANGER if p.name == "docker" else p for p in PLATFORMS],
    },
    "a driver that is not installed here": {
        "platforms": [GONE if p.name == "docker" else p for p in PLATFORMS],
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_what_was_done_is_described_as_it_was(store, name, golden):
    text = printed(store, **RUNS[name])
    golden(text if name == "as usual" else "\n".join(text.splitlines()[:3]))


def test_the_order_that_guests_started_in_is_data_too(store):
    fill(begin(store), blocks=2, trials=1, warmup=0)
    found = values(analyse(store))["order"]
    assert found == [
        {"block": n, "platforms": ["native", "docker", "lxc", "qemu-tcg"]} for n in (1, 2)
    ]


@pytest.mark.slow
def test_reports_name_no_driver():
    texts = {
        node.value
        for path in Path(vtax.report.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert texts.isdisjoint(drivers())


def test_a_time_is_told_against_native_not_as_percent_of_it(store):
    fill(begin(store), blocks=2, trials=1, warmup=0)
    analysis = analyse(store)
    (latency,) = [section for section in analysis.sections if section.better == "lower"]
    row = next(row for point in latency.points for row in point.rows if row.ratio)
    assert row.ratio.efficiency("lower").estimate == pytest.approx(1 / row.ratio.estimate)
    first = replace(latency, metric=replace(latency.metric, is_primary=True))
    shown = terminal(replace(analysis, sections=(first,)))
    assert "against native" in shown
    assert "percent of native" not in shown
