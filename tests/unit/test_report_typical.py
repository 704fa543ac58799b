"""A run whose one platform pauses in one of eight trials: every output shows the typical ratio and says so."""

from __future__ import annotations

import math
import random
import re
from typing import Any

from a_run import a_run
from shown import english, sentence, terminal, values

from vtax.report.analysis import Analysis
from vtax.report.answers.method import method
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store

PLATFORMS = (
    PlatformRecord("native", {}, True, is_baseline=True),
    PlatformRecord("steady", {}, True),
    PlatformRecord("pausing", {}, True),
)


def run(store: Store, blocks: int, trials: int) -> Analysis:
    """Times of CV 1 %; every eighth trial of one platform takes twice as long."""
    noise = random.Random(5)

    def pausing(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        is_pause = cell.platform == "pausing" and noise.random() < 1 / 8
        value = math.exp(noise.gauss(0, 0.01)) * (2 if is_pause else 1)
        return {"values": {"time": value}, "counters": {}}

    built = a_run().platforms(*PLATFORMS).benchmark("tool").metric("time", "s", "lower")
    built = built.design(stop="fixed", blocks=blocks).blocks(blocks, trials)
    return built.trials(pausing).analysed(store)


def test_the_typical_ratio_stands_beside_the_ratio_and_the_pauses_are_named(store):
    analysis = run(store, 20, 5)
    (point,) = values(analysis)["results"][0]["points"]
    rows = {row["platform"]: row for row in point["rows"]}
    assert rows["native"]["typical"] is None
    assert rows["steady"]["typical"]["pauses"] == ""
    found = rows["pausing"]["typical"]
    assert found["pauses"] == "treatment"
    assert found["trials"] == 5
    assert found["n_blocks"] == 20
    assert found["low"] < 1.01 < rows["pausing"]["ratio"]["low"]
    (warning,) = [w for w in analysis.warnings if w.code == "pauses"]
    assert [place.platform for place in warning.places] == ["pausing"]
    assert "may pause: its averages lie 7.2" in sentence(warning)
    assert re.search(r"\(p ≤ 0\.0\d\d\)", sentence(warning))
    shown = terminal(analysis, 80)
    assert "typical trials" in shown
    assert "may pause" in shown
    assert any("trimmed mean" in english(part) for part in method(analysis))
