"""A guest of arm64 on an emulated processor: its packages, kernel, initrd and machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nested.report import keep
from support import needs_root

from vtax.host.architecture import ARM64
from vtax.host.process import find_program

pytestmark = [needs_root, pytest.mark.timeout(1800)]
_PROGRAM = """
import vtax.host.architecture as architecture
architecture.HOST = architecture.ARM64
from nested import foreign_guest
foreign_guest.main()
"""


def test_a_guest_of_arm64_starts_works_and_leaves_nothing(tmp_path):
    if not os.environ.get("VTAX_NESTED"):
        pytest.skip(
            "unpacking and emulating another architecture takes minutes: ask for it with tests/run --nested"
        )
    if find_program(ARM64.qemu) is None:
        pytest.skip(f"{ARM64.qemu_package} is not installed")
    made = subprocess.run(
        [sys.executable, "-c", _PROGRAM, tmp_path / "home"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    keep("arm64.json", made.stdout)
    found = json.loads(made.stdout)
    assert found["machine"] == ARM64.machine
    assert found["kernel"].endswith("-arm64")
    assert "total number of events" in found["sysbench"]
    assert found["bytes_equal"]
    assert found["left"] == []
