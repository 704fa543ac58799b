"""The request of a reboot: the unit that goes on, the entry for the next boot, and what others made of both."""

from __future__ import annotations

import errno
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from stubbed_host import ADVANCED, XEN

from vtax.cli import rebooting
from vtax.errors import BadInput, VtaxError
from vtax.host import boot_loaders, reboots
from vtax.host.home import Home
from vtax.host.reboots import Reboots


def test_no_more_reboots_are_made_than_were_planned(machine, home):
    loader = boot_loaders.loader()
    with pytest.raises(VtaxError, match="made its 2 planned reboots"):
        reboots.request(home, Reboots("tour-1", 2, made=2), "xen", loader.find(XEN), loader, ["resume"])
    assert loader.next_entry() == ""
    assert not machine.unit.exists()


def test_the_unit_goes_on_with_the_run_and_a_cancelled_reboot_leaves_nothing(machine, home):
    loader = boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume", "tour-1", "--reboot"])
    assert loader.next_entry() == XEN
    text = machine.unit.read_text()
    assert "Type=oneshot" in text
    assert f"ExecStart=/bin/sh {machine.unit.with_suffix('.sh')}\n" in text
    (link,) = machine.root.glob("etc/systemd/system/*.wants/*")
    assert link.resolve() == machine.unit
    with pytest.raises(BadInput, match="tour-1 goes on after the next reboot"):
        rebooting.refuse_pending(home)
    assert len(reboots.cancel(home)) == 3
    assert (machine.root / "boot/grub/grubenv").read_text() == "saved_entry=0\n"
    assert not machine.unit.exists()
    assert not link.is_symlink()
    assert reboots.cancel(home) == []


def test_the_unit_runs_vtax_as_the_command_that_requested_it_and_contains_no_secret(machine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    python = machine.root / "bin/python"
    python.write_text(
        f"#!/bin/sh\nenv >{tmp_path / 'environment'}\nprintf '%s\\n' \"$@\" >{tmp_path / 'arguments'}\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    secret = "postgresql://me:p$s%h'\"\\ss@host/vtax"
    given = {"VTAX_HOME": "own home", "VTAX_STORE": secret, "PYTHONPATH": "src:/opt/more", "SUDO_UID": "1000"}
    for name, value in {**given, "SUDO_USER": "me", "OTHER": "x", "HOME": "/home/me"}.items():
        monkeypatch.setenv(name, value)
    home, loader = Home.from_environment().ensure(), boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume", "tour 1"])
    script = machine.unit.with_suffix(".sh")
    assert stat.S_IMODE(script.stat().st_mode) == 0o600
    assert "p$s" not in machine.unit.read_text()
    readable = [path for path in machine.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not [path for path in [*readable, home.reboots] if b"p$s" in path.read_bytes()]
    machine.prepare_unit()
    assert machine.leftovers == [script.name, f"next_entry={XEN}"]
    subprocess.run(["/bin/sh", script], env={"PATH": "/usr/bin:/bin"}, cwd="/", check=True)
    assert not script.exists()
    assert (tmp_path / "arguments").read_text().splitlines() == ["-m", "vtax", "resume", "tour 1"]
    found = dict(line.partition("=")[::2] for line in (tmp_path / "environment").read_text().splitlines())
    assert found["VTAX_HOME"] == str(tmp_path / "own home")
    assert found["VTAX_STORE"] == secret
    assert found["PYTHONPATH"] == f"{tmp_path / 'src'}:/opt/more"
    assert (found["SUDO_UID"], found["SUDO_USER"], found["HOME"]) == ("1000", "me", "/home/me")
    assert found["PATH"].startswith(str(machine.root / "bin"))
    assert "OTHER" not in found


def test_the_unit_is_valid(machine, home, tmp_path):
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("needs systemd-analyze")
    loader = boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    (copy := tmp_path / "vtax-copy.service").write_bytes(machine.unit.read_bytes())
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True, check=False)
    assert "vtax-copy" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("sqlite:///runs/a.sqlite", "sqlite:///{here}/runs/a.sqlite"),
        ("sqlite+pysqlite:///a.sqlite?timeout=5", "sqlite+pysqlite:///{here}/a.sqlite?timeout=5"),
        ("sqlite:////srv/a.sqlite", "sqlite:////srv/a.sqlite"),
        ("postgresql:///vtax", "postgresql:///vtax"),
    ],
)
def test_the_unit_has_the_store_of_the_command(machine, home, tmp_path, monkeypatch, given, kept):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VTAX_STORE", given)
    loader = boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    script = machine.unit.with_suffix(".sh").read_text()
    assert f"export VTAX_STORE={shlex.quote(kept.format(here=tmp_path))}\n" in script


# What others made


def test_an_entry_for_the_next_boot_that_vtax_did_not_set_is_kept(machine, home):
    loader = boot_loaders.loader()
    machine.set_next(ADVANCED)
    with pytest.raises(BadInput, match=f"GRUB boots '{ADVANCED}' the next time, which vtax did not set") as caught:
        reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    command = caught.value.hint.partition(": sudo ")[2]
    assert reboots.cancel(home) == []
    assert machine.leftovers == [f"next_entry={ADVANCED}"]
    subprocess.run(shlex.split(command), check=True)
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    machine.set_next(ADVANCED)  # by a person, meanwhile
    assert len(reboots.cancel(home)) == 2
    assert machine.leftovers == [f"next_entry={ADVANCED}"]


def test_an_entry_for_the_next_boot_is_kept_when_the_state_is_damaged(machine, home):
    loader = boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    home.reboots.write_text("{")
    with pytest.raises(VtaxError, match="cannot be read") as caught:
        reboots.read(home)
    assert caught.value.hint == "sudo vtax clean removes it"
    assert len(reboots.cancel(home)) == 2
    assert machine.leftovers == [f"next_entry={XEN}"]
    assert reboots.read(home) is None


@pytest.mark.parametrize("name", [reboots.UNIT, reboots.SCRIPT, f"multi-user.target.wants/{reboots.UNIT}"])
def test_a_unit_that_vtax_did_not_make_is_neither_overwritten_nor_removed(machine, home, name):
    loader = boot_loaders.loader()
    file = machine.unit.parent / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("[Unit]\n")
    with pytest.raises(BadInput, match="vtax made no") as caught:
        reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    assert caught.value.where == str(file)
    assert f"rm {file}" in caught.value.hint
    assert reboots.cancel(home) == []
    assert machine.leftovers == [name]
    assert file.read_text() == "[Unit]\n"


def test_a_full_disk_leaves_no_file_of_a_unit(machine, home, monkeypatch):
    loader = boot_loaders.loader()
    hardlink_to = Path.hardlink_to

    def full(self: Path, target: Path) -> None:
        if self.name == reboots.UNIT:
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        hardlink_to(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "hardlink_to", full)
        with pytest.raises(VtaxError, match="cannot be made: No space left"):
            reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    reboots.cancel(home)
    units = machine.unit.parent
    assert [path.name for path in units.rglob("*") if path.is_file()] == []
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])


def test_the_unit_of_another_home_is_kept(machine, home, tmp_path):
    loader = boot_loaders.loader()
    other = Home(tmp_path / "it's another").ensure()
    reboots.request(other, Reboots("tour-9", 2), "xen", loader.find(XEN), loader, ["resume"])
    before = machine.leftovers
    with pytest.raises(BadInput, match="vtax made no") as caught:
        reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    assert shlex.split(caught.value.hint)[1] == f"VTAX_HOME={other.root}"
    assert reboots.cancel(home) == []
    assert machine.leftovers == before
    assert len(reboots.cancel(other)) == 3
    assert machine.leftovers == []


def test_a_run_whose_unit_failed_does_not_hinder_others(machine, home):
    loader = boot_loaders.loader()
    reboots.request(home, Reboots("tour-1", 2), "xen", loader.find(XEN), loader, ["resume"])
    machine.reboot()
    with pytest.raises(BadInput, match="tour-1 goes on in a moment in the boot 'xen'") as caught:
        rebooting.refuse_pending(home)
    assert caught.value.hint == "end that with: sudo vtax abort tour-1"
    machine.prepare_unit()  # and Python is missing, say
    rebooting.refuse_pending(home)
