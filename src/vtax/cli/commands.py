"""The commands of `vtax`, in the order a newcomer needs them. Imports nothing, so that help comes at once."""

from __future__ import annotations

COMMANDS = {
    "run": "Carry out a study and print its result.",
    "resume": "Go on with an interrupted run, same plan, same seed.",
    "list": "List the runs in the store.",
    "show": "Print the result of a run.",
    "contrast": "Compare any platform, level or run with any other.",
    "report": "Write the report of a run (HTML, CSV, Parquet, JSON).",
    "remove": "Delete runs from the store.",
    "doctor": "Say what can run here and what disturbs measuring.",
    "platforms": "List the ways to run the guest, with their options.",
    "benchmarks": "List the benchmark tools, with their parameters and metrics.",
    "topologies": "List where the ends of a network benchmark can stand, and link settings.",
    "studies": "List the studies that come with vtax.",
    "image": "Build, list and remove the guest image.",
    "conformance": "Check a platform, benchmark, topology or view of one's own.",
    "schema": "Print the JSON Schema of a study file.",
    "shell": "Open a shell in a fresh guest.",
    "clean": "Remove what a killed run left behind.",
}
"""Name, which is that of a module of this package, and one line of help."""
