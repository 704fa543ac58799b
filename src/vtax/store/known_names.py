"""Names that a run is known to have, found in every letter case and however their parts are joined.

A text is cut into runs of letters and runs of digits; a name is the path of its own runs in a tree. So the time to
search grows with the text, not with the number of names. `bench-7` is found in `BENCH_7`, `x_bench7` and
`bench7-eth0`, the digits of an address or an id in any grouping. A short name of letters is found as a whole word.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from vtax.store.identifiers import HOST, IPV4, IPV6, MAC, USER, Identifier, in_small_letters

_SHORTEST = 3  # characters of a name that is replaced: shorter ones are parts of anything
_SHORTEST_NUMBER = 8  # digits of a serial number of digits alone
_GLUED = 5  # letters from which on a name is found beside digits too: alice2
_RUN = re.compile(r"%[0-9a-f]{2}|\\u[0-9a-f]{4}|[^\W\d_]+|\d+")
_ESCAPED = ("n", "r", "t")  # letters of \n, \r, \t before a name
_JOINT = re.compile(r"(?:%[0-9a-f]{2}|\\u[0-9a-f]{4}|[-_.:/ ]){0,2}")
_NARROW = re.compile(r"[-_.]?|%[0-9a-f]{2}|\\u[0-9a-f]{4}")  # of what has no form of its own
_END = ""  # the key of a node that ends a name


def squeezed(text: str) -> str:
    """Return letters and digits of a name, in small letters: the same for all its spellings."""
    return "".join(filter(str.isalnum, text.lower()))


_Node = dict[str, Any]
"""Run -> node; _END -> kind and value."""


class KnownNames:
    """Names by kind. A name has the kind that it was first added with."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, str]] = {}  # squeezed -> kind, value
        self._tree: _Node = {}
        self._first = set[str]()  # runs that names start with, after an escape too

    def add(self, kind: str, value: str) -> None:
        """Remember a name, unless it is too short or a number."""
        key = squeezed(value)
        longest_number = 0 if kind == IPV4 else _SHORTEST_NUMBER
        is_number = key.isdecimal() and len(key) < longest_number
        if len(key) >= _SHORTEST and value.isprintable() and not is_number:
            self._kinds.setdefault(value if kind == IPV4 else key, (kind, value))

    def without(self, words: set[str]) -> None:
        """Make the tree of all names that were added, except for these words, which are squeezed."""
        self._tree, self._first = {}, set()
        for key, (kind, value) in self._kinds.items():
            if key not in words:
                for spelling in _spellings(kind, value):
                    self._plant(spelling, kind, value)
        for escape in ("", *_ESCAPED):
            self._first.update(f"{escape}{run}" for run in self._tree)

    def _plant(self, spelling: str, kind: str, value: str) -> None:
        node = self._tree
        for run in _RUN.findall(spelling.lower()):
            node = node.setdefault(run, {})
        if node is not self._tree:
            node.setdefault(_END, (kind, value))

    def find(self, text: str) -> Iterator[Identifier]:
        """Yield the names in a text, in order, each the longest at its place, none overlapping another."""
        small_letters = in_small_letters(text)
        if self._first.isdisjoint(_RUN.findall(small_letters)):
            return
        end = 0
        for match in _RUN.finditer(small_letters):
            if match[0] not in self._first or match.start() < end:
                continue
            name = self._longest(text, small_letters, match)
            if name:
                yield name
                end = name.end

    def _longest(self, text: str, small_letters: str, first: re.Match[str]) -> Identifier | None:
        """Return the longest name that starts with a run, or after its first letter when that belongs to an
        escape."""
        start, end = first.span()
        name = self._longest_from(text, small_letters, start, end, first[0])
        if name is None and text[start - 1 : start] == "\\":
            name = self._longest_from(text, small_letters, start + 1, end, first[0][1:])
        return name

    def _longest_from(
        self, text: str, small_letters: str, start: int, end: int, first_run: str
    ) -> Identifier | None:
        node = self._tree.get(first_run)
        longest, is_wide = None, False
        while node:
            name = node.get(_END)
            if name and _is_whole(text, start, end, *name, is_wide=is_wide):
                longest = Identifier(start, end, *name)
            separator = _JOINT.match(small_letters, end)
            run = _RUN.match(small_letters, separator.end() if separator else end)
            if not run:
                break
            is_wide = is_wide or not _NARROW.fullmatch(small_letters, end, run.start())
            node, end = node.get(run[0]), run.end()
        return longest


def _is_whole(text: str, start: int, end: int, kind: str, value: str, *, is_wide: bool) -> bool:
    if kind not in (HOST, USER, IPV4):
        return True
    if is_wide:
        return False
    is_glued = text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()
    return not is_glued or len(value) >= _GLUED or not value.isalpha()


def _spellings(kind: str, value: str) -> set[str]:
    """Return spellings of a name that differ in where its runs of letters and digits end."""
    if kind == IPV4:
        octets = ipaddress.IPv4Address(value).packed
        return {value, octets.hex(), octets[::-1].hex(), str(int.from_bytes(octets))}
    digits = squeezed(value)
    spellings = {value, digits}
    if kind == IPV6:
        try:
            address = ipaddress.IPv6Address(value)
        except ValueError:
            return spellings
        return {value, address.exploded, address.packed.hex(), address.packed.hex(" ")}
    if set(digits) <= set("0123456789abcdef"):
        for size in (2, 4, 6) if kind == MAC else (2, 4, 8):
            groups = [digits[start : start + size] for start in range(0, len(digits), size)]
            spellings.add(" ".join(groups))
    if kind not in (HOST, USER, MAC) and len(digits) == 32:
        groups = [digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]]
        spellings.add("-".join(groups))
    return spellings
