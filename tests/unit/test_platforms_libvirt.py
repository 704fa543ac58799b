"""The libvirt driver without libvirt: names, and where a domain's channel is."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.errors import BadInput
from vtax.platforms import registry
from vtax.platforms.libvirt import channel_socket

# As `virsh dumpxml` of libvirt 9.0 prints the devices of a running domain.
RUNNING = """
<domain type='qemu' id='1'>
  <devices>
    <channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
    <channel type='unix'>
      <source mode='bind' path='/var/lib/libvirt/qemu/channel/target/domain-1-web/org.qemu.guest_agent.0'/>
      <target type='virtio' name='org.qemu.guest_agent.0' state='disconnected'/>
    </channel>
    <channel type='unix'>
      <source mode='bind' path='/var/lib/libvirt/qemu/channel/target/domain-1-web/org.vtax.0'/>
      <target type='virtio' name='org.vtax.0' state='connected'/>
    </channel>
  </devices>
</domain>
"""
OFF = "<domain><devices><channel type='unix'><target type='virtio' name='org.vtax.0'/></channel></devices></domain>"


def test_a_name_with_a_colon_gives_the_domain() -> None:
    platform = registry.get("libvirt:web")
    assert platform.identity()["options"]["domain"] == "web"
    assert not platform.joins_topologies


def test_a_domain_cannot_be_an_option() -> None:
    with pytest.raises(BadInput, match="option domain"):
        registry.get("libvirt:--connect=x")


def test_the_channel_is_found_by_its_name() -> None:
    expected = Path("/var/lib/libvirt/qemu/channel/target/domain-1-web/org.vtax.0")
    assert channel_socket(RUNNING, "org.vtax.0") == expected
    assert channel_socket(RUNNING, "com.redhat.spice.0") is None
    assert channel_socket(OFF, "org.vtax.0") == Path()
