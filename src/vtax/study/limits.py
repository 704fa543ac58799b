"""How large a study may be. Whoever wrote the file, reading and planning it take little time and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.foreign_text import escaped
from vtax.limits import PROGRAM_FILES, STUDY

MAX_GUESTS = 64  # of a platform at once
MAX_BYTES = STUDY.size_bytes
MAX_VALUES = STUDY.count  # values and tables
MAX_DEPTH = STUDY.depth  # tables and lists within one another
MAX_KEY_CHARS = 200
MAX_TEXT_CHARS = 4096
INTEGERS = range(-(2**63), 2**63)
"""TOML 1.0, "Integer": 64 bits are to be handled without loss. The store keeps no longer ones."""
MAX_PLATFORMS = 64
MAX_BENCHMARKS = 256
MAX_CHANGES = 12  # of changed_by: options of vtax run, --scale, --protocol and --ab
MAX_BOOTS = 8  # of the host, in one study
MAX_PROGRAMS = 64
MAX_ARGUMENTS = 256  # of one command of a program
MAX_PARAMETERS = 64  # of a program
MAX_METRICS = 64  # of a program
LONGEST_PATTERN = 500  # characters of a metric's regular expression
MAX_FILES = PROGRAM_FILES.count
MAX_FILES_BYTES = PROGRAM_FILES.size_bytes  # together
MAX_CLAIMS = 64
MAX_CHECKS = 8  # of a claim
MAX_SIDES = 64  # of a check, on either side
MAX_PUBLISHED = 256
MAX_VARIANTS = 16  # scales of a study, and protocols
MAX_FIGURES = 64
MAX_POINTS = 10_000  # combinations of levels, over all benchmarks and tunings
MAX_CELLS = 20_000  # points on platforms
MAX_BLOCKS = 10_000
MAX_SESSIONS = 1000  # of a run
MAX_TRIALS_OF_A_CELL = 10_000  # in one block
MAX_TRIALS = 10_000_000  # of a run
MAX_TRIAL_S = 30 * 86400.0
MAX_RUN_S = 366 * 86400.0

Place = tuple[str | int, ...]


def problem(data: Mapping[str, Any]) -> tuple[Place, str] | None:
    """(where, a sentence) of the first value of a study that no study may hold; None when there is none.

    Depth, numbers and text are bounded here, once, before anything looks at what they mean.
    """
    for count, (place, value) in enumerate(values_of(data)):
        if count > MAX_VALUES:
            return (), f"a study holds at most {MAX_VALUES} values and tables"
        what = _why_refused(place, value)
        if what:
            return place, what
    return None


def values_of(data: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """Yield every value with its place, tables and lists before what is in them; nothing below the deepest."""
    stack: list[tuple[Place, Any]] = [((), data)]
    while stack:
        place, value = stack.pop()
        yield place, value
        entries: list[tuple[Place, Any]] = []
        if isinstance(value, Mapping):
            entries = [((*place, str(key)), entry) for key, entry in value.items()]
        elif isinstance(value, list):
            entries = [((*place, number), entry) for number, entry in enumerate(value)]
        stack += reversed(entries)


def _why_refused(place: Place, value: Any) -> str:
    """Return why a study may not hold a value; empty when it may."""
    if len(place) > MAX_DEPTH:
        return f"tables and lists are nested more than {MAX_DEPTH} deep"
    keys = [part for part in place if isinstance(part, str)]
    name = keys[-1] if keys else ""
    if len(name) > MAX_KEY_CHARS:
        return f"a key has {len(name)} characters; at most {MAX_KEY_CHARS}"
    if escaped(name) != name or "\n" in name:
        return f"the key {name!r} holds a control character or a direction mark"
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARS:
            return f"{name} is a text of {len(value)} characters; at most {MAX_TEXT_CHARS}"
        if escaped(value) != value:
            return f"the text of {name} holds a control character or a direction mark"
    if isinstance(value, int) and value not in INTEGERS:
        return f"{name} is a whole number of more than 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} is {value}; it must be a finite number"
    return ""
