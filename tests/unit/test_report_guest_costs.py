"""Costs beside speed as weights of a recommendation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from claimed_run import measured

from vtax.errors import BadInput
from vtax.report.analysis.values import Analysis
from vtax.report.answers.recommend.compute import recommend


def with_cost(run: Analysis, metric: str) -> Analysis:
    """A run of which one benchmark's values are those of a cost, too."""
    first = run.sections[0]
    cost = replace(
        first, metric=replace(first.metric, name=metric, better="lower", is_primary=False)
    )
    return replace(run, sections=(*run.sections, cost))


@pytest.mark.parametrize(
    ("metric", "cost"),
    [
        ("memory_pss", "guest-memory"),
        ("host_cpu_per_event", "host-cpu"),
        ("cpu_per_gigabyte", "host-cpu"),
        ("energy_per_event", "energy"),
    ],
)
def test_a_cost_is_weighed_where_it_is_named(metric, cost):
    """far has a third to two thirds of native's, of which less is better."""
    run = with_cost(measured(), metric)
    found = recommend(run, {cost: 1})
    assert found.standings[0].platform.name == "far"
    assert found.standings[0].score.estimate > 1.5
    assert {each.name: each.share for each in found.resources} == {"application": 0.0, cost: 1.0}
    assert [each.name for each in recommend(run).resources] == ["application"]


def test_a_run_without_the_cost_says_that_it_does_not_measure_it(golden):
    with pytest.raises(BadInput) as caught:
        recommend(measured(), {"guest-memory": 1})
    golden(str(caught.value))
