"""The report's account of what was done: the run's own order, conditions and numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic_run
from shown import english, terminal, values
from synthetic_run import begin, fill

import vtax.report
from vtax.platforms.registry import drivers
from vtax.report.analysis import analyse
from vtax.report.views.method import method
from vtax.store.records import PlatformRecord
from vtax.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        yield opened


def printed(store: Store, **changes: Any) -> str:
    fill(begin(store, **changes), blocks=2, trials=1, warmup=0)
    return "\n".join(map(english, method(analyse(store))))


def test_the_order_that_guests_started_in_is_reported(store):
    text = printed(store)
    assert "1: native, docker, lxc, qemu-tcg; 2: native, docker, lxc, qemu-tcg." in text
    assert "in seeded random order" in text
    found = values(analyse(store))["order"]
    assert found == [{"block": n, "platforms": ["native", "docker", "lxc", "qemu-tcg"]} for n in (1, 2)]


def test_the_papers_order_is_named_as_what_it_is(store):
    declared = {**synthetic_run.DECLARED, "design": {"order": "sequential"}}
    assert "all blocks of one platform ran before those of the next." in printed(store, declared=declared)


def test_equal_conditions_are_claimed_only_where_they_were(store):
    assert "from the same image, on the same pinned CPUs and with the same limits. " in printed(store)
    tuned = printed(store, name="tuned", declared={**synthetic_run.DECLARED, "tuning": ["default", "pinned"]})
    assert "pinned CPUs" not in tuned
    stranger = PlatformRecord("docker", {"driver": "ssh", "options": {}}, True, version="x")
    brought = printed(
        store, name="brought", platforms=[stranger if p.name == "docker" else p for p in synthetic_run.PLATFORMS]
    )
    assert "; docker: with its own files, CPUs and limits (see the audit)" in brought


def test_a_driver_that_is_not_installed_here_is_taken_for_a_usual_one(store):
    gone = PlatformRecord("docker", {"driver": "gone", "options": {}}, True)
    platforms = [gone if p.name == "docker" else p for p in synthetic_run.PLATFORMS]
    assert "with files, CPUs and limits of its own" not in printed(store, platforms=platforms)


def test_reports_name_no_driver():
    texts = {
        node.value
        for path in Path(vtax.report.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert texts.isdisjoint(drivers())


def test_ratio_and_efficiency_are_distinguished_where_lower_is_better(store):
    sentence = "Where lower is better, a ratio above 1 is slower and efficiency is 1 / ratio"
    assert sentence in printed(store)
    analysis = analyse(store)
    (latency,) = [section for section in analysis.sections if section.better == "lower"]
    row = next(row for point in latency.points for row in point.rows if row.ratio)
    assert row.ratio.efficiency("lower").estimate == pytest.approx(1 / row.ratio.estimate)
    note = "lower is better here: a ratio above 1 is slower, and efficiency is 1 / ratio"
    assert note not in terminal(analysis)
    first = replace(latency, metric=replace(latency.metric, is_primary=True))
    assert terminal(replace(analysis, sections=(first, *analysis.sections))).count(note) == 1


def test_a_table_names_the_tool_whose_version_it_gives(store):
    text = printed(store) and terminal(analyse(store))
    assert "higher is better, sysbench-cpu (sysbench 1.0.20)" in text
    assert "higher is better, iperf3 3.18" in text
