"""Which directories are trusted with what vtax executes, by who may change them or what leads to them."""

from __future__ import annotations

import os
import struct

import pytest

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.trust import private_directory, refuse_foreign


def test_a_directory_of_ours_is_trusted_also_before_it_exists(tmp_path):
    refuse_foreign(tmp_path)
    refuse_foreign(tmp_path / "not" / "yet")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_a_directory_that_everybody_may_write_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(BadInput, match=f"other users may write to {tmp_path}") as caught:
        refuse_foreign(tmp_path)
    assert caught.value.hint.startswith(f"chmod go-w {tmp_path}")


@pytest.mark.skipif(os.getuid() != 0, reason="the group of what others make is not root's")
@pytest.mark.parametrize(("mask", "is_refused"), [(7, True), (5, False)])
def test_a_directory_that_an_access_list_lets_others_write_is_refused(tmp_path, mask, is_refused):
    directory = tmp_path / "home"
    directory.mkdir(mode=0o755)
    os.chown(directory, 0, 0)
    nobody = 65534
    entries = (
        (0x01, 7, 2**32 - 1),
        (0x02, 7, nobody),
        (0x04, 5, 2**32 - 1),
        (0x10, mask, 2**32 - 1),
        (0x20, 5, 2**32 - 1),
    )
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(directory, "system.posix_acl_access", packed)
    except OSError:
        pytest.skip("this file system has no access control lists")
    if is_refused:
        with pytest.raises(BadInput, match="other users may write") as caught:
            refuse_foreign(directory)
        assert caught.value.hint.startswith(f"chmod go-w {directory}")
        directory.chmod(0o755)
    refuse_foreign(directory)


def test_below_one_that_everybody_may_write_only_the_sticky_bit_keeps_names_where_they_are(
    tmp_path,
):
    (tmp_path / "home").mkdir()
    tmp_path.chmod(0o1777)
    refuse_foreign(tmp_path / "home")
    tmp_path.chmod(0o777)
    with pytest.raises(BadInput, match="other users may write"):
        refuse_foreign(tmp_path / "home")
    with pytest.raises(BadInput, match="other users may write"):
        refuse_foreign(tmp_path / "not-yet")


def test_what_a_link_leads_to_and_through_is_judged_too(tmp_path):
    shared, real = tmp_path / "shared", tmp_path / "real"
    (shared / "inner").mkdir(parents=True)
    real.mkdir()
    (real / "direct").symlink_to(shared / "inner")
    (real / "relative").symlink_to("../shared/inner")
    (real / "up").symlink_to("./direct/../inner")
    for name in ("direct", "relative", "up"):
        refuse_foreign(real / name)
    shared.chmod(0o777)
    for name in ("direct", "relative", "up"):
        with pytest.raises(BadInput, match="shared"):
            refuse_foreign(real / name)


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadInput, match="too many symbolic links"):
        refuse_foreign(tmp_path / "loop")


def test_private_directories_that_others_can_enter_are_closed(tmp_path):
    home = Home(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    for directory in (home.root, home.journal, home.guests, home.docker, elsewhere):
        directory.mkdir(mode=0o755)
    home.images.symlink_to(elsewhere)
    (home.root / "store.sqlite").touch()
    home.ensure()
    for directory in (home.journal, home.guests, home.docker, elsewhere):
        assert directory.stat().st_mode & 0o7777 == 0o700
    assert home.root.stat().st_mode & 0o7777 == 0o755
    assert (home.root / "store.sqlite").stat().st_mode & 0o444 == 0o444


def test_a_home_that_its_owner_closed_stays_closed(tmp_path):
    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    home.ensure()
    assert home.root.stat().st_mode & 0o7777 == 0o700


def test_a_mode_that_cannot_be_set_is_said(tmp_path, monkeypatch, golden):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "journal").mkdir(mode=0o755)
    monkeypatch.setattr("os.fchmod", refuse)
    with pytest.raises(BadInput) as caught:
        private_directory(tmp_path / "journal")
    golden(str(caught.value))
    assert caught.value.hint.startswith(f"chmod 700 {tmp_path / 'journal'}")
