"""Cold reads by dd and fio, on native and QEMU TCG: the disks of the host serve all of them."""

import json
import subprocess
import sys

import pytest
from support import needs_root

from vtax.host.home import Home
from vtax.store.query import effective
from vtax.store.store import Store

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]

STUDY = """
name = "cold"
platforms = ["native", "qemu-tcg"]
[guest]
memory = "256MiB"
[design]
blocks = 1
[[benchmark]]
name = "dd"
parameters = { direction = "read", file_size = "16MiB", cache = "cold" }
[[benchmark]]
name = "fio"
parameters = { rw = "read", block_size = "64KiB", size = "8MiB", once = true, cold = true }
"""


def test_the_disks_of_the_host_serve_what_is_cold(tmp_path):
    study = tmp_path / "cold.toml"
    study.write_text(STUDY)
    command = [sys.executable, "-m", "vtax", "run", str(study)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "reads per second" in made.stdout
    with Store.open(Home.from_environment().store_url) as store:
        found = [
            json.loads(text) for text in effective(store.engine, store.open_run("last")).values()
        ]
    assert len(found) == 4
    for settings in found:
        assert settings["host_cache_left_bytes"] < 1 << 20
        assert settings["host_disk_ratio"] > 0.9  # other programs can only raise it
