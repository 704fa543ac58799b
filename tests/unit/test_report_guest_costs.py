"""What a guest costs as weights of a recommendation: memory of benchmarks with several guests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from claimed_run import measured

from vtax.errors import BadInput
from vtax.report.analysis.recommendation import recommend
from vtax.report.analysis.values import Analysis


def with_memory(run: Analysis) -> Analysis:
    """A run of which one benchmark's values are the memory of a guest, too."""
    first = run.sections[0]
    memory = replace(first, metric=replace(first.metric, name="memory_pss", better="lower", is_primary=False))
    return replace(run, sections=(*run.sections, memory))


def test_memory_of_a_guest_is_weighed_where_it_is_named() -> None:
    """far has a third to two thirds of native's, of which less is better."""
    run = with_memory(measured())
    found = recommend(run, {"guest-memory": 1})
    assert found.standings[0].platform.name == "far"
    assert found.standings[0].score.estimate > 1.5
    assert {each.name: each.share for each in found.resources} == {"application": 0.0, "guest-memory": 1.0}
    assert [each.name for each in recommend(run).resources] == ["application"]


def test_a_run_without_the_cost_says_that_it_does_not_measure_it() -> None:
    with pytest.raises(BadInput, match="does not measure guest-memory"):
        recommend(measured(), {"guest-memory": 1})
