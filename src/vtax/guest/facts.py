"""The facts that audits hold, by name: for what a study asks of them before any guest has started.

`agent_more` and the limits that drivers enforce bring them; a test compares the names with a real audit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

NAMES = frozenset({
    "address_randomization", "capabilities", "cgroup.cpu_quota", "cgroup.cpu_set", "cgroup.memory", "clock_between_cpus", "clock_source",
    "cpu_cache", "cpu_family_model_stepping", "cpu_flags", "cpu_model", "cpu_topology", "cpus_allowed", "cpus_visible",
    "frequency_governor", "isolation", "kernel_command_line", "kernel_options", "kernel_release", "kernel_version", "libc_version",
    "limit.address_space", "limit.cpu_time", "limit.cpus", "limit.locked_memory", "limit.memory", "limit.open_files",
    "limit.processes", "limit.stack_size", "limit.tasks", "memory_visible_bytes", "no_new_privs", "numa_nodes", "own_namespaces",
    "root_file_system", "root_mount_options", "scratch", "scratch_file_system", "scratch_mount_options", "seccomp_filters", "seccomp_mode",
    "security_label",
    "speculative_indirect_branch", "speculative_store_bypass", "started.link", "started.scratch", "started.topology", "swap_bytes",
    "tcp_congestion_control", "tcp_receive_buffer", "tcp_send_buffer", "transparent_huge_pages", "tuning", "uid_map",
})  # fmt: skip
OPEN = frozenset({"interface", "disk", "hash", "limit", "mitigation", "unreadable"})
"""Beginnings of names that go on, after a dot, with what a guest has: its vulnerabilities, disks, interfaces."""


def is_of(name: str, field: str) -> bool:
    """Return whether a fact belongs to a field of a study: it has this name, or one that goes on after a dot."""
    return name == field or name.startswith(f"{field}.")


def has_field(names: Iterable[str], field: str) -> bool:
    """Return whether any of the facts belongs to a field of a study."""
    return any(is_of(name, field) for name in names)


def unknown_names(fields: Iterable[str]) -> tuple[str, ...]:
    """Return those of the fields that no audit can have, whatever the guest."""
    fixed_fields = [field for field in fields if field.partition(".")[0] not in OPEN]
    return tuple(field for field in fixed_fields if not has_field(NAMES, field))


def nearest_names(field: str, names: Collection[str] = NAMES | OPEN) -> list[str]:
    """Return the facts, and the beginnings of facts, whose names are the most similar to an unknown one."""
    candidates = sorted({*names, *(name.partition(".")[0] for name in names)})
    return get_close_matches(field, candidates, 2)
