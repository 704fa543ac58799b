"""Which stored measurements a result is made of, and in which order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from a_run import a_run

from vtax.observations import Observations
from vtax.store.query import Measurements, RunData
from vtax.store.records import CellRecord


@pytest.fixture
def data() -> RunData:
    """Two platforms in three blocks of two trials; a value is 10 times its block and the number of its trial."""

    def value(cell: CellRecord, block: int, number: int) -> float:
        return 10.0 * block + number

    run = a_run().platforms("native", "docker").benchmark("tool", levels={"size": (64,)})
    return run.metric("speed").blocks(3, 2).values(value).data()


def test_values_of_a_cell_stand_in_the_order_of_its_trials_however_they_are_stored(data):
    found = Observations.of_run(data)
    backwards = slice(None, None, -1)
    measured = data.measurements
    stored = Measurements(
        measured.trial[backwards], measured.metric[backwards], measured.value[backwards]
    )
    again = Observations.of_run(replace(data, measurements=stored))
    for observations in (found, again):
        for cell in (0, 1):
            seen = observations.of(cell, 0)
            assert seen.value.tolist() == [0, 1, 10, 11, 20, 21]
            assert seen.block.tolist() == [0, 0, 1, 1, 2, 2]
            assert (np.diff(seen.position) > 0).all()
            assert set(seen.cell.tolist()) == {cell}
    assert [(cell, metric) for cell, metric, _ in found.by_figure()] == [(0, 0), (1, 0)]


def test_trials_that_failed_or_warmed_up_have_no_observation(data):
    trials = data.trials
    first, last = trials.position.argmin(), trials.position.argmax()
    is_ok, is_warmup = trials.is_ok.copy(), trials.is_warmup.copy()
    is_ok[last] = False
    is_warmup[first] = True
    found = Observations.of_run(
        replace(data, trials=replace(trials, is_ok=is_ok, is_warmup=is_warmup))
    )
    assert found.value.size == data.measurements.value.size - 2
    assert not {trials.id[first], trials.id[last]} & set(found.trial.tolist())


def test_a_cell_without_a_value_has_no_observation(data):
    found = Observations.of_run(data)
    assert found.of(0, 1).value.size == found.of(7, 0).value.size == found.none().value.size == 0
    assert list(found.none().by_figure()) == []
