"""What a host lacks for a run, its guests and its counters, and what helps: code -> sentence."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "files-elsewhere":
        "files of {name} are on a machine of yours, where vtax cannot drop them from the page cache of the host",
    "one-machine": "{name} is one machine of yours: vtax starts no second one",
    "files-in-daemon":
        "files of {name} are in the storage of its daemon, where vtax cannot drop them from the page cache of the "
        "host",
    "hint-fewer-guests": "use fewer guests, or less memory in [guest]",
    "hint-one-machine": "take {name} out of studies with several guests",
    "hint-warm-or-other": "measure it without a cold cache, or take another platform",
    "machine-not-started": "{name} is a machine of yours: vtax starts an agent there, not the machine",
    "image-in-daemon":
        "the files of the image for {name} are in the storage of its daemon, where vtax cannot drop them from the "
        "page cache",
    "hint-out-of": "take {name} out of studies with {name2}",
    "hint-warm-image": "use image = 'warm', or another platform",
    "not-joined-by": "the network interfaces of {name} cannot be joined by {attachment}, and {label} requests it",
    "mtu-beyond": "the network interfaces of {name} carry an MTU of at most {most}, and {label} requests {wanted}",
    "queues-beyond": "the network interfaces of {name} have at most {most} queues, and {label} requests {wanted}",
    "needs-network": "{label} needs a network, and interfaces of {name} cannot be joined to a topology",
    "hint-others": "take {name} out, or request one of {others}",
    "hint-at-most": "take {name} out, or request at most {most}",
    "one-queue": "the network interfaces of {name} have at most 1 queue, and {label} requests {wanted}",
    "no-routing":
        "{topology} needs guests that route between their interfaces, and the network stack of {name} drops large "
        "packets that a router receives",
    "hint-without": "take {name} out",
    "interfaces-beyond": "{topology} needs {needed} network interfaces at an end, and {name} has at most {most}",
    "hint-no-network-of": "take network benchmarks out of studies with {name}",
    "no-huge-pages": "this host's kernel has no transparent huge pages",
    "hint-level": "take {level} out",
    "hint-level-or-platform": "take the level out, or leave {name} out of platforms",
    "needs-boot": "session {session} of {sessions} needs the boot {boot}",
    "not-probed-boot": "not probed: it needs the boot {boot}",
    "not-in-boot": "{name} does not run in the boot {here}: {reason}",
    "hint-doctor": "vtax doctor shows what this host lacks",
    "not-probed-programs": "not probed: a dry run uses no program and no socket that the study names",
    "not-probed-machine": "not probed: a dry run talks to no other machine",
    "hint-install-tool": "on a machine of your own, install the tool: apt-get install {names}",
    "stopped": "stopped on request ({name})",
    "vtax-failed": "vtax failed",
    "no-cpuset": "not pinned: this host has no cpuset controller",
    "no-memory-controller": "no memory limit: this host has no memory controller",
    "cpu-time-limit": "CPU time: {effective} instead of {cpu_count} CPUs' time",
    "no-memory-limit": "there is no memory limit instead of {memory_bytes} bytes",
    "swap-not-limited": "swap is not limited: this host does not account for it",
    "other-memory-limit": "memory limit is {memory} bytes, not {memory_bytes}",
    "no-powercap": "the kernel has no powercap (module intel_rapl_common), or hides RAPL from a virtual machine",
    "no-rapl-zone": "no zone of RAPL can be read: the processor has none, or only root may read it",
    "no-hardware-counters": "the CPU shows no hardware counters (usual in a virtual machine)",
    "perf-forbidden": "the kernel forbids it (sysctl kernel.perf_event_paranoid)",
    "no-perf": "the kernel has no perf events",
    "no-kvm-counters": "KVM shows no counters: mount debugfs (mount -t debugfs none /sys/kernel/debug)",
    "no-schedstat": "the kernel has no /proc/schedstat (CONFIG_SCHEDSTATS)",
    "no-pressure": "the kernel has no /proc/pressure (CONFIG_PSI, option psi=1)",
    "kvm-not-used": "KVM is not in use on this host",
    "guests-memory": "{guests} guests of {size} at once need {total} of memory, and {available}",
    "cannot-unpin": "{name} cannot run unpinned, as tuning level {level} asks",
    "cannot-pin": "{name} cannot be pinned, as tuning level {level} asks",
    "cannot-huge-pages": "{name} cannot have its memory in huge pages, as tuning level {level} asks",
    "no-guest-starts": "the last {count} guests did not start, on any platform: {error}",
    "other-cpus": "runs on CPUs {found}, not {requested}",
    "no-libxenstat": "libxenstat of Xen {version} is missing or fails ({error}): apt install xen-utils-{version}",
    "too-many-files": "{files} files are too many: raise the limit (ulimit -n)",
    "at": "{what}: {where}",
    "with-hint": "{what}; hint: {hint}",
    "together": "{texts}",
    "guest-not-started": "the guest did not start: {reason}",
    "version-unknown": "the version of {tool} is not known: {reason}",
    "hint-uplinks": "name what joins it to this host: {name}/NIC:NIC_THERE, or its uplinks",
}  # fmt: skip
