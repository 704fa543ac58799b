"""The gVisor driver without runsc: what it tells runsc, and the order its guests run their cells in."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from vtax.host.journal import Journal
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.namespace import NAMES
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Probe, Resources
from vtax.platforms.oci import gvisor
from vtax.platforms.oci import runtime as oci_runtime
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, validate


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[GuestSpec]:
    with Journal(tmp_path / "journal") as journal:
        yield GuestSpec(
            "vtax-1", Image("key", tmp_path), Resources(1, 1 << 28, (0,)), tmp_path, journal
        )


def test_limits_are_those_of_all_guests_where_a_program_inside_cannot_set_them():
    limits = {limit["type"]: (limit["soft"], limit["hard"]) for limit in gvisor._limits()}
    for name in ("MEMLOCK", "SIGPENDING", "NOFILE", "STACK"):
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        assert limits[f"RLIMIT_{name}"] == (soft % (1 << 64), hard % (1 << 64))
    assert limits["RLIMIT_NICE"] == limits["RLIMIT_RTPRIO"] == (0, 0)


def test_every_way_to_catch_system_calls_is_a_platform(spec):
    for way in ("systrap", "ptrace", "kvm"):
        options = cast("gvisor.GvisorOptions", registry.get(f"gvisor-{way}").options)
        assert f"--platform={way}" in gvisor.command_line(options, spec)


@pytest.mark.parametrize(
    ("driver", "options"),
    [("gvisor", {"platform": way}) for way in ("systrap", "ptrace", "kvm")]
    + [("podman", {"runtime": "runsc"}), ("containerd", {"runtime": "runsc"})],
)
def test_a_missing_runsc_has_one_hint(driver, options, installed, devices, taken_for_root):
    (devices / "kvm").touch()
    installed(but="runsc")
    found = registry.make("mine", driver, options).probe(None)
    assert found.reason == Note("not-installed", names="runsc", count=1)
    assert found.hint.code == "hint-newer-runsc"


def test_a_path_without_a_runsc_is_said(taken_for_root):
    found = registry.make("mine", "gvisor", {"runsc": "/nowhere/runsc"}).probe(None)
    assert (found.reason, found.hint) == (Note("no-program", name="/nowhere/runsc"), "")


def test_without_kvm_no_other_runsc_is_advised(devices, taken_for_root):
    found = registry.make("mine", "gvisor", {"platform": "kvm", "runsc": "no-such-runsc"}).probe(
        None
    )
    missing = Note("not-installed", count=1, names=("no-such-runsc",))
    assert found.reason == Note("no-usable-kvm", reason=missing)
    assert "use gvisor-systrap" in found.hint
    assert "install" not in found.hint


def test_limits_and_records_stay_with_the_guest(spec):
    command = gvisor.command_line(gvisor.GvisorOptions(runsc="/opt/runsc"), spec)
    assert command[0] == "/opt/runsc"
    assert "--ignore-cgroups" in command
    assert f"--root={spec.directory}/runsc" in command


def test_the_bundle_takes_the_interfaces_of_the_named_namespace(spec):
    bundle = json.loads(
        json.dumps(
            oci_runtime.bundle(spec, Path("/root-of-guest"), ["prog", "word"], NAMES / spec.name)
        )
    )
    assert {"type": "network", "path": "/run/netns/vtax-1"} in bundle["linux"]["namespaces"]
    assert bundle["process"]["args"] == ["prog", "word"]
    assert bundle["root"] == {"path": "/root-of-guest"}


def plan_of(*platforms: str) -> Plan:
    benchmarks = [
        {
            "name": "iperf3",
            "link_factors": {"mtu": [500, 1500, 9000]},
            "factors": {"direction": ["send", "receive"]},
        },
        {"name": "sysbench-cpu"},
    ]
    declared = {
        "name": "links",
        "platforms": list(platforms),
        "benchmark": benchmarks,
        "design": {"blocks": 1},
    }
    probes = {name: Probe(True) for name in platforms}
    return make_plan(
        LoadedStudy(validate(declared, "test"), "test"),
        image=Image("key", Path("/nowhere")),
        probes=probes,
    )


def test_a_sandbox_that_keeps_its_links_gets_a_fresh_guest_for_each_setting():
    plan = plan_of("native", "gvisor-systrap")
    sessions = plan.guests(0)
    assert [s.platform.name for s in sessions].count("native") == 1
    fresh = [s for s in sessions if s.platform.name == "gvisor-systrap"]
    assert len(fresh) == 3
    for session in fresh:
        assert len({cell.point.link for cell in session.cells if cell.point.link}) == 1
    ran = [cell.key for session in fresh for cell in session.cells]
    assert sorted(ran) == sorted(
        cell.key for cell in plan.cells if cell.platform.name == "gvisor-systrap"
    )
