"""The driver `sandbox`: each of its options turns on one mechanism of the kernel and leaves the others as native has them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lab_guests import LabGuests
from support import needs_root

from vtax.conformance import reach
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import confinement, registry

pytestmark = [needs_root]
KINDS = ("mnt", "pid", "ipc", "uts", "cgroup", "net", "user")
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
ELEVEN = sum(1 << number for number in confinement.numbers(confinement.capabilities()))
EVERY = (1 << int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1) - 1
"""Capabilities that a new user namespace has."""
OF_NATIVE = {
    "namespaces": {"mnt"},
    "is first": False,
    "capabilities": int(
        re.findall(r"CapBnd:\s+(\w+)", Path("/proc/self/status").read_text())[0], 16
    ),
    "gains nothing": False,
    "filtered": False,
    "overlay": False,
    "scratch": "directory of the root",
    "closed": False,
    "limited": True,
}
FACTS = f"""
for kind in {" ".join(KINDS)}; do readlink /proc/self/ns/$kind; done
cat /proc/1/comm
stat -f -c %T /usr
ls /dev/console /dev/cpu /dev/kmsg /dev/mem /dev/ttyS0 2>/dev/null | wc -l
cat /proc/self/status /proc/self/mountinfo
"""
CONFINED = {"namespaces": True, "network_namespace": True, "closed": True}


@pytest.fixture
def stage(private_home: Home, image: Image) -> Iterator[GuestStage]:
    with GuestStage(CheckEnvironment(private_home, image)) as opened:
        yield opened


def facts(stage: GuestStage, driver: str, options: Mapping[str, Any]) -> dict[str, object]:
    """Return what a process in a guest has of each mechanism."""
    role = f"{driver} {options}"
    running = stage.start(registry.make("tried", driver, options), role=role)
    lines = stage.guest(role).run(["sh", "-c", FACTS]).stdout.splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mounts = {line.split()[4]: line for line in lines if " - " in line}
    own = dict(zip(KINDS, lines, strict=False))
    host = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in KINDS}
    init, usr, nodes_of_host = lines[len(KINDS) : len(KINDS) + 3]
    capabilities = {name: int(status[name], 16) for name in SETS}
    effective = capabilities.pop("CapEff")
    assert capabilities["CapAmb"] == 0
    assert effective == capabilities["CapPrm"] == capabilities["CapBnd"]
    assert capabilities["CapInh"] & ~effective == 0
    return {
        "namespaces": {kind for kind in KINDS if own[kind] != host[kind]},
        "is first": init != Path("/proc/1/comm").read_text().strip(),
        "capabilities": effective,
        "gains nothing": status["NoNewPrivs"] == "1",
        "filtered": status["Seccomp"] == "2",
        "overlay": usr == "overlayfs",
        "scratch": scratch(mounts),
        "closed": nodes_of_host == "0" and " ro," in mounts["/sys"] and "/proc/sys" in mounts,
        "limited": running.limits_in_force().get("limit.memory", "none") != "none",
    }


def scratch(mounts: Mapping[str, str]) -> str:
    """Return what is mounted at /scratch, by mountinfo."""
    if "/scratch" not in mounts:
        return "directory of the root"
    root, kind = mounts["/scratch"].split()[3], mounts["/scratch"].split(" - ")[1].split()[0]
    return "volume" if root.endswith("/volume") else kind


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"limits": False}, {"limited": False}),
        ({"root": "overlay"}, {"overlay": True, "scratch": "volume"}),
        ({"root": "overlay", "scratch": "layer"}, {"overlay": True}),
        ({"scratch": "layer"}, {"scratch": "overlay"}),
        ({"scratch": "memory"}, {"scratch": "tmpfs"}),
        (
            {"namespaces": True},
            {"namespaces": {*KINDS} - {"net", "user"}, "is first": True},
        ),
        ({"network_namespace": True}, {"namespaces": {"mnt", "net"}}),
        ({"userns": True}, {"namespaces": {"mnt", "user"}, "capabilities": EVERY}),
        (CONFINED, {"namespaces": {*KINDS} - {"user"}, "is first": True, "closed": True}),
        ({"capabilities": "default"}, {"capabilities": ELEVEN}),
        ({"capabilities": "none"}, {"capabilities": 0}),
        ({"no_new_privileges": True}, {"gains nothing": True}),
        ({"filter": True}, {"gains nothing": True, "filtered": True}),
    ],
)
@pytest.mark.push_with("options0-changed0", "options6-changed6", "options13-changed13")
def test_an_option_turns_on_one_mechanism(stage, options, changed):
    assert facts(stage, "sandbox", options) == {**OF_NATIVE, **changed}


def test_native_has_none_of_them(stage):
    assert facts(stage, "native", {}) == OF_NATIVE


def test_the_shipped_sandbox_has_all_of_them_but_a_user_namespace(stage):
    found = facts(stage, "sandbox", registry.get("sandbox").options.model_dump())
    assert found == {
        "namespaces": {*KINDS} - {"user"},
        "is first": True,
        "capabilities": ELEVEN,
        "gains nothing": True,
        "filtered": True,
        "overlay": True,
        "scratch": "volume",
        "closed": True,
        "limited": True,
    }


def test_the_rungs_of_a_container_start_and_each_has_one_mechanism_more(stage):
    *rungs, top = registry.ladders()["podman"]
    mechanisms = [facts(stage, rung.driver, rung.options) for rung in rungs]
    assert mechanisms[0] == OF_NATIVE
    changes = [
        {name for name in above if above[name] != below[name]}
        for below, above in pairwise(mechanisms)
    ]
    assert changes == [
        {"namespaces", "is first"},
        {"namespaces"},
        {"capabilities"},
        {"gains nothing"},
        {"filtered"},
        {"closed"},
        {"overlay", "scratch"},
    ]
    assert registry.platform_of(rungs[-1]).options == registry.get("sandbox").options
    assert registry.platform_of(top).identity() == registry.get("podman").identity()


@pytest.mark.parametrize("options", [{}, {"network_namespace": True}, CONFINED])
def test_a_topology_gives_a_guest_a_veth(options, image, journal, private_home):
    platform = registry.make("tried", "sandbox", options)
    with LabGuests("point-to-point", platform, image, journal, private_home) as lab:
        assert set(lab.run("guest", "ls", "/sys/class/net").split()) == {"lo", "eth0"}
        assert " veth " in lab.run("guest", "ip", "-details", "link", "show", "eth0")
        lab.links.verify()


@pytest.mark.parametrize(
    ("options", "isolation"),
    [
        ({}, "nothing"),
        ({**CONFINED, "filter": True, "capabilities": "default"}, "confined"),
        ({**CONFINED, "filter": True, "capabilities": "none", "userns": True}, "confined"),
        ({**CONFINED, "filter": True}, "nothing"),
        ({**CONFINED, "capabilities": "default"}, "nothing"),
    ],
)
def test_a_setting_that_says_that_it_confines_does(private_home, image, options, isolation):
    platform = registry.make("tried", "sandbox", options)
    assert platform.driver.isolation(platform.options) == isolation
    with GuestStage(CheckEnvironment(private_home, image)) as stage:
        stage.start(platform)
        beyond = reach.beyond_policy(reach.reached(stage.guest()), "confined")
    assert (beyond == []) == (isolation == "confined")


def test_views_of_its_own_need_the_namespaces_that_they_show():
    with pytest.raises(BadInput, match="closed needs namespaces and network_namespace"):
        registry.make("tried", "sandbox", {"closed": True})


@pytest.mark.parametrize("driver", ["sandbox", "bubblewrap"])
def test_the_driver_passes_every_check_of_conformance(driver):
    argv = [sys.executable, "-m", "vtax", "conformance", f"vtax.platforms.{driver}", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    (found,) = json.loads(done.stdout)
    status = {check["name"]: check["status"] for check in found["checks"]}
    assert {name for name in status if status[name] != "pass"} == {"argument"}
    assert status["confinement"] == status["fairness"] == status["leaks-after-kill"] == "pass"
