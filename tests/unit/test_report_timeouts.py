"""A run in which one platform's trials of fixed work time out: the bound is in every output. Figures are invented."""

from __future__ import annotations

from typing import Any

import pytest
from a_run import a_run
from shown import sentence, values

from vtax.messages import Note, at
from vtax.report.analysis import Analysis
from vtax.store.records import CellRecord, PlatformRecord
from vtax.store.store import Store

PLATFORMS = (
    PlatformRecord("native", {}, True, is_baseline=True),
    PlatformRecord("slow", {}, True),
    PlatformRecord("steady", {}, True),
)
ENDED = at(Note("killed-after", program="dd", limit=60.0), "", Note("hint-timeout"))


def run(
    store: Store, lost: dict[str, int], average: str = "harmonic", error: str = ENDED
) -> Analysis:
    """Six blocks of 600 MB: 20 s on native, 50 s on others. lost: platform -> from which block its trials fail."""

    def ended(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        seconds = (20 if cell.platform == "native" else 50) * (1 + block / 500)
        if block >= lost.get(cell.platform, 6):
            lost_trial = {"status": "failed", "error": error, "outside_s": 60, "values": {}}
            return {"counters": {}, **lost_trial}
        return {"counters": {}, "outside_s": seconds, "values": {"rate": 600 / seconds}}

    run = a_run().platforms(*PLATFORMS).benchmark("dd").metric("rate", "MB/s", average=average)
    return run.design(stop="fixed", blocks=6).blocks(6).trials(ended).analysed(store)


def rows(analysis: Analysis) -> dict[str, dict]:
    return {row["platform"]: row for row in values(analysis)["results"][0]["points"][0]["rows"]}


def test_a_platform_that_always_times_out_is_slower_by_the_timeout_over_the_baselines_duration(
    store,
):
    analysis = run(store, {"slow": 0})
    found = rows(analysis)["slow"]["timeouts"]
    assert (found["timed_out"], found["tried"], found["timeout_s"]) == (6, 6, 60)
    assert found["slower_at_least"] == pytest.approx(60 / 20, rel=0.02)
    (warning,) = [w for w in analysis.warnings if w.code == "timed-out-at-least"]
    assert "6 of 6 trials timed out after 60 s" in sentence(warning)
    assert "at least 2.9 times slower" in sentence(warning)


def test_some_time_outs_count_as_long_as_they_were_given_beside_the_trials_that_ended(store):
    found = rows(run(store, {"slow": 3}))["slow"]
    assert found["timeouts"]["timed_out"] == 3
    assert 50 / 20 < found["timeouts"]["slower_at_least"] < 60 / 20
    assert found["ratio"]["n_blocks"] == 3


@pytest.mark.parametrize("lost", [{"slow": 0, "native": 5}, {"slow": 0, "native": 0}])
def test_no_bound_where_the_baseline_timed_out_too(store, lost):
    analysis = run(store, lost)
    assert rows(analysis)["slow"]["timeouts"]["slower_at_least"] == 0
    assert "timed-out" in {w.code for w in analysis.warnings}


@pytest.mark.parametrize(
    ("lost", "average", "error"),
    [
        ({"slow": 0}, "arithmetic", ENDED),
        ({"slow": 0}, "harmonic", "dd: disk full"),
        ({}, "harmonic", ENDED),
    ],
)
def test_time_outs_of_no_fixed_work_and_other_failures_bound_nothing(store, lost, average, error):
    assert rows(run(store, lost, average, error))["slow"]["timeouts"] is None
