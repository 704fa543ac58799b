"""The driver `sandbox`: each of its options turns on one mechanism of the kernel and leaves the others as native has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import needs_root

from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import confinement, registry

pytestmark = [needs_root]
KINDS = ("pid", "ipc", "uts", "cgroup", "net", "user")
ELEVEN = sum(1 << number for number in confinement.numbers(confinement.capabilities()))
EVERY = (1 << int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1) - 1
"""Capabilities that a new user namespace has."""
OF_NATIVE = {
    "namespaces": set(),
    "is first": False,
    "capabilities": int(
        re.findall(r"CapBnd:\s+(\w+)", Path("/proc/self/status").read_text())[0], 16
    ),
    "gains nothing": False,
    "filtered": False,
    "overlay": False,
    "limited": True,
}
FACTS = """
for kind in pid ipc uts cgroup net user; do readlink /proc/self/ns/$kind; done
cat /proc/1/comm
grep -E "^(CapBnd|NoNewPrivs|Seccomp):" /proc/self/status
stat -f -c %T /usr
"""


@pytest.fixture
def stage(private_home: Home, image: Image) -> Iterator[GuestStage]:
    with GuestStage(CheckEnvironment(private_home, image)) as opened:
        yield opened


def facts(stage: GuestStage, driver: str, options: Mapping[str, Any]) -> dict[str, object]:
    """Return what a process in a guest has of each mechanism."""
    role = f"{driver} {options}"
    running = stage.start(registry.make("tried", driver, options), role=role)
    lines = stage.guest(role).run(["sh", "-c", FACTS]).stdout.splitlines()
    status = dict(re.split(r":\s+", line) for line in lines if ":\t" in line)
    own = dict(zip(KINDS, lines, strict=False))
    host = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in KINDS}
    return {
        "namespaces": {kind for kind in KINDS if own[kind] != host[kind]},
        "is first": lines[len(KINDS)] != Path("/proc/1/comm").read_text().strip(),
        "capabilities": int(status["CapBnd"], 16),
        "gains nothing": status["NoNewPrivs"] == "1",
        "filtered": status["Seccomp"] == "2",
        "overlay": lines[-1] == "overlayfs",
        "limited": "limit.memory" in running.limits_in_force()
        and running.limits_in_force()["limit.memory"] != "none",
    }


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"limits": False}, {"limited": False}),
        ({"root": "overlay"}, {"overlay": True}),
        (
            {"namespaces": True},
            {"namespaces": {"pid", "ipc", "uts", "cgroup"}, "is first": True},
        ),
        ({"network_namespace": True}, {"namespaces": {"net"}}),
        ({"userns": True}, {"namespaces": {"user"}, "capabilities": EVERY}),
        ({"capabilities": "default"}, {"capabilities": ELEVEN}),
        ({"capabilities": "none"}, {"capabilities": 0}),
        ({"no_new_privileges": True}, {"gains nothing": True}),
        ({"filter": True}, {"gains nothing": True, "filtered": True}),
    ],
)
@pytest.mark.push_with("options0-changed0", "options3-changed3", "options9-changed9")
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
        "limited": True,
    }
