"""Recipes of emulated machines: what each boots. No machine is started."""

from __future__ import annotations

from pathlib import Path

from nested.machines import MACHINES


def test_a_machine_with_a_boot_loader_is_booted_by_it_alone():
    for machine in MACHINES.values():
        words = machine.boot(Path("/made/kernel"), Path("/made/initrd"), "quiet")
        assert ("-kernel" in words) == (machine.loader is None)
        assert machine.serial == (machine.loader is not None or machine.name == "xen")
    assert [name for name, machine in MACHINES.items() if machine.loader] == ["grub"]
