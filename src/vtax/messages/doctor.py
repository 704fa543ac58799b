"""Sentences of what vtax doctor observes on a host: code -> sentence, see vtax.messages."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "doctor-on": "on",
    "doctor-off": "off",
    "doctor-none": "none",
    "doctor-not-virtual": "no",
    "doctor-virtual": "yes",
    "doctor-virtual-machine": "yes ({product})",
    "doctor-cpus": "{cpus} CPUs",
    "doctor-one-cpu": "1 CPU: every other process takes CPU time from the guest",
    "doctor-few-cpus": "{cpus} CPUs: network peers and QEMU's own threads share with guests",
    "doctor-cpus-share-cores": "on: CPUs share cores",
    "doctor-pages-always": "always: by chance",
    "doctor-pages-advised": "madvise: for QEMU's guests, not for containers",
    "doctor-layout-random": "random for every process",
    "doctor-layout-fixed": "fixed: one layout is measured, not the typical one",
    "doctor-swap-used": "{used} of {size} in use",
    "doctor-swap-unused": "{size}, not in use",
    "doctor-one-node": "one node",
    "doctor-nodes": "{nodes} nodes",
    "doctor-nodes-balanced": "{nodes} nodes, and the kernel moves memory between them",
    "doctor-available": "{size} available",
    "doctor-discharging": "discharging",
    "doctor-on-mains": "on AC power",
    "doctor-no-throttling": "no throttling since boot",
    "doctor-throttling-events": (
        "{count} throttling event since boot",
        "{count} throttling events since boot",
    ),
    "doctor-all-counted": "all are available",
    "doctor-not-counted": "not available here: {texts}",
    "doctor-named": "{names}: {what}",
    "doctor-busy": "{found} of {cpus} CPUs busy",
    "doctor-busy-with": "{found} of {cpus} CPUs busy; busiest: {programs}",
    "doctor-stolen": "{stolen} of CPU time",
    "doctor-packages-there": "all packages that every run needs are there",
    "doctor-packages-missing": "missing: {texts}",
    "doctor-to-build": "to build the guest image: {names}",
    "doctor-for-lab": "for the lab network: {names}",
    "doctor-for-switches": "for the topologies with a switch: {names}",
    "doctor-present": "present: {names}",
    "doctor-missing": "missing: {names}",
    "doctor-present-missing": "present: {names}; missing: {others}",
}
