"""What a check of the host finds: a value that travels to the terminal, to JSON and into a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "bad"]


@dataclass(frozen=True)
class Observation:
    """What one look at the host showed. level: `warn` moves figures, `bad` makes them worthless. hint: if any.

    by_knob: whether the tunable of the check's name does the hint, if there is one.
    """

    level: Level
    shows: str
    hint: str = ""
    by_tunable: bool = True


@dataclass(frozen=True)
class Finding:
    """Result of a check. why: effect on a measurement. tunable: `--tune-host` applies and reverts the hint."""

    name: str
    level: Level
    shows: str
    why: str
    hint: str
    tunable: bool
