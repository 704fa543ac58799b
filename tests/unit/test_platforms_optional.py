"""A platform with one optional capability is one file, and plans, refusals and listings follow from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed_package import fresh_registries

import vtax.platforms
from vtax.host.plugins import problem_of
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import Driver, MachineDriver, NetworkLimits, Probe
from vtax.runner.plan import make_plan
from vtax.study.load import LoadedStudy, validate

FILE = """
from vtax.platforms.base import Driver, GuestSpec, NetworkLimits, Probe, RunningGuest, register_platform
from vtax.platforms.options import DriverOptions


class NarrowOptions(DriverOptions):
    pass


@register_platform
class Narrow(Driver):
    name = "narrow"
    summary = "carries small packets only"
    Options = NarrowOptions
    variants = {"narrow": {}}

    def network_limits(self, options):
        return NetworkLimits(mtu=1400)

    def probe(self, options, image):
        return Probe(True)

    def start(self, options, spec: GuestSpec) -> RunningGuest:
        raise NotImplementedError
"""


@pytest.fixture
def with_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file of the driver among those that are shipped."""
    directory = tmp_path / "platforms"
    directory.mkdir()
    (directory / "narrow.py").write_text(FILE)
    monkeypatch.setattr(vtax.platforms, "__path__", [*vtax.platforms.__path__, str(directory)])
    with fresh_registries():
        yield
    sys.modules.pop("vtax.platforms.narrow")


@pytest.mark.usefixtures("with_narrow")
def test_its_capability_counts_and_all_others_have_defaults(tmp_path):
    platform = registry.get("narrow")
    assert platform.network_limits == NetworkLimits(mtu=1400)
    assert platform.driver.tunings == ("pinned",)
    assert platform.driver.joins_topologies
    assert not platform.driver.argument
    assert not isinstance(platform.driver, MachineDriver)
    study = {
        "name": "x",
        "platforms": ["native", "narrow"],
        "benchmark": [{"name": "iperf3", "link": {"mtu": 1401}}],
    }
    loaded = LoadedStudy(validate(study, "x.toml"), "x.toml")
    probes = {name: Probe(True) for name in ("native", "narrow")}
    *_, narrow = make_plan(loaded, image=Image("key", tmp_path), probes=probes).platforms
    assert not narrow.probe.available
    assert "narrow carry an MTU of at most 1400" in narrow.probe.reason


def test_every_shipped_driver_is_what_a_driver_of_a_package_must_be():
    assert registry.drivers()
    for driver in registry.drivers().values():
        assert problem_of(driver, Driver) == ""
    assert [
        name for name, driver in registry.drivers().items() if isinstance(driver, MachineDriver)
    ] == ["ssh"]
