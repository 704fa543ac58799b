"""The host and the run in a few words, for headers, and in full, for the report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from vtax.report.analysis import Analysis
from vtax.study.units import about_size, format_count, format_duration

_NAMES = {
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "cpus_allowed": "CPUs vtax may use",
    "memory_bytes": "memory",
    "distribution": "system",
    "virtualized": "itself a virtual machine",
}


def host_line(host: Mapping[str, Any]) -> str:
    """`AMD EPYC 7B13, 2 CPUs, 24 GiB, Linux 6.18.0, Debian GNU/Linux 12`: what is known of it."""
    parts = [str(host.get("cpu_model", ""))]
    if "cpus" in host:
        parts.append(f"{format_count(host['cpus'], 'CPU')}")
    if "memory_bytes" in host:
        parts.append(about_size(host["memory_bytes"]))
    if "kernel" in host:
        parts.append(f"Linux {host['kernel']}")
    parts.append(str(host.get("distribution", "")))
    if host.get("virtualized"):
        parts.append(f"itself a virtual machine ({host.get('hypervisor', 'unknown')})")
    return ", ".join(part for part in parts if part)


def run_line(analysis: Analysis) -> str:
    """`finished: 5 blocks, 2024-03-01 12:30, took 4 min 10 s, seed 17`."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(analysis.started_at))
    failed = f" ({analysis.failed} failed)" if analysis.failed else ""
    parts = [
        f"{analysis.status}: {format_count(analysis.blocks, 'block')}",
        f"{format_count(analysis.trials, 'trial')}{failed}",
        when,
    ]
    if analysis.took_s is not None:
        parts.append(f"took {format_duration(analysis.took_s)}")
    return ", ".join([*parts, f"seed {analysis.seed}"])


def fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Facts as (name, text), nested ones flattened one level."""
    rows: list[tuple[str, str]] = []
    for key, value in facts.items():
        name = _NAMES.get(key, key.replace("_", " "))
        if isinstance(value, Mapping):
            rows += [(f"{name}: {inner}", text_of(inner, each)) for inner, each in value.items()]
        else:
            rows.append((name, text_of(key, value)))
    return rows


def text_of(key: str, value: Any) -> str:
    """One fact as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes") and isinstance(value, int | float):
        return about_size(value)
    if isinstance(value, list | tuple) and all(isinstance(each, int | str) for each in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
