"""Settings that one topology has alone: varied, listed and checked as those of all links are."""

import json

import pytest
from command_line import output_of

from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.network import registry
from vtax.platforms.base import Probe
from vtax.runner.plan import make_plan
from vtax.study.load import load

STUDY = """
name = "nics"
platforms = ["native"]

[[benchmark]]
name = "iperf3"
topology = "multi-nic"
link_factors = { mtu = [500, 1500], interfaces = [1, 4] }
"""


def planned(directory, text):
    path = directory / "nics.toml"
    path.write_text(text)
    return make_plan(
        load(str(path), {}), image=Image("key", directory), probes={"native": Probe(True)}
    )


def test_a_study_varies_it_and_a_guest_is_started_for_every_level(tmp_path):
    plan = planned(tmp_path, STUDY)
    assert [dict(point.levels) for point in plan.points] == [
        {"link.mtu": mtu, "link.interfaces": number} for mtu in (500, 1500) for number in (1, 4)
    ]
    assert [point.link.model_dump()["interfaces"] for point in plan.points if point.link] == [
        1,
        4,
        1,
        4,
    ]
    assert len({point.configuration for point in plan.points}) == 2


def test_it_is_listed_and_its_bounds_are_checked():
    assert "interfaces of each guest" in output_of("topologies")
    (found,) = (
        each
        for each in json.loads(output_of("topologies", "--json"))["topologies"]
        if each["name"] == "multi-nic"
    )
    assert "interfaces" in {setting["name"] for setting in found["link"]}
    with pytest.raises(BadInput, match=r"interfaces is 9; .* 1 to 8"):
        registry.settings("multi-nic", {"interfaces": 9})


def test_a_study_that_varies_it_elsewhere_is_refused_at_its_key(tmp_path, golden):
    with pytest.raises(BadInput) as caught:
        planned(tmp_path, STUDY.replace('"multi-nic"', '"router"'))
    golden(str(caught.value))
    assert caught.value.where.endswith(
        "[[benchmark]] number 1 (iperf3), key link_factors.interfaces"
    )
    assert "multi-nic" in caught.value.hint


def test_settings_of_another_topology_never_reach_the_lab():
    others = registry.settings("multi-nic", {"interfaces": 2})
    with pytest.raises(TypeError, match=r"VlanPairsSettings, .*MultiNicSettings"):
        registry.get("vlan-pairs").check(others)
