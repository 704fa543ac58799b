"""bench/kill_points.py: nothing is lost, nothing is left, and its checks do see what is left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import needs_root, of_process, thorough

from vtax.host.journal import clean

KILL_POINTS = Path(__file__).resolve().parents[2] / "bench" / "kill_points.py"
ONE_CHAIN = [
    sys.executable,
    str(KILL_POINTS),
    "--platform",
    "native",
    "--chain",
    "0",
    "--no-image",
    "--json",
]
STAGES = 8
pytestmark = [needs_root]


def campaign(*arguments):
    done = subprocess.run(
        [*ONE_CHAIN, *arguments], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_chain_of_kills_loses_and_leaves_nothing_and_is_not_made_again(
    image, private_home, tmp_path
):
    log = tmp_path / "log"
    for _ in range(2):
        status, printed = campaign("--log", str(log))
        assert (status, printed["points"], printed["failed"]) == (0, STAGES, [])
        assert len(log.read_text().splitlines()) == 1


@pytest.mark.thorough
def test_without_clean_every_kill_in_a_running_guest_is_reported(image, private_home):
    status, printed = campaign("--no-clean")
    assert status == 1
    running = ("agent hello", "trial", "commit")
    killed_there = sum(printed["counts"]["native"].get(stage, 0) for stage in running)
    assert sum(point["stage"] in running for point in printed["failed"]) == killed_there > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, *thorough(signal.SIGTERM)])
def test_a_campaign_that_is_ended_early_leaves_nothing(number, image, private_home):
    process = subprocess.Popen(
        ONE_CHAIN, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert "there since the first run" in process.stderr.readline()
    (path,) = private_home.journal.glob(f"{process.pid}-*.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines() if line]
    groups = [
        Path(each)
        for record in records
        if record.get("kind") == "cgroup"
        for each in record["paths"]
    ]
    (root,) = (Path(record["path"]) for record in records if record.get("kind") == "files")
    inside = [
        pid
        for group in groups
        for each in group.rglob("cgroup.procs")
        for pid in each.read_text().split()
    ]
    assert inside
    process.send_signal(number)
    process.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert root.exists()
        assert clean(private_home.journal).problems == ()
    assert [path for path in (root, *groups) if path.exists()] == []
    needle = str(root).encode()
    deadline = time.monotonic() + 30
    while left := [e for e in Path("/proc").glob("[0-9]*") if needle in of_process(e, "environ")]:
        assert time.monotonic() < deadline, [of_process(entry) for entry in left]
        time.sleep(0.1)
    assert list(private_home.journal.glob("*.jsonl")) == []
