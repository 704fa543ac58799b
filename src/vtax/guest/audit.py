"""The equivalence audit: facts that a guest reports, checked, and their differences between platforms.

`agent_more.facts` collects; a fact is a name and a text, a number, or a list of either. What differs between
platforms is shown in the report, so that "equal except for the layer" is read rather than believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtax.errors import GuestError
from vtax.foreign_text import clean, one_line
from vtax.guest.facts import has_field, is_of
from vtax.limits import AUDIT
from vtax.units import about_size, size_bytes

Fact = str | float | bool | list[str | float]
_MAX_FACTS = AUDIT.count
_MAX_LIST_ITEMS = 1000
_MAX_NAME_CHARACTERS = 100
_MAX_TEXT_CHARACTERS = 500
_MAX_AUDIT_CHARACTERS = AUDIT.size_bytes  # characters of all of it; a real one has some thousand
ABSENT = "(not reported)"
COMMON = "(common items only)"
_IN_BYTES = {
    "memory_visible_bytes",
    "swap_bytes",
    "cgroup.memory",
    "limit.memory",
    "limit.locked_memory",
    "limit.stack_size",
    "limit.address_space",
}
_SIZE = re.compile(r"[0-9]{1,19}")
STARTED = ("tuning", "started.scratch", "started.topology", "started.link")
"""Facts that say how a guest was started; only guests that were started alike are compared."""


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same on all platforms.

    field: its name.
    values: platform -> text for people; of lists that have items in common only the other items, as `+item`.
    """

    field: str
    values: Mapping[str, str]


def checked(facts: Any) -> dict[str, Fact]:
    """Return the facts that a guest sent, cleaned. Raises GuestError when they are not flat, bounded facts."""
    if not isinstance(facts, dict) or len(facts) > _MAX_FACTS:
        raise GuestError("the guest's audit is not a bounded list of facts")
    audit = {}
    for name, value in facts.items():
        audit[one_line(name, _MAX_NAME_CHARACTERS)] = _clean_fact(name, value)
    if len(str(audit)) > _MAX_AUDIT_CHARACTERS:
        raise GuestError("the guest's audit is too long")
    return audit


def _clean_fact(name: str, value: Any) -> Fact:
    if isinstance(value, list) and len(value) <= _MAX_LIST_ITEMS:
        return [_scalar(name, item) for item in value]
    return _scalar(name, value)


def _scalar(name: str, value: Any) -> str | float:
    if isinstance(value, str):
        return clean(value, _MAX_TEXT_CHARACTERS)
    if isinstance(value, bool | int | float) and abs(value) < 1 << 63:
        return value
    raise GuestError(f"the guest's audit holds {clean(repr(value), 60)} for {one_line(name, 60)}")


def started_alike(
    guests: Iterable[tuple[str, Mapping[str, Fact]]],
) -> dict[str, dict[str, list[Mapping[str, Fact]]]]:
    """Return audits that can be compared: how guests were started -> platform -> audits, in the order given."""
    groups: dict[str, dict[str, list[Mapping[str, Fact]]]] = {}
    for platform, facts in guests:
        how = ", ".join(str(facts[name]) for name in STARTED if facts.get(name))
        groups.setdefault(how, {}).setdefault(platform, []).append(facts)
    return groups


def changes(audits: Sequence[Mapping[str, Fact]]) -> dict[str, tuple[str, ...]]:
    """Return the facts that differ between guests of one platform: name -> the values, in the order they appeared."""
    values_by_name = {}
    for name in sorted(set().union(*audits)):
        values = tuple(dict.fromkeys(text_of(facts.get(name), name) for facts in audits))
        if len(values) > 1:
            values_by_name[name] = values
    return values_by_name


def unknown_fields(audits: Iterable[Mapping[str, Fact]], fields: Iterable[str]) -> tuple[str, ...]:
    """Return those of the fields that no audit has, neither as a name nor as the beginning of one."""
    names = set().union(*audits)
    return tuple(field for field in fields if not has_field(names, field))


def differences(
    facts_by_platform: Mapping[str, Mapping[str, Fact]], fields: Iterable[str] | None = None
) -> tuple[Difference, ...]:
    """Return the facts that are not equal on all platforms, by name.

    A fact that a platform does not report differs from one that it reports.
    fields: only these; a name also stands for all that start with it and a dot (`mitigation`, `interface.eth0`).
    """
    names = set().union(*facts_by_platform.values())
    if fields is not None:
        prefixes = tuple(fields)
        names = {name for name in names if any(is_of(name, field) for field in prefixes)}
    different_facts = []
    for name in sorted(names):
        values = {platform: facts.get(name) for platform, facts in facts_by_platform.items()}
        first, *others = values.values()
        if any(other != first for other in others):
            different_facts.append(Difference(name, _texts(name, values)))
    return tuple(different_facts)


def _texts(name: str, values: Mapping[str, Fact | None]) -> dict[str, str]:
    """Return texts for people; of lists without the items that all platforms with a list have in common."""
    lists = [set(map(str, value)) for value in values.values() if isinstance(value, list)]
    common = set.intersection(*lists) if len(lists) > 1 else set()
    texts = {}
    for platform, value in values.items():
        texts[platform] = text_of(value, name)
        if isinstance(value, list) and common:
            others = [f"+{item}" for item in value if str(item) not in common]
            texts[platform] = " ".join(others) or COMMON
    return texts


def text_of(value: Fact | None, field: str = "") -> str:
    """Return a fact for people. A size in bytes that is rounded has the exact number beside it."""
    if value is None:
        return ABSENT
    if field in _IN_BYTES and _SIZE.fullmatch(str(value)):
        text = about_size(float(str(value)))
        return text if size_bytes(text) == int(str(value)) else f"{text} ({value} bytes)"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
