"""A run without what names its host, its network and its people.

In this order: facts and options of the kernel are taken over by a list (`public_facts`); identifiers are replaced by
their form (`identifiers`); names that the run is known to have, from its facts, options and any text, are replaced
wherever they are (`known_names`). A value has one replacement in all of a run, so that what was equal is equal still;
machine ids differ between runs. A name without a place or a form, such as in a study's title, stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import String

from vtax.store import schema
from vtax.store.identifiers import (
    DISK,
    HOST,
    ID,
    IPV4,
    IPV6,
    MAC,
    PASSWORD,
    SERIAL,
    USER,
    address,
    identifiers,
)
from vtax.store.known_names import KnownNames, squeezed
from vtax.store.public_facts import facts_of_guest, facts_of_host
from vtax.store.transfer import Row

_FIXED = {
    "run": ("status", "vtax_version", "image_key", "identity"),
    "cell": ("key", "point", "benchmark", "topology"),
    "metric": ("benchmark", "name", "unit", "better", "role", "average", "fixed_work"),
    "trial": ("status",),
    "output": ("role",),
    "counter": ("place",),
    "warning": ("code",),
}  # columns whose words are vtax's own, except for what a study's own programs bring
_OF_PROGRAMS = {"cell": ("benchmark",), "metric": ("benchmark", "name", "unit", "fixed_work")}
_OWN_WORDS = frozenset(
    {
        "localhost",
        "localdomain",
        "vtax",
        "root",
        "none",
        "host",
        "guest",
        "peer",
        "linux",
        "debian",
        "native",
        "git",
        "nobody",
        "nested",
        "emulated",
        "confined",
    }
)
_NAMED = {
    "hostname": HOST,
    "host_name": HOST,
    "nodename": HOST,
    "host": HOST,
    "fqdn": HOST,
    "domainname": HOST,
    "machine_id": ID,
    "hardware_id": ID,
    "boot_id": ID,
    "uuid": ID,
    "product_uuid": ID,
    "partuuid": ID,
    "serial": SERIAL,
    "serial_number": SERIAL,
    "product_serial": SERIAL,
    "board_serial": SERIAL,
    "wwn": SERIAL,
    "wwid": SERIAL,
    "asset_tag": SERIAL,
    "service_tag": SERIAL,
    "user": USER,
    "username": USER,
    "local_user": USER,
    "login": USER,
    "mac": MAC,
    "hwaddr": MAC,
}
_PIECES = re.compile(r"[_.:-]|0x")  # of a disk's id
_LONG_PIECE = 8  # characters from which on one with a digit is a serial number
_SHORTEST = {SERIAL: 5, ID: 6, DISK: 6, PASSWORD: 8}
_SHORT, _MOST_CACHED = 120, 50_000  # characters and number of texts whose replacement is remembered


@dataclass
class Replaced:
    """One kind of value that was replaced. values: how many different ones. times: in how many places."""

    kind: str
    values: int = 0
    times: int = 0


class Anonymizer:
    """Replaces names in the rows of one run, after it has seen them all once.

    identity: of the run. host_names, users: known names, such as those of this host.
    """

    def __init__(
        self, identity: str, host_names: Iterable[str] = (), users: Iterable[str] = ()
    ) -> None:
        self._mark = identity[:8]
        self._known = KnownNames()
        self._own_words = set(_OWN_WORDS)
        self._programs = set[str]()  # of the study, whose words are not vtax's
        self._lengths = _column_lengths()
        # (kind, squeezed value) -> number of its replacement
        self._numbers: dict[tuple[str, str], int] = {}
        self._replaced: dict[str, Replaced] = {}
        self._cached: dict[str, tuple[str, tuple[str, ...]]] = {}
        for name in host_names:
            self._add(HOST, name)
        for name in users:
            self._add(USER, name)

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """The values replaced so far."""
        return tuple(self._replaced[kind] for kind in sorted(self._replaced))

    def see(self, rows: Iterable[Row]) -> None:
        """Look for names in all rows of the run."""
        for table, row in rows:
            if table == "run" and isinstance(row.get("declared"), Mapping):
                programs = row["declared"].get("program") or ()
                tables = [program for program in programs if isinstance(program, Mapping)]
                self._programs = {str(program.get("name")) for program in tables}
            fixed = self._fixed(table, row)
            for column, value in row.items():
                if column in fixed:
                    self._own_words.add(squeezed(str(value)))
                else:
                    self._look(column, value)
        self._known.without(self._own_words)

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows with replacements, and without facts that are not public."""
        for table, row in rows:
            fixed, changes = self._fixed(table, row), {}
            for column, value in row.items():
                public_value = value
                if isinstance(value, Mapping) and column in _PUBLIC:
                    public_value = _PUBLIC[column](value)
                changes[column] = value if column in fixed else self._without(public_value)
                longest = self._lengths.get((table, column))
                if longest and isinstance(changes[column], str):
                    changes[column] = changes[column][:longest]
            yield table, changes

    def _fixed(self, table: str, row: Mapping[str, Any]) -> tuple[str, ...]:
        fixed = _FIXED.get(table, ())
        if self._programs and row.get("benchmark") in self._programs:
            column_names = _OF_PROGRAMS.get(table, ())
            return tuple(column for column in fixed if column not in column_names)
        return fixed

    def _look(self, key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                self._look_in_text("", str(name))
                self._look(str(name), item)
        elif isinstance(value, list):
            for item in value:
                self._look(key, item)
        elif isinstance(value, str):
            self._look_in_text(key, value)

    def _look_in_text(self, key: str, text: str) -> None:
        kind = _NAMED.get(key.rpartition(".")[2].lower(), "")
        if key == "driver":
            self._own_words.add(squeezed(text))
        elif kind == HOST:
            login, _, name = text.rpartition("@")
            self._add(HOST, name)
            self._add(USER, login)
        elif kind:
            self._add(kind, text)
        for identifier in identifiers(text):
            self._add(identifier.kind, identifier.value)

    def _add(self, kind: str, value: str) -> None:
        """Note a name, with what of it stands alone: label and domain of a host, serial number of a disk."""
        if kind == HOST:
            if not address(value):
                label, _, domain = value.partition(".")
                self._known.add(HOST, value)
                self._known.add(HOST, label)
                if "." in domain:
                    self._known.add(HOST, domain)
            return
        digits = squeezed(value)
        if kind == MAC and len(digits) == 14:  # of BOOTIF=, after the type of the hardware
            self._known.add(MAC, digits[2:])
        if kind == DISK:
            for piece in _PIECES.split(value):
                if len(piece) >= _LONG_PIECE and any(map(str.isdigit, piece)):
                    self._known.add(SERIAL, piece)
        if len(digits) >= _SHORTEST.get(kind, 0):
            self._known.add(kind, value)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self._without(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._without(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        if len(text) > _SHORT:
            anonymous_text, kinds = self._anonymize(text)
        else:
            if text not in self._cached:
                if len(self._cached) >= _MOST_CACHED:
                    self._cached.clear()
                self._cached[text] = self._anonymize(text)
            anonymous_text, kinds = self._cached[text]
        for kind in kinds:
            self._replaced[kind].times += 1
        return anonymous_text

    def _anonymize(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text with replacements, and the kind of each."""
        parts, kinds, end = list[str](), list[str](), 0

        def replace(start: int, stop: int, kind: str, value: str) -> None:
            nonlocal end
            parts.append(text[end:start])
            parts.append(self._new(kind, value, text[start:stop]))
            kinds.append(kind)
            end = stop

        def replace_known(stop: int) -> None:
            low = end
            for name in self._known.find(text[low:stop]):
                replace(low + name.start, low + name.end, name.kind, name.value)

        for identifier in identifiers(text):
            is_name = identifier.kind in (HOST, USER)
            if not is_name or squeezed(identifier.value) not in self._own_words:
                replace_known(identifier.start)
                replace(*identifier)
        replace_known(len(text))
        return "".join((*parts, text[end:])), tuple(kinds)

    def _new(self, kind: str, value: str, original: str) -> str:
        """Return the replacement of a value, in the spelling of the original."""
        count_of_kind = self._replaced.setdefault(kind, Replaced(kind))
        key = (kind, value if kind in (IPV4, IPV6) else squeezed(value))
        if key not in self._numbers:
            count_of_kind.values += 1
            self._numbers[key] = count_of_kind.values
        return self._replacement(kind, self._numbers[key], original)

    def _replacement(self, kind: str, number: int, original: str) -> str:
        if kind == IPV4:
            return _spell_ipv4(number, original)
        if kind == IPV6:  # RFC 3849
            return f"2001:db8::{number:x}".replace(":", ":" if ":" in original else "-")
        if kind not in (MAC, ID):
            return f"{kind.split()[0]}-{number}"
        size = sum(map(str.isalnum, original))
        if kind == MAC:
            prefix = "020000" if size < 14 else "02000000"
            digits = f"{prefix}{number:0{max(size - 6, 6)}x}"
        else:
            digits = f"{self._mark}{number:0{max(size - len(self._mark), 4)}x}"
        characters = iter(digits[-size:])
        return "".join(next(characters) if char.isalnum() else char for char in original)


def _spell_ipv4(number: int, original: str) -> str:
    """Return the replacement of an address by RFC 5737, then by what nobody routes, in the form that it had."""
    spelling = f"192.0.2.{number}"
    if number >= 255:
        spelling = f"0.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    if ":" in original:  # ::ffff:0a09:0807
        return f"::ffff:{spelling}"
    separator = original.strip("0123456789")
    if separator and "." not in original:
        return spelling.replace(".", separator[0])
    return spelling


def _column_lengths() -> dict[tuple[str, str], int]:
    """Return the longest text of each (table, column) that is bounded."""
    lengths = {}
    for table in schema.metadata.tables.values():
        for column in table.columns:
            if isinstance(column.type, String) and column.type.length:
                lengths[table.name, column.name] = column.type.length
    lengths["run", "name"] = 60
    return lengths


_PUBLIC = {"host": facts_of_host, "facts": facts_of_guest}
