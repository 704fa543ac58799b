"""Observations and findings of the host checks, for the terminal and for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "none", "warn", "bad"]


@dataclass(frozen=True)
class Observation:
    """Result of one observation.

    severity: `none` is not there and disturbs nothing, `warn` shifts figures, `bad` makes them useless.
    hint: may be empty.
    by_tunable: whether the tunable of the check's name applies the hint, if there is one.
    """

    severity: Severity
    observed: str
    hint: str = ""
    by_tunable: bool = True


@dataclass(frozen=True)
class Finding:
    """Result of a check. why: effect on a measurement. tunable: `--tune-host` applies and reverts the hint."""

    name: str
    severity: Severity
    observed: str
    why: str
    hint: str
    tunable: bool
