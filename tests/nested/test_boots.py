"""One run in two boots of a machine that GRUB boots: Linux alone, then under Xen, in turn, rebooted by hand."""

import json

import pytest
from nested.report import keep

from vtax.demo.running import HOME

pytestmark = pytest.mark.timeout(10800)
SETTLE = f"""set -e
printf '%s ext4 defaults 0 0\\n' '/dev/vdb {HOME}/images' '/dev/vdc /opt/vtax' >>/etc/fstab
grub-mkconfig -o /boot/grub/grub.cfg
cat /proc/cmdline; grep -E "^[[:space:]]*(menuentry|submenu|linux|multiboot2|module2)" /boot/grub/grub.cfg
"""
STUDY = "/root/vtax/tests/nested/boots.toml"
SEED = "8"
"""The first boot of both sessions is linux, in which the machine is: linux, xen, linux, xen."""
ENTRIES = {"linux": "Debian GNU/Linux", "xen": "Debian GNU/Linux, with Xen hypervisor"}
REBOOT_S = 1800.0
"""One reboot into Xen took ten minutes beside other load."""


def entries(machine):
    return machine.run("sh", "-c", "cat /proc/cmdline; cat /sys/hypervisor/type 2>/dev/null; uptime").stdout


def test_a_run_alternates_two_boots(two_boots):
    machine = two_boots
    settled = machine.run("sh", "-c", SETTLE, timeout_s=1200, status=None)
    keep("boots-settled.txt", settled.stdout + settled.stderr)
    assert settled.status == 0
    keep("boots-plan.txt", machine.vtax("run", STUDY, "--dry-run", "--seed", SEED, timeout_s=1200).stdout)
    seen = [entries(machine)]
    said = machine.vtax("run", STUDY, "--seed", SEED, timeout_s=2400).stderr
    for boot in ("xen", "linux", "xen"):
        assert f"reboot into '{ENTRIES[boot]}'" in said
        machine.run("sh", "-c", f"grub-reboot '{ENTRIES[boot]}'; systemctl --no-block reboot")
        machine.await_reboot(REBOOT_S)
        seen.append(entries(machine))
        said = machine.vtax("resume", timeout_s=2400).stderr
    keep("boots-seen.txt", "\n".join(seen))
    keep("boots-result.txt", machine.vtax("show", timeout_s=600).stdout + machine.vtax("show", "--sessions").stdout)
    found = json.loads(machine.vtax("list", "--json").stdout)[0]
    assert [("Xen" if "xen\n" in each else "Linux") for each in seen] == ["Linux", "Xen", "Linux", "Xen"]
    assert (found["status"], found["trials"], found["failed"]) == ("finished", 4, 0)
