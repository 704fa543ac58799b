"""Logarithms of cells, and how two sides are paired within blocks, sessions, hosts and nothing. Values are invented."""

import numpy as np
import pytest

from vtax.pairing import Logs, align, mean_logs, pair, pair_rows
from vtax.stats.checks import StatsError
from vtax.stats.ratio import BlockMeans

UNITS = {0: (7, 1), 1: (7, 1), 2: (7, 2), 3: (5, 3), 4: (5, 3)}
"""Block -> host and session: host 7 has two sessions, host 5 one."""


def logs(**values: float) -> Logs:
    units = [int(name[1:]) for name in values]
    return Logs(np.array(units, np.int64), np.array(list(values.values())))


def means(**values: float) -> BlockMeans:
    of = logs(**values)
    return BlockMeans(of.units, of.values)


def values_of(of: Logs) -> dict[int, float]:
    return dict(zip(of.units.tolist(), of.values.tolist(), strict=True))


TREATMENT = logs(b0=1.0, b1=2.0, b2=6.0, b3=10.0)
BASELINE = logs(b0=0.5, b2=1.0, b3=4.0, b4=8.0)


@pytest.mark.parametrize(
    ("within", "units", "treatment", "baseline"),
    [
        ("block", [0, 2, 3], [1.0, 6.0, 10.0], [0.5, 1.0, 4.0]),
        ("session", [1, 2, 3], [1.5, 6.0, 10.0], [0.5, 1.0, 6.0]),
        ("host", [5, 7], [10.0, 3.75], [6.0, 0.75]),
    ],
)
def test_sides_are_paired_in_the_units_that_both_have(within, units, treatment, baseline):
    of, to = pair(TREATMENT, BASELINE, within, UNITS)
    assert of.units.tolist() == to.units.tolist() == units
    assert (of.values.tolist(), to.values.tolist()) == (treatment, baseline)


def test_within_nothing_each_side_stays_as_it_is():
    assert pair(TREATMENT, BASELINE, "nothing") == (TREATMENT, BASELINE)


def test_a_unit_that_one_side_lacks_is_in_no_pair():
    assert values_of(TREATMENT - BASELINE) == {0: 0.5, 2: 5.0, 3: 6.0}
    of, to = pair(TREATMENT.only([0, 1, 2]), BASELINE.only([3, 4]), "host", UNITS)
    assert not of
    assert not to


def test_a_value_without_a_logarithm_is_in_no_mean():
    of = logs(b0=1.0, b1=np.nan, b2=5.0)
    assert values_of(of.known()) == {0: 1.0, 2: 5.0}
    assert values_of(of.averaged("session", UNITS)) == {1: 1.0, 2: 5.0}
    assert not logs().averaged("host", UNITS)


def test_ratios_of_two_cells_are_of_blocks_that_both_have():
    of = pair_rows(means(b0=2.0, b1=4.0, b3=8.0), means(b0=1.0, b2=1.0, b3=2.0))
    assert values_of(of) == pytest.approx({0: np.log(2), 3: np.log(4)})
    assert pair_rows(means(b0=2.0, b1=4.0), means(b0=1.0, b1=1.0), [1]).units.tolist() == [1]
    with pytest.raises(StatsError):
        pair_rows(means(b0=0.0, b1=0.0), means(b0=1.0, b1=1.0))


def test_cells_are_averaged_in_blocks_that_have_all_of_them():
    cells = [means(b0=1.0, b1=4.0, b2=1.0), means(b0=1.0, b1=1.0, b2=0.0, b3=1.0)]
    blocks, aligned = align(cells)
    assert blocks.tolist() == [0, 1, 2, 3]
    assert np.isnan(aligned).tolist() == [[False, False, False, True], [False, False, True, False]]
    assert values_of(mean_logs(cells)) == pytest.approx({0: 0.0, 1: np.log(2)})
