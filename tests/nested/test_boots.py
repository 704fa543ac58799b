"""Campaigns on a machine that GRUB boots, which they reboot by Ansible: with mitigations of CPU vulnerabilities or
without, and under Xen or not."""

import json
import re
import subprocess
import time
from functools import partial

import pytest
from campaign_hosts import command_of, has_ansible, light_pack
from nested.disks import INSIDE
from nested.report import keep, keep_file
from nested.running import HOME, PYTHON
from nested.tested import CHECKOUT
from support import needs_program

from vtax.store.store import Store
from vtax.study.load import find

pytestmark = [
    pytest.mark.timeout(10800),
    pytest.mark.skipif(not has_ansible(), reason="not installed: ansible-playbook"),
    needs_program("ssh", "ssh-keygen"),
]
SETTLE = f"""set -e
printf '%s ext4 defaults 0 0\\n' '/dev/vdb {HOME}/images' '/dev/vdc /opt/vtax' >>/etc/fstab
printf '[Match]\\nName=eth0\\n[Network]\\nAddress=10.0.2.15/24\\n' >/etc/systemd/network/eth0.network
systemctl enable --now systemd-networkd ssh
cd /boot/grub
grub-mkconfig -o grub.cfg
sed -n "/^menuentry 'Debian GNU.Linux'/,/^}}/p" grub.cfg |
  sed "s/'Debian GNU.Linux'/'mitigated'/; s/'gnulinux-simple[^']*'/'mitigated'/; s/ mitigations=off//" >mitigated
cat mitigated >>grub.cfg
grep -E "menuentry|linux|multiboot2|module2" grub.cfg
"""
CALLS, CALL_S = 40, 30.0
GO_S = 2700.0
"""Ansible waits 25 min for a host that it reboots."""


def of_mitigations():
    """The shipped study without KVM, in one block."""
    text = find("mitigations").read_text()
    for shipped, here in (
        (', "kvm-on", "kvm-off"', ""),
        ("blocks = 10\nsessions = 5", "blocks = 1\nseed = 0"),
        ('"Debian GNU/Linux"', '"mitigated"'),
        ('"Debian GNU/Linux, mitigations off"', '"Debian GNU/Linux"'),
    ):
        assert shipped in text
        text = text.replace(shipped, here)
    head, *tables = re.split(r"(?m)^(?=\[\[)", text)
    return head + "".join(table for table in tables if 'name = "kvm-' not in table)


@pytest.fixture
def campaign(tmp_path):
    """Measure a study on a machine; its run."""

    def measured(machine, port, image, name, text):
        settled = machine.run("sh", "-c", SETTLE, timeout_s=1200, status=None)
        keep(f"{name}-settled.txt", settled.stdout + settled.stderr)
        assert settled.status == 0
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True
        )
        machine.guest.put("/root/.ssh/authorized_keys", (tmp_path / "key.pub").read_bytes())
        options = f"-o UserKnownHostsFile={tmp_path}/known -o StrictHostKeyChecking=accept-new"
        (tmp_path / "hosts.yml").write_text(
            json.dumps(
                {
                    "all": {
                        "hosts": {
                            "nested": {
                                "ansible_host": "127.0.0.1",
                                "ansible_port": port,
                                "ansible_user": "root",
                                "ansible_become": False,
                                "ansible_ssh_private_key_file": str(tmp_path / "key"),
                                "ansible_ssh_common_args": options,
                                "ansible_timeout": 120,
                                "ansible_python_interpreter": PYTHON,
                            }
                        }
                    }
                }
            )
        )
        (tmp_path / "studies").mkdir()
        (tmp_path / f"studies/{name}.toml").write_text(text)
        light_pack(
            tmp_path / f"studies/{name}.toml", image, tmp_path / "pack", f"/{INSIDE}/src", PYTHON
        )
        vtax = partial(command_of("", tmp_path), timeout_s=GO_S)
        vtax("campaign", "new", "pack", "--inventory", "hosts.yml", "-o", "c", "--reboot")
        set_clock = [
            "ssh",
            *options.split(),
            "-i",
            tmp_path / "key",
            "-p",
            str(port),
            "root@127.0.0.1",
            "date",
            "-s",
        ]
        try:
            for _ in range(CALLS):
                if "-icount" in machine.machine.accel:  # its clock counts instructions
                    subprocess.run([*set_clock, f"@{time.time():.0f}"], check=True)
                keep(f"{name}-go.txt", vtax("campaign", "go", "c"), append=True)
                (host,) = json.loads(vtax("campaign", "status", "c", "--json"))["hosts"]
                if host["state"] in ("collected", "failed", "given-up"):
                    break
                time.sleep(CALL_S)
        finally:
            keep(f"{name}-log.txt", (tmp_path / "c/log").read_text())
        assert host["state"] == "collected", host
        keep(f"{name}-show.txt", vtax("show"))
        vtax("export", "last", "--anonymize", "-o", f"{name}.vtax.gz")
        keep_file(f"{name}.vtax.gz", (tmp_path / f"{name}.vtax.gz").read_bytes())
        with Store.open(tmp_path / "controller/store.sqlite") as store:
            (session,) = store.open_run("last").sessions
            (summary,) = store.runs()
        assert (summary.status, summary.failed) == ("finished", 0)
        boots = session.host["boots"]
        assert len({facts["boot_id"] for facts in boots.values()}) == 2
        return boots

    return measured


def test_the_study_of_mitigations_measures_in_both_boots(two_kernels, images_of_boots, campaign):
    boots = campaign(*two_kernels, images_of_boots[1], "mitigations", of_mitigations())
    found = {name: facts["mitigations"]["spectre_v2"] for name, facts in boots.items()}
    assert "Vulnerable" in found["off"]
    assert "Vulnerable" not in found["on"]


def test_a_host_is_rebooted_into_xen_and_back(two_boots, images_of_boots, campaign):
    boots = campaign(
        *two_boots, images_of_boots[0], "boots", (CHECKOUT / "tests/nested/boots.toml").read_text()
    )
    assert {*boots} == {"linux", "xen"}
