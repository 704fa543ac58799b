"""Several sessions and trials that vtax chooses, in real guests through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import needs_root, nothing_left, vtax

from vtax.image.image import Image
from vtax.platforms import registry

pytestmark = [needs_root]
STUDY = """
name = "whole"
platforms = {platforms}
[guest]
memory = "384MiB"
[design]
timeout = "60s"
{design}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
"""


@pytest.fixture
def podman(image: Image) -> None:
    probe = registry.get("podman").probe(image)
    if not probe.available:
        pytest.skip(f"podman does not run here: {probe.reason}")


def written(tmp_path: Path, design: str, *platforms: str) -> str:
    path = tmp_path / "whole.toml"
    path.write_text(STUDY.format(design=design, platforms=json.dumps(platforms)))
    return str(path)


def shown(*options: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(vtax("show", *options, "--json").stdout)
    return result


def test_a_run_killed_in_the_pause_between_sessions_leaves_nothing_and_is_resumed(
    tmp_path, private_home, podman
):
    """The first pause ends by itself, the second by SIGKILL."""
    study = written(tmp_path, "blocks = 3", "native", "podman")
    command = [sys.executable, "-m", "vtax", "run", study, "--sessions", "3", "--pause", "3s"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    printed, pauses = [], 0
    for line in process.stderr:
        printed.append(line)
        pauses += "the next session starts at" in line
        if pauses == 2:
            process.kill()
            break
    process.wait(60)
    assert pauses == 2, "".join(printed)
    assert nothing_left(private_home)
    refused = vtax("resume")
    assert refused.returncode == 2
    assert "whole-1 is paused between sessions" in refused.stderr
    resumed = vtax("resume", "--session")
    assert resumed.returncode == 0, resumed.stderr
    assert nothing_left(private_home)
    found = shown("--sessions")["sessions"]
    assert [each["blocks"] for each in found["sessions"]] == [[1], [2], [3]]
    result = shown()
    assert (result["status"], result["failed"]) == ("finished", 0)
    (point,) = result["results"][0]["points"]
    ratio = next(row["ratio"] for row in point["rows"] if row["platform"] == "podman")
    assert ratio["n_sessions"] == 3
    assert 0.5 < ratio["estimate"] < 2
    assert "3 sessions in one boot of the host: results may differ after a reboot" in " ".join(
        resumed.stdout.split()
    )
