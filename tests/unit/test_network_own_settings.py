"""A topology with a setting of its own is one file: everything else follows from it."""

import json
import sys

import pytest
from click.testing import CliRunner
from installed_package import fresh_registries

import vtax.network.topologies
from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.network import registry
from vtax.platforms.base import Probe
from vtax.runner.plan import make_plan
from vtax.study.load import load

FILE = '''
from pydantic import Field

from vtax.network.lab import Lab
from vtax.network.links import Links
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology


class ChainSettings(LinkSettings):
    """Link settings of `chain`."""

    bridges: int = Field(1, ge=1, le=8, description="bridges between guest and peer")


def wire(lab: Lab, settings: ChainSettings) -> Links:
    raise NotImplementedError


TOPOLOGY = Topology("chain", "bridges in a row", wire, ChainSettings)
'''
STUDY = """
name = "chains"
platforms = ["native"]

[[benchmark]]
name = "iperf3"
topology = "chain"
link_factors = { mtu = [500, 1500], bridges = [1, 4] }
"""


@pytest.fixture
def with_chain(tmp_path, monkeypatch):
    """The file of the topology among those that are shipped."""
    directory = tmp_path / "topologies"
    directory.mkdir()
    (directory / "chain.py").write_text(FILE)
    monkeypatch.setattr(vtax.network.topologies, "__path__", [*vtax.network.topologies.__path__, str(directory)])
    with fresh_registries():
        yield
    sys.modules.pop("vtax.network.topologies.chain")


@pytest.mark.usefixtures("with_chain")
def test_a_study_varies_it_and_a_guest_is_started_for_every_level(tmp_path):
    path = tmp_path / "chains.toml"
    path.write_text(STUDY)
    plan = make_plan(load(str(path), {}), image=Image("key", tmp_path), probes={"native": Probe(True)})
    assert [dict(point.levels) for point in plan.points] == [
        {"link.mtu": mtu, "link.bridges": bridges} for mtu in (500, 1500) for bridges in (1, 4)
    ]
    assert [point.link.model_dump()["bridges"] for point in plan.points if point.link] == [1, 4, 1, 4]
    assert len({point.configuration for point in plan.points}) == 2


@pytest.mark.usefixtures("with_chain")
def test_it_is_listed_and_checked_and_belongs_to_no_other_topology():
    shown = CliRunner().invoke(group, ["topologies"], catch_exceptions=False, color=False).output
    assert "bridges between guest and peer" in shown
    listed = json.loads(CliRunner().invoke(group, ["topologies", "--json"], catch_exceptions=False).output)
    (chain,) = (each for each in listed["topologies"] if each["name"] == "chain")
    assert [setting["name"] for setting in chain["link"]] == ["bridges"]
    with pytest.raises(BadInput, match="link setting bridges is 9; it must be a whole number from 1 to 8"):
        registry.settings("chain", {"bridges": 9})
    with pytest.raises(BadInput, match="link setting bridges: router has no such setting") as caught:
        registry.settings("router", {"bridges": 2})
    assert "chain" in caught.value.hint


@pytest.mark.usefixtures("with_chain")
def test_a_study_that_varies_it_elsewhere_is_refused_at_its_key(tmp_path):
    path = tmp_path / "chains.toml"
    path.write_text(STUDY.replace('"chain"', '"router"'))
    with pytest.raises(BadInput, match="router has no such setting") as caught:
        make_plan(load(str(path), {}), image=Image("key", tmp_path), probes={"native": Probe(True)})
    assert caught.value.where.endswith("[[benchmark]] number 1 (iperf3), key link_factors.bridges")


def test_settings_of_another_topology_never_reach_the_lab():
    others = registry.settings("multi-nic", {"interfaces": 2})
    with pytest.raises(TypeError, match="vlan-pairs needs VlanPairsSettings, not MultiNicSettings"):
        registry.get("vlan-pairs").check(others)
