"""Trees are walked whatever is in them."""

import os

import pytest
from nesting import nest

from vtax.host.removal import remove_tree
from vtax.host.walking import walk


def test_everything_below_a_directory_is_named_once_and_no_link_followed(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("123")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    found = dict(walk(tmp_path))
    assert sorted(found) == ["a", "a/b", "a/b/file", "link", "pipe"]
    assert found["a/b/file"].st_size == 3


def test_names_of_a_directory_are_in_order_where_that_is_asked_for(tmp_path):
    for name in ("c", "a", "b"):
        (tmp_path / name).touch()
    assert [name for name, _ in walk(tmp_path, in_order=True)] == ["a", "b", "c"]


@pytest.mark.slow
def test_no_number_of_levels_is_too_many(tmp_path):
    nest(tmp_path / "top", 1500)
    assert sum(1 for _ in walk(tmp_path / "top")) == 1501
    remove_tree(tmp_path / "top")


def test_a_path_that_is_too_long_is_an_error_or_left_out(tmp_path):
    nest(tmp_path / "top", 30, "d" * 250)
    with pytest.raises(OSError, match="too long"):
        list(walk(tmp_path))
    assert 10 < sum(1 for _ in walk(tmp_path, is_strict=False)) < 30
    remove_tree(tmp_path / "top")
