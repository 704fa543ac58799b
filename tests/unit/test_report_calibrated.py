"""The gate says when its margin is below what the baseline against itself lets the host see."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from a_run import METRICS, PLATFORMS, a_run, cells

from vtax.report.analysis.source import source_of
from vtax.report.answers.gate.calibrated import host_sees
from vtax.report.answers.gate.compute import Checks, check
from vtax.report.answers.gate.show import document_of
from vtax.report.document import Paragraph
from vtax.report.renderers.format import english
from vtax.report.renderers.json import as_json
from vtax.stats.planning import smallest_overhead
from vtax.store.store import Store

HERE, THERE = "a" * 12, "b" * 12


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store.sqlite")


def measure(
    store: Store, name: str, study: str, noise: float, machine: str = HERE, blocks: int = 10
) -> None:
    draw = random.Random(name)
    own = [
        cell
        for cell in cells()
        if cell.platform in ("native", "docker") and cell.benchmark == "sysbench-cpu"
    ]
    native, other = PLATFORMS[:2]
    platforms = (
        native,
        replace(other, identity=native.identity) if study == "calibration" else other,
    )
    run = a_run(name).having(study=study, host={"machine_id": machine})
    run = run.platforms(*platforms).cells(own).metrics(METRICS[:1]).blocks(blocks)
    run.values(lambda *_: 1000 * math.exp(draw.gauss(0, noise))).stored(store)


def gate(store: Store, margin: float) -> Checks:
    return check(store, source_of(store, "tour-1").analysis, {"speed": margin})


def summary(found: Checks) -> str:
    (part, *_) = document_of(found).parts
    return " ".join(english(each.text) for each in part.parts if isinstance(each, Paragraph))


def test_a_margin_below_what_the_host_sees_is_named_with_what_it_sees(store):
    measure(store, "calibration-1", "calibration", 0.05)
    measure(store, "tour-1", "tour", 0.05)
    found = gate(store, 0.02)
    (sees,) = found.calibrated
    ratio = source_of(store, "calibration-1").analysis.primary[0].points[0].rows[1].ratio
    assert sees.noise == pytest.approx(ratio.se_log * math.sqrt(10))
    assert (sees.run, sees.blocks) == ("calibration-1", 10)
    assert sees.sees == pytest.approx(smallest_overhead(sees.noise, 10))
    assert sees.sees > 0.02
    said = summary(found)
    assert (
        "a margin of 2 % is below what this host can see with 10 blocks of sysbench-cpu: it sees"
        in said.replace("\N{NO-BREAK SPACE}", " ")
    )
    assert as_json(document_of(found))["calibrated"][0]["sees"] == sees.sees


def test_a_margin_that_the_host_sees_is_not_spoken_of(store):
    measure(store, "calibration-1", "calibration", 0.002)
    measure(store, "tour-1", "tour", 0.05)
    found = gate(store, 0.02)
    assert found.calibrated[0].sees < 0.02
    assert "this host" not in summary(found)


def test_the_newest_calibration_of_the_same_host_counts(store):
    measure(store, "calibration-1", "calibration", 0.05)
    measure(store, "calibration-2", "calibration", 0.002)
    measure(store, "calibration-3", "calibration", 0.2, machine=THERE)
    measure(store, "tour-1", "tour", 0.05)
    assert gate(store, 0.02).calibrated[0].run == "calibration-2"


def test_without_a_calibration_of_this_host_nothing_is_said(store):
    measure(store, "calibration-1", "calibration", 0.05, machine=THERE)
    measure(store, "tour-1", "tour", 0.05)
    assert gate(store, 0.02).calibrated == ()
    assert host_sees(store, source_of(store, "calibration-1").analysis) == ()  # not by itself
