"""What the root of a guest reaches of this host, tried from within a real guest of every driver that runs here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from drivers import RUNTIMES
from guest_reach import PAGE, platform_of, platforms, summary, tried
from support import needs_root

from vtax.conformance import reach
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import registry

pytestmark = [needs_root]
MACHINES = [name for name in ("qemu-tcg", "kvm", "gvisor-systrap") if name in registry.names()]


def probed(name: str, environment: CheckEnvironment) -> None:
    found = platform_of(name).probe(environment.image)
    if not found.available:
        pytest.skip(f"{name} does not run here: {found.reason}")


@pytest.fixture
def environment(private_home: Home, image: Image) -> CheckEnvironment:
    return CheckEnvironment(private_home, image)


@pytest.mark.parametrize("name", [*platforms(), *MACHINES])
@pytest.mark.push_with(
    "native", *(f"{each}:confinement=default" for each in ("podman", "lxc")), "qemu-tcg"
)
def test_the_root_of_a_guest_reaches_nothing_that_the_policy_does_not_allow(name, environment):
    probed(name, environment)
    platform = platform_of(name)
    isolation = platform.driver.isolation(platform.options)
    found = tried(platform, environment)
    if isolation == "nothing":
        # Else the probe itself is blind: it must see that nothing holds this guest
        assert len(reach.beyond_policy(found, "confined")) > 5
        return
    level = "strict" if name.endswith("strict") else "default"
    assert reach.beyond_policy(found, isolation, level=level) == []
    if isolation == "confined":
        assert list(found) == [""], "it can make namespaces"


@pytest.mark.parametrize("name", ["sandbox", *RUNTIMES])
def test_a_privilege_that_a_benchmark_asks_for_is_all_that_is_added(name, environment):
    probed(name, environment)
    platform = platform_of(name)
    asked = frozenset({"asynchronous-io", "raw-sockets"})
    with GuestStage(environment) as stage:
        stage.start(platform, privileges=asked)
        found = reach.reached(stage.guest())
    assert reach.beyond_policy(found, "confined", asked) == []
    assert {"io_uring_setup", "raw IP", "capability 13"} <= set(found[""])


def test_the_page_tells_of_every_driver_what_was_found(environment):
    """A row of each platform, as it is found here: not one that was written by hand, nor one of an older policy."""
    rows = dict(re.findall(r"^\| (\S+(?:, \w+)?) \| (.*) \|$", Path(PAGE).read_text(), re.M))
    listed = [name.replace(":confinement=", ", ") for name in platforms()]
    assert set(listed) <= set(rows)
    for name in ("bubblewrap", "sandbox"):
        assert rows[name] == summary(tried(platform_of(name), environment))
