"""The audits of a run's guests: one for all guests that are made alike on a host in the same state.

An audit asks a guest for some hundred files and hashes libraries, which takes as long as a short trial. What it says
does not differ between guests that one platform starts from one image in the same way, unless the host was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from vtax.guest.audit import Fact
from vtax.runner.plan import GuestLife

_STATE = (
    "/proc/cmdline",
    "/proc/sys/kernel/randomize_va_space",
    "/proc/sys/net/ipv4/tcp_congestion_control",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/smt/active",
    "/sys/kernel/mm/transparent_hugepage/enabled",
)
"""Files of what may be changed on a host that runs, and is seen in its guests."""

Asked = Callable[[], Mapping[str, Fact]]


class Audits:
    """Facts of guests, by how they were made."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Mapping[str, Fact]] = {}

    def facts(self, session: GuestLife, ask: Asked) -> Mapping[str, Fact]:
        """Return the facts of a guest. ask: asks the guest itself, the first of those that are made alike."""
        point = session.networked
        link = point.link.model_dump_json() if point is not None and point.link else ""
        made = (
            session.platform.name,
            session.tuning,
            session.scratch,
            session.colocation,
            point.topology if point is not None else "",
            link,
            _host_state(),
        )
        if made not in self._known:
            self._known[made] = ask()
        return self._known[made]


def _host_state() -> tuple[bytes, ...]:
    return tuple(map(_content, _STATE))


def _content(path: str) -> bytes:
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""
