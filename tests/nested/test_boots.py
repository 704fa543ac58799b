"""One run in two boots of a machine that GRUB boots: Linux alone, then under Xen, in turn; killed once in between."""

import json

import pytest
from nested.report import keep

from vtax.demo.running import HOME, PYTHON

pytestmark = pytest.mark.timeout(10800)
SETTLE = f"""set -e
printf '%s ext4 defaults 0 0\\n' '/dev/vdb {HOME}/images' '/dev/vdc /opt/vtax' >>/etc/fstab
grub-mkconfig -o /boot/grub/grub.cfg
cat /proc/cmdline; grep -E "^[[:space:]]*(menuentry|submenu|linux|multiboot2|module2)" /boot/grub/grub.cfg
"""
STUDY = "/root/vtax/tests/nested/boots.toml"
SEED = "8"
"""The first boot of both sessions is linux, in which the machine is: linux, xen, linux, xen."""
REBOOT_S = 1800.0
"""With the measurement before it: one reboot into Xen took ten minutes beside other load."""
KILL = """
for second in $(seq 600); do
  pid=$(systemctl show --property=MainPID --value vtax-resume.service)
  [ "$pid" -gt 0 ] && break; sleep 1
done
for second in $(seq 600); do [ -s /run/vtax-measuring.lock ] && break; sleep 1; done
[ "$pid" -gt 0 ] || { systemctl status vtax-resume.service; exit 1; }
sleep 2; kill -KILL "$pid"; sleep 1
echo "unit: $(ls /etc/systemd/system/vtax-resume.service 2>&1)"; cat /var/lib/vtax/reboots.json; echo
grub-editenv list
"""


def entries(machine):
    return machine.run("sh", "-c", "cat /proc/cmdline; cat /sys/hypervisor/type 2>/dev/null; uptime").stdout


def start(machine, *arguments):
    """Start vtax; the machine may reboot before it ends."""
    command = f"nohup {PYTHON} -m vtax {' '.join(arguments)} >>/root/vtax.txt 2>&1 &"
    machine.run("sh", "-c", command)


def test_a_run_alternates_two_boots_and_survives_a_kill(two_boots):
    machine = two_boots
    settled = machine.run("sh", "-c", SETTLE, timeout_s=1200, status=None)
    keep("boots-settled.txt", settled.stdout + settled.stderr)
    assert settled.status == 0
    keep("boots-plan.txt", machine.vtax("run", STUDY, "--plan", "--seed", SEED, timeout_s=1200).stdout)
    seen = [entries(machine)]
    start(machine, "run", STUDY, "--reboot", "--seed", SEED)
    machine.await_reboot(REBOOT_S)
    seen.append(entries(machine))
    killed = machine.run("sh", "-c", KILL, timeout_s=1500, status=None).stdout
    keep("boots-killed.txt", killed)
    assert "No such file" in killed  # the unit
    assert '"made": 1' in killed
    start(machine, "resume", "boots-1", "--reboot")
    for _ in range(2):
        machine.await_reboot(REBOOT_S)
        seen.append(entries(machine))
    keep("boots-seen.txt", "\n".join(seen))
    wait = "for second in $(seq 900); do [ -e /var/lib/vtax/reboots.json ] || break; sleep 2; done"
    machine.run("sh", "-c", wait, timeout_s=2400)
    keep("boots-result.txt", machine.vtax("show", timeout_s=600).stdout + machine.vtax("show", "--sessions").stdout)
    found = json.loads(machine.vtax("list", "--json").stdout)[0]
    keep("boots-list.json", json.dumps(found))
    log = machine.run(
        "sh", "-c", "cat /root/vtax.txt; journalctl -u vtax-resume --no-pager; grub-editenv list"
    ).stdout
    keep("boots-log.txt", log)
    assert [("Xen" if "xen\n" in each else "Linux") for each in seen] == ["Linux", "Xen", "Linux", "Xen"]
    assert (found["status"], found["trials"], found["failed"]) == ("finished", 4, 0)
    assert machine.run("ls", "/etc/systemd/system/vtax-resume.service", status=None).status != 0
    assert log.splitlines()[-1] == "next_entry="  # GRUB empties it, and leaves its name
