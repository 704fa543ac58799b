"""What a killed vtax left and cannot be removed: every run refuses, says how to give it up, and then goes on."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from support import needs_root

from vtax.cli.main import group
from vtax.cli.measure import prepare_host
from vtax.errors import StoreError, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal, boot_id
from vtax.host.resources import Remote, Tree, to_record


@pytest.fixture
def home(unmade_home: Path, taken_for_root: None) -> Home:
    """A home with the journal of a dead process that held files on a machine that is unreachable now."""
    home = Home.from_environment().ensure()
    there = Remote("router", "/tmp/vtax-1", ("sh", "-c", "echo no route to host >&2; exit 255"))
    record = {"register": 0, "at": 1, **to_record(there)}
    (home.journal / f"1-1-abc-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    return home


def test_a_run_says_once_what_to_do_about_what_it_cannot_remove(home):
    for _ in range(2):
        with pytest.raises(VtaxError) as caught:
            prepare_host(home)
        printed = str(caught.value)
        assert "router did not confirm that it removed /tmp/vtax-1: no route to host" in printed
        assert printed.lower().count("hint:") == 1
        assert "sudo vtax clean --forget forgets them" in printed


def test_what_is_given_up_is_reported_and_keeps_no_run_from_beginning(home):
    assert CliRunner().invoke(group, ["clean"]).exit_code == 1
    forgotten = CliRunner().invoke(group, ["clean", "--forget"])
    assert forgotten.exit_code == 0
    assert forgotten.stdout.startswith(
        "forgot files and processes of /tmp/vtax-1 on router: router did not confirm"
    )
    assert list(home.journal.iterdir()) == []
    prepare_host(home)


def test_programs_are_reported_apart_what_stays_and_what_was_given_up(home):
    stays = json.loads(CliRunner().invoke(group, ["clean", "--json"]).stdout)
    assert len(stays["problems"]) == 1
    assert stays["forgotten"] == []
    forgotten = json.loads(CliRunner().invoke(group, ["clean", "--json", "--forget"]).stdout)
    assert forgotten["problems"] == []
    assert forgotten["forgotten"] == stays["problems"]


def leave_with_a_mount(home: Home, name: str) -> Path:
    """Leave the directory of a killed vtax's guest in a home, with something mounted below; where it is mounted."""
    directory = home.guests / f"vtax-{name}"
    (directory / "rootfs/scratch").mkdir(parents=True)
    (directory / "rootfs/file").touch()
    record = {"register": 0, "at": 1, **to_record(Tree(str(directory)))}
    (home.journal / f"1-1-{name}-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    subprocess.run(["mount", "-t", "tmpfs", "none", directory / "rootfs/scratch"], check=True)
    return directory / "rootfs/scratch"


@needs_root
def test_files_that_cannot_be_removed_are_put_aside_and_block_no_run(unmade_home):
    home = Home.from_environment().ensure()
    leave_with_a_mount(home, "abc")
    try:
        first = CliRunner().invoke(group, ["clean"])
        assert first.exit_code == 1
        (left,) = home.left.iterdir()
        assert stat.S_IMODE(home.left.stat().st_mode) == 0o700
        command = f"umount {left}/rootfs/scratch && rm -rf --one-file-system {left}"
        assert command in first.stdout
        assert list(home.guests.iterdir()) == list(home.journal.iterdir()) == []
        assert [path.name for path in (left / "rootfs").iterdir()] == ["scratch"]
        prepare_host(home)
        again = CliRunner().invoke(group, ["clean", "--json"])
        assert again.exit_code == 1
        assert [command in line for line in json.loads(again.stdout)["left"]] == [True]
        assert CliRunner().invoke(group, ["clean", "--forget"]).exit_code == 0
        subprocess.run(["umount", left / "rootfs/scratch"], check=True)
        last = CliRunner().invoke(group, ["clean", "--json"])
        assert (last.exit_code, json.loads(last.stdout)["removed"]) == (0, [f"files {left}"])
        assert not any(home.left.iterdir())
    finally:
        subprocess.run(
            ["umount", "--quiet", *home.root.glob("*/vtax*/rootfs/scratch")], check=False
        )


@needs_root
def test_what_something_is_mounted_on_stays_where_it_is_and_blocks_no_run(unmade_home):
    home = Home.from_environment().ensure()
    guest = home.guests / "vtax-abc"
    guest.mkdir()
    record = {"register": 0, "at": 1, **to_record(Tree(str(guest)))}
    (home.journal / f"1-1-abc-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    subprocess.run(["mount", "-t", "tmpfs", "none", guest], check=True)
    try:
        cleaned = CliRunner().invoke(group, ["clean", "--json"])
        assert cleaned.exit_code == 1
        (line,) = json.loads(cleaned.stdout)["left"]
        assert f"umount {guest} && rm -rf --one-file-system {guest}" in line
        assert not any(home.journal.iterdir())
        prepare_host(home)
        assert CliRunner().invoke(group, ["clean"]).exit_code == 1
    finally:
        subprocess.run(["umount", guest], check=True)
    assert CliRunner().invoke(group, ["clean"]).exit_code == 0
    assert not guest.exists()
    assert not any(home.left.iterdir())


def test_no_step_that_fails_keeps_the_others(home, monkeypatch):
    made = home.guests / "vtax-abc"
    made.mkdir()
    record = {"register": 0, "at": 1, **to_record(Tree(str(made)))}
    (home.journal / f"1-1-def-{boot_id()}.jsonl").write_text(json.dumps(record) + "\n")
    stuck = RecursionError("maximum recursion depth exceeded")
    monkeypatch.setattr(Remote, "remove", Mock(side_effect=stuck))
    monkeypatch.setattr("vtax.cli.clean.close_orphans", Mock(side_effect=StoreError("damaged")))
    monkeypatch.setattr("vtax.cli.clean.remove_left", Mock(side_effect=StoreError("none either")))
    cleaned = CliRunner().invoke(group, ["clean", "--json"])
    shown = json.loads(cleaned.stdout)
    assert shown["removed"] == [f"files {made}"]
    assert "RecursionError" in shown["problems"][0]
    assert isinstance(cleaned.exception, StoreError)
    assert "damaged" in cleaned.stderr


@needs_root
def test_a_guest_s_files_that_stay_are_said_in_one_line_when_its_journal_is_left(tmp_path):
    (tmp_path / "guest/below").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "guest/below"], check=True)
    lines: list[str] = []
    try:
        with Journal(tmp_path / "journal", lines.append) as journal:
            registered = journal.register(Tree(str(tmp_path / "guest")))
            registered.release()
            assert registered.released
        (line,) = lines
        assert "umount" in line
        assert "\n" not in line
        assert not any((tmp_path / "journal").iterdir())
    finally:
        subprocess.run(["umount", *(tmp_path / "left").glob("*/below")], check=True)
