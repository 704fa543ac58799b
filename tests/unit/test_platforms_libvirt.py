"""The libvirt driver without libvirt: names, and where a domain's channel is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vtax.errors import BadInput
from vtax.host.journal import boot_id, clean
from vtax.host.resources import to_record
from vtax.platforms import registry
from vtax.platforms.libvirt import LibvirtOptions, channel_socket, shutdown_command

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


def test_a_name_with_a_colon_gives_the_domain():
    platform = registry.get("libvirt:web")
    assert platform.identity()["options"]["domain"] == "web"
    assert not platform.driver.joins_topologies


def test_a_domain_cannot_be_an_option():
    with pytest.raises(BadInput, match="option domain"):
        registry.get("libvirt:--connect=x")


def test_the_channel_is_found_by_its_name():
    expected = Path("/var/lib/libvirt/qemu/channel/target/domain-1-web/org.vtax.0")
    assert channel_socket(RUNNING, "org.vtax.0") == expected
    assert channel_socket(RUNNING, "com.redhat.spice.0") is None
    assert channel_socket(OFF, "org.vtax.0") == Path()


def left_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: Callable[[str, str], Path], virsh: str
) -> Path:
    """A journal of a dead process that had started a domain, and a stand-in for virsh."""
    on_path("virsh", virsh)
    monkeypatch.setattr("vtax.platforms.libvirt._SHUTDOWN_TIMEOUT_S", 0.1)
    directory = tmp_path / "journal"
    directory.mkdir()
    record = {
        "register": 0,
        **to_record(shutdown_command(LibvirtOptions(domain="web", uri="test:///default"))),
    }
    (directory / f"999999-1-abc-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    return directory


@pytest.mark.parametrize(
    ("virsh", "printed"),
    [
        ("echo 'error: failed to connect to the hypervisor' >&2; exit 1", "failed to connect"),
        ('case "$*" in *domstate*) echo running;; esac', "had no effect"),
    ],
)
def test_a_domain_that_may_still_run_stays_in_the_journal(
    virsh, printed, tmp_path, monkeypatch, on_path
):
    directory = left_on(tmp_path, monkeypatch, on_path, virsh)
    cleaned = clean(directory)
    assert cleaned.removed == ()
    assert printed in cleaned.problems[0]
    assert list(directory.iterdir())


@pytest.mark.parametrize(
    "virsh",
    [
        'case "$*" in *domstate*) echo "shut off";; *) echo "error: domain is not running" >&2; exit 1;; esac',
        "echo \"error: Domain not found: no domain with matching name 'web'\" >&2; exit 1",
    ],
)
def test_a_domain_that_is_off_or_gone_is_done(virsh, tmp_path, monkeypatch, on_path):
    directory = left_on(tmp_path, monkeypatch, on_path, virsh)
    assert clean(directory).problems == ()
    assert list(directory.iterdir()) == []
