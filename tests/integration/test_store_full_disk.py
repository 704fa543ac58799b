"""A disk that really is full, in the middle of a run: nothing half-written, all before it kept, and a plain word."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from a_run import begin, trial
from scripted import install, plan_of, store_each_trial, study
from support import needs_root

from vtax.errors import StoreError
from vtax.host.home import Home
from vtax.host.process import run as run_program
from vtax.host.waiting import wait_until
from vtax.runner.begin import begin as begin_run
from vtax.runner.events import Observer
from vtax.runner.session import execute
from vtax.store.query import load
from vtax.store.records import OutputRecord
from vtax.store.store import Store

pytestmark = needs_root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    run_program(
        ["mount", "-t", "tmpfs", "-o", "size=2m,nr_inodes=100,mode=755", "vtax-test", place]
    )
    try:
        yield place
    finally:
        run_program(["umount", place])


def test_a_full_disk_keeps_every_trial_before_it_and_the_run_can_go_on(small_disk):
    url = f"sqlite:///{small_disk / 'store.sqlite'}"
    noise = OutputRecord("single", ("tool",), 0, os.urandom(3000).hex(), "")
    with Store.open(url) as store:
        run = begin(store)
        stored, printed = 0, None
        while printed is None and stored < 10_000:
            try:
                run.add_trial(trial(run.cells[0], block=stored, position=stored, outputs=(noise,)))
                stored += 1
            except StoreError as error:
                printed = error
    assert stored > 10
    assert "disk of the store is full" in printed.what
    assert str(small_disk) in printed.where
    run_program(["mount", "-o", "remount,size=8m", small_disk])
    with Store.open(url) as store:
        again = store.open_run("last")
        assert again.done() == {("c-native", block, 0) for block in range(stored)}
        assert load(store.engine, again).measurements.value.size == stored
        again.add_trial(trial(again.cells[0], block=stored, position=stored))


@pytest.mark.parametrize("noise_bytes", [0, 40_000])
def test_what_was_shown_as_measured_when_the_disk_became_full_is_stored(
    small_disk, tmp_path, monkeypatch, noise_bytes
):
    class Shown(Observer):
        trials = 0

        def trial_ended(self, *_: object) -> None:
            self.trials += 1
            with Store.open_read_only(url) as other:
                assert len(other.open_run("last").done()) == self.trials
            if self.trials == 10:
                room = os.statvfs(small_disk)
                (small_disk / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_frsize))

    install(monkeypatch)
    store_each_trial(monkeypatch)
    url, shown = f"sqlite:///{small_disk / 'store.sqlite'}", Shown()
    code = f"head -c {noise_bytes} /dev/urandom | base64 >&2; echo 1.5"
    script = {"name": "script", "parameters": {"code": code}}
    with Store.open(url) as store:
        plan = plan_of(study(design={"blocks": 3, "trials": 10}, benchmark=[script]))
        run = begin_run(store, plan, vtax_version="test")
        with pytest.raises(StoreError, match="full") as refused:
            execute(plan, run, Home(tmp_path / "home").ensure(), shown)
    assert refused.value.hint.endswith("`vtax resume`")
    with Store.open_read_only(url) as store:
        assert len(store.open_run("last").done()) == shown.trials >= 10


def test_a_full_disk_of_the_home_costs_the_trials_of_its_guests_and_the_run_goes_on(
    small_disk, tmp_path, monkeypatch
):
    class MakingRoom(Observer):
        guests = 0

        def guest_starting(self, platform: str, block: int) -> None:
            self.guests += 1
            if self.guests == 2:
                # the files of the first guest are removed while the second one starts
                wait_until(lambda: not any(home.guests.iterdir()), 5.0, 0.01)
                use_every_inode(small_disk / "ballast")
            elif self.guests == 4:
                shutil.rmtree(small_disk / "ballast")

    driver = install(monkeypatch)
    home = Home(small_disk).ensure()
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        run = begin_run(store, plan := plan_of(study()), vtax_version="test")
        execute(plan, run, home, MakingRoom())
        data = load(store.engine, run)
    assert run.status == "finished"
    assert data.trials.is_ok.tolist() == [True] * 3 + [False] * 6 + [True] * 3
    assert all("No space left on device" in failure.error for failure in data.failures)
    assert len(driver.started) == 2
    assert list(home.guests.iterdir()) == list(home.journal.iterdir()) == []


def use_every_inode(directory: Path) -> None:
    directory.mkdir()
    for number in range(os.statvfs(directory).f_ffree):
        (directory / str(number)).touch()


def test_a_store_on_a_disk_without_any_room_says_so(small_disk):
    room = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_frsize))
    with pytest.raises(StoreError, match="full"):
        Store.open(f"sqlite:///{small_disk / 'store.sqlite'}")
