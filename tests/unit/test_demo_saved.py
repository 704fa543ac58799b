"""Saved states of emulated machines: what they are saved for, how, and what happens where one cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vtax.demo import disks, running, saved
from vtax.demo.machines import MACHINES
from vtax.demo.saved import SavedState
from vtax.errors import GuestError, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import Result


class Monitor:
    """QEMU's, that answers query-migrate so, after one more look. requested: the names of all commands."""

    def __init__(self, directory: Path, status: str = "completed") -> None:
        self.requested: list[str] = []
        self._statuses = iter(["active", status])
        self._directory = directory

    def execute(self, command: str, **arguments: object) -> Any:
        self.requested.append(command)
        if command == "migrate":
            assert arguments == {"uri": f"exec:cat >{self._directory / 'memory'}"}
            (self._directory / "memory").write_bytes(b"memory")
        return {"status": next(self._statuses)} if command == "query-migrate" else {}


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    path = tmp_path / "run" / saved.OVERLAY
    path.parent.mkdir()
    path.write_bytes(b"overlay")
    return path


def test_a_running_machine_is_saved_with_what_it_wrote_and_goes_on(tmp_path, overlay):
    monitor = Monitor(tmp_path)
    saved.save(monitor, overlay, SavedState(tmp_path))  # type: ignore[arg-type]
    state = SavedState(tmp_path)
    assert (state.memory.read_bytes(), state.overlay.read_bytes()) == (b"memory", b"overlay")
    assert monitor.requested == ["migrate-set-parameters", "migrate", *["query-migrate"] * 2, "cont"]


def test_a_state_that_qemu_does_not_write_is_an_error_and_the_machine_goes_on(tmp_path, overlay):
    monitor = Monitor(tmp_path, "failed")
    with pytest.raises(VtaxError, match="did not save the machine's state: failed"):
        saved.save(monitor, overlay, SavedState(tmp_path))  # type: ignore[arg-type]
    assert monitor.requested[-1] == "cont"
    assert not SavedState(tmp_path).overlay.exists()


@pytest.fixture
def qemu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Its version, which a test may change."""
    version = ["QEMU emulator version 7.2.22"]

    def run(argv: list[str]) -> Result:
        assert argv == ["qemu-system-x86_64", "--version"]
        return Result(tuple(argv), 0, version[0], "")

    monkeypatch.setattr(saved, "run", run)
    return version


def test_a_state_is_used_again_only_where_everything_is_the_same(tmp_path, qemu):
    disk, source = tmp_path / "disk.raw", tmp_path / "src"
    disk.write_bytes(b"disk")
    (source / "__pycache__").mkdir(parents=True)
    module = source / "module.py"
    module.write_text("one = 1\n")

    def key(*words: str) -> str:
        return saved.key(["-smp", "2", *words], [disk], {"src": source})

    first = key()
    (source / "__pycache__" / "module.pyc").write_bytes(b"compiled")
    assert key() == first
    seen = {first, key("-m", "4096M")}
    module.write_text("one = 2\n")
    seen.add(key())
    module.rename(source / "other.py")
    seen.add(key())
    disk.write_bytes(b"another disk")
    seen.add(key())
    qemu[0] = "QEMU emulator version 10.0.2"
    seen.add(key())
    assert len(seen) == 6


@pytest.fixture
def start(unmade_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[running._Start]:
    """Of a machine with a state, which cannot be loaded; it boots."""

    @contextmanager
    def process(self: Any, state: SavedState | None, *, is_loaded: bool) -> Iterator[str]:
        if is_loaded:
            raise GuestError("the guest closed its channel")
        yield "booted"

    monkeypatch.setattr(running._Start, "_process", process)
    home = Home.from_environment().ensure()
    with Journal(home.journal) as journal:
        yield running._Start(MACHINES["xen"], home, disks.Disks(home.root), (), journal)


def test_a_state_that_cannot_be_loaded_is_removed_and_the_machine_boots(start):
    state = SavedState(start.home.root / "nested" / "saved-xen-4096-0123456789ab")
    state.directory.mkdir(parents=True)
    with start.answering(state) as nested:
        assert str(nested) == "booted"
    assert not state.exists


def test_an_error_of_what_uses_the_machine_removes_no_state(start, monkeypatch):
    state = SavedState(start.home.root / "nested" / "saved-xen-4096-0123456789ab")
    state.directory.mkdir(parents=True)
    monkeypatch.setattr(running._Start, "_loaded", lambda *_: "loaded")
    with pytest.raises(GuestError), start.answering(state):
        raise GuestError("a test failed")
    assert state.exists


def test_the_state_of_an_earlier_checkout_goes_when_another_is_saved(unmade_home):
    home = Home.from_environment().ensure()
    others = [home.root / "nested" / name for name in ("saved-xen-4096-a", "saved-xen-7168-a")]
    for other in others:
        other.mkdir(parents=True)
    with Journal(home.journal) as journal:
        made = disks.ensure_directory(
            home, "saved-xen-4096-b", "saved-xen-4096-*", lambda path: path.joinpath("memory").touch(), journal
        )
    assert (made / "memory").exists()
    assert [other.exists() for other in others] == [False, True]
