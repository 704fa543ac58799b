"""Starts a plug-in's guest or lab and waits for SIGKILL: `python -m vtax.conformance.killed KIND MODULE`."""

from __future__ import annotations

import signal
import sys

from vtax.conformance import platform, topology
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.conformance.target import find


def main(kind: str, argument: str) -> None:
    """Start it, print a line on standard output, and wait."""
    plugin = next(target.plugin for target in find(argument) if target.kind == kind)
    with GuestStage(CheckEnvironment.here()) as stage:
        if kind == "platform":
            stage.start(platform.platform_of(plugin))
        else:
            stage.start_ends(topology.built(plugin, stage.journal), {})
        print("started", flush=True)
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
