"""Terms that a study declares and statistics judge by; without numpy, which reading a study does not need."""

from __future__ import annotations

from typing import Literal

Better = Literal["higher", "lower"]  # which way a metric is better
Stop = Literal[
    "fixed", "open", "precision", "verdict", "budget"
]  # rules that end a run, see stopping.Rule
COUNTED = ("fixed", "open")  # rules that end a run after `blocks`
MINIMUM_BLOCKS = 5  # of a verdict: with fewer, Student's t is at the mercy of the noise's shape
