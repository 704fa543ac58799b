"""A store that is damaged, full, foreign, of another schema, locked or badly named says so, and loses nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from a_run import begin, trial

from vtax.errors import StoreError
from vtax.store import database
from vtax.store.query import load
from vtax.store.store import RunHandle, Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def url(file: Path) -> str:
    return f"sqlite:///{file}"


def filled(file: Path, trials: int = 50) -> None:
    with Store.open(url(file)) as store:
        run = begin(store)
        for block in range(trials):
            run.add_trial(trial(run.cells[0], block=block, position=block))


def read(file: Path) -> None:
    with Store.open(url(file)) as store:
        store.runs()
        load(store.engine, store.open_run("tour-1"))


def add_until_refused(run: RunHandle) -> tuple[int, StoreError]:
    for block in range(10_000):
        try:
            run.add_trial(trial(run.cells[0], block=block, position=block))
        except StoreError as error:
            return block, error
    raise AssertionError("the disk never got full")


def test_of_users_every_commit_waits_for_the_disk(file, unsynced, monkeypatch):
    monkeypatch.setattr(database, "SYNCHRONOUS", unsynced)
    with Store.open(file) as store, store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2  # FULL


def test_a_file_that_is_no_database_is_left_alone(file):
    file.write_bytes(b"these are my notes, not a database\n" * 50)
    with pytest.raises(StoreError) as caught:
        Store.open(url(file))
    assert "not a database" in caught.value.what
    assert str(file) in caught.value.where
    assert "VTAX_STORE" in caught.value.hint
    assert file.read_bytes().startswith(b"these are my notes")


@pytest.mark.parametrize("page", [1, 5])
def test_a_damaged_store_is_reported_as_damaged(file, page):
    filled(file)
    content = bytearray(file.read_bytes())
    content[4096 * page :] = b"\xff" * (len(content) - 4096 * page)
    file.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        read(file)


def test_a_database_of_another_program_is_not_written_into(file, golden):
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE recipe (name TEXT)")
    before = file.read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(url(file))
    golden(str(caught.value))
    with sqlite3.connect(file) as other:
        assert [row[0] for row in other.execute("SELECT name FROM sqlite_master")] == ["recipe"]
    assert len(file.read_bytes()) == len(before)


@pytest.mark.parametrize("version", ["0013", "9999"])
def test_a_store_of_an_unknown_schema_is_refused_and_left_alone(file, version):
    filled(file, 1)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (version,))
    before = file.read_bytes()
    with pytest.raises(StoreError) as caught:
        Store.open(url(file))
    assert (
        caught.value.what
        == f"the store is of schema {version}, which this vtax does not know; it reads 0003"
    )
    assert caught.value.where == str(file)
    assert "VTAX_STORE" in caught.value.hint
    assert file.read_bytes() == before


def test_a_full_disk_stores_no_half_trial_and_says_so(file):
    with Store.open(url(file)) as store:
        run = begin(store)
        with store.engine.connect() as connection:  # the pool hands out this same connection again
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 6}")
        stored, error = add_until_refused(run)
        assert "disk of the store is full" in error.what
        assert "vtax resume" in error.hint
    assert stored > 0
    with Store.open(url(file)) as store:
        again = store.open_run("last")
        data = load(store.engine, again)
        assert len(again.done()) == data.measurements.value.size == stored
        again.add_trial(trial(again.cells[0], block=stored, position=stored))  # there is room again
        assert len(again.done()) == stored + 1


def test_a_store_that_may_only_be_read_is_shown_and_refuses_to_be_written(file):
    filled(file)
    with Store.open(f"sqlite:///file:{file}?mode=ro&uri=true") as store:
        run = store.open_run("last")
        assert len(run.done()) == 50
        with pytest.raises(StoreError, match="is not writable"):
            run.finish("finished", "", 1.0)


def test_a_directory_in_place_of_the_store_cannot_be_opened(file):
    file.mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(url(file))


def test_a_file_in_place_of_the_directory_is_said(file):
    file.write_text("")
    with pytest.raises(StoreError):
        Store.open(url(file / "store.sqlite"))


def test_a_missing_directory_is_made(tmp_path):
    with Store.open(url(tmp_path / "a" / "b" / "store.sqlite")) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    "wrong", ["/var/lib/store.sqlite", "", "mysql://me@there/vtax", "nonsense://x"]
)
def test_a_url_that_is_none_is_refused(wrong):
    with pytest.raises(StoreError) as caught:
        Store.open(wrong)
    assert "VTAX_STORE" in caught.value.where
    assert "sqlite:////absolute/path" in caught.value.hint


def test_a_server_out_of_reach_is_said_without_the_password(tmp_path):
    pytest.importorskip("psycopg", reason="the Python package psycopg is not installed")
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        Store.open(f"postgresql://me:verysecret@/vtax?host={tmp_path}")
    assert "verysecret" not in str(caught.value)


def test_a_store_held_by_another_process_is_waited_for_and_then_said(file, monkeypatch):
    monkeypatch.setattr("vtax.store.database.BUSY_TIMEOUT_MS", 30)
    filled(file, 1)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with Store.open(url(file)) as store:
        with pytest.raises(StoreError, match="in use by another process"):
            store.open_run("last").finish("finished", "", 1.0)
        holder.execute("ROLLBACK")
        store.open_run("last").finish("finished", "", 1.0)
    holder.close()


def test_measurements_are_clustered_by_trial(file):
    filled(file, 1)
    with sqlite3.connect(file) as database:
        made = dict(
            database.execute("SELECT name, sql FROM sqlite_master WHERE type != 'index'").fetchall()
        )
    assert "WITHOUT ROWID" in made["measurement"]
    assert "WITHOUT ROWID" in made["counter"]


NOBODY = 65534


@pytest.fixture
def stranger() -> Iterator[Path]:
    """A full store of another user's, in a directory that all may look into."""
    directory = Path(tempfile.mkdtemp(prefix="vtax-test-"))
    directory.chmod(0o755)
    filled(directory / "store.sqlite")
    yield directory / "store.sqlite"
    shutil.rmtree(directory)


@contextmanager
def an_ordinary_user(directory: Path) -> Iterator[None]:
    """Inside, this process may read what is in the directory and write neither it nor its files."""
    is_root = os.geteuid() == 0
    directory.chmod(0o555)
    try:
        if is_root:
            try:
                os.seteuid(NOBODY)
            except OSError as error:
                pytest.skip(f"root may not become another user here: {error}")
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o755)


def test_an_ordinary_user_looks_at_a_store_and_cannot_write_it(stranger):
    before = stranger.read_bytes()
    with an_ordinary_user(stranger.parent), Store.open(url(stranger)) as store:
        run = store.open_run("last")
        assert load(store.engine, run).measurements.value.size == len(run.done()) == 50
        with pytest.raises(StoreError, match="is not writable") as caught:
            run.finish("finished", "", 1.0)
        assert "sudo" in caught.value.hint
    assert stranger.read_bytes() == before
    assert [each.name for each in stranger.parent.iterdir()] == [stranger.name]


def test_an_ordinary_user_sees_what_a_running_study_has_stored(stranger):
    with Store.open(url(stranger)) as writer:
        run = writer.open_run("last")
        run.add_trial(trial(run.cells[0], block=50, position=50))
        with an_ordinary_user(stranger.parent), Store.open(url(stranger)) as store:
            assert len(store.open_run("last").done()) == 51


def test_a_journal_that_an_ordinary_user_may_not_read_is_said(stranger):
    with Store.open(url(stranger)) as writer:
        run = writer.open_run("last")
        run.add_trial(trial(run.cells[0], block=50, position=50))
        wal = stranger.with_name("store.sqlite-wal")
        wal.chmod(0)
        with (
            an_ordinary_user(stranger.parent),
            pytest.raises(StoreError, match="may not be read") as caught,
        ):
            Store.open(url(stranger))
    assert str(wal) in caught.value.where
    assert "sudo" in caught.value.hint
