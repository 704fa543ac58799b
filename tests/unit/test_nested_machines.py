"""Recipes of emulated machines: what each boots, and has on its disks. No machine is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nested import disks
from nested.machines import MACHINES

from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image.image import Image


def test_a_machine_with_a_boot_loader_is_booted_by_it_alone():
    for machine in MACHINES.values():
        words = machine.boot(Path("/made/kernel"), Path("/made/initrd"), "quiet")
        assert ("-kernel" in words) == (machine.loader is None)
        assert machine.serial == (machine.loader is not None or machine.name == "xen")
    assert [name for name, machine in MACHINES.items() if machine.loader] == ["grub"]


def test_an_image_that_another_home_shares_by_a_link_is_on_the_disk_itself(
    home: Home, tmp_path, monkeypatch
):
    written: list[str] = []
    monkeypatch.setattr(
        disks, "_write_disk", lambda tree, *_: written.append((tree / "key/file").read_text())
    )
    (tmp_path / "shared/key").mkdir(parents=True)
    (tmp_path / "shared/key/file").write_text("of the image")
    (home.images / "key").symlink_to(
        "../../shared/key"
    )  # which leads nowhere from the tree of the disk
    with Journal(home.journal) as journal:
        disks.ensure_image_disk(home, [Image("key", home.images / "key")], journal)
    assert written == ["of the image"]


@pytest.mark.parametrize("name", MACHINES)
def test_the_disk_of_an_earlier_recipe_goes_when_that_of_the_present_one_is_there(
    home, monkeypatch, name
):
    built: list[Path] = []
    monkeypatch.setattr(disks, "_build", lambda machine, image, journal, path: built.append(path))
    nested, machine = home.root / "nested", MACHINES[name]
    earlier = disks.directory_of(home, replace(machine, packages=()))
    kept = [disks.directory_of(home, other) for other in MACHINES.values() if other != machine]
    kept.append(nested / f"{earlier.name}.77.partial")
    kept += [nested / f"{name}-{data}-0123456789ab" for data in ("12", "requirements")]
    for path in (earlier, *kept):
        path.mkdir(parents=True)
    with Journal(home.journal) as journal:
        for _ in range(2):
            made = disks.ensure(home, machine, Image("key", home.root), journal).directory
            assert made == disks.directory_of(home, machine)
    assert len(built) == 1
    assert {path for path in nested.iterdir() if path.is_dir()} == {made, *kept}
