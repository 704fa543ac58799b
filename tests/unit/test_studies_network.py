"""The shipped network studies are the papers' designs."""

import pytest

from vtax.benchmarks import registry
from vtax.study.expand import points
from vtax.study.load import Chosen, load


@pytest.mark.parametrize("chosen", [Chosen(), Chosen(scale="short"), Chosen(protocol="paper")])
def test_urschei_is_the_full_factorial_of_the_paper(chosen):
    study = load("urschei2007", chosen=chosen).study
    found = list(points(study))
    assert len(found) == 112
    assert {point.link["mtu"] for point in found} == {500, 1500}
    assert {point.link["offloads"] for point in found} == {False}
    assert {point.parameters["socket_buffer"] for point in found} >= {4096, 114688, 262144}
    for point in found:
        registry.get(point.benchmark).Parameters.model_validate(dict(point.parameters))


def test_the_papers_own_repetition_is_netperfs():
    parameters = next(points(load("urschei2007", chosen=Chosen(protocol="paper")).study)).parameters
    rule = [parameters[name] for name in ("confidence_percent", "min_iterations", "max_iterations")]
    assert rule == [95, 3, 10]


def test_santos_has_the_sizes_of_the_paper_with_equal_responses():
    groups = {}
    for point in points(load("santos2008").study):
        if point.benchmark == "netperf":
            parameters = (
                registry.get("netperf")
                .Parameters.model_validate(dict(point.parameters))
                .model_dump()
            )
            assert parameters["response_size"] == parameters["request_size"]
            groups.setdefault(point.label, []).append(parameters["request_size"])
    assert {label: (sizes[0], sizes[-1]) for label, sizes in groups.items()} == {
        "TCP small": (1, 512),
        "TCP medium": (1024, 512 << 10),
        "TCP large": (1 << 20, 45 << 20),
        "UDP small": (1, 512),
        "UDP medium": (1024, 62 << 10),
    }


def test_mauricio_measures_the_paths_of_the_paper_15_times():
    study = load("mauricio2013").study
    paths = {point.label: point.topology for point in points(study) if point.benchmark == "iperf2"}
    assert paths == {
        "point to point, 64 B": "point-to-point",
        "point to point": "point-to-point",
        "router": "router",
        "router with OpenFlow": "router-openflow",
        "two routers": "router",
        "two routers with OpenFlow": "router-openflow",
        "OpenFlow with a moving controller": "router-openflow",
    }
    assert study.design.blocks == 15


@pytest.mark.parametrize(
    ("name", "claims"),
    [
        ("ufla2010", 8),
        ("santos2008", 15),
        ("mauricio2013", 19),
        ("urschei2007", 15),
        ("trindade2018", 19),
        ("folklore", 8),
    ],
)
def test_every_published_finding_is_a_claim(name, claims):
    assert len(load(name).study.claim) == claims
