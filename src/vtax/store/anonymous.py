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
    "metric": ("benchmark", "name", "unit", "better", "average", "fixed_work"),
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
_LENGTHS = {
    (table.name, column.name): column.type.length
    for table in schema.metadata.tables.values()
    for column in table.columns
    if isinstance(column.type, String) and column.type.length
} | {("run", "name"): 60}
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
        self._numbers: dict[
            tuple[str, str], int
        ] = {}  # (kind, squeezed value) -> number of its replacement
        self._replaced: dict[str, Replaced] = {}
        self._cached: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}
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
                self._programs = {
                    str(each.get("name")) for each in programs if isinstance(each, Mapping)
                }
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
            fixed, new = self._fixed(table, row), {}
            for column, value in row.items():
                public = value
                if isinstance(value, Mapping) and column in _PUBLIC:
                    public = _PUBLIC[column](value)
                new[column] = value if column in fixed else self._without(public)
                if isinstance(new[column], str) and (longest := _LENGTHS.get((table, column))):
                    new[column] = new[column][:longest]
            yield table, new

    def _fixed(self, table: str, row: Mapping[str, Any]) -> tuple[str, ...]:
        fixed = _FIXED.get(table, ())
        if self._programs and row.get("benchmark") in self._programs:
            return tuple(column for column in fixed if column not in _OF_PROGRAMS.get(table, ()))
        return fixed

    def _look(self, key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for inner, each in value.items():
                self._look_in_text("", str(inner))
                self._look(str(inner), each)
        elif isinstance(value, list):
            for each in value:
                self._look(key, each)
        elif isinstance(value, str):
            self._look_in_text(key, value)

    def _look_in_text(self, key: str, text: str) -> None:
        if key == "driver":
            self._own_words.add(squeezed(text))
        elif kind := _NAMED.get(key.rpartition(".")[2].lower(), ""):
            login, _, name = text.rpartition("@") if kind == HOST else ("", "", text)
            self._add(kind, name)
            self._add(USER, login)
        for found in identifiers(text):
            self._add(found.kind, found.value)

    def _add(self, kind: str, value: str) -> None:
        """Note a name, with what of it stands alone: label and domain of a host, serial number of a disk."""
        if kind == HOST:
            if not address(value):
                label, _, domain = value.partition(".")
                for each in (value, label, domain if "." in domain else ""):
                    self._known.add(HOST, each)
            return
        if (
            kind == MAC and len(digits := squeezed(value)) == 14
        ):  # of BOOTIF=, after the type of the hardware
            self._known.add(MAC, digits[2:])
        if kind == DISK:
            for piece in _PIECES.split(value):
                if len(piece) >= _LONG_PIECE and any(map(str.isdigit, piece)):
                    self._known.add(SERIAL, piece)
        if len(squeezed(value)) >= _SHORTEST.get(kind, 0):
            self._known.add(kind, value)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self._without(each) for name, each in value.items()}
        return [self._without(each) for each in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        if len(text) > _SHORT:
            new, found = self._cleaned(text)
        else:
            if text not in self._cached:
                if len(self._cached) >= _MOST_CACHED:
                    self._cached.clear()
                self._cached[text] = self._cleaned(text)
            new, found = self._cached[text]
        for kind, _ in found:
            self._replaced[kind].times += 1
        return new

    def _cleaned(self, text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return a text with replacements, and (kind, value) of each."""
        parts, made, end = list[str](), list[tuple[str, str]](), 0

        def replace(start: int, until: int, kind: str, value: str) -> None:
            nonlocal end
            parts.append(text[end:start])
            parts.append(self._new(kind, value, text[start:until]))
            made.append((kind, value))
            end = until

        def replace_known(until: int) -> None:
            low = end
            for name in self._known.find(text[low:until]):
                replace(low + name.start, low + name.end, name.kind, name.value)

        for found in identifiers(text):
            if found.kind not in (HOST, USER) or squeezed(found.value) not in self._own_words:
                replace_known(found.start)
                replace(*found)
        replace_known(len(text))
        return "".join((*parts, text[end:])), tuple(made)

    def _new(self, kind: str, value: str, spelled: str) -> str:
        """Return the replacement of a value, spelled as it was."""
        counted = self._replaced.setdefault(kind, Replaced(kind))
        key = (kind, value if kind in (IPV4, IPV6) else squeezed(value))
        if key not in self._numbers:
            counted.values += 1
            self._numbers[key] = counted.values
        return self._replacement(kind, self._numbers[key], spelled)

    def _replacement(self, kind: str, number: int, spelled: str) -> str:
        if kind == IPV4:  # RFC 5737, then what nobody routes
            rest = f"{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            new = f"192.0.2.{number}" if number < 255 else f"0.{rest}"
            if ":" in spelled:  # ::ffff:0a09:0807
                return f"::ffff:{new}"
            return (
                new
                if "." in spelled or not (joint := spelled.strip("0123456789"))
                else new.replace(".", joint[0])
            )
        if kind == IPV6:  # RFC 3849
            return f"2001:db8::{number:x}".replace(":", ":" if ":" in spelled else "-")
        if kind not in (MAC, ID):
            return f"{kind.split()[0]}-{number}"
        size = sum(map(str.isalnum, spelled))
        if kind == MAC:
            digits = f"{'020000' if size < 14 else '02000000'}{number:0{max(size - 6, 6)}x}"
        else:
            digits = self._mark + f"{number:0{max(size - len(self._mark), 4)}x}"
        left = iter(digits[-size:])
        return "".join(next(left) if each.isalnum() else each for each in spelled)


_PUBLIC = {"host": facts_of_host, "facts": facts_of_guest}
