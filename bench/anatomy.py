"""Planted costs: a program that is 5 % slower where it sees one mechanism, taken apart by a ladder.

The program is bound to the CPU and does a twentieth more where `no_new_privs` is set. Every run must name the rung
that sets it, and no other.

    sudo .venv/bin/python bench/anatomy.py [--runs 10] [--budget 5min] [--of podman]

A line for each run, with the rungs that it names, then how many runs found the planted one and named another. Runs
stay in the store, so that it may be ended and started again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import planted

from vtax.platforms import registry
from vtax.platforms.base import Rung

PROGRAM = """
import time
more = "NoNewPrivs:\\t1" in open("/proc/self/status").read()
count = 1_050_000 if more else 1_000_000
begun = time.perf_counter()
for number in range(count):
    number * number
print(f"seconds: {time.perf_counter() - begun:.6f}")
"""
STUDY = """
name = "planted"
title = "Is a planted cost found?"
baseline = "native"
platforms = {platforms}

[guest]
memory = "512MiB"

[design]
order = "rounds"
trials = 6
stop = "budget"
budget = "5min"

"""
PLANTED = "no_new_privs"


def study_of(ladder: Sequence[Rung]) -> str:
    """Return the study file of a ladder."""
    text = STUDY.format(platforms=json.dumps([rung.name for rung in ladder]))
    text += planted.table("planted")
    for rung in ladder:
        if rung.name not in registry.names():
            options = "".join(
                f"{key} = {json.dumps(value)}\n" for key, value in rung.options.items()
            )
            text += f'\n[[platform]]\nname = "{rung.name}"\ndriver = "{rung.driver}"\n{options}'
        text += f'\n[[rung]]\nplatform = "{rung.name}"\nadds = "{rung.mechanism}"\n'
    return text


def named(study: Path, budget: str) -> list[str]:
    """Run the study, and return what the rungs add that it calls slower or faster."""
    shown = planted.measured(study, budget, "--ladder")
    speed = next(ladder for ladder in shown["ladder"]["ladders"] if ladder["metric"] == "time")
    found = []
    for step in speed["steps"]:
        if step["verdict"] and step["verdict"]["kind"] in ("slower", "faster"):
            found.append(", ".join(step["adds"]))
    return found


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="how many runs")
    parser.add_argument("--budget", default="5min", help="of each")
    parser.add_argument("--of", default="podman", help="the platform that is taken apart")
    given = parser.parse_args()
    hits = others = 0
    with tempfile.TemporaryDirectory() as directory:
        study = Path(directory, "planted.toml")
        study.write_text(study_of(registry.ladders()[given.of]))
        Path(directory, "program.py").write_text(PROGRAM)
        for run in range(1, given.runs + 1):
            found = named(study, given.budget)
            hits += PLANTED in found
            others += any(each != PLANTED for each in found)
            print(f"run {run}: {'; '.join(found) or 'none'}", flush=True)
    print(f"the planted rung in {hits} of {given.runs} runs, another one in {others}")


if __name__ == "__main__":
    main()
