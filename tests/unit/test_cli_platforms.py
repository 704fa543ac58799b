"""`vtax platforms NAME`, and what the commands say where the guest image is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import output_of

from vtax.cli.main import group
from vtax.doctor.examine import Examination
from vtax.host.home import Home
from vtax.image.recipe import DEFAULT
from vtax.platforms.base import HostProgram, Platform, Probe
from vtax.platforms.registry import get

pytestmark = pytest.mark.usefixtures("unmade_home")
NO_IMAGE = "the guest image of this version is not built: sudo vtax image build"
BROKEN = Probe(
    False,
    "this host's /dev/kvm cannot run ordinary kernels (QEMU aborted in x)",
    "use a physical machine",
    ("nested",),
    "QEMU 7.2",
    0.25,
)


@pytest.fixture
def probed(probe_by) -> Callable[[Probe], list[str]]:
    """`probed(answer)`: names of what is probed; each answers alike."""

    def put(probe: Probe) -> list[str]:
        names: list[str] = []
        probe_by(lambda platform, image: names.append(platform.name) or probe)
        return names

    return put


def test_a_platform_is_described_and_probed_alone(probed):
    names = probed(BROKEN)
    text = output_of("platforms", "kvm-e1000")
    assert names == ["kvm-e1000"]
    for line in (
        f"kvm-e1000: {get('kvm-e1000').driver.summary}\n",
        "  driver: qemu, accel=kvm, nic=e1000, disk=ide\n",
        "  available: no\n",
        "  marks: nested\n",
        f"  reason: {BROKEN.reason}\n",
        f"  hint: {BROKEN.hint}\n",
        "  version: QEMU 7.2\n",
        "  probe: 0.25 s\n",
    ):
        assert line in text
    assert "vhost" in text
    assert NO_IMAGE not in text


def test_a_platform_that_runs_says_that_its_image_is_missing(monkeypatch, probed):
    probed(Probe(True, version="5.0"))
    assert "  available: yes\n" in output_of("platforms", "lxc")
    assert f"  hint: {NO_IMAGE}\n" in output_of("platforms", "lxc")
    Home.from_environment().ensure()
    Path(Home.from_environment().images, DEFAULT.key).mkdir(parents=True)
    monkeypatch.setattr("vtax.cli.platforms.checked", lambda home: None)
    assert "hint" not in output_of("platforms", "lxc")


def test_the_json_of_a_platform_is_that_of_its_driver_with_its_probe(probed):
    probed(BROKEN)
    driver = json.loads(output_of("platforms", "qemu", "--json"))
    platform = json.loads(output_of("platforms", "kvm-e1000", "--json"))
    assert {key: platform[key] for key in driver} == driver
    assert platform["own_options"] == {"accel": "kvm", "nic": "e1000", "disk": "ide"}
    assert (platform["available"], platform["reason"]) == (False, BROKEN.reason)
    assert platform["not_probed"] == ""


@pytest.mark.parametrize(
    "arguments", [("qemu",), ("lxc", "--no-probe"), ("ssh:me@there", "--no-probe")]
)
def test_a_driver_is_not_probed_nor_a_platform_that_was_not_requested(arguments, probed):
    names = probed(BROKEN)
    assert output_of("platforms", *arguments).startswith(f"{arguments[0]}: ")
    assert names == []


def test_programs_that_a_name_brings_are_not_run_without_consent(monkeypatch, probed):
    names = probed(BROKEN)
    program = HostProgram("lxc", "lxc", "program", "/usr/bin/other", "a program")
    monkeypatch.setattr(Platform, "host_programs", property(lambda platform: (program,)))
    assert "without consent" in output_of("platforms", "lxc")
    assert names == []


def test_the_list_of_images_and_doctor_say_how_to_build_a_missing_one(monkeypatch, examined):
    examined(Examination({}, (), 1.0))
    Home.from_environment().root.mkdir()
    listed = CliRunner().invoke(group, ["image", "list"])
    assert (listed.stdout, listed.stderr) == ("", f"{NO_IMAGE}\n")
    assert CliRunner().invoke(group, ["image", "list", "--json"]).stdout == "[]\n"
    assert NO_IMAGE in output_of("doctor")
    assert json.loads(output_of("doctor", "--json"))["image"] == {"hint": NO_IMAGE}
    Home.from_environment().ensure()
    Path(Home.from_environment().images, DEFAULT.key).mkdir(parents=True)
    monkeypatch.setattr("vtax.cli.doctor.checked", lambda home: None)
    assert NO_IMAGE not in output_of("doctor")
    assert json.loads(output_of("doctor", "--json"))["image"] == {"hint": ""}
