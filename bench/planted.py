"""Studies of a program that says how long it took, `program.py`: their tables, and what a run of one shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_TABLE = """
[[program]]
name = "{name}"
argv = {{ guest = {argv} }}
files = ["program.py"]
version = ["python3", "--version"]
expected_duration = "100ms"
[[program.metric]]
name = "time"
unit = "s"
better = "lower"
pattern = '^seconds: ([0-9.]+)$'

[[benchmark]]
name = "{name}"
"""


def table(name: str, *arguments: str) -> str:
    """Return the tables of the program and its benchmark. The program prints `seconds: 0.1`."""
    return _TABLE.format(name=name, argv=json.dumps(["python3", "{files}/program.py", *arguments]))


def measured(study: Path, budget: str, *view: str) -> Any:
    """Run a study, and return what `vtax show --json` says of it. view: its options."""
    vtax = [sys.executable, "-m", "vtax"]
    options = ["--budget", budget, "--trust", "--yes"]
    subprocess.run([*vtax, "run", str(study), *options], check=True, stdout=subprocess.DEVNULL)
    shown = subprocess.run(
        [*vtax, "show", "last", *view, "--json"], check=True, capture_output=True, text=True
    )
    return json.loads(shown.stdout)
