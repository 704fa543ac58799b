"""The commands of `vtax` by subject, in the order of first use. Imports nothing, so that `--help` is fast."""

from __future__ import annotations

SUBJECTS = {
    "Measurement": {
        "studies": "List the shipped studies.",
        "new": "Write a study by asking what it should answer.",
        "run": "Run a study and print its result.",
        "anatomy": "Measure what the cost of a platform is made of.",
        "resume": "Resume an interrupted run with the same plan and seed.",
        "watch": "Show a run while it is measured, in another terminal.",
        "abort": "End a run that is not finished.",
    },
    "Results": {
        "list": "List the runs in the store.",
        "show": "Print the result of a run.",
        "explain": "Show what may explain a difference, and what tests it.",
        "report": "Write the report of a run as one HTML file.",
        "figures": "Write the figures of a run, and of the publication it repeats, as files.",
        "serve": "Serve the runs as a read-only web page.",
        "remove": "Delete runs and all that they measured from the store.",
    },
    "Comparison": {
        "compare": "Compare platforms, levels or runs; fail if one is slower, for CI.",
        "history": "Show a study over its runs, with what changed between them.",
        "recommend": "Rank the platforms of a run for a workload.",
    },
    "Findings of publications": {
        "claims": "Judge the published findings of a study by a run.",
    },
    "Exchange": {
        "export": "Write a run for other programs, for print, or as a bundle for another host.",
        "import": "Add the run of a bundle to the store.",
    },
    "Host": {
        "doctor": "Check which platforms run here and what disturbs measurements.",
        "platforms": "List platforms, their options and whether they run here.",
        "benchmarks": "List benchmarks, their parameters and metrics.",
        "topologies": "List network topologies and link settings.",
        "image": "Build, list, remove, export and import guest images.",
        "campaign": "Measure one study on many hosts.",
        "shell": "Open a shell in a fresh guest.",
        "clean": "Remove guests, networks and files that a killed vtax left on this host.",
    },
    "More": {
        "note": "Add notes and tags to a run, or list them.",
        "merge": "Combine runs of one study, of several hosts or days, into one.",
        "pack": "Write vtax, a study and its image to one file, for other hosts.",
        "host": "Prepare this host and measure on it, for a controller of many hosts.",
        "schema": "Print the JSON Schema of a study file.",
        "conformance": "Check a third-party platform, benchmark, topology or view.",
    },
}
"""Heading of the help -> command (and module of this package) -> one line of help."""

COMMANDS: dict[str, str] = {}
"""Command -> one line of help."""
for _commands in SUBJECTS.values():
    COMMANDS.update(_commands)
