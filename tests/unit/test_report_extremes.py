"""Figures as large and as small as numbers get have an answer in every output. Figures here are invented."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from a_run import a_run
from shown import page, terminal, values

from vtax.report.analysis import Analysis
from vtax.report.document import Scale
from vtax.report.renderers import numbers
from vtax.report.renderers.format import efficiency_bar
from vtax.store.records import CellRecord
from vtax.store.store import Store

pytestmark = pytest.mark.slow


def compared(path: Path, native: float, docker: float) -> Analysis:
    means = {"c-native": native, "c-docker": docker}

    def measured(cell: CellRecord, block: int, number: int) -> dict[str, Any] | None:
        if cell.key not in means:
            return None
        events = means[cell.key] * (1 + block % 3 / 100)
        return {"values": {"events": events, "latency": 1.0}}

    with Store.open(f"sqlite:///{path / 'store.sqlite'}") as store:
        return a_run().blocks(6).trials(measured).analysed(store)


@pytest.mark.parametrize(
    ("native", "docker"),
    [
        (1e-12, 1e300),
        (1e-12, 1e80),
        (1e80, 1e-12),
        (1e-300, 1e80),
        (1e80, 1e-300),
        (5e-324, 1e10),
        (1e-218, 1e90),
    ],
)
def test_every_output_has_an_answer(tmp_path, native, docker, use_home):
    use_home(tmp_path)
    analysis = compared(tmp_path, native, docker)
    for width in (80, 140):
        lines = terminal(analysis, width, every_metric=True).splitlines()
        (row,) = [
            line
            for line in lines
            if line.startswith("docker ") and (" ±" in line or "too large" in line)
        ][:1]
        assert len(row) <= width
    assert "docker" in page(analysis)
    json.dumps(values(analysis), allow_nan=False)


def test_a_bar_ends_in_an_arrow_however_far_its_efficiency_lies():
    assert efficiency_bar(1e308, math.inf, math.inf) == "████████████»"
    assert efficiency_bar(0.0, 0.0, 0.0) == "◆"


@pytest.mark.parametrize(
    ("mean", "half", "shown"),
    [
        (1.025e80, 1.9633e78, ("1.025e80", "±2.0e78")),
        (1.025e-12, 1.9e-14, ("1.025e−12", "±1.9e−14")),
        (123_456_789.0, 1_234_567.0, ("123\u202f456\u202f789", "±1\u202f234\u202f567")),
        (0.00012345, 0.0000012, ("0.0001234", "±0.0000012")),
    ],
)
def test_a_mean_and_its_half_width_are_short(mean, half, shown):
    assert numbers.mean_and_half_width(mean, half, Scale("events/s", 1.0)) == shown


def test_bounds_are_short():
    assert numbers.bounds(1e80, 1.1e80, Scale("events/s", 1.0)) == "[1.000e80, 1.100e80]"
