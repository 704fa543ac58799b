"""A host of files below a directory: GRUB, and what the kernel and Xen show after a boot of an entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import install, study

from vtax.cli import host_boots
from vtax.host import boot_loaders
from vtax.host.xen import is_dom0
from vtax.image.image import Image
from vtax.runner import begin, boots, host_sessions, resume
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, validate

CONFIGURATION = Path(__file__).parent / "unit/fixtures/boots/grub.cfg"
NATIVE = "gnulinux-simple-0a1b"
XEN = "xen-gnulinux-simple-0a1b"
ADVANCED = "gnulinux-advanced-0a1b>gnulinux-6.1.0-50-amd64-advanced-0a1b"
ONE_POINT = [{"name": "script"}]
BOOTS = [
    {"name": "plain", "entry": "Debian GNU/Linux", "platforms": ["native"]},
    {"name": "xen", "entry": "Debian GNU/Linux, with Xen hypervisor", "platforms": ["other"]},
]


class Machine:
    """A host of files below a directory, with GRUB and a stubbed kernel."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        self.root = root
        self.number = 0
        self.microcode = 1
        monkeypatch.setattr(boot_loaders, "ROOT", root)
        monkeypatch.setattr("os.uname", lambda: type("", (), {"release": "6.1.0-50-amd64"}))
        for name in ("boot/grub", "proc", "sys/hypervisor/properties", "bin"):
            (root / name).mkdir(parents=True)
        (root / "boot/grub/grub.cfg").write_text(CONFIGURATION.read_text())
        monkeypatch.setenv("PATH", f"{root / 'bin'}:/usr/bin:/bin")
        for module in (host_boots, begin, host_sessions, resume):
            monkeypatch.setattr(module, "boot_id", lambda: f"{self.number:032}")
        for module in (host_boots, begin):
            monkeypatch.setattr(module, "host_facts", self.facts)
        for name, set_next in (("grub-reboot", '"$1"'), ("bootctl", '"$2"')):
            program = root / "bin" / name
            program.write_text(f"#!/bin/sh\necho {set_next} >{root}/next\n")
            program.chmod(0o755)
        self.boot(NATIVE)

    @property
    def next_entry(self) -> str:
        """The id that the boot loader was given for the next boot alone; empty without one."""
        found = self.root / "next"
        return found.read_text().strip() if found.exists() else ""

    def boot(self, entry: str) -> None:
        """What the kernel and the hypervisor show after a boot of an entry; `another` is none of those of BOOTS."""
        self.number += 1
        is_xen = entry == XEN
        line = (
            "root=/dev/vda1 ro console=hvc0"
            if is_xen
            else f"BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/vda1 ro {'quiet' if entry == NATIVE else '1'}"
        )
        (self.root / "proc/cmdline").write_text(f"{line}\n")
        (self.root / "sys/hypervisor/type").write_text("xen\n" if is_xen else "none\n")
        (self.root / "sys/hypervisor/properties/features").write_text(
            "00000b0d\n" if is_xen else "0\n"
        )

    def facts(self) -> dict[str, Any]:
        """Of the host; the second boot of Xen has another microcode than the first."""
        is_xen = is_dom0(boot_loaders.ROOT)
        return {
            "machine_id": "here",
            "hypervisor": "Xen" if is_xen else "",
            "cpu_microcode": f"0x{self.microcode}",
        }


def planned(here: str = "plain", **design: Any) -> Plan:
    loaded = loaded_study(boot=BOOTS, design={"blocks": 2, "seed": 5, **design})
    probes = boots.probes_elsewhere(loaded.study, here)
    return make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes)


def loaded_study(**changes: Any) -> LoadedStudy:
    return LoadedStudy(validate(study(**{"benchmark": ONE_POINT, **changes}), "test"), "test")


def look(plan: Plan) -> boots.CurrentBoot:
    """The boot that the host is in, as a run over several boots finds it."""
    here = boots.current_boot(plan.study)
    assert here is not None
    return here
