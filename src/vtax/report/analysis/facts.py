"""Names of the facts that a run keeps of its host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vtax.messages import restored
from vtax.report import document as doc
from vtax.report.document import msg

_NAMES: Mapping[str, doc.Message] = {
    "cpu_model": msg("CPU"), "cpu_family_model_stepping": msg("CPU family, model, stepping"),
    "cpu_microcode": msg("CPU microcode"), "cpu_sockets": msg("CPU sockets"), "cpu_cores": msg("CPU cores"),
    "cpu_threads_per_core": msg("threads per core"), "cpu_emulated": msg("CPU is emulated"), "cpus": msg("CPUs"),
    "cpus_allowed": msg("CPUs vtax may use"), "memory_bytes": msg("memory"), "swap_bytes": msg("swap"),
    "huge_page_bytes": msg("huge page"), "transparent_huge_pages": msg("transparent huge pages"),
    "numa_nodes": msg("NUMA nodes"), "hyperthreading": msg("hyperthreading"), "kernel": msg("kernel"),
    "kernel_version": msg("kernel version"), "kernel_options": msg("kernel options"), "machine": msg("architecture"),
    "machine_id": msg("machine id"), "hardware_id": msg("hardware id"), "image_digest": msg("image digest"),
    "distribution": msg("system"), "mitigations": msg("mitigations"),
    "frequency_governor": msg("frequency governor"), "frequency_driver": msg("frequency driver"),
    "clock_source": msg("clock source"), "cgroups": msg("cgroups"), "systemd": msg("systemd"),
    "not_counted": msg("not counted"),
    "python": msg("Python"), "measured_at": msg("measured at"), "virtualized": msg("virtual machine"),
    "hypervisor": msg("hypervisor"), "platform_versions": msg("version"), "peers": msg("other machines"),
}  # fmt: skip
"""Fact -> what it is called: all that counters.host keeps."""


def facts_of(host: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a store keeps of a host with the notes in it restored: why something is not counted."""
    not_counted = host.get("not_counted")
    if not isinstance(not_counted, Mapping):
        return host
    return {
        **host,
        "not_counted": {counter: restored(str(reason)) for counter, reason in not_counted.items()},
    }


def fact_name(key: str) -> doc.Inline:
    """Return what a fact is called; one of another version by its key."""
    return _NAMES.get(key, key.replace("_", " "))


def fact_value(key: str, value: Any) -> doc.Inline:
    """Return a fact as people read it: sizes in binary units, yes or no, lists with commas."""
    if value is None:
        return msg("not known")
    if isinstance(value, bool):
        return msg("yes") if value else msg("no")
    if key.endswith("_bytes") and isinstance(value, int | float):
        return doc.Size(value)
    if isinstance(value, list | tuple) and all(isinstance(item, int | str) for item in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
