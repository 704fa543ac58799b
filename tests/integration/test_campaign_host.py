"""A host with nothing but Python: prepared from a pack without a network, it measures, and its bundle is imported.

Its run is killed with SIGKILL on the way: the next request resumes it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from campaign_studies import COUNTING
from support import needs_program, needs_root

from vtax.extras import EXTRAS
from vtax.host.lock import measuring_process
from vtax.host.process import run
from vtax.host.waiting import wait_until

pytestmark = [needs_root, needs_program("unshare", "zstd", "mke2fs", "debugfs")]
PYTHON = "{}.{}".format(*sys.version_info[:2])
RUN_S = 120.0
BLOCKS = 4
STUDY = f"""
name = "bare"
platforms = ["native"]
[design]
blocks = {BLOCKS}
{COUNTING}"""


@pytest.fixture
def pack(private_home, image, tmp_path) -> Path:
    """A pack of a study with a file beside it, for the Python that runs."""
    directory = tmp_path / "studies"
    directory.mkdir()
    (directory / "bare.toml").write_text(STUDY)
    (directory / "count.sh").write_text("sleep 1\necho counted $(seq 1000 | wc -l)\n")
    target = tmp_path / "bare.vtax-pack"
    command = [
        "pack",
        str(directory / "bare.toml"),
        "-o",
        str(target),
        "--python",
        PYTHON,
        "--json",
    ]
    made = json.loads(run([sys.executable, "-m", "vtax", *command], timeout_s=300).stdout)
    assert (made["pythons"], made["image_key"], made["bytes"]) == (
        [PYTHON],
        image.key,
        target.stat().st_size,
    )
    return target


def bare(home: Path, *command: str | Path) -> dict[str, Any]:
    """The answer of a command on a host that has no network, no environment of Python's and no home of vtax's."""
    done = subprocess.run(
        [
            "unshare",
            "--net",
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            f"VTAX_HOME={home}",
            *command,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_bare_host_is_prepared_and_measures(pack, image, tmp_path):
    home = tmp_path / "bare-home"
    python = Path(sys.base_prefix, "bin", f"python{PYTHON}")
    first = bare(home, python, pack)
    assert (first["schema"], first["is_new"], first["image_key"]) == (
        "vtax.host-prepare/1",
        True,
        image.key,
    )
    vtax = first["vtax"]
    again = bare(home, vtax, "host", "prepare", pack, "--digest", first["pack"], "--json")
    assert again == {**first, "is_new": False, "install_s": 0.0, "import_s": 0.0}
    names = run(
        [
            Path(vtax).with_name("python"),
            "-I",
            "-c",
            "import pkgutil; print(*(m.name for m in pkgutil.iter_modules()))",
        ]
    )
    assert not set(names.stdout.split()) & {*EXTRAS, "pandas", "statsmodels", "pip"}

    request = (vtax, "host", "run", "c1-s1", first["study"], "--trust", "--json")
    assert bare(home, *request)["state"] == "running"
    assert bare(home, *request)["state"] == "running"
    assert wait_until(lambda: has_measured(home), RUN_S, 0.05)
    _, worker = measuring_process(path=home / "host-runs/c1-s1/lock")
    assert worker is not None
    os.killpg(worker, signal.SIGKILL)  # and the run, which is of its session
    assert wait_until(lambda: status(home, vtax)["state"] == "interrupted", RUN_S, 0.2)
    assert bare(home, *request)["state"] == "running"
    assert wait_until((home / "host-runs/c1-s1/end.json").exists, RUN_S, 0.1)
    found = status(home, vtax)
    progress = tuple(
        found[name] for name in ("state", "block", "blocks", "done_trials", "failed_trials")
    )
    assert progress == ("done", BLOCKS, BLOCKS, BLOCKS, 0), found
    assert bare(home, *request) == {"schema": "vtax.host-run/1", **found}

    run([sys.executable, "-m", "vtax", "import", found["bundle"]])
    (imported,) = json.loads(run([sys.executable, "-m", "vtax", "list", "--json"]).stdout)
    assert (imported["study"], imported["status"], imported["tags"]) == (
        "bare",
        "finished",
        ["host-run-c1-s1"],
    )


def has_measured(home: Path) -> bool:
    """Whether a trial of the run has ended."""
    events = home / "events.jsonl"
    return events.exists() and '"trial_ended"' in events.read_text()


def status(home: Path, vtax: str) -> dict[str, Any]:
    """The state of the one run of the bare host."""
    (found,) = bare(home, vtax, "host", "status", "--json")["runs"]
    return found
