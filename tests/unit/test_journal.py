"""The journal: written before, struck out after, and enough for another process to undo what a dead one left."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from vtax.errors import VtaxError
from vtax.host.journal import Journal, _unreleased, clean, start_time_of
from vtax.host.process import spawn
from vtax.host.resources import FileValue, Marked, Tree, Undo, from_record, pids_with_mark, to_record


def test_leaving_the_journal_undoes_everything_last_made_first(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
        journal.hold(Tree(str(outer)))
        outer.mkdir()
        journal.hold(Tree(str(inner)))
        inner.mkdir()
        assert [str(r) for r in journal.held] == [f"files {outer}", f"files {inner}"]
    assert not outer.exists()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_released_resource_is_not_undone_twice(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with Journal(tmp_path / "journal") as journal:
        held = journal.hold(Tree(str(path)))
        path.touch()
        held.release()
        assert not path.exists()
        path.touch()
        held.release()
    assert path.exists()


def test_clean_undoes_what_a_killed_process_held(tmp_path: Path) -> None:
    """A child makes a directory and a process, tells us, and is killed with SIGKILL."""
    script = f"""
import sys, time
from pathlib import Path
from vtax.host.journal import Journal
from vtax.host.process import spawn
from vtax.host.resources import Marked, Tree
journal = Journal(Path({str(tmp_path / "journal")!r}))
journal.hold(Tree({str(tmp_path / "made")!r})); Path({str(tmp_path / "made")!r}).mkdir()
journal.hold(Marked("mark-" + journal.token, "a sleeper")); spawn(["sleep", "60"], mark="mark-" + journal.token)
journal.hold(Tree({str(tmp_path / "never-made")!r}))
print(journal.token, flush=True); time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    mark = "mark-" + child.stdout.readline().strip()
    assert pids_with_mark(mark)
    assert clean(tmp_path / "journal").removed == ()  # its owner is alive
    child.kill()
    child.wait()
    cleaned = clean(tmp_path / "journal")
    assert cleaned.removed == ("processes of a sleeper", f"files {tmp_path / 'made'}")
    assert cleaned.problems == ()
    assert not pids_with_mark(mark)
    assert not (tmp_path / "made").exists()
    assert list((tmp_path / "journal").iterdir()) == []


def test_what_cannot_be_undone_stays_in_the_journal(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    directory.mkdir()
    path = directory / "1-1-abc.jsonl"
    path.write_text('{"hold": 0, "kind": "command", "what": "a thing", "argv": ["false"], "harmless_statuses": []}\n')
    cleaned = clean(directory)
    assert len(cleaned.problems) == 1
    assert path.exists()


@pytest.mark.parametrize("words", [(), ("No such",), ("nothing", "No such")])
def test_a_command_that_says_nothing_was_there_is_done(words: tuple[str, ...]) -> None:
    argv = ("sh", "-c", "echo No such container >&2; exit 1")
    assert Undo("a container", argv, harmless_words=words).remove() is False


@pytest.mark.parametrize("status", [1, 2])
def test_a_command_that_says_something_else_is_not_done(status: int) -> None:
    argv = ("sh", "-c", f"echo Cannot connect to the daemon >&2; exit {status}")
    with pytest.raises(VtaxError, match="Cannot connect"):
        Undo("a container", argv, harmless_words=("No such",)).remove()


class Stuck:
    """A resource that cannot be removed."""

    kind = "stuck"

    def __str__(self) -> str:
        return "a stuck thing"

    def remove(self) -> bool:
        raise VtaxError("it is busy", cure="wait")


def left_with_a_stuck_thing(directory: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    monkeypatch.setattr("vtax.host.journal.to_record", lambda resource: {"kind": resource.kind})
    with Journal(directory, **options) as journal:
        journal.hold(Stuck())  # type: ignore[arg-type]


def test_what_cannot_be_undone_is_told_when_the_journal_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    left_with_a_stuck_thing(tmp_path, monkeypatch, tell=told.append)
    assert told == ["left behind: a stuck thing: it is busy (to do: sudo vtax clean)"]
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_without_a_listener_what_stays_is_told_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left_with_a_stuck_thing(tmp_path, monkeypatch)
    assert capsys.readouterr().err.startswith("left behind: a stuck thing: it is busy")


def test_a_half_written_last_line_is_passed_over(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.touch()
    (tmp_path / "1-1-abc.jsonl").write_text(f'{{"hold": 0, "kind": "files", "path": "{made}"}}\n{{"hold": 1, "ki')
    assert clean(tmp_path).removed == (f"files {made}",)


def test_a_disk_that_fills_up_costs_the_journal_the_one_line_it_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, 1000

    def until_full(descriptor: int, data: bytes) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(descriptor, data[: min(room, 7)])
        room -= done
        return done

    monkeypatch.setattr("vtax.host.journal.os.write", until_full)
    journal = Journal(tmp_path)
    journal.hold(Tree("/a"))
    room = 20
    with pytest.raises(VtaxError, match="cannot be written: No space left") as caught:
        journal.hold(Tree("/never-made"))
    assert "free some space" in caught.value.cure
    room = 1000
    journal.hold(Tree("/b"))
    journal.hold(Tree("/c"))
    assert [from_record(record) for record in _unreleased(journal.path)] == [Tree("/a"), Tree("/b"), Tree("/c")]
    room = 0
    assert journal.close() == []
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_begin_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(VtaxError, match="journal cannot be written"):
        Journal(tmp_path / "file")


def test_what_another_version_made_stays_and_is_told_and_the_rest_is_undone(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "1-1-abc.jsonl"
    made.touch()
    lines = [
        {"hold": 0, "kind": "files", "path": str(made)},
        {"hold": 1, "kind": "tesseract", "name": "x"},
        {"hold": 2, "kind": "files"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cleaned = clean(tmp_path)
    assert cleaned.removed == (f"files {made}",)
    assert [problem.splitlines()[0] for problem in cleaned.problems] == [
        "1-1-abc.jsonl: this version of vtax cannot undo 'files'",
        "1-1-abc.jsonl: this version of vtax cannot undo 'tesseract'",
    ]
    assert path.exists()


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    for name in ("notes.jsonl", "a-b-c.jsonl"):
        (tmp_path / name).write_text("remember the milk\n")
    cleaned = clean(tmp_path)
    assert cleaned.problems == ()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_setting_that_is_gone_is_nothing_to_put_back(tmp_path: Path) -> None:
    assert FileValue(str(tmp_path / "gone"), "1").remove() is False


def test_a_setting_is_put_back(tmp_path: Path) -> None:
    setting = tmp_path / "swappiness"
    setting.write_text("60\n")
    with Journal(tmp_path / "journal") as journal:
        journal.hold(FileValue(str(setting), "60\n"))
        setting.write_text("0\n")
    assert setting.read_text() == "60\n"


def test_a_setting_of_words_that_is_as_before_is_not_told_as_put_back(tmp_path: Path) -> None:
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    assert not FileValue(str(setting), "madvise").remove()
    assert FileValue(str(setting), "never").remove()
    assert setting.read_text() == "never"


def test_resources_survive_their_json_form() -> None:
    for resource in (Tree("/x"), Undo("a container", ("podman", "rm", "x"), (1, 125), ("a",)), Marked("m", "qemu")):
        assert from_record(to_record(resource)) == resource


def test_ending_marked_processes_ends_their_children_too(tmp_path: Path) -> None:
    mark = f"test-{os.getpid()}-{time.monotonic_ns()}"
    parent = spawn([sys.executable, "-c", "import os, time; os.fork(); time.sleep(60)"], mark=mark)
    deadline = time.monotonic() + 10
    while len(pids_with_mark(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pids_with_mark(mark)) == 2
    assert Marked(mark, "two sleepers").remove()
    assert pids_with_mark(mark) == []
    assert start_time_of(parent.pid) is None
    assert not Marked(mark, "two sleepers").remove()
