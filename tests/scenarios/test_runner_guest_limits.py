"""The search for how many guests a platform takes, with guests that are plain processes and figures of a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import executed, plan_of, study
from shown import drawn

from vtax.cli.plan import format_factors
from vtax.errors import BadInput
from vtax.report.analysis.source import source_of
from vtax.report.answers.capacity.compute import capacities
from vtax.report.answers.result import view as result
from vtax.report.views.base import Options
from vtax.runner.guest_limits import GuestLimits
from vtax.store.query import RunData, load

GUESTS = [1, 2, 4, 8]
FAST_UNTIL = (
    "d={}; mkdir -p $d; touch $d/$$; sleep .2; n=$(ls $d | wc -l); sleep .2; rm $d/$$; echo {}"
)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, scratch_in) -> None:
    scratch_in(tmp_path)


def searching(code: str, *, blocks: int = 2, **until: Any) -> dict[str, Any]:
    return study(
        platforms=["native"],
        design={"blocks": blocks, "timeout": 20},
        benchmark=[
            {
                "name": "script",
                "parameters": {"code": code},
                "guests": GUESTS,
                "guests_until": {"metric": "figure", **until},
            }
        ],
    )


def measured(data: RunData) -> list[tuple[int, int]]:
    """Return (block, guests) of every trial, in the order made."""
    guests = [int(cell.levels["guests"]) for cell in data.run.cells]
    trials = data.trials
    return [(int(b), guests[c]) for b, c in zip(trials.block, trials.cell, strict=True)]


def test_numbers_beyond_the_first_that_breaks_the_bound_are_not_measured(
    driver, store, home, tmp_path
):
    code = FAST_UNTIL.format(tmp_path / "there", "$((n > 2 ? 1 : 100))")
    run = executed(plan_of(searching(code, at_least=50)), store, home)
    data = load(store.engine, run)
    assert data.failures == ()
    assert measured(data)[:3] == [(0, 1), (0, 2), (0, 4)]
    assert sorted(measured(data)[3:]) == [(1, 1), (1, 2), (1, 4)]
    (found,) = capacities(source_of(store).analysis)
    assert (found.platform.name, found.guests, found.broken_by) == ("native", 2, 4)


def test_a_number_whose_trials_fail_breaks_the_bound(driver, store, home, tmp_path):
    code = FAST_UNTIL.format(tmp_path / "there", "100; [ $n -le 1 ]")
    run = executed(plan_of(searching(code, blocks=1, at_least=50)), store, home)
    data = load(store.engine, run)
    assert measured(data) == [(0, 1), (0, 2)]
    (found,) = capacities(source_of(store).analysis)
    assert (found.guests, found.broken_by, found.value) == (1, 2, None)


def test_without_a_failure_every_number_is_measured_and_the_answer_is_at_least(driver, store, home):
    run = executed(plan_of(searching("echo 100", blocks=1, at_least=50)), store, home)
    assert measured(load(store.engine, run)) == [(0, each) for each in GUESTS]
    source = source_of(store)
    (found,) = capacities(source.analysis)
    assert (found.guests, found.broken_by) == (8, None)
    assert "native 8 or more" in drawn(result.VIEW.document(source, Options()))


def test_the_plan_says_the_bound(driver):
    plan = plan_of(searching("echo 100", at_least=50))
    (table,) = plan.study.benchmark
    assert format_factors(table) == "guests = 1, 2, 4, 8 while figure >= 50"


def test_only_the_first_block_rises(driver):
    plan = plan_of(searching("echo 100", blocks=3, at_least=50))
    lives = GuestLimits(plan).rising(plan.guests(0))
    assert [life.colocation.guests for life in lives] == GUESTS


@pytest.mark.parametrize(
    ("until", "where"),
    [
        ({"at_most": 3}, "guests_until.at_most"),
        ({"metric": "speed", "at_least": 3}, "guests_until.metric"),
    ],
)
def test_a_bound_that_no_metric_can_break_is_refused(driver, until, where):
    with pytest.raises(BadInput) as refused:
        plan_of(searching("echo 1", **until))
    assert where in refused.value.where


@pytest.mark.parametrize("until", [{}, {"at_most": 1, "at_least": 1}])
def test_a_bound_is_one(driver, until):
    with pytest.raises(BadInput, match="one of them"):
        plan_of(searching("echo 1", **until))
