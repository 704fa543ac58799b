"""The audits of a run's guests: one for all guests that are made alike on a host in the same state.

An audit asks a guest for some hundred files and hashes libraries, which takes as long as a short trial. What it says
does not differ between guests that one platform starts from one image in the same way, unless the host was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from vtax.errors import BadInput, did_you_mean
from vtax.guest.audit import Fact, differences, started_alike, unknown_fields
from vtax.guest.facts import nearest_names
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

    def facts(self, life: GuestLife, ask: Asked) -> Mapping[str, Fact]:
        """Return the facts of a guest. ask: asks the guest itself, the first of those that are made alike."""
        point = life.networked
        link = point.link.model_dump_json() if point is not None and point.link else ""
        made = (
            life.platform.name,
            life.tuning,
            life.scratch,
            life.colocation,
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


def refuse_differences(
    audits: Sequence[tuple[str, Mapping[str, Fact]]], must_match: Sequence[str]
) -> None:
    """Raise BadInput when guests differ in facts of a study's must_match, or have none of that name.

    audits: of guests, with the names of their platforms.
    """
    unknown = unknown_fields([facts for _, facts in audits], must_match)
    if unknown:
        raise BadInput(
            f"no guest's audit has {' or '.join(unknown)}{_near(unknown, audits)}",
            where="key must_match",
            hint="vtax show RUN --audit --all lists the fields of an earlier run",
        )
    fields = []
    for group in started_alike(audits).values():
        facts_by_platform = {name: facts[0] for name, facts in group.items()}
        for difference in differences(facts_by_platform, must_match):
            values = [f"{platform} {value}" for platform, value in difference.values.items()]
            fields.append(f"{difference.field}: {', '.join(values)}")
    if fields:
        raise BadInput(
            f"the guests differ in facts of must_match: {'; '.join(fields)}",
            where="key must_match",
            hint="take the field out of must_match, or leave the platform out",
        )


def _near(unknown: Sequence[str], audits: Sequence[tuple[str, Mapping[str, Fact]]]) -> str:
    """Return the fields, and the beginnings of fields, that come nearest to those which no audit has."""
    names: set[str] = set()
    for _, facts in audits:
        names.update(facts)
    near: dict[str, None] = {}
    for field in unknown:
        near.update(dict.fromkeys(nearest_names(field, names)))
    return did_you_mean(near)
