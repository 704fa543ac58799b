"""Recipes of emulated machines: what each boots, and the disk that systemd-boot boots. No machine is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nested import systemd_boot
from nested.machines import MACHINES


def test_a_machine_with_a_boot_loader_is_booted_by_it_alone():
    for machine in MACHINES.values():
        words = machine.boot(Path("/made/kernel"), Path("/made/initrd"), "quiet")
        assert ("-kernel" in words) == (machine.loader is None)
        assert machine.serial == (machine.loader is not None or machine.name == "xen")
    assert [name for name, machine in MACHINES.items() if machine.loader] == ["grub", "systemd-boot"]


def test_a_machine_with_uefi_keeps_its_variables_while_it_runs_and_no_longer():
    words = MACHINES["systemd-boot"].boot(Path("/made/kernel"), Path("/made/initrd"), "")
    firmware, variables = [word for word in map(str, words) if word != "-drive"]
    assert "readonly=on,file=/made/firmware.fd" in firmware
    assert "snapshot=on,file=/made/variables.fd" in variables


def test_the_partition_of_systemd_boot_lies_behind_the_system(tmp_path, monkeypatch):
    tree, disk = tmp_path / "tree", tmp_path / "disk.raw"
    for name in (
        "boot/vmlinuz-6.1",
        systemd_boot._EFI,
        *(f"usr/share/OVMF/OVMF_{n}_4M.fd" for n in ("CODE", "VARS")),
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
    (tree / "etc").mkdir()
    initrd = tmp_path / "initrd"
    initrd.write_text("initrd")
    with disk.open("wb") as file:
        file.truncate(9 << 20)
    commands: list[list[Any]] = []
    monkeypatch.setattr(systemd_boot, "run", commands.append)
    systemd_boot.install(tree, "6.1", initrd)
    assert not list((tree / "boot/efi").iterdir())  # below the mount point
    systemd_boot.make_bootable(disk, tree)
    table, system, copy = (command[2:] for command in commands)
    assert table[:4] == ["sgdisk", "--clear", "--new=1:2048:18431", "--new=2:18432:215039"]
    assert "--offset=18432" in system
    assert copy == [
        "mcopy",
        "-s",
        "-i",
        "/disk.raw@@9M",
        "/boot/efi/EFI",
        "/boot/efi/debian",
        "/boot/efi/loader",
        "::/",
    ]
    assert disk.stat().st_size == 106 << 20
    assert (tree / "disk.raw").samefile(disk)
    assert (tree / "boot/efi/EFI/BOOT/BOOTX64.EFI").read_text() == systemd_boot._EFI
    for name in systemd_boot.ENTRIES:
        lines = dict(
            line.split(" ", 1) for line in (tree / f"boot/efi/loader/entries/{name}.conf").read_text().splitlines()
        )
        assert lines["title"] == f"Debian, boot {name}"
        assert lines["options"].split()[-1] == f"vtax.boot={name}"
        assert (tree / "boot/efi" / lines["linux"].lstrip("/")).read_text() == "boot/vmlinuz-6.1"
    assert (tmp_path / "variables.fd").read_text().endswith("VARS_4M.fd")
