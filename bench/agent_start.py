"""What a compiled agent would save: from the start of a process to its greeting, Python's bootstrap and a static C's.

    agent_start.py [PLATFORM ...] [--rounds 30] [--json]

In one fresh guest of each platform both are started in random order, by the agent that runs there; what it takes to
start any process cancels in the difference. `toolbox`: what an image of the user's carries for the agent's Python.
The decision that rests on this: docs/decisions/17-agent-in-python.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cleanup
from start_time import READY_S, Starter

from vtax.guest import bootstrap
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.image import build, toolbox
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import Platform

_DEFAULT = ["native", "podman", "gvisor-ptrace", "qemu-tcg"]
_SOURCE = r"""
#include <unistd.h>
int main(void) { char c; return write(1, "<vtax guest>\n", 13) != 13 || read(0, &c, 1) != 1; }
"""
_PLACE = "/tmp/compiled-agent"


def compiled() -> bytes:
    """Return the least program that greets, linked statically. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "agent")
        command = ["cc", "-O2", "-static", "-s", "-x", "c", "-", "-o", str(program)]
        subprocess.run(command, input=_SOURCE.encode(), check=True)
        return program.read_bytes()


def toolbox_bytes(image: Image) -> int:
    """Return the size of the agent's Python with its loader and libraries, as an image of the user's gets them."""
    with tempfile.TemporaryDirectory() as directory:
        toolbox.install(image.tree, Path(directory))
        return sum(path.lstat().st_size for path in Path(directory).rglob("*"))


def greeted_ms(
    starter: Starter, platform: Platform, program: bytes, rounds: int
) -> dict[str, float]:
    """Return the medians of both kinds, and of the differences within rounds, in ms."""
    spec = starter.spec()
    running = platform.start(spec)
    try:
        guest = Guest(running.channel)
        guest.hello(READY_S)
        guest.put(_PLACE, program, mode=0o755)
        kinds = {"python": bootstrap.argv(), "compiled": [_PLACE]}
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(-3, rounds):
            for kind in random.sample(sorted(kinds), len(kinds)):
                done = guest.run(kinds[kind])
                if not done.stdout.startswith(bootstrap.GREETING.decode()):
                    sys.exit(f"{platform.name}: {kind} did not greet: {done.stderr}")
                if number >= 0:
                    taken[kind].append(done.outside_s * 1e3)
    finally:
        running.stop()
        shutil.rmtree(spec.directory)
    saved = [ours - other for ours, other in zip(taken["python"], taken["compiled"], strict=True)]
    return {kind: statistics.median(times) for kind, times in taken.items()} | {
        "saved": statistics.median(saved)
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("platforms", nargs="*", default=_DEFAULT)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    requested = parser.parse_args()
    home = Home.from_environment().ensure()
    image = build.ensure(home)
    program = compiled()
    found: dict[str, dict[str, float]] = {}
    with cleanup.journal() as journal:
        starter = Starter(image, home, journal)
        for platform in map(registry.get, requested.platforms):
            if (probe := platform.probe(image)).available:
                found[platform.name] = greeted_ms(starter, platform, program, requested.rounds)
            else:
                print(f"{platform.name} does not run here: {probe.reason}", file=sys.stderr)
    sizes = {"toolbox_bytes": toolbox_bytes(image), "compiled_bytes": len(program)}
    if requested.json:
        print(json.dumps({"greeted_ms": found, **sizes}, indent=2))
        return
    for name, row in found.items():
        print(name.ljust(16), *(f"{kind} {value:.1f} ms  " for kind, value in row.items()))
    print(
        f"toolbox {sizes['toolbox_bytes'] / 1e6:.1f} MB, the least compiled agent {len(program) / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    cleanup.run(main)
