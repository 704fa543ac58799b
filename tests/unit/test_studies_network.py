"""The shipped network studies are the papers' designs."""

import pytest

from vtax.benchmarks import registry
from vtax.study.expand import points
from vtax.study.load import load


@pytest.mark.parametrize("name", ["urschei2007", "urschei2007-paper", "urschei2007-reduced"])
def test_urschei_is_the_full_factorial_of_the_paper(name):
    study = load(name).study
    found = list(points(study))
    assert len(found) == 112
    assert {point.link["mtu"] for point in found} == {500, 1500}
    assert {point.link["offloads"] for point in found} == {False}
    assert {point.parameters["socket_buffer"] for point in found} >= {4096, 114688, 262144}
    for point in found:
        registry.get(point.benchmark).Parameters.model_validate(dict(point.parameters))


def test_the_papers_own_repetition_is_netperfs():
    parameters = next(points(load("urschei2007-paper").study)).parameters
    rule = [parameters[name] for name in ("confidence_percent", "min_iterations", "max_iterations")]
    assert rule == [95, 3, 10]
