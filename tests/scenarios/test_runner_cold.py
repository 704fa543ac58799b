"""Cold trials: what guests wrote is dropped from the host's page cache between preparation and program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted import ProcessGuest, ScriptedDriver, ScriptedOptions, executed, plan_of, study

from vtax.benchmarks.dd import Dd
from vtax.errors import BadInput
from vtax.host import page_cache
from vtax.messages import Note
from vtax.platforms.base import GuestSpec
from vtax.runner.cold_cache import LEFT
from vtax.store.query import effective, load

SIZE = 2 << 20
READS = {
    "name": "dd",
    "parameters": {"direction": "read", "file_size": SIZE},
    "factors": {"cache": ["flushed", "cached", "cold"]},
}


@pytest.fixture
def reads(driver: ScriptedDriver) -> ScriptedDriver:
    """Guests that write below their directories, and the benchmark dd."""
    start = driver.start

    def with_scratch(options: ScriptedOptions, spec: GuestSpec) -> ProcessGuest:
        guest = start(options, spec)
        guest.scratch = str(spec.directory)
        return guest

    driver.start = with_scratch
    driver.writes_below_directory = True
    driver.benchmarks = {"dd": Dd()}
    return driver


def test_what_stays_of_the_files_is_kept_with_cold_trials_alone(reads, store, home, monkeypatch):
    dropped = []
    drop = page_cache.drop

    def seen(directory: Path) -> None:
        dropped.append(sum(file.stat().st_size for file in directory.glob("vtax-dd-*")))
        drop(directory)

    monkeypatch.setattr(page_cache, "drop", seen)
    data = load(store.engine, executed(plan_of(study(benchmark=[READS])), store, home))
    assert data.failures == ()
    # two platforms, two blocks, each with a trial of the least work before; the file was there
    assert dropped == [1 << 20, SIZE] * 4
    found = [json.loads(text) for text in effective(store.engine, data.run).values()]
    assert [settings["cache"] for settings in found if LEFT in settings] == ["cold"] * 4


def test_data_that_stay_are_a_warning(reads, store, home, monkeypatch):
    monkeypatch.setattr(page_cache, "resident_bytes", lambda _: 7 << 20)
    data = load(store.engine, executed(plan_of(study(benchmark=[READS])), store, home))
    assert Note("cache-left", size="7 MiB") in {warning.note for warning in data.warnings}


def test_it_is_not_tested_where_the_files_are_elsewhere(reads, monkeypatch):
    monkeypatch.setattr(reads, "writes_below_directory", False)
    with pytest.raises(BadInput) as refused:
        plan_of(study(benchmark=[READS]))  # the baseline cannot either, so the study is refused
    assert str(Note("files-in-daemon", name="native")) in refused.value.what
