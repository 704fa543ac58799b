"""A run without what names its host, its network and its people: texts of its rows, outputs included, are replaced.

Names are found where they have a place of their own (facts, options of platforms, URIs, home directories, what
uname(1) prints) and then replaced everywhere, as whole words. Addresses are found by their form. Addresses of the lab
and of loopback name nobody and stay. A value has one replacement in all of a run, so that what was equal is equal
still; machine ids differ between runs. What has no such place or form, such as a name in a study's title, stays.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vtax.store.transfer import Row

_FIXED = {
    "run": ("status", "vtax_version", "image_key", "identity"),
    "cell": ("key", "point", "benchmark", "topology", "tool_version", "tool"),
    "metric": ("benchmark", "name", "unit", "better", "average", "fixed_work"),
    "trial": ("status",),
    "output": ("role",),
    "counter": ("place",),
    "warning": ("code",),
}  # columns whose words are vtax's own
_OWN_WORDS = frozenset({"localhost", "vtax", "root", "none", "host", "guest", "peer", "linux", "debian", "native"})
_NAMED = {
    "hostname": "host name", "host_name": "host name", "nodename": "host name", "host": "host name",
    "machine_id": "machine id", "serial": "serial number", "serial_number": "serial number",
    "user": "user name", "username": "user name", "local_user": "user name", "login": "user name",
}  # fmt: skip
_KEPT_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("127.0.0.0/8", "198.18.0.0/15", "0.0.0.0/32", "255.255.255.255/32", "::/127", "2001:2::/48"),
    )
)
_SHORTEST = 3  # characters of a name that is replaced: shorter ones are parts of anything

_MAC = re.compile(r"(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])")
_UUID = re.compile(r"(?<![0-9A-Za-z-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z-])")
_MACHINE_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])")
_HOME = re.compile(r"/(?:home|Users)/([A-Za-z_][\w.-]*)")
_UNAME = re.compile(r"\bLinux (\S+) \d+\.\d+\.\d+")
_SERIAL = re.compile(r"\bserial(?:[ _-]?(?:number|no\.?))?\"?\s*[:=]\s*\"?([\w.-]{4,64})", re.IGNORECASE)
_URI = re.compile(r"\b(?:ssh|\w+\+(?:ssh|tcp|tls|libssh2?))://(?:([\w.-]+)(?::[^@/\s]*)?@)?([A-Za-z][\w.-]*)")
_LOGIN = re.compile(r"([A-Za-z_][\w.-]*)@([A-Za-z][\w.-]*)(?![\w.=-])")  # with = it is a cell of a claim


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

    def __init__(self, identity: str, host_names: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._mark = identity[:8]
        self._names: dict[str, str] = {}  # value -> kind
        self._own_words = set(_OWN_WORDS)
        self._given: dict[tuple[str, str], str] = {}  # (kind, value) -> replacement
        self._replaced: dict[str, Replaced] = {}
        self._pattern: re.Pattern[str] | None = None
        for name in host_names:
            self._add_host(name)
        for name in users:
            self._add("user name", name)

    @property
    def replaced(self) -> tuple[Replaced, ...]:
        """What was replaced so far."""
        return tuple(self._replaced[kind] for kind in sorted(self._replaced))

    def see(self, rows: Iterable[Row]) -> None:
        """Look for names in all rows of the run."""
        for table, row in rows:
            for column, value in row.items():
                if column in _FIXED.get(table, ()):
                    self._own_words.add(str(value).lower())
                elif table == "output" and isinstance(value, str):
                    self._look_in_output(value)
                else:
                    self._look(column, value)
        names = sorted((n for n in self._names if n.lower() not in self._own_words), key=len, reverse=True)
        self._pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)) if names else None

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows with replacements."""
        for table, row in rows:
            fixed = _FIXED.get(table, ())
            yield table, {name: v if name in fixed else self._without(v) for name, v in row.items()}

    def _look(self, key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for inner, each in value.items():
                self._look(str(inner), each)
        elif isinstance(value, list):
            for each in value:
                self._look(key, each)
        elif isinstance(value, str):
            self._look_in_text(key, value)

    def _look_in_text(self, key: str, text: str) -> None:
        kind = _NAMED.get(key, "")
        if key == "driver":
            self._own_words.add(text.lower())
        elif kind == "host name":
            login, _, host = text.rpartition("@")
            self._add_host(host)
            self._add("user name", login)
        elif kind:
            self._add(kind, text)
        for found in (*_URI.finditer(text), *_LOGIN.finditer(text)):
            self._add("user name", found[1] or "")
            self._add_host(found[2])
        self._look_in_output(text)

    def _look_in_output(self, text: str) -> None:
        for found in _HOME.finditer(text):
            self._add("user name", found[1])
        for found in _UNAME.finditer(text):
            self._add_host(found[1])
        for found in _SERIAL.finditer(text):
            self._add("serial number", found[1])

    def _add_host(self, name: str) -> None:
        """A host name, and its first label."""
        for each in (name, name.partition(".")[0]):
            if not _is_address(each):
                self._add("host name", each)

    def _add(self, kind: str, value: str) -> None:
        if len(value) >= _SHORTEST and value.isprintable() and not value.isdecimal():
            self._names.setdefault(value, kind)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(str(name)): self._without(each) for name, each in value.items()}
        return [self._without(each) for each in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        text = _MAC.sub(lambda found: self._new("MAC address", found[0].lower()), text)
        text = _UUID.sub(lambda found: self._new("machine id", found[0].lower()), text)
        text = _MACHINE_ID.sub(lambda found: self._new("machine id", found[0]), text)
        if self._pattern:
            text = self._pattern.sub(lambda found: self._new(self._names[found[0]], found[0]), text)
        text = _IPV4.sub(self._address, text)
        return _IPV6.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        if not _is_address(found[0]):
            return found[0]
        address = ipaddress.ip_address(found[0])
        if any(address in network for network in _KEPT_NETWORKS):
            return found[0]
        return self._new(f"IPv{address.version} address", address.compressed)

    def _new(self, kind: str, value: str) -> str:
        """The replacement of a value, counted."""
        counted = self._replaced.setdefault(kind, Replaced(kind))
        counted.times += 1
        if (kind, value) not in self._given:
            counted.values += 1
            self._given[kind, value] = self._replacement(kind, value, counted.values)
        return self._given[kind, value]

    def _replacement(self, kind: str, value: str, number: int) -> str:
        match kind:
            case "MAC address":
                return "02:00:00:" + ":".join(f"{number >> shift & 0xFF:02x}" for shift in (16, 8, 0))
            case "IPv4 address":  # RFC 5737, then what nobody routes
                rest = f"{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
                return f"192.0.2.{number}" if number < 255 else f"0.{rest}"
            case "IPv6 address":  # RFC 3849
                return f"2001:db8::{number:x}"
            case "machine id":
                if "-" in value:
                    return f"{self._mark}-0000-4000-8000-{number:012x}"
                return self._mark + f"{number:0{max(len(value) - len(self._mark), 4)}x}"
        return f"{kind.split()[0]}-{number}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
