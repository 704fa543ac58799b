"""`vtax demo`, as a user types it: the machine is started, measures, and its run is in the user's store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(3 * 3600)


def vtax(*arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "vtax", *arguments], capture_output=True, text=True, check=False
    )
    keep(f"demo-{'-'.join(arguments[:2])}.txt", ended.stdout + ended.stderr)
    assert ended.returncode == 0
    return ended.stdout


@pytest.mark.skipif(
    not os.environ.get("VTAX_NESTED"), reason="emulating a whole machine takes long: VTAX_NESTED=1"
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(
    ("name", "fast", "slow", "ratio"),
    [("kvm", "kvm-virtio", "kvm-e1000", 3.0), ("xen", "xen-dom0", "xen-pv", 1.0)],
)
def test_a_demonstration_brings_a_run_that_says_what_it_is(
    private_home, shared_home, tmp_path, name, fast, slow, ratio
):
    """fast: a platform that sends more than `ratio` times what `slow` sends."""
    made = shared_home.root / "nested"
    made.mkdir(exist_ok=True)
    (private_home.root / "nested").symlink_to(made)
    table = vtax("demo", name, "--yes")
    assert "the CPU of this host is emulated" in table
    assert f"{slow} (nested)" in table
    rows = {
        row["platform"]: row["summary"]["mean"]
        for result in json.loads(vtax("show", "--json"))["results"]
        if result["primary"] and result["label"] == "iperf3"
        for row in result["points"][0]["rows"]
    }
    assert rows[fast] > ratio * rows[slow]
    assert "report" in Path(vtax("report", "--output", str(tmp_path / "report.html")).strip()).name
    assert vtax("clean").strip() == "no leaked resources"
