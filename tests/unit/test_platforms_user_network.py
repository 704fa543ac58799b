"""The option `network` of podman and docker: a container's packets carried in user space."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lab_networks import planned

from vtax.benchmarks import registry as benchmarks
from vtax.errors import BadInput
from vtax.messages import Note
from vtax.network import translation
from vtax.network.settings import LinkSettings
from vtax.platforms import registry, user_network
from vtax.platforms.base import NetworkLimits
from vtax.runner import networks
from vtax.runner.points import Point

NETNS = Path("/proc/7/ns/net")
OWN_NAT = {"attachment": "own-nat"}


@dataclass
class Spec:
    """As much of a guest's specification as the choice of its network needs."""

    plugboard: Any


@dataclass
class Board:
    """A plugboard of one interface."""

    interfaces: Any


def interface(**link: Any):
    return translation.guest_interface(0, LinkSettings(**link))


def test_pasta_carries_one_namespace_and_forwards_nothing_into_it():
    argv = user_network.command_line("pasta", interface(mtu=9000, **OWN_NAT), NETNS, "br1")
    assert argv[:2] == ["pasta", "--foreground"]
    assert {
        "--netns=/proc/7/ns/net",
        "--ns-ifname=eth0",
        "--address=198.18.0.15",
        "--netmask=24",
    } < set(argv)
    assert {"--gateway=198.18.0.2", "--mtu=9000", "--interface=br1"} < set(argv)
    assert {"--tcp-ports=none", "--udp-ports=none", "--tcp-ns=none", "--udp-ns=none"} < set(argv)


def test_slirp4netns_has_the_gateway_of_the_lab():
    argv = user_network.command_line("slirp4netns", interface(mtu=1400, **OWN_NAT), NETNS, "br1")
    assert argv[-3:] == ["--netns-type=path", "/proc/7/ns/net", "eth0"]
    assert {"--mtu=1400", "--cidr=198.18.0.0/24", "--enable-sandbox", "--enable-seccomp"} < set(
        argv
    )


@pytest.mark.parametrize("engine", ["podman", "docker"])
@pytest.mark.parametrize("network", ["pasta", "slirp4netns"])
def test_it_needs_its_program_and_joins_by_own_nat_alone(
    engine, network, installed, taken_for_root
):
    platform = registry.make("mine", engine, {"network": network})
    installed(but=network)
    probe = platform.probe(None)
    assert (probe.available, probe.hint) == (False, f"apt install {user_network.PACKAGES[network]}")
    limits = platform.network_limits
    assert limits.not_attached == ("bridge", "veth", "macvtap", "nat")
    assert (limits.interfaces, limits.queues, limits.forwards, limits.links_change) == (
        1,
        1,
        False,
        False,
    )
    assert registry.make("mine", engine, {}).network_limits == NetworkLimits()


def test_a_sandbox_is_started_too_early_for_it():
    with pytest.raises(BadInput, match=r"pasta .*runsc"):
        registry.make("mine", "podman", {"network": "pasta", "runtime": "runsc"})


def test_points_that_it_cannot_carry_are_not_tested_there():
    both = {"attachment": ["own-nat", "bridge"]}
    (untested,) = planned({"name": "iperf3", "link_factors": both}, "podman-pasta").untested
    assert untested.error.what == Note(
        "not-joined-by", name="podman-pasta", attachment="bridge", label="iperf3"
    )
    assert untested.error.hint == Note("hint-others", name="podman-pasta", others="own-nat")
    router = Point("router", "iperf3", benchmarks.get("iperf3"), None, "router", LinkSettings())
    assert (
        networks.network_obstacle(registry.get("podman-pasta"), router, "x").hint
        == "take podman-pasta out"
    )


@pytest.mark.parametrize(
    ("platform", "most"),
    [("podman-pasta", 65520), ("podman-slirp4netns", 65520), ("qemu-tcg", 1500)],
)
def test_an_mtu_that_an_engine_cannot_carry(platform, most):
    (untested,) = planned(
        {"name": "iperf3", "link": OWN_NAT, "link_factors": {"mtu": [most, most + 1]}}, platform
    ).untested
    assert untested.error.hint == Note("hint-at-most", name=platform, most=most)


def test_the_lab_itself_joins_what_no_engine_does():
    engine, kernel = Spec(Board([interface(**OWN_NAT)])), Spec(Board([interface(attachment="nat")]))
    assert user_network.is_wanted("pasta", engine)
    assert not user_network.is_wanted("kernel", engine)
    assert not user_network.is_wanted("pasta", kernel)
    assert not user_network.is_wanted("pasta", Spec(None))
