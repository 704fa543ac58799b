"""What a unit of work costs the host, as real tools on real guests give it."""

import json
import subprocess
import sys

import pytest
from support import needs_root

from vtax.host.process import find_program

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]
STUDY = """
name = "costs"
platforms = {platforms}
[design]
blocks = 1
[[benchmark]]
name = "dd"
parameters = {{ file_size = "32MiB" }}
[[benchmark]]
name = "kernel-paths"
[[benchmark]]
name = "sockperf"
parameters = {{ duration_s = 1 }}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
"""
COSTS = {"dd": "gb", "kernel-paths": "operation", "sockperf": "message", "sysbench-cpu": "event"}


PROGRAMS = {"podman": "podman", "lxc": "lxc-start", "qemu-tcg": "qemu-system-x86_64"}


def test_every_trial_has_the_cpu_time_of_a_unit_of_its_work(tmp_path):
    found = ["native", *(name for name, program in PROGRAMS.items() if find_program(program))]
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(platforms=json.dumps(found)))
    argv = [sys.executable, "-m", "vtax", "run", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    shown = [sys.executable, "-m", "vtax", "show", "--json", "--all"]
    results = json.loads(
        subprocess.run(shown, capture_output=True, text=True, timeout=60, check=True).stdout
    )["results"]
    for label, unit in COSTS.items():
        (of_work,) = [
            each
            for each in results
            if (each["label"], each["metric"]) == (label, f"host_cpu_per_{unit}")
        ]
        (point,) = of_work["points"]
        costs = {row["platform"]: row["summary"]["mean"] for row in point["rows"]}
        assert [*costs] == found
        assert min(costs.values()) > 0, of_work
