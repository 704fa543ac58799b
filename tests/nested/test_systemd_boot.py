"""One run in two entries of a machine that systemd-boot boots by UEFI; what remains of it, and of its entry."""

import json

import pytest
from nested.report import keep

from vtax.demo.running import HOME, PYTHON

pytestmark = pytest.mark.timeout(7200)
SETTLE = f"""set -e
printf '%s ext4 defaults 0 0\\n' '/dev/vdb {HOME}/images' '/dev/vdc /opt/vtax' >>/etc/fstab
bootctl status --no-pager; bootctl list --no-pager; bootctl list --json=short --no-pager
"""
LOADER = """
import json
from pathlib import Path
from vtax.host import boot_loaders
loader = boot_loaders.loader()
seen = []
for entry in ("two.conf", "", "two.conf", ""):
    loader.set_next(entry)
    kept = [path.name for path in Path("/sys/firmware/efi/efivars").glob("LoaderEntryOneShot-*")]
    seen.append([loader.next_entry(), len(kept)])
entries = loader.entries()
print(json.dumps({
    "loader": loader.name, "info": boot_loaders._efi_variable("LoaderInfo"), "seen": seen,
    "entries": {entry.id: entry.title for entry in entries},
    "current": [entry.id for entry in entries if loader.is_current(entry)],
    "command_line": Path("/proc/cmdline").read_text(),
}))
"""
STUDY = "/root/vtax/tests/nested/systemd_boot.toml"
SEED = "3"
"""The first boot is one, in which the machine is: one, two."""
REBOOT_S = 1800.0
LEFT = """
ls -d /etc/systemd/system/vtax-resume.service /etc/systemd/system/*.wants/vtax-resume.service 2>&1
ls -d /var/lib/vtax/reboots.json /sys/firmware/efi/efivars/LoaderEntry*-* 2>&1
"""
LOG = "cat /root/vtax.txt; journalctl -u vtax-resume --no-pager"


def look(machine):
    """What vtax knows of the boot loader; the entry for the next boot is set and unset twice."""
    found = json.loads(machine.run(PYTHON, "-c", LOADER, timeout_s=600).stdout)
    keep("systemd-boot-seen.txt", json.dumps(found, indent=1) + "\n", append=True)
    return found


def test_a_run_goes_on_in_the_other_entry_of_systemd_boot(two_entries):
    machine = two_entries
    settled = machine.run("sh", "-c", SETTLE, timeout_s=600, status=None)
    keep("systemd-boot-settled.txt", settled.stdout + settled.stderr)
    assert settled.status == 0
    first = look(machine)
    assert first["info"].startswith("systemd-boot 252")
    assert first["entries"] == {f"{name}.conf": f"Debian, boot {name}" for name in ("one", "two")}
    assert first["seen"] == [["two.conf", 1], ["", 0]] * 2
    assert (first["current"], first["command_line"].split()[-1]) == (["one.conf"], "vtax.boot=one")

    command = f"nohup {PYTHON} -m vtax run {STUDY} --reboot --seed {SEED} >/root/vtax.txt 2>&1 &"
    machine.run("sh", "-c", command)
    machine.await_reboot(REBOOT_S)
    wait = f"for second in $(seq 900); do [ -e {HOME}/reboots.json ] || break; sleep 2; done"
    machine.run("sh", "-c", wait, timeout_s=2400)
    second = look(machine)
    assert (second["current"], second["command_line"].split()[-1]) == (["two.conf"], "vtax.boot=two")
    keep("systemd-boot-log.txt", machine.run("sh", "-c", LOG).stdout)
    keep("systemd-boot-result.txt", machine.vtax("show", timeout_s=600).stdout)
    left = machine.run("sh", "-c", LEFT, status=None).stdout
    keep("systemd-boot-left.txt", left)
    found = json.loads(machine.vtax("list", "--json").stdout)[0]
    assert (found["status"], found["trials"], found["failed"]) == ("finished", 2, 0)
    assert left.count("No such file") == 3
    assert "LoaderEntrySelected" in left
    assert "OneShot" not in left
    assert "LoaderEntryDefault" not in left  # the default entry stays that of loader.conf
