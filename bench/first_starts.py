"""Starts of Python from a plain root and through an overlay: the first one after the mount, and later ones.

What `bench/native_root.py` times is the first start in a fresh guest, and the benchmark `python-imports` times later
ones. Both roots are the image's tree, in mount namespaces of their own, in random order. The fastest start is shown, and
the tenth of them that is fastest: beside other programs, these say more than means.

    sudo .venv/bin/python bench/first_starts.py [--mounts 40]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from vtax.benchmarks.python_imports import _MODULES
from vtax.host.home import Home
from vtax.image.build import list_images

SIX = ["-c", "import json, asyncio, http.client, sqlite3, xml.dom.minidom, decimal"]
THIRTY = ["-IBS", "-c", f"import {', '.join(_MODULES)}"]
STARTS = (*[("six modules", SIX)] * 5, *[("thirty modules", THIRTY)] * 4)
WITHIN = """
import json, os, subprocess, sys, time
kind, tree, place, starts = sys.argv[1:]
root = place + "/root"
for name in ("root", "upper", "work"):
    os.makedirs(f"{place}/{name}")
if kind == "plain":
    options = ["--bind", tree, root]
else:
    layers = f"lowerdir={tree},upperdir={place}/upper,workdir={place}/work"
    options = ["-t", "overlay", "overlay", "-o", layers, root]
subprocess.run(["mount", *options], check=True)
os.chroot(root)
os.chdir("/")
seconds = []
for argv in json.loads(starts):
    begun = time.perf_counter()
    subprocess.run(["/usr/bin/python3", *argv], check=True)
    seconds.append(time.perf_counter() - begun)
print(json.dumps(seconds))
"""


def measured(kind: str, tree: Path) -> list[float]:
    """Return the seconds of every start after one mount. kind: plain, or overlay."""
    starts = json.dumps([argv for _, argv in STARTS])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        argv = [sys.executable, "-c", WITHIN, kind, str(tree), place, starts]
        done = subprocess.run(
            ["unshare", "--mount", *argv], check=True, stdout=subprocess.PIPE, text=True
        )
    return [float(seconds) for seconds in json.loads(done.stdout)]


def main() -> None:
    """Measure, and print the fastest starts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mounts", type=int, default=40)
    mounts = parser.parse_args().mounts
    tree = list_images(Home.from_environment())[0].tree
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    values = defaultdict(list)
    for _ in range(mounts):
        for kind in random.sample(["plain", "overlay"], 2):
            seen: set[str] = set()
            for (program, _), seconds in zip(STARTS, measured(kind, tree), strict=True):
                which = "later" if program in seen else "first"
                seen.add(program)
                values[program, which, kind].append(1000 * seconds)
    print("| starts | plain: fastest, tenth, ms | overlay | overlay adds |\n|---|---|---|---|")
    for program, which, kind in list(values):
        if kind != "plain":
            continue
        sides = []
        for each in ("plain", "overlay"):
            ordered = sorted(values[program, which, each])
            sides.append((ordered[0], ordered[len(ordered) // 10]))
        plain, overlay = (f"{fastest:.1f}, {tenth:.1f}" for fastest, tenth in sides)
        adds = ", ".join(f"{100 * (b / a - 1):.1f} %" for a, b in zip(*sides, strict=True))
        print(f"| {program}, {which} | {plain} | {overlay} | {adds} |")


if __name__ == "__main__":
    main()
