"""A pack: its size, and how long a host without a network takes to be prepared from it.

    sudo .venv/bin/python bench/pack.py [STUDY] [--with PYTHON ...]

Promised (docs/promises.md): a pack of the base image for three Pythons has at most 250 MB; installing it takes at
most 90 s; a second call does nothing. VTAX_HOME has the image. Hosts are empty homes in network namespaces without a
link. Exits 1 when it is broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cleanup

LIMIT_MB, LIMIT_S = 250, 90


def answer(*command: str | Path) -> tuple[dict[str, object], float]:
    """What a command prints as JSON, and its duration in s."""
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout), time.monotonic() - began


def main() -> int:
    """Write a pack, and prepare a home by each Python."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", nargs="?", default="tour")
    parser.add_argument(
        "--with", dest="pythons", action="append", help="Python to prepare a host with (repeatable)"
    )
    given = parser.parse_args()
    is_kept = True
    with tempfile.TemporaryDirectory() as made:
        pack = Path(made, "study.vtax-pack")
        written, took = answer(
            sys.executable, "-m", "vtax", "pack", given.study, "-o", pack, "--json"
        )
        size = pack.stat().st_size / 1e6
        pythons = ", ".join(written["pythons"])  # type: ignore[arg-type]
        print(f"pack for Python {pythons}: {size:.0f} MB (at most {LIMIT_MB}), {took:.0f} s")
        for python in given.pythons or ["/usr/bin/python3"]:
            with tempfile.TemporaryDirectory() as home:
                command = ("unshare", "--net", python, pack, "--home", home)
                first, _ = answer(*command)
                second, again_s = answer(*command)
                used = subprocess.run(
                    ["du", "-sm", f"{home}/packs"], check=True, capture_output=True, text=True
                )
            print(
                f"Python {first['python']}: installed in {first['install_s']} s (at most {LIMIT_S}), image "
                f"{first['import_s']} s, {used.stdout.split()[0]} MB; second call {again_s:.1f} s, "
                f"{'something' if second['is_new'] else 'nothing'} was done"
            )
            is_kept &= (
                float(str(first["install_s"])) <= LIMIT_S
                and first["is_new"] is True
                and not second["is_new"]
            )
    return int(size > LIMIT_MB or not is_kept)


if __name__ == "__main__":
    cleanup.run(main)
