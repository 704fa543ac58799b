"""What the place of files is worth: native as it is, native with its root in an overlay, containers both ways.

One run of vtax on this host, where `native-overlay` is native with the overlay that a container has as its root. Blocks
of short trials: a program that imports (Python), one that compiles, a server of small files, small writes through the
page cache, a loop without files, and the start of a guest.

    sudo .venv/bin/python bench/native_root.py [--blocks 30]

The table is `vtax show` of the run, percent of native; docs/promises.md has what it said.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

STUDY = """
name = "native-root"
title = "What is the place of files worth?"
platforms = ["native", "native-layer", "native-overlay", "podman", "podman-layer"]

[guest]
memory = "1GiB"

[design]
stop = "fixed"
blocks = {blocks}

[[platform]]
name = "native-layer"
driver = "native"
scratch = "layer"

[[platform]]
name = "podman-layer"
driver = "podman"
scratch = "layer"

[[platform]]
name = "native-overlay"
driver = "sandbox"
root = "overlay"

[[program]]
name = "imports"
argv = {{ guest = ["python3", "-c", "import json, asyncio, http.client, sqlite3, xml.dom.minidom, decimal"] }}
version = ["python3", "--version"]
expected_duration = "300ms"
[[program.metric]]
name = "time"
unit = "s"
better = "lower"
elapsed = true

[[benchmark]]
name = "imports"

[[benchmark]]
name = "compile"
parameters = {{ files = 3 }}

[[benchmark]]
name = "nginx"
parameters = {{ duration_s = 1, warm_up_s = 0, connections = 16 }}

[[benchmark]]
name = "fio"
parameters = {{ rw = "randwrite", size = "32MiB", duration_s = 1 }}

[[benchmark]]
name = "sysbench-cpu"
parameters = {{ events = 100 }}

[[benchmark]]
name = "start"
parameters = {{ repetitions = 4 }}
"""


def main() -> None:
    """Measure, and print the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=30, help="blocks of the run")
    blocks = parser.parse_args().blocks
    with tempfile.TemporaryDirectory() as directory:
        study = Path(directory, "native-root.toml")
        study.write_text(STUDY.format(blocks=blocks))
        vtax = [sys.executable, "-m", "vtax"]
        sys.exit(subprocess.run([*vtax, "run", str(study), "--trust"], check=False).returncode)


if __name__ == "__main__":
    main()
