"""Calls of xl(1), and what its tables say. The parsers take text; nothing here starts or stops a domain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vtax.counters.host import pairs_in
from vtax.errors import CommandFailed, PlatformError
from vtax.host.packages import packages_hint
from vtax.host.process import run
from vtax.host.xen import is_dom0, is_xen
from vtax.messages import Note
from vtax.platforms import probing

PACKAGES = {"xl": "xen-utils-common", "xenstore-write": "xenstore-utils", "qemu-img": "qemu-utils"}
_INSTALLED = ("xen-system-amd64", "qemu-system-xen", "qemu-utils")
MIN_VERSION = (4, 10)
"""The first release whose xl starts domains of type pvh."""
_SERVICES = "proc/xen/capabilities"  # of xenfs, which Xen's services mount
_IS_VIRTUAL_BIT = 1 << 31  # CPUID leaf 1, ECX
_STATES = {
    "r": "running",
    "b": "blocked",
    "p": "paused",
    "s": "shut down",
    "c": "crashed",
    "d": "dying",
}
_HARMLESS = ("Parsing config", "got a tsc mode string", "Primary console has invalid configuration")


@dataclass(frozen=True)
class Domain:
    """A line of `xl list`. memory_mib: of the domain. state: letters of xl(1). cpu_s: seconds since its start."""

    name: str
    domid: int
    memory_mib: int
    vcpus: int
    state: str
    cpu_s: float


@dataclass(frozen=True)
class Vcpu:
    """A line of `xl vcpu-list`. cpus: the CPUs that it may run on. cpu_s: since its start."""

    number: int
    cpu_s: float
    cpus: tuple[int, ...]


def check_host(root: Path = Path("/")) -> None:
    """Raise PlatformError unless this host is dom0 and has the programs: the reason, and what to install."""
    if not is_xen(root):
        raise PlatformError(
            Note("no-dom0"),
            hint=Note("hint-xen", install=packages_hint(*_INSTALLED)),
        )
    if not is_dom0(root):
        raise PlatformError(Note("xen-guest"), hint=Note("hint-dom0"))
    services = root / _SERVICES
    if not services.exists():
        raise PlatformError(Note("no-xen-services", capabilities=services), hint=Note("hint-xenfs"))
    missing = probing.missing(PACKAGES)
    if missing:
        what, hint = missing
        raise PlatformError(what, hint=hint)


def info() -> Mapping[str, str]:
    """Return what `xl info` says of the hypervisor. Raises PlatformError when it does not answer or is too old."""
    result = run(["xl", "info"], check=False)
    if result.status != 0:
        raise PlatformError(
            Note("xl-silent"), where=errors(result.stderr), hint="systemctl start xen"
        )
    values = parse_info(result.stdout)
    version = tuple(int(values.get(f"xen_{part}", "0")) for part in ("major", "minor"))
    if version < MIN_VERSION:
        raise PlatformError(
            Note("xen-too-old", version=".".join(map(str, version))),
            hint=Note("hint-newer-xen", version=".".join(map(str, MIN_VERSION))),
        )
    return values


def free_mib() -> int:
    """Return how many MiB of memory the hypervisor has for more domains. Raises PlatformError as `info` does."""
    return int(info().get("free_memory", "0"))


def version(values: Mapping[str, str]) -> str:
    """`Xen 4.17.7` from the values of `info`."""
    return f"Xen {values.get('xen_version', 'of unknown version')}"


def marks(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the labels of all figures under this hypervisor."""
    return ("nested",) if is_virtual(values) else ()


def find(name: str) -> Domain | None:
    """Return the domain of a name; None when there is none. Raises CommandFailed when xl fails for another reason."""
    for domain in parse_list(run(["xl", "list"]).stdout):
        if domain.name == name:
            return domain
    return None


def state(domain: Domain) -> str:
    """Return the letters of its state in words, `running` or `shut down, crashed`; xl(1) explains them."""
    return ", ".join(_STATES[letter] for letter in domain.state if letter in _STATES) or "runnable"


def vcpus(name: str) -> list[Vcpu]:
    """Return the virtual CPUs of a domain. Raises CommandFailed."""
    return parse_vcpu_list(run(["xl", "vcpu-list", name]).stdout, int(info().get("nr_cpus", "1")))


def pools() -> Mapping[str, tuple[int, ...]]:
    """Return the CPUs of every CPU pool, by its name. Raises CommandFailed."""
    return parse_cpupool_list(run(["xl", "cpupool-list", "-c"]).stdout)


def pool_of(name: str) -> str:
    """Return the CPU pool of a domain. Raises CommandFailed."""
    lines = run(["xl", "list", "-c", name]).stdout.splitlines()
    return lines[1].split()[-1] if len(lines) == 2 else ""


def channel_name(name: str) -> str:
    """Return the name of the channel that is the second console of a domain. Raises CommandFailed."""
    domid = run(["xl", "domid", name]).stdout.strip()
    return run(["xenstore-read", f"/local/domain/{domid}/device/console/1/name"]).stdout.strip()


def parse_info(text: str) -> dict[str, str]:
    """Return the values of `key : value` lines; a part of the version that is no number is left out."""
    values = pairs_in(text)
    for key in ("xen_major", "xen_minor"):
        if not values.get(key, "").isdigit():
            values.pop(key, None)
    return values


def is_virtual(values: Mapping[str, str]) -> bool:
    """Whether the hypervisor itself runs in a virtual machine, by the CPU flag in `hw_caps` (leaf 1: EDX, ECX)."""
    capabilities = re.match("[0-9a-f]{8}:([0-9a-f]{8}):", values.get("hw_caps", ""))
    return capabilities is not None and bool(int(capabilities[1], 16) & _IS_VIRTUAL_BIT)


def parse_list(text: str) -> list[Domain]:
    """Return the table of `xl list`, in which a name may contain spaces. Raises CommandFailed for another table."""
    domains = []
    for line in text.splitlines()[1:]:
        try:
            name, domid, memory, count, state, cpu_s = line.rsplit(None, 5)
            domains.append(Domain(name, int(domid), int(memory), int(count), state, float(cpu_s)))
        except ValueError as error:
            raise _unknown_line("xl list", line) from error
    return domains


def parse_vcpu_list(text: str, cpu_count: int) -> list[Vcpu]:
    """Return the table of `xl vcpu-list DOMAIN`; the columns are Name ID VCPU CPU State Time(s) Affinity.

    cpu_count: of the hypervisor, which xl calls `all`. Raises CommandFailed for another table.
    """
    vcpus = []
    for line in text.splitlines()[1:]:
        before, _, _ = line.rpartition("/")
        try:
            _, _, number, _, _, cpu_s, hard = before.split(None, 6)
            vcpus.append(Vcpu(int(number), float(cpu_s), cpu_list(hard, cpu_count)))
        except ValueError as error:
            raise _unknown_line("xl vcpu-list", line) from error
    return vcpus


def parse_cpupool_list(text: str) -> dict[str, tuple[int, ...]]:
    """Return the table of `xl cpupool-list -c`: Name, CPU list. Raises CommandFailed for another table."""
    pools = {}
    for line in text.splitlines()[1:]:
        name, _, cpus = line.strip().partition(" ")
        try:
            pools[name] = cpu_list(cpus, 0) if cpus.strip() else ()
        except ValueError as error:
            raise _unknown_line("xl cpupool-list", line) from error
    return pools


def _unknown_line(command: str, line: str) -> CommandFailed:
    return CommandFailed(f"{command} printed a line of another kind: {line.strip()[:100]!r}")


def cpu_list(text: str, cpu_count: int) -> tuple[int, ...]:
    """Return `0-2,5` as numbers, `all` as those of all cpu_count CPUs. Raises ValueError."""
    if text.strip() == "all":
        return tuple(range(cpu_count))
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def errors(stderr: str) -> str:
    """Return what xl complained of, the first cause first, without the places in its source."""
    complaints = []
    for line in stderr.splitlines():
        text = re.sub(r"^libxl: error: \S+?:\d+:\w+: ", "", line.strip())
        if text and not any(words in text for words in _HARMLESS):
            complaints.append(text)
    return " | ".join(complaints)[:400]
