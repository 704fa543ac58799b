"""What reports read of a run is what its rows say, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from a_run import begin, fill, trial
from sqlalchemy import delete, func, select, update

from vtax.errors import DamagedRows
from vtax.store import columns, schema
from vtax.store.bundle import Bundle
from vtax.store.database import reading, writing
from vtax.store.exporting import export_run
from vtax.store.importing import import_bundle
from vtax.store.merging import merge
from vtax.store.query import RunData, load
from vtax.store.run import RunHandle
from vtax.store.store import Store


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


def loaded(store: Store, name: str) -> RunData:
    return load(store.engine, store.open_run(name))


def pieces(store: Store, name: str) -> int:
    """How many rows the columns of a run have."""
    table, run = schema.run_column, store.open_run(name)
    query = select(func.count()).select_from(table).where(table.c.run_id == run.id)
    with reading(store.engine) as connection:
        return int(connection.execute(query).scalar_one())


def without_columns(store: Store) -> None:
    with writing(store.engine) as connection:
        connection.execute(delete(schema.run_column))


def assert_alike(data: RunData, other: RunData) -> None:
    assert data.measurements.value.size
    for part in ("trials", "measurements"):
        one, two = getattr(data, part), getattr(other, part)
        for each in fields(one):
            first, second = getattr(one, each.name), getattr(two, each.name)
            assert first.dtype == second.dtype
            assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f"), each.name


def warmed_up(run: RunHandle) -> None:
    """A trial before the first block, and one whose durations are not known."""
    cell = run.cells[0]
    run.add_trial(trial(cell, block=-1, number=3, position=run.next_position()))
    run.add_trial(
        trial(cell, block=-2, number=0, position=run.next_position(), outside_s=None, inside_s=None)
    )


def test_columns_say_what_rows_say(store, monkeypatch):
    monkeypatch.setattr(columns, "_TRIALS_AT_ONCE", 7)  # a run has several pieces
    other = begin(store, "other-1")  # whose trials lie between those of two sessions
    run = begin(store)
    fill(run, 2, finishes=False)
    fill(other, 1)
    run.begin_session("another boot", {}, run.started_at + 100)
    warmed_up(run)
    run.reopen()
    rows = loaded(store, "tour-1")
    assert not pieces(store, "tour-1")
    run.finish("finished", "", run.started_at + 300)
    assert pieces(store, "tour-1") > len(columns.TRIAL) + len(columns.MEASUREMENT)
    assert_alike(loaded(store, "tour-1"), rows)


def test_a_merged_run_is_read_from_the_columns_of_its_parts(store):
    for name in ("tour-1", "tour-2"):
        run = begin(store, name)
        warmed_up(run)
        fill(run, 2)
    merge(store, ["tour-1", "tour-2"])
    names = [run.name for run in store.runs()]
    (merged_name,) = {*names} - {"tour-1", "tour-2"}
    whole = loaded(store, merged_name)
    assert not pieces(store, merged_name)
    without_columns(store)
    assert_alike(whole, loaded(store, merged_name))
    store.open_run("tour-2").finish("finished", "", 1_700_000_300.0)  # one part has columns
    assert_alike(whole, loaded(store, merged_name))


def test_a_run_that_goes_on_has_no_columns(store):
    fill(begin(store), 1)
    before = loaded(store, "tour-1").trials.id.size
    run = store.open_run("tour-1")
    run.reopen()
    assert not pieces(store, "tour-1")
    run.add_trial(trial(run.cells[0], block=7, position=run.next_position()))
    assert loaded(store, "tour-1").trials.id.size == before + 1
    run.finish("interrupted", "", 1_700_000_300.0)
    assert pieces(store, "tour-1")
    run.add_trial(trial(run.cells[0], block=8, position=run.next_position()))
    assert loaded(store, "tour-1").trials.id.size == before + 2


def test_an_imported_run_has_columns_and_a_removed_one_none(store, tmp_path):
    fill(begin(store), 1)
    rows = loaded(store, "tour-1")
    file = tmp_path / "tour-1.vtax.gz"
    export_run(store.engine, store.open_run("tour-1"), file)
    store.remove_runs("tour-1")
    with reading(store.engine) as connection:
        assert not connection.execute(select(schema.run_column)).all()
    import_bundle(store.engine, Bundle(file), "")
    assert pieces(store, "tour-1")
    assert loaded(store, "tour-1").measurements.value.tolist() == rows.measurements.value.tolist()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("block", {"kind": "<f9"}),
        ("block", {"kind": "|O"}),
        ("value", {"content": b"1234567"}),
        ("value", {"content": b"12345678"}),
        ("value", {"name": "worth"}),
        ("trial", {"kind": "|b1"}),
        ("position", {"content": b"\0"}),
    ],
)
def test_damaged_columns_are_an_error_on_one_line(store, name, change):
    fill(begin(store), 1)
    table = schema.run_column
    with writing(store.engine) as connection:
        connection.execute(update(table).where(table.c.name == name).values(change))
    with pytest.raises(DamagedRows):
        loaded(store, "tour-1")
