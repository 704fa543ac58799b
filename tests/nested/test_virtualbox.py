"""VirtualBox, started by vtax in a nested machine: a guest answers, computes and sends, and nothing is left.

It has no nested paging and no interface for paravirtualized clocks: with these a guest came up on an emulated
processor (docs/platforms.md).
"""

import json

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(7200)
GUEST_S = 1200
PREPARE = "lsmod | grep -q ^kvm_amd && rmmod kvm_amd; modprobe -a vboxdrv vboxnetflt && VBoxManage --version"
LEFT = """
ls -d /tmp/.vbox-* /var/lib/vtax/guests/*; ls /sys/class/net; ip netns; pgrep -l VBox
"""
KILLED = f"""
{{ {LEFT} }} >before 2>&1
python3 /root/vtax/tests/nested/inside/start_virtualbox.py virtualbox 60 kill >killed.json
{{ {LEFT} }} >during 2>&1
python3 -m vtax clean
sleep 10
{{ {LEFT} }} >after 2>&1
echo during; cat during; echo difference; diff before after
"""


@pytest.fixture
def host(virtualbox):
    """The machine, with VirtualBox's modules in the kernel and KVM's not."""
    assert virtualbox.run("sh", "-c", PREPARE).stdout.strip().split("\n")[-1].startswith("7.")
    return virtualbox


@pytest.mark.parametrize("name", ["virtualbox", "virtualbox-virtio", "virtualbox-pcnet"])
def test_a_guest_starts_pinned_answers_computes_sends_and_leaves_nothing(host, name):
    found = json.loads(host.python("start_virtualbox.py", name, str(GUEST_S), timeout_s=3600))
    keep(f"{name}.json", json.dumps(found))
    assert "error" not in found, found
    assert found["notes"] == ["VirtualBox was never run on hardware with vtax"]
    assert found["limits"]["limit.cpus"] == "0"
    assert any(name.startswith("link vtax-") for name in found["made"])
    assert found["states"][-1] == "RUNNING"
    assert "Booting from CD-ROM..." in found["bios"]
    assert found["bytes_equal"]
    assert (
        min(found[each] for each in ("events", "written_mb_s", "sent_mbit_s", "received_mbit_s"))
        > 0
    )
    assert found["left"] == []


def test_a_killed_run_leaves_no_machine_disk_or_interface_after_clean(host):
    said = host.run("sh", "-c", KILLED, timeout_s=3600, status=None).stdout
    keep("virtualbox-killed.txt", said)
    during, _, difference = said.partition("difference\n")
    assert "VBoxHeadless" in during
    assert "/tmp/.vbox-vtax-" in during
    assert difference == ""
