"""Trees are removed whatever is in them, and what cannot be removed is named and costs nothing else."""

import os
import subprocess
import sys

import pytest
from nesting import nest
from support import needs_root

from vtax.host import removal
from vtax.host.removal import NotRemoved, directories, remove_tree


@pytest.mark.slow
@pytest.mark.parametrize("name", ["d", "d" * 255])
def test_no_depth_stops_a_removal(tmp_path, name):
    nest(tmp_path / "top", 3000, name)
    assert remove_tree(tmp_path / "top")
    assert not any(tmp_path.iterdir())
    assert not remove_tree(tmp_path / "top")


def test_few_files_are_open_however_deep_a_tree_is(tmp_path):
    nest(tmp_path / "top", 200)
    script = (
        "import resource, sys; from pathlib import Path; from vtax.host.removal import remove_tree; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)); remove_tree(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "top"], check=True)
    assert not any(tmp_path.iterdir())


def test_every_kind_of_file_is_removed_and_no_link_followed(tmp_path):
    outside, top = tmp_path / "outside", tmp_path / "top"
    (outside / "below").mkdir(parents=True)
    (outside / "file").write_text("kept")
    for number in range(3):
        (top / "in" / str(number)).mkdir(parents=True)
        (top / "in" / str(number) / "file").touch()
    (top / "link").symlink_to(outside)
    (top / "nowhere").symlink_to("/none/there")
    (top / "a\nname\udcff").touch()
    os.mkfifo(top / "pipe")
    assert remove_tree(top)
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    (tmp_path / "link").symlink_to(outside)
    assert remove_tree(tmp_path / "link")
    assert remove_tree(outside / "file")
    assert [path.name for path in outside.iterdir()] == ["below"]


def test_directories_come_before_those_they_are_in(tmp_path):
    for path in ("top/a/b/c", "top/a/d", "top/e"):
        (tmp_path / path).mkdir(parents=True)
    names = [name for _, name in directories(tmp_path / "top")]
    assert sorted(names) == ["a", "b", "c", "d", "e", "top"]
    assert names[-1] == "top"
    assert names.index("c") < names.index("b") < names.index("a")
    assert names.index("d") < names.index("a")


def test_the_time_of_a_removal_is_bounded(tmp_path):
    (tmp_path / "top" / "below").mkdir(parents=True)
    with pytest.raises(NotRemoved, match="time"):
        remove_tree(tmp_path / "top", within_s=-1.0)
    assert (tmp_path / "top" / "below").is_dir()


def test_names_in_memory_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(removal, "MAX_NAMES", 3)
    for number in range(4):
        (tmp_path / "top" / str(number)).mkdir(parents=True)
    with pytest.raises(NotRemoved, match="more than 3 directories"):
        remove_tree(tmp_path / "top")


@needs_root
def test_immutable_and_append_only_files_and_directories_are_removed(tmp_path):
    top = tmp_path / "top"
    (top / "kept" / "below").mkdir(parents=True)
    for name in ("file", "log", "kept/below/file"):
        (top / name).touch()
    for flag, name in (
        ("+i", "file"),
        ("+a", "log"),
        ("+i", "kept/below/file"),
        ("+i", "kept/below"),
        ("+a", "kept"),
        ("+i", ""),
    ):
        done = subprocess.run(["chattr", flag, top / name], check=False)
        if done.returncode != 0:
            pytest.skip("this file system has no such attributes")
    assert remove_tree(top)
    assert not top.exists()


@needs_root
@pytest.mark.parametrize("kind", ["file system", "bind", "file"])
def test_what_is_mounted_below_stays_and_everything_else_goes(tmp_path, kind):
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    (outside / "data").write_text("kept")
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "file").touch()
    (top / "z").mkdir()
    point, source = top / "a" / "b", outside
    if kind == "file":
        point, source = top / "a" / "file", outside / "data"
    words = ["-t", "tmpfs", "none"] if kind == "file system" else ["--bind", str(source)]
    subprocess.run(["mount", *words, point], check=True)
    try:
        if kind == "file system":
            (point / "data").write_text("kept")
        with pytest.raises(NotRemoved, match="mounted"):
            remove_tree(top)
        kept = point if kind == "file" else point / "data"
        assert kept.read_text() == "kept"
        assert (outside / "data").read_text() == "kept"
        assert not (top / "z").exists()
    finally:
        subprocess.run(["umount", point], check=True)
    assert remove_tree(top)


@needs_root
def test_no_attribute_of_what_is_mounted_below_is_changed(tmp_path):
    outside, top = tmp_path / "outside", tmp_path / "top"
    outside.mkdir()
    (top / "point").mkdir(parents=True)
    if subprocess.run(["chattr", "+i", outside], check=False).returncode != 0:
        pytest.skip("this file system has no such attributes")
    subprocess.run(["mount", "--bind", outside, top / "point"], check=True)
    try:
        with pytest.raises(NotRemoved, match="mounted"):
            remove_tree(top)
        shown = subprocess.run(
            ["lsattr", "-d", outside], capture_output=True, text=True, check=True
        )
        assert "i" in shown.stdout.split()[0]
    finally:
        subprocess.run(["umount", top / "point"], check=True)
        subprocess.run(["chattr", "-i", outside], check=True)
    assert remove_tree(top)
