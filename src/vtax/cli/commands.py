"""The commands of `vtax`, in the order of first use. This module imports nothing, so that `--help` is fast."""

from __future__ import annotations

COMMANDS = {
    "new": "Write a study by asking what it should answer.",
    "run": "Run a study and print its result.",
    "resume": "Resume an interrupted run with the same plan and seed.",
    "abort": "End a run that is not finished, and its reboots of the host.",
    "list": "List the runs in the store.",
    "show": "Print the result of a run.",
    "explain": "Show which counters moved together with a difference.",
    "claims": "Judge the published findings of a study by a run.",
    "recommend": "Rank the platforms of a run for a workload.",
    "check": "Check that nothing is slower by more than a margin, for CI.",
    "contrast": "Compare any platform, level or run with any other.",
    "history": "Show a study over its runs, with what changed between them.",
    "figures": "Write the figures of a publication, drawn from a run, for print.",
    "report": "Write the report of a run (HTML, CSV, Parquet, JSON).",
    "export": "Write a run with its raw outputs as a bundle, for another host.",
    "import": "Add the run of a bundle to the store.",
    "merge": "Combine runs of one study, of several hosts or days, into one.",
    "reparse": "Read the stored outputs of a run again with today's parsers.",
    "remove": "Delete runs from the store.",
    "doctor": "Check which platforms run here and what disturbs measurements.",
    "platforms": "List platforms, their options and whether they run here.",
    "benchmarks": "List benchmarks, their parameters and metrics.",
    "topologies": "List network topologies and link settings.",
    "studies": "List the shipped studies.",
    "demo": "Run a small study with KVM or Xen in an emulated machine.",
    "image": "Build, list and remove the guest image.",
    "conformance": "Check a third-party platform, benchmark, topology or view.",
    "schema": "Print the JSON Schema of a study file.",
    "shell": "Open a shell in a fresh guest.",
    "clean": "Remove leaked resources after a crash.",
}
"""Command (and module of this package) -> one line of help."""
