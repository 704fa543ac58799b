"""A host of files below a directory: GRUB, systemd, and what the kernel and Xen show after a boot of an entry."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scripted import install, study

from vtax.cli import rebooting
from vtax.host import boot_loaders, reboots
from vtax.host.boot_loaders import Grub
from vtax.host.xen import is_dom0
from vtax.image.image import Image
from vtax.runner import boots, execute, host_sessions
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, validate

CONFIGURATION = Path(__file__).parent / "unit/fixtures/boots/grub.cfg"
NATIVE = "gnulinux-simple-0a1b"
XEN = "xen-gnulinux-simple-0a1b"
ADVANCED = "gnulinux-advanced-0a1b>gnulinux-6.1.0-50-amd64-advanced-0a1b"
GRUB_EDITENV = """#!/bin/sh
# grub-editenv FILE set NAME=VALUE | unset NAME | list: one line a variable
case $2 in
  set) grep -v "^${3%%=*}=" "$1" >"$1.new"; echo "$3" >>"$1.new"; mv "$1.new" "$1";;
  unset) grep -v "^$3=" "$1" >"$1.new"; mv "$1.new" "$1";;
  list) cat "$1";;
esac
"""
ONE_POINT = [{"name": "script"}]
BOOTS = [
    {"name": "plain", "entry": "Debian GNU/Linux", "platforms": ["native"]},
    {"name": "xen", "entry": "Debian GNU/Linux, with Xen hypervisor", "platforms": ["other"]},
]


class Machine:
    """A host of files below a directory, with GRUB, systemd and a stubbed kernel."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        self.root = root
        self.number = 0
        self.reboots = 0
        self.microcode = 1
        monkeypatch.setattr(boot_loaders, "ROOT", root)
        monkeypatch.setattr("os.uname", lambda: type("", (), {"release": "6.1.0-50-amd64"}))
        for name in (
            "boot/grub",
            "proc",
            "sys/hypervisor/properties",
            "run/systemd/system",
            "etc/systemd/system",
            "bin",
        ):
            (root / name).mkdir(parents=True)
        (root / "boot/grub/grub.cfg").write_text(CONFIGURATION.read_text())
        (root / "boot/grub/grubenv").write_text("saved_entry=0\n")
        editor = root / "bin/grub-editenv"
        editor.write_text(GRUB_EDITENV)
        editor.chmod(0o755)
        monkeypatch.setenv("PATH", f"{root / 'bin'}:/usr/bin:/bin")
        for module in (reboots, rebooting, execute, host_sessions):
            monkeypatch.setattr(module, "boot_id", lambda: f"{self.number:032}")
        monkeypatch.setattr(reboots, "reboot", self.reboot)
        for module in (rebooting, execute):
            monkeypatch.setattr(module, "host_facts", self.facts)
        self.boot(NATIVE)

    def boot(self, entry: str) -> None:
        """What the kernel and the hypervisor show after a boot of an entry."""
        self.number += 1
        is_xen = entry == XEN
        line = (
            "root=/dev/vda1 ro console=hvc0"
            if is_xen
            else "BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/vda1 ro quiet"
        )
        (self.root / "proc/cmdline").write_text(f"{line}\n")
        (self.root / "sys/hypervisor/type").write_text("xen\n" if is_xen else "none\n")
        (self.root / "sys/hypervisor/properties/features").write_text("00000b0d\n" if is_xen else "0\n")

    def reboot(self) -> None:
        """As GRUB does: the entry for this boot alone, else the default."""
        entry = Grub(self.root / "boot/grub", str(self.root / "bin/grub-editenv")).next_entry()
        (self.root / "boot/grub/grubenv").write_text("saved_entry=0\n")
        self.reboots += 1
        self.boot(entry or NATIVE)

    def facts(self) -> dict[str, Any]:
        """Of the host; the second boot of Xen has another microcode than the first."""
        is_xen = is_dom0(boot_loaders.ROOT)
        return {"machine_id": "here", "hypervisor": "Xen" if is_xen else "", "cpu_microcode": f"0x{self.microcode}"}

    def prepare_unit(self) -> None:
        """What systemd does in a boot before the unit's command: ExecStartPre."""
        (line,) = (line for line in self.unit.read_text().splitlines() if line.startswith("ExecStartPre="))
        subprocess.run(shlex.split(line.partition("=")[2]), check=True)

    def set_next(self, entry: str) -> None:
        """As a person does, with grub-reboot."""
        (self.root / "boot/grub/grubenv").write_text(f"saved_entry=0\nnext_entry={entry}\n")

    @property
    def leftovers(self) -> list[str]:
        """Files of a unit, and the entry for the next boot."""
        units = self.root / "etc/systemd/system"
        files = [str(path.relative_to(units)) for path in sorted(units.rglob("vtax-*"))]
        lines = (self.root / "boot/grub/grubenv").read_text().splitlines()
        return [*files, *(line for line in lines if line.startswith("next_entry="))]

    @property
    def unit(self) -> Path:
        return self.root / "etc/systemd/system" / reboots.UNIT


def planned(here: str = "plain", **design: Any) -> Plan:
    loaded = loaded_study(boot=BOOTS, design={"blocks": 2, "seed": 5, **design})
    probes = boots.probes_elsewhere(loaded.study, here)
    return make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes)


def loaded_study(**changes: Any) -> LoadedStudy:
    return LoadedStudy(validate(study(**{"benchmark": ONE_POINT, **changes}), "test"), "test")


def look(plan: Plan, *, reboot: bool = True) -> boots.Here:
    """The boot that the host is in, as a run over several boots finds it."""
    here = boots.look(plan.study, reboot=reboot)
    assert here is not None
    return here
