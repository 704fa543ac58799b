"""Percentiles of single values in trials, such as starts of guests, by factors. Figures here are invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from a_run import a_run
from command_line import output_of

from vtax.store.records import SAMPLES, CellRecord
from vtax.store.store import Store


def pivot(*options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output_of("show", *options, "--json"))["cells"]
    return found


@pytest.fixture
def starts(tmp_path: Path, unmade_home: Path, use_store) -> dict[str, list[float]]:
    """20 starts in each of 20 blocks of two platforms, twice as long on docker. Platform -> seconds."""
    random, found = np.random.default_rng(5), dict[str, list[float]]()
    use_store(tmp_path / "starts.sqlite")

    def starts_of(cell: CellRecord, block: int, number: int) -> dict[str, Any]:
        slower = 2 if cell.platform == "docker" else 1
        times = (random.lognormal(0, 0.1, 20) * slower).tolist()
        found.setdefault(cell.platform, []).extend(times)
        return {
            "values": {"server_answer": float(np.median(times))},
            "effective": {SAMPLES: {"server_answer": times}},
        }

    run = a_run().platforms("native", "docker").benchmark("start")
    run = run.metric("server_answer", "s", "lower", "first answer").blocks(20).trials(starts_of)
    with Store.open(f"sqlite:///{tmp_path / 'starts.sqlite'}") as store:
        run.stored(store)
    return found


@pytest.mark.slow
def test_percentiles_are_of_all_single_values(starts, golden):
    by_name = {cell["row"]: cell for cell in pivot("--rows", "platform", "--value", "p95")}
    for name, times in starts.items():
        assert by_name[name]["value"] == pytest.approx(
            np.quantile(times, 0.95, method="median_unbiased")
        )
        assert by_name[name]["low"] < by_name[name]["value"] < by_name[name]["high"]
        assert (by_name[name]["unit"], by_name[name]["blocks"], by_name[name]["verdict"]) == (
            "s",
            20,
            None,
        )
    (docker,) = (
        cell
        for cell in pivot("--to", "platform=native", "--value", "p95")
        if cell["row"] == "docker"
    )
    assert docker["value"] == pytest.approx(by_name["native"]["value"] / by_name["docker"]["value"])
    assert docker["low"] < 0.5 < docker["high"]
    first = {
        cell["row"]: cell["value"]
        for cell in pivot("--cols", "block", "--where", "block=1", "--value", "p50")
    }
    assert first["native"] == pytest.approx(np.median(starts["native"][:20]))
    golden(output_of("show", "--rows", "platform", "--value", "p99"))
