"""Facts that an anonymized bundle has, by name: what describes a host or a guest and identifies neither.

Facts that are not listed are left out, whatever they hold: a fact that a later version, a plug-in or a guest adds is
private until it is listed here. Texts of listed facts are cleaned like all others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from vtax.study.fields import Scratch

_OF_HOST = frozenset({
    "boot_id", "cgroups", "clock_source", "cpu_cores", "cpu_emulated", "cpu_family_model_stepping", "cpu_microcode",
    "cpu_model", "cpu_sockets", "cpu_threads_per_core", "cpus", "cpus_allowed", "distribution", "frequency_driver",
    "frequency_governor", "hardware_id", "huge_page_bytes", "hyperthreading", "hypervisor", "image_digest", "kernel",
    "kernel_options", "kernel_version", "machine", "machine_id", "measured_at", "memory_bytes", "mitigations",
    "not_counted", "numa_nodes", "python", "swap_bytes", "systemd", "transparent_huge_pages", "virtualized",
})  # fmt: skip
_OF_GUEST = frozenset({
    "address_randomization", "cgroup.cpu_quota", "cgroup.cpu_set", "cgroup.memory", "clock_source", "cpu_cache",
    "cpu_family_model_stepping", "cpu_flags", "cpu_model", "cpu_topology", "cpus_allowed", "cpus_visible",
    "frequency_governor", "isolation", "kernel_command_line", "kernel_options", "kernel_release", "kernel_version",
    "libc_version", "memory_visible_bytes", "no_new_privs", "numa_nodes", "root_file_system", "root_mount_options",
    "scratch", "scratch_file_system", "scratch_mount_options", "capabilities", "seccomp_filters", "seccomp_mode", "security_label",
    "speculative_indirect_branch",
    "speculative_store_bypass", "started.guests", "started.link", "started.neighbour", "started.scratch", "started.topology",
    "swap_bytes", "tcp_congestion_control", "tcp_receive_buffer", "tcp_send_buffer", "transparent_huge_pages",
    "tuning", "uid_map", "clock_between_cpus", "own_namespaces",
})  # fmt: skip
_OPEN = re.compile(
    r"(?:hash|limit|mitigation|unreadable)\.[\w.+-]{1,80}"
    r"|disk\.[\w.+-]{1,40}\.(?:scheduler|write_cache)"
    r"|interface\.[\w.+-]{1,40}\.(?:driver|mtu|offloads)"
)  # names of facts that go on with what a guest has
_WORDS_OF_KERNEL = ("kernel_options", "kernel_command_line")
KERNEL_OPTIONS = frozenset({
    "acpi", "amd_iommu", "amd_pstate", "apic", "apparmor", "audit", "biosdevname", "cgroup_disable",
    "cgroup_enable", "clocksource", "console", "cpuidle_haltpoll.force", "default_hugepagesz", "earlyprintk",
    "elevator", "haltpoll.guest_halt_poll_ns", "hpet", "hugepages", "hugepagesz", "idle", "init_on_alloc",
    "init_on_free", "intel_idle.max_cstate", "intel_iommu", "intel_pstate", "iommu", "iommu.passthrough",
    "iommu.strict", "irqaffinity", "isolcpus", "kvm-amd.nested", "kvm-intel.nested", "kvm.halt_poll_ns", "l1tf",
    "loglevel", "maxcpus", "mds", "mem", "mitigations", "net.ifnames", "nmi_watchdog", "no_timer_check", "noapic",
    "nohz", "nohz_full", "nokaslr", "nomodeset", "nomodule", "nopti", "nosmap", "nosmt",
    "nospec_store_bypass_disable", "nospectre_v1", "nospectre_v2", "nosoftlockup", "notsc", "nowatchdog", "nr_cpus",
    "numa", "numa_balancing", "panic", "pci", "pcie_aspm", "preempt", "processor.max_cstate", "psi", "pti", "quiet",
    "random.trust_cpu", "rcu_nocb_poll", "rcu_nocbs", "reboot", "retbleed", "ro", "rootfstype", "rw", "selinux",
    "skew_tick", "spec_rstack_overflow", "spec_store_bypass_disable", "spectre_v2", "srbds", "swapaccount",
    "swiotlb", "systemd.unified_cgroup_hierarchy", "threadirqs", "transparent_hugepage", "tsc", "tsx",
    "tsx_async_abort",
})  # fmt: skip
"""Options of the kernel's command line whose values identify nobody; others are left out."""


def facts_of_host(host: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a host without what is not listed, and that of each of its boots in the same way."""
    facts = {name: _public(name, value) for name, value in host.items() if name in _OF_HOST}
    boots = host.get("boots")
    if isinstance(boots, Mapping):
        facts["boots"] = {}
        for name, boot in boots.items():
            if isinstance(boot, Mapping):
                facts["boots"][name] = facts_of_host(boot)
    return facts


def facts_of_guest(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a guest without what is not listed."""
    public_facts = {}
    for name, value in facts.items():
        if name == "scratch" and value not in get_args(Scratch):  # a path of the user's
            continue
        if name in _OF_GUEST or _OPEN.fullmatch(name):
            public_facts[name] = _public(name, value)
    return public_facts


def _public(name: str, value: Any) -> Any:
    if name not in _WORDS_OF_KERNEL:
        return value
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list):
        return []
    options = []
    for word in words:
        if isinstance(word, str) and word.partition("=")[0] in KERNEL_OPTIONS:
            options.append(word)
    return options
