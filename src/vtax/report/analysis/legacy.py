"""Warnings that are kept as text: what runs before codes wrote, and what tools, guests and platforms say themselves.

Such a warning is its text, but for those of the host, whose number is read from it (`data_of`). Texts that differ in
numbers alone are one warning with the range of each number; this is the only place that looks at the words of a
warning, and what has a code and data never comes here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vtax.report.document import Inline, Number, Share
from vtax.report.document.sentences import TEXT

_NUMBER = re.compile(r"\d+(\.\d+)?")
_WHOLE_NUMBER = re.compile(r"((?:(?<![\w.])[-+])?(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d))")  # of no name


_BUSY = re.compile(r"other programs kept (\d+\.\d+) of the host's CPUs busy during the trial")
_STEAL = re.compile(r"steal (\d+) %: the machine below this host kept its CPUs from it for that share")


def data_of(code: str, text: str) -> dict[str, Inline]:
    """What a stored text of the host says, as data of its code's sentence: `cpus`, `share`; the text of any other."""
    if code == "host-busy" and (found := _BUSY.fullmatch(text)):
        return {"cpus": Number(float(found[1]), 2)}
    if code == "host-steal" and (found := _STEAL.fullmatch(text)):
        return {"share": Share(int(found[1]) / 100, "whole")}
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
