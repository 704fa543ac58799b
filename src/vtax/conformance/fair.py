"""Differences in what a program finds in a guest and on native, and whether they are the platform's layer.

A limit of a runtime's own, another environment, a server of names that does not answer: such a difference would be
measured as the cost of a layer. `fair_probe` runs in a guest and in a native one; the check `fairness` fails a driver
for every difference that is not what the layer is (a kernel of its own), and that its `differences()` does not give
a reason for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files

from vtax.errors import GuestError
from vtax.foreign_data import parse_json
from vtax.guest.audit import Fact
from vtax.guest.bootstrap import PYTHON
from vtax.guest.guest import Guest
from vtax.platforms.base import RunningGuest

OF_KERNEL = frozenset(
    {
        "kernel",
        "clock source",
        "huge pages",
        "speculative stores",
        "speculative branches",
        "CPUs",
        "/dev/shm",
        "/scratch",
        "/tmp in memory",
        "connections that wait",
        "TCP congestion control",
        "TCP receive buffer",
        "TCP send buffer",
        "processes in all",
    }
)
"""Facts of a guest's own kernel, where it has one: its clock, what it does about its processor, buffers and tmpfs by the
size of its memory, the processors and the disk that its machine has."""
_PROBE = files("vtax.conformance").joinpath("fair_probe.py")
_PLACE = "/tmp/vtax-fair.py"
_TIMEOUT_S = 60.0
_OF_HOST = {
    "limit.memory": "memory",
    "limit.cpu_time": "CPU time",
    "limit.cpu_weight": "CPU weight",
    "limit.tasks": "processes in all",
}
"""Limits that the host enforces, and a program meets without seeing them."""


def read_facts(guest: Guest, running_guest: RunningGuest) -> dict[str, str]:
    """Return what a program finds in a guest, and the limits that the host holds it to. Raises GuestError."""
    guest.put(_PLACE, _PROBE.read_bytes())
    result = guest.run([PYTHON, "-I", _PLACE], timeout_s=_TIMEOUT_S)
    guest.run(["rm", _PLACE], timeout_s=_TIMEOUT_S)
    if result.status != 0:
        raise GuestError(f"what a program finds could not be tried: {result.stderr.strip()[-500:]}")
    facts: dict[str, str] = parse_json(result.stdout)
    in_force: Mapping[str, Fact] = running_guest.limits_in_force()
    return facts | {name: str(in_force[key]) for key, name in _OF_HOST.items() if key in in_force}


def undeclared(
    guest_facts: Mapping[str, str],
    native_facts: Mapping[str, str],
    explained_facts: Collection[str],
    *,
    has_own_kernel: bool,
) -> list[str]:
    """Return the differences that nothing explains, as `NAME is A, native's is B`.

    guest_facts, native_facts: what a program finds there. What only one has is not compared: a limit that the host does not know
    is for the check `limits`, a kernel shared by both has its settings even where a guest has no /sys.
    explained_facts: those that the driver gives a reason for. has_own_kernel: see OF_KERNEL.
    """
    explained = {*explained_facts, *(OF_KERNEL if has_own_kernel else ())}
    return [
        f"{name} is {guest_facts[name]!r}, native's is {native_facts[name]!r}"
        for name in sorted((guest_facts.keys() & native_facts.keys()) - explained)
        if guest_facts[name] != native_facts[name]
    ]
