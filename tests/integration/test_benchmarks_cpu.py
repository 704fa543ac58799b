"""Every benchmark of CPU, kernel paths, memory, building and imports, once on native and in a container, at small sizes.

2100 threads are more than Podman allows by itself.
"""

from __future__ import annotations

import json

import pytest
from support import needs_root, vtax

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]

PATHS = ("syscall", "context_switch", "page_fault", "fork_exec", "mmap", "signal", "timer", "futex")
STUDY = f"""
name = "cpu"
platforms = ["native", "podman"]
[guest]
memory = "320MiB"
[design]
blocks = 1
[[benchmark]]
name = "linpack"
parameters = {{ repetitions = 20 }}
factors = {{ precision = ["single", "double"] }}
[[benchmark]]
name = "pi"
parameters = {{ digits = 1000 }}
[[benchmark]]
name = "pi-flint"
parameters = {{ digits = 1000, threads = 2 }}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ cpu_max_prime = 200000, events = 5 }}
[[benchmark]]
name = "stream"
parameters = {{ array_size = "1MiB" }}
factors = {{ threads = [1, 64, 2100] }}
[[benchmark]]
name = "kernel-paths"
parameters = {{ loops = 100 }}
factors = {{ operation = {json.dumps(PATHS)} }}
[[benchmark]]
name = "memory-latency"
parameters = {{ loads = 100000 }}
factors = {{ working_set = ["32KiB", "8MiB"], pages = ["small", "huge"] }}
[[benchmark]]
name = "compile"
parameters = {{ files = 3 }}
[[benchmark]]
name = "python-imports"
parameters = {{ starts = 2 }}
"""
TRIALS = 2 * (2 + 1 + 1 + 1 + 3 + len(PATHS) + 4 + 1 + 1)


def test_every_benchmark_runs_is_versioned_and_computes_the_same_everywhere(tmp_path):
    study = tmp_path / "cpu.toml"
    study.write_text(STUDY)
    made = vtax("run", str(study), "--json")
    assert made.returncode == 0, made.stderr
    trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
    assert [
        (trial["status"], trial.get("error")) for trial in trials if trial["status"] != "ok"
    ] == []
    assert len(trials) == TRIALS
    shown = vtax("show", "last", "--all").stdout
    for version in (
        "FLINT 3",
        "CLN 1.3",
        "gcc-14 14.",
        "vtax-kernel-paths 1.0",
        "sysbench 1.0",
        "3.13.",
    ):
        assert version in shown
    assert "different-settings" not in shown


def test_what_a_guest_cannot_hold_is_refused_before_anything_starts(tmp_path):
    study = tmp_path / "large.toml"
    study.write_text(STUDY.replace("digits = 1000, threads = 2", "digits = 500000000, threads = 2"))
    refused = vtax("run", str(study))
    assert refused.returncode == 2
    assert (
        "500000000 digits of pi need about 7 GiB of memory, and the guest has 320 MiB"
        in refused.stderr
    )
