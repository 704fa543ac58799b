"""A disk that really is full, in the middle of a run: nothing half-written, all before it kept, and a plain word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import needs_root
from synthetic_run import begin, trial

from vtax.errors import StoreError
from vtax.host.process import run as run_program
from vtax.store.query import load
from vtax.store.records import OutputRecord
from vtax.store.store import Store

pytestmark = needs_root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    run_program(["mount", "-t", "tmpfs", "-o", "size=2m", "vtax-test", place])
    try:
        yield place
    finally:
        run_program(["umount", place])


def test_a_full_disk_keeps_every_trial_before_it_and_the_run_can_go_on(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk / 'store.sqlite'}"
    noise = OutputRecord("single", ("tool",), 0, os.urandom(3000).hex(), "")
    with Store.open(url) as store:
        run = begin(store)
        stored, told = 0, None
        while told is None and stored < 10_000:
            try:
                run.add_trial(trial(run.cells[0], block=stored, position=stored, outputs=(noise,)))
                stored += 1
            except StoreError as error:
                told = error
    assert stored > 10
    assert told is not None
    assert "disk of the store is full" in told.what
    assert str(small_disk) in told.where
    run_program(["mount", "-o", "remount,size=8m", small_disk])
    with Store.open(url) as store:
        again = store.open_run("last")
        assert again.done() == {("c-native", block, 0) for block in range(stored)}
        assert load(store.engine, again).measurements.value.size == stored
        again.add_trial(trial(again.cells[0], block=stored, position=stored))


def test_a_store_on_a_disk_without_any_room_says_so(small_disk: Path) -> None:
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_frsize))
    with pytest.raises(StoreError, match="full"):
        Store.open(f"sqlite:///{small_disk / 'store.sqlite'}")
