"""What a claim leaves out and says so: blocks without a value, and trials that measured something else."""

from __future__ import annotations

from typing import Any

import pytest
from claimed_run import judged

from vtax.report.renderers.format import english


@pytest.mark.parametrize(
    ("lacks", "check", "notes"),
    [
        (None, {"of": "far"}, []),
        (("far", 64, 3), {"of": "far"}, ["1 block of 10 is left out: not every value of a comparison is there"]),
        (("native", 64, 3), {"of": "far"}, ["1 block of 10 is left out: not every value of a comparison is there"]),
        (("far", 64, 3), {"of": "near"}, []),
        (("native", 64, 3), {"kind": "interaction", "of": "far", "to": "near", "reference": "native"},
         ["1 block of 10 is left out: not every value of a comparison is there"]),
    ],
)  # fmt: skip
def test_a_block_that_a_claim_leaves_out_is_said(lacks: Any, check: dict[str, Any], notes: list[str]) -> None:
    found = judged(
        {"kind": "ratio", "below": 1, "average_over": ["size"], "benchmark": "small", **check}, lacks=lacks
    )
    assert [english(note) for note in found.notes] == notes
    assert max(compared.left_out for compared in found.compared) == len(notes)


@pytest.mark.parametrize("code", ["packet-size", "not-a-wire"])
def test_no_claim_rests_on_trials_that_measured_something_else(code: str) -> None:
    """Super-packets, or more transactions than a wire carries: the comparison is left out, and the word with it."""
    check = {"kind": "ratio", "of": "far", "benchmark": "small", "below": 0.75}
    assert judged(check, blocks=12).word == "reproduced"
    found = judged(check, blocks=12, other=code)
    assert found.word == "inconclusive"
    assert found.judgement is not None
    assert [note.code for note in found.judgement.warnings] == ["other-quantity"]  # type: ignore[attr-defined]
    assert found.compared[0].reason == found.judgement.warnings[0]
    elsewhere = {**check, "where": {"size": 256}}
    assert judged(elsewhere, blocks=12, other=code).word == "reproduced"
    assert judged({**elsewhere, "where": {"size": 64}}, blocks=12, other="clock-rate").word == "reproduced"
