"""Starts of guests, several guests at once and neighbours, on real platforms: one tiny run of all three."""

from __future__ import annotations

import json

import pytest
from support import needs_root, vtax

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]

STUDY = """
name = "colocated"
platforms = ["native", "podman"]
[guest]
memory = "128MiB"
[design]
blocks = 1
[[benchmark]]
name = "start"
label = "alone"
parameters = { repetitions = 2, image = "cold" }
[[benchmark]]
name = "start"
label = "burst"
parameters = { repetitions = 2, stagger_s = 0.05 }
guests = [3]
[[benchmark]]
name = "sysbench-cpu"
parameters = { duration_s = 1 }
guests = [2]
[[benchmark]]
name = "stream"
parameters = { array_size = "4MiB" }
neighbour = ["none", "cpu", "memory", "disk", "network"]
"""


def test_starts_density_and_neighbours_on_native_and_podman(tmp_path):
    study = tmp_path / "colocated.toml"
    study.write_text(STUDY)
    made = vtax("run", str(study))
    assert made.returncode == 0, made.stdout + made.stderr
    assert "guest 2 of 2 ready" in made.stderr

    def table(*options: str) -> dict[tuple[str, str], float]:
        cells = json.loads(vtax("show", "last", *options, "--json").stdout)["cells"]
        return {(cell["row"], cell["column"]): cell["value"] for cell in cells}

    starts = table("--cols", "metric", "--benchmark", "alone", "--all", "--value", "p50")
    for name in ("native", "podman"):
        times = [starts[name, stage] for stage in ("executing", "agent_ready", "server_answer")]
        assert times == sorted(times)
        assert times[0] > 0
        assert times[-1] < 30
    bursts = table("--cols", "metric", "--benchmark", "burst", "--all")
    for name in ("native", "podman"):
        assert bursts[name, "started"] == 100
        assert bursts[name, "server_answer_p99"] >= bursts[name, "server_answer"] > 0
        assert 1 < bursts[name, "memory_pss"] < 128
    dense = table("--cols", "metric", "--benchmark", "sysbench-cpu", "--all")
    for name in ("native", "podman"):
        assert dense[name, "events_per_s_sum"] == pytest.approx(2 * dense[name, "events_per_s"])
        assert 0.25 < dense[name, "events_per_s_fairness"] <= 1
        assert 3 < dense[name, "memory_pss"] < 128
        assert 1 < dense[name, "memory_cgroup"] < 128
    beside = table("--to", "neighbour=none", "--metric", "triad")
    assert len(beside) == 2 * 5
    assert beside["podman", "none"] == 1
    trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
    assert [trial["status"] for trial in trials] == ["ok"] * 16
    single = [out for trial in trials for out in trial["outputs"] if out["role"] == "single.1"]
    assert len(single) == 2
