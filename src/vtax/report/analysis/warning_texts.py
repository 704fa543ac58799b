"""Merges words that are not vtax's own, of tools, guests and platforms: texts that differ in numbers alone are one
warning with the range of each number. What has a code and data never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(r"((?:(?<![\w.])[-+])?(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d))")  # of no name


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
