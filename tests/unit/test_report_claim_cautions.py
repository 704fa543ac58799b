"""Claims whose cells drift, or were measured on a busy host, stay open, with the reason beside the word."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from a_run import a_run

from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.claims.cautions import OTHERS_CPUS, STEAL
from vtax.report.answers.claims.compute import JudgedClaim, claims
from vtax.report.renderers.format import english

CLAIM = {
    "id": "podman-is-slower",
    "statement": "Podman is slower.",
    "statement_pt": "Podman é mais lento.",
    "source": "nowhere",
    "check": [{"kind": "ratio", "of": "podman", "below": 0.95}],
}
BLOCKS = 20
PLACE = doc.WarnedPlace("podman", "tool")


def measured(change: float = 0.0, loss: float = 0.8) -> Analysis:
    """A run in which podman has this share of native's speed, and both change by this much until its end."""
    random = np.random.default_rng(3)
    run = a_run().platforms("native", "podman").benchmark("tool").metric("speed")
    run = run.declared(claim=[CLAIM]).blocks(BLOCKS)

    def speed(cell: object, block: int, number: int) -> float:
        trend = math.log1p(change) * block / (BLOCKS - 1)
        share = loss if cell.platform == "podman" else 1.0
        return 100 * share * math.exp(trend + random.normal(0, 0.01))

    return run.values(speed).analysis()


def judged(analysis: Analysis) -> JudgedClaim:
    return claims(analysis).claims[0]


@pytest.mark.parametrize(
    ("change", "loss", "word"),
    [
        (0.0, 0.8, "reproduced"),
        (-0.15, 0.8, "reproduced"),
        (-0.45, 0.8, "inconclusive"),
        (0.45, 0.8, "inconclusive"),
        (0.0, 1.0, "contradicted"),
        (-0.45, 1.0, "inconclusive"),
    ],
)
def test_a_word_stands_on_cells_that_hardly_drift(change, loss, word):
    found = judged(measured(change, loss))
    assert found.word == word
    codes = [note.code for note in found.judgement.warnings]
    assert codes == (["claim-drift"] if word == "inconclusive" else [])


@pytest.mark.parametrize(
    ("note", "caution"),
    [
        (Note("host-busy", cpus=OTHERS_CPUS + 0.1), "claim-busy"),
        (Note("host-steal", share=STEAL + 0.01), "claim-steal"),
        (Note("host-busy", cpus=OTHERS_CPUS - 0.1), ""),
        (Note("host-steal", share=STEAL - 0.01), ""),
    ],
)
@pytest.mark.parametrize("is_often", [True, False])
def test_a_word_stands_on_a_host_that_is_seldom_busy(note, caution, is_often):
    analysis = measured()
    times = analysis.trials // (4 if is_often else 10)
    warnings = (*analysis.warnings, *merged([noted(note, PLACE, times)]))
    found = judged(replace(analysis, warnings=warnings))
    codes = [each.code for each in found.judgement.warnings]
    assert codes == ([caution] if caution and is_often else [])
    assert found.word == ("inconclusive" if codes else "reproduced")


def test_what_is_open_anyway_names_no_caution():
    analysis = measured(-0.45, 0.95)
    assert judged(analysis).word == "inconclusive"
    assert judged(analysis).judgement.warnings == ()


def test_the_reason_stands_beside_the_word():
    from vtax.report.answers.claims.view import _why

    analysis = measured(-0.45)
    text = english(_why(judged(analysis), analysis))
    assert re.search("no word: the figures of (native|podman) change by −4", text)
    assert "over the run" in text
