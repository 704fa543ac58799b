"""What is said of a run as a whole, its host, its guests and its trials: code -> sentence, see vtax.messages."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "emulated-host":
        "the CPU of this host is emulated: figures, including native ones, say little about physical CPUs",
    "session-effects":
        "a side has one session only: differences between sessions of the host (reboots, updates, temperature, "
        "other tenants) are part of the ratio and of no interval; several sessions on both sides would show them",
    "host-busy": "other programs kept {cpus} of the host's CPUs busy during the trial",
    "host-steal": "steal {share}: the machine below this host kept its CPUs from it for that share",
    "host-memory": "programs on the host waited for memory {share} of the time",
    "host-swap": "the host swapped {pages} pages during the trial",
    "host-frequency": "the CPU frequency changed by {change} from before the trial to after it",
    "host-throttled": "a CPU was slowed {times} times because it was hot",
    "failed-without-message": "the trial failed",
    "clock": "the guest's wall clock was {offset} off the host's; durations are measured on the host's clock",
    "drift": "the figures drift over the run by {change} ({p}): {cause}",
    "drift-of-cells": "the figures of {cells} cells drift over the run by {change} ({p}): {cause}",
    "drift-of-cells-between": "the figures of {cells} cells drift over the run by {low} to {high} ({p}): {cause}",
}  # fmt: skip
