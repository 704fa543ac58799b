"""Reads warnings that are kept as text: those of the host, and what tools, guests and platforms say themselves.

Such a warning is its text, but for those of the host, whose number is read from it (`data_of`). Texts that differ in
numbers alone are one warning with the range of each number; this is the only place that looks at the words of a
warning, and what has a code and data never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from vtax.report.document import Count, Inline, Number, Share
from vtax.report.document.notes import TEXT

_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(r"((?:(?<![\w.])[-+])?(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d))")  # of no name


_OF_HOST: Mapping[str, tuple[str, str, Callable[[str], Inline]]] = {
    "host-busy": (
        r"other programs kept (\d+\.\d+) of the host's CPUs busy during the trial",
        "cpus", lambda text: Number(float(text), 2),
    ),
    "host-steal": (
        r"steal (\d+) %: the machine below this host kept its CPUs from it for that share",
        "share", lambda text: Share(int(text) / 100, "whole"),
    ),
    "host-memory": (
        r"programs on the host waited for memory (\d+) % of the time",
        "share", lambda text: Share(int(text) / 100, "whole"),
    ),
    "host-swap": (r"the host swapped (\d+) pages during the trial", "pages", lambda text: Count(int(text))),
    "host-frequency": (
        r"the CPU frequency changed by ([-+]\d+) % from before the trial to after it",
        "change", lambda text: Share(int(text) / 100, "change"),
    ),
    "host-throttled": (
        r"a CPU was slowed (\d+) times because it was hot", "times", lambda text: Count(int(text)),
    ),
}  # fmt: skip
"""Code -> (its text, name of the number in it, the number as a typed value)."""


def data_of(code: str, text: str) -> dict[str, Inline]:
    """What a stored text of the host says, as data of its code's sentence, see _OF_HOST; the text of any other."""
    if code in _OF_HOST:
        pattern, name, value = _OF_HOST[code]
        if found := re.fullmatch(pattern, text):
            return {name: value(found[1])}
    return {TEXT: one_line(text)}


def one_line(text: str) -> str:
    """The lines of a text as one."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def shape_of(text: str) -> str:
    """What texts that differ in numbers alone have in common."""
    return _NUMBER.sub("#", text)


def merged(texts: Sequence[str]) -> str:
    """Texts of one shape as one: `1.20 to 1.90` where their numbers differ.

    The first of them, when they differ in what is no number (eth0, eth1).
    """
    split = [_WHOLE_NUMBER.split(text) for text in texts]
    if not is_mergeable(texts):
        return texts[0]
    return "".join(_range(each) if place % 2 else each[0] for place, each in enumerate(zip(*split, strict=True)))


def is_mergeable(texts: Sequence[str]) -> bool:
    """Whether texts of one shape differ in whole numbers alone, so that ranges stand for all of them."""
    return len({tuple(_WHOLE_NUMBER.split(text)[::2]) for text in texts}) == 1


def _range(numbers: Sequence[str]) -> str:
    """`1.20 to 1.90`; a single number when all are equal."""
    minimum, maximum = min(numbers, key=float), max(numbers, key=float)
    return minimum if minimum == maximum else f"{minimum} to {maximum}"
