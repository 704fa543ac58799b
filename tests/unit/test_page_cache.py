"""The page cache of some files: counted, and dropped for those alone."""

import os

import pytest

from vtax.host.page_cache import drop, resident_bytes


def written(path, size):
    with path.open("wb") as file:
        file.write(os.urandom(size))
        os.fsync(file.fileno())
    path.read_bytes()


def test_only_the_files_of_the_directory_are_dropped(tmp_path):
    dropped, kept = tmp_path / "image", tmp_path / "other"
    (dropped / "below").mkdir(parents=True)
    kept.mkdir()
    written(dropped / "below" / "file", 1 << 20)
    written(kept / "file", 1 << 20)
    (dropped / "link").symlink_to(kept / "file")
    (dropped / "empty").touch()
    assert resident_bytes(dropped) == 1 << 20
    drop(dropped)
    if resident_bytes(dropped):
        pytest.skip("the temporary directory is in memory")
    assert resident_bytes(kept) == 1 << 20


def test_pipes_and_sparse_files_of_any_size_neither_wait_nor_take_memory(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    drop(tmp_path)
    assert resident_bytes(tmp_path) == 0


def test_data_that_are_not_written_back_yet_are_dropped_too(tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(1 << 20))
    assert resident_bytes(tmp_path) == 1 << 20
    drop(tmp_path)
    if resident_bytes(tmp_path) == 1 << 20:
        pytest.skip("the temporary directory is in memory")
    assert resident_bytes(tmp_path) == 0
