"""How much of the noise goes with a program's waits for a CPU: found where it does, and nowhere else."""

import math

import numpy as np
import pytest
from a_run import measured
from shown import drawn

from vtax.counters.table import PROGRAM, RUN_DELAY
from vtax.report.answers.variance.compute import variance
from vtax.report.answers.variance.view import document_of
from vtax.report.answers.variance.waits import COUNTER, waits_of
from vtax.report.renderers.json import plain

BLOCKS, TRIAL_S = 12, 2.0
WAITED = np.random.default_rng(27).uniform(0.0, 0.2, BLOCKS)  # of the time of a trial
OWN = np.random.default_rng(28).normal(0.0, 0.02, BLOCKS)


def value(platform, size, block, number):
    """A rate: `first` loses what it waits, `second` has noise of its own, native has both."""
    slow = {"first": -WAITED[block], "second": OWN[block], "native": -WAITED[block] + OWN[block]}[
        platform
    ]
    return 100.0 * math.exp(slow)


def counted(data):
    every = np.arange(BLOCKS)
    return {(cell, *COUNTER): (every, WAITED * TRIAL_S, 3.0) for cell in range(len(data.run.cells))}


def test_noise_goes_with_waits_as_far_as_it_does():
    data, analysis = measured(value, blocks=BLOCKS)
    found = waits_of(data, analysis.primary, counted(data))
    first, second, native = (found[f"{name}-64", "speed"] for name in ("first", "second", "native"))
    assert first.share == pytest.approx(1.0, abs=1e-9)
    assert first.p < 1e-9
    assert second.p > 0.05
    r = np.corrcoef(-WAITED + OWN, WAITED)[0, 1]
    assert native.share == pytest.approx(1 - (1 - r**2) * (BLOCKS - 1) / (BLOCKS - 2))
    assert native.p < 0.05


def test_the_view_names_what_waits_and_its_data_has_every_cell():
    data, analysis = measured(value, blocks=BLOCKS)
    waited = waits_of(data, analysis.primary, counted(data))
    document = document_of(variance(data, analysis, waited=waited), analysis)
    text = " ".join(drawn(document).split())
    assert "Waits for a CPU explain noise between blocks in 4 cells: " in text
    assert "first, tool speed, size=64 by 100 %" in text
    waits = {
        (entry["platform"], entry["levels"]["size"]): entry["waits"]
        for entry in plain(document.data)
    }
    assert waits["first", 64]["share"] == pytest.approx(1.0, abs=1e-9)
    assert waits["second", 64]["p"] > 0.05
    assert "Waits for" not in drawn(document_of(variance(data, analysis), analysis))


@pytest.mark.parametrize("blocks", [4, BLOCKS])
def test_without_blocks_or_counts_nothing_is_said(blocks):
    data, analysis = measured(lambda *_: 100.0, blocks=blocks)
    assert waits_of(data, analysis.primary, {}) == {}
    assert all(each.p == 1.0 for each in waits_of(data, analysis.primary, counted(data)).values())


def test_the_counter_is_the_one_that_trials_have():
    assert COUNTER == (PROGRAM, RUN_DELAY.name) == ("program", "run_delay_s")
