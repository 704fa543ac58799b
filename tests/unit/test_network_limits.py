"""What a platform's network cards cannot do is said before a run, naming platform, limit and setting."""

import pytest

from vtax.errors import BadInput
from vtax.platforms import registry
from vtax.runner.networks import refuse_beyond_platforms
from vtax.runner.plan import Point


def point(topology="point-to-point", **link):
    from vtax.benchmarks.iperf3 import BENCHMARK, Iperf3Parameters
    from vtax.network.settings import LinkSettings

    return Point("k", "iperf3", BENCHMARK, Iperf3Parameters(), topology, LinkSettings(**link), {})


@pytest.mark.parametrize(
    ("platform", "limit"), [("qemu-tcg-rtl8139", 4096), ("qemu-tcg-e1000", 16110), ("qemu-tcg", 65521)]
)
def test_an_mtu_beyond_a_card_model_is_refused(platform, limit):
    chosen = [registry.get("native"), registry.get(platform)]
    with pytest.raises(BadInput, match=f"{platform} carry an MTU of at most {limit}") as caught:
        refuse_beyond_platforms(chosen, [point(mtu=limit + 1)], "study.toml")
    assert "mtu" in caught.value.where
    refuse_beyond_platforms(chosen, [point(mtu=limit)], "study.toml")


def test_more_cards_than_a_platform_has_are_refused(monkeypatch):
    from vtax.platforms import native
    from vtax.platforms.base import NetworkLimits

    monkeypatch.setattr(native.Native, "network_limits", lambda self, options: NetworkLimits(cards=1), raising=False)
    with pytest.raises(BadInput, match="router needs guests with 2 network cards"):
        refuse_beyond_platforms([registry.get("native")], [point("router")], "study.toml")


def test_cpu_per_gigabyte_needs_enough_of_both():
    from vtax.benchmarks.base import CPU_PER_GIGABYTE
    from vtax.runner.trial import cpu_per_gigabyte

    counted = {("layer", "host_cpu_s"): 3.0, ("link", "under_test.bytes"): 2e9}
    assert cpu_per_gigabyte(counted, [CPU_PER_GIGABYTE]) == {"cpu_per_gigabyte": 1.5}
    assert cpu_per_gigabyte(counted, []) == {}
    assert cpu_per_gigabyte({**counted, ("link", "under_test.bytes"): 10.0}, [CPU_PER_GIGABYTE]) == {}
    assert cpu_per_gigabyte({("link", "under_test.bytes"): 2e9}, [CPU_PER_GIGABYTE]) == {}


@pytest.mark.parametrize("topology", ["vlan-pairs", "router-openflow"])
def test_a_missing_switch_is_said_before_the_run(topology, monkeypatch):
    from vtax.network import openvswitch, registry

    monkeypatch.setattr(openvswitch, "find_program", lambda name: None)
    with pytest.raises(BadInput, match="needs Open vSwitch") as caught:
        registry.check_link(topology, {}, "study.toml")
    assert "openvswitch-switch" in caught.value.cure
