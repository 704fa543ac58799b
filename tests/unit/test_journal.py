"""The journal: written before, released after, and enough for another process to remove what a dead one left."""

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

from vtax.errors import RunInterrupted, VtaxError
from vtax.host.interrupts import stop_requests
from vtax.host.journal import Journal, _read_unreleased, boot_id, clean
from vtax.host.process import spawn, start_time_of
from vtax.host.resources import (
    FileValue,
    Remote,
    Resource,
    RestoreCommand,
    TaggedProcesses,
    Tree,
    from_record,
    tagged_pids,
    to_record,
)
from vtax.host.waiting import wait_until


def test_leaving_the_journal_undoes_everything_last_made_first(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
        journal.register(Tree(str(outer)))
        outer.mkdir()
        journal.register(Tree(str(inner)))
        inner.mkdir()
        assert [str(r) for r in journal.registered] == [f"files {outer}", f"files {inner}"]
    assert not outer.exists()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_released_resource_is_not_undone_twice(tmp_path):
    path = tmp_path / "file"
    with Journal(tmp_path / "journal") as journal:
        registered = journal.register(Tree(str(path)))
        path.touch()
        registered.release()
        assert not path.exists()
        path.touch()
        registered.release()
    assert path.exists()


def test_clean_undoes_what_a_killed_process_held(tmp_path):
    """A child makes a directory and a process, tells us, and is killed with SIGKILL."""
    script = f"""
import sys, time
from pathlib import Path
from vtax.host.journal import Journal
from vtax.host.process import spawn
from vtax.host.resources import TaggedProcesses, Tree
journal = Journal(Path({str(tmp_path / "journal")!r}))
journal.register(Tree({str(tmp_path / "made")!r})); Path({str(tmp_path / "made")!r}).mkdir()
journal.register(TaggedProcesses("mark-" + journal.token, "a sleeper"))
spawn(["sleep", "60"], tag="mark-" + journal.token)
journal.register(Tree({str(tmp_path / "never-made")!r}))
print(journal.token, flush=True); time.sleep(60)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    tag = "mark-" + child.stdout.readline().strip()
    assert wait_until(
        lambda: tagged_pids(tag), 5, 0.01
    )  # the environment shows a little after the exec
    assert clean(tmp_path / "journal").removed == ()  # its owner is alive
    child.kill()
    child.wait()
    cleaned = clean(tmp_path / "journal")
    assert cleaned.removed == ("processes of a sleeper", f"files {tmp_path / 'made'}")
    assert cleaned.problems == ()
    assert not tagged_pids(tag)
    assert not (tmp_path / "made").exists()
    assert list((tmp_path / "journal").iterdir()) == []


def killed(script: str, *arguments: object) -> None:
    """Run a program until it says `now`, and kill it."""
    imports = """
import os, sys, time
from pathlib import Path
from vtax.host.journal import Journal
from vtax.host.process import run, spawn
from vtax.host.resources import FileValue, TaggedProcesses, Tree
now = lambda: os.write(1, b"now\\n")
"""
    argv = [sys.executable, "-c", imports + script, *map(str, arguments)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "now\n"
        child.kill()


SET = """
journal = Journal(Path(sys.argv[1]))
for before, after in zip(sys.argv[3:], sys.argv[4:]):
    setting = Path(sys.argv[2])
    journal.register(FileValue(str(setting), before)); setting.write_text(after)
    journal = Journal(Path(sys.argv[1]))  # each in a journal of its own
"""


def test_all_journals_of_a_killed_process_are_undone_last_made_first(tmp_path):
    journals, setting = tmp_path / "journal", tmp_path / "enabled"
    values = ["0", "1", "2", "3", "4", "5"]
    killed(SET + "now(); time.sleep(60)", journals, setting, *values)
    assert clean(journals).removed == (f"setting {setting}",) * 5
    assert setting.read_text() == "0"


def test_what_killed_processes_set_one_after_the_other_is_undone_last_made_first(tmp_path):
    journals, setting = tmp_path / "journal", tmp_path / "enabled"
    for number in range(5):
        killed(SET + "now(); time.sleep(60)", journals, setting, number, number + 1)
    for number, path in enumerate(
        sorted(journals.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    ):
        path.rename(path.with_name(f"{number}{path.name}"))  # the names tell nothing of the order
    clean(journals)
    assert setting.read_text() == "0"


@pytest.mark.slow
def test_what_a_killed_process_had_run_does_not_go_on_making_things(tmp_path):
    script = """
made = Path(sys.argv[2]); Journal(Path(sys.argv[1])).register(Tree(str(made)))
run(["sh", "-c", f"echo now >/proc/{os.getpid()}/fd/1; sleep 1; mkdir {made}"])
"""
    made = tmp_path / "made"
    killed(script, tmp_path / "journal", made)
    cleaned = clean(tmp_path / "journal")
    assert len(cleaned.removed) == 1
    assert cleaned.removed[0].startswith("processes of vtax ")
    time.sleep(1.2)
    assert not made.exists()


@pytest.mark.slow
def test_what_was_forked_but_not_executed_when_vtax_was_killed_is_ended_too(tmp_path):
    script = """
made = Path(sys.argv[2]); journal = Journal(Path(sys.argv[1]))
journal.register(TaggedProcesses("m" + journal.token, "a start"))
out = os.dup(1)
before_exec = lambda: (os.write(out, b"now\\n"), time.sleep(0.5))
spawn(["sh", "-c", f"sleep 0.5; mkdir {made}"], tag="m" + journal.token, before_exec=before_exec)
"""
    made = tmp_path / "made"
    killed(script, tmp_path / "journal", made)
    assert clean(tmp_path / "journal").removed == ("processes of a start",)
    time.sleep(1.2)
    assert not made.exists()


def dead_journal(directory: Path, *resources: Resource, boot: str = "") -> Path:
    """The journal of a process that is no more; boot: of which it was, this one when empty."""
    path = directory / f"1-1-abc-{boot or boot_id()}.jsonl"
    directory.mkdir(exist_ok=True)
    lines = [
        {"register": number, "at": number, **to_record(resource)}
        for number, resource in enumerate(resources)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_after_a_reboot_only_files_and_what_is_elsewhere_are_undone(tmp_path):
    made, setting, called = tmp_path / "made", tmp_path / "setting", tmp_path / "called"
    made.touch()
    setting.write_text("1")
    resources = (
        Tree(str(made)),
        FileValue(str(setting), "0"),
        RestoreCommand("an interface", ("touch", str(tmp_path / "undone"))),
        Remote("host", "/x", ("touch", str(called))),
        RestoreCommand("a container", ("true",), outlives_boot=True),
    )
    path = dead_journal(tmp_path / "journal", *resources, boot="0" * 32)
    assert clean(tmp_path / "journal").removed == (
        "a container",
        "files and processes of /x on host",
        f"files {made}",
    )
    assert setting.read_text() == "1"
    assert called.exists()
    assert not (tmp_path / "undone").exists()
    assert not path.exists()


def test_a_living_process_with_the_number_of_one_of_another_boot_does_not_keep_its_journal(
    tmp_path,
):
    own = f"{os.getpid()}-{start_time_of(os.getpid())}-abc"
    (tmp_path / f"{own}-{'0' * 32}.jsonl").touch()
    (tmp_path / f"{own}-{boot_id()}.jsonl").touch()
    clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{own}-{boot_id()}.jsonl"]


def test_two_cleans_at_once_do_not_fail_each_other(tmp_path):
    tree = tmp_path / "tree"
    for outer in range(20):
        (tree / str(outer)).mkdir(parents=True)
        for inner in range(30):
            (tree / str(outer) / str(inner)).touch()
    dead_journal(tmp_path / "journal", Tree(str(tree)))
    script = "import sys; from pathlib import Path; from vtax.host.journal import clean; sys.stdin.read(); "
    argv = [
        sys.executable,
        "-c",
        script + "sys.exit(bool(clean(Path(sys.argv[1])).problems))",
        tmp_path / "journal",
    ]
    both = [subprocess.Popen(argv, stdin=subprocess.PIPE) for _ in range(2)]
    time.sleep(0.5)  # until both are there
    for each in both:
        each.stdin.close()
    assert [each.wait() for each in both] == [0, 0]
    assert not tree.exists()


def test_what_was_undone_is_struck_out_though_something_else_stays(tmp_path):
    setting, stuck = tmp_path / "setting", RestoreCommand("a thing", ("false",), ())
    setting.write_text("1")
    path = dead_journal(tmp_path / "journal", stuck, FileValue(str(setting), "0"))
    clean(tmp_path / "journal")
    setting.write_text("2")  # by somebody else, since
    assert [from_record(record) for record in _read_unreleased(path)[0]] == [stuck]
    assert len(clean(tmp_path / "journal").problems) == 1
    assert setting.read_text() == "2"


def test_a_clean_that_is_stopped_finishes_what_it_undoes_and_has_struck_it_out(tmp_path):
    setting = tmp_path / "setting"
    setting.write_text("1")
    stopping = RestoreCommand(
        "a thing", ("kill", "-TERM", str(os.getpid()))
    )  # to whom it may concern: this test
    path = dead_journal(tmp_path / "journal", FileValue(str(setting), "0"), stopping)
    with pytest.raises(RunInterrupted), stop_requests(lambda text: None):
        clean(tmp_path / "journal")
    assert [from_record(record) for record in _read_unreleased(path)[0]] == [
        FileValue(str(setting), "0")
    ]
    assert setting.read_text() == "1"
    clean(tmp_path / "journal")
    assert setting.read_text() == "0"


def test_what_cannot_be_undone_can_be_given_up(tmp_path):
    made = tmp_path / "made"
    made.touch()
    path = dead_journal(
        tmp_path / "journal", Tree(str(made)), RestoreCommand("a thing", ("false",), ())
    )
    cleaned = clean(tmp_path / "journal", forget=True)
    assert cleaned.removed == (f"files {made}",)
    assert cleaned.problems == ("a thing: false failed:",)
    assert not path.exists()


class Stuck:
    """A resource that cannot be removed."""

    kind = "stuck"

    def __str__(self) -> str:
        return "a stuck thing"

    def remove(self) -> bool:
        raise VtaxError("it is busy", hint="wait")


def left_with_a_stuck_thing(
    directory: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> None:
    monkeypatch.setattr("vtax.host.journal.to_record", lambda resource: {"kind": resource.kind})
    with Journal(directory, **options) as journal:
        journal.register(Stuck())  # type: ignore[arg-type]


def test_what_cannot_be_undone_is_reported_when_the_journal_is_left(tmp_path, monkeypatch):
    printed: list[str] = []
    left_with_a_stuck_thing(tmp_path, monkeypatch, notify=printed.append)
    (leak,) = printed
    assert "leaked: a stuck thing: it is busy" in leak
    assert "(hint: sudo vtax clean)" in leak
    assert len(list(tmp_path.glob("*.jsonl"))) == 1


def test_without_a_listener_what_stays_is_reported_on_stderr(tmp_path, monkeypatch, capsys):
    left_with_a_stuck_thing(tmp_path, monkeypatch)
    assert "leaked: a stuck thing: it is busy" in capsys.readouterr().err


def test_a_disk_that_fills_up_costs_the_journal_the_one_line_it_refused(tmp_path, monkeypatch):
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
    journal.register(Tree("/a"))
    room = 20
    with pytest.raises(VtaxError, match="cannot be written: No space") as caught:
        journal.register(Tree("/never-made"))
    assert "free some space" in caught.value.hint
    room = 1000
    journal.register(Tree("/b"))
    journal.register(Tree("/c"))
    registered, damage = _read_unreleased(journal.path)
    assert ([from_record(record) for record in registered], damage) == (
        [Tree("/a"), Tree("/b"), Tree("/c")],
        "",
    )
    room = 0
    assert journal.close() == []
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_begin_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(VtaxError, match="directory cannot be made"):
        Journal(tmp_path / "file")


def test_what_another_version_made_stays_and_is_reported_and_the_rest_is_undone(tmp_path):
    made, path = tmp_path / "made", tmp_path / f"1-1-abc-{boot_id()}.jsonl"
    made.touch()
    lines = [
        {"register": 0, "kind": "files", "path": str(made)},
        {"register": 1, "kind": "tesseract", "name": "x"},
        {"register": 2, "kind": "files"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cleaned = clean(tmp_path)
    assert cleaned.removed == (f"files {made}",)
    assert [problem.partition(" (use")[0] for problem in cleaned.problems] == [
        f"{path.name}: this version of vtax cannot remove {kind}"
        for kind in ("'files'", "'tesseract'")
    ]
    assert path.exists()


def test_a_file_that_is_no_journal_is_left_alone(tmp_path):
    for name in ("notes.jsonl", "a-b-c.jsonl", "1-1-abc.jsonl"):
        (tmp_path / name).write_text("remember the milk\n")
    cleaned = clean(tmp_path)
    assert cleaned.problems == ()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_setting_that_is_gone_is_nothing_to_put_back(tmp_path):
    assert FileValue(str(tmp_path / "gone"), "1").remove() is False


def test_a_setting_of_words_that_is_as_before_is_not_reported_as_put_back(tmp_path):
    setting = tmp_path / "enabled"
    setting.write_text("always [madvise] never\n")
    assert not FileValue(str(setting), "madvise").remove()
    assert FileValue(str(setting), "never").remove()
    assert setting.read_text() == "never"


def test_ending_marked_processes_ends_their_children_too():
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    parent = spawn([sys.executable, "-c", "import os, time; os.fork(); time.sleep(60)"], tag=tag)
    deadline = time.monotonic() + 10
    while len(tagged_pids(tag)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(tagged_pids(tag)) == 2
    assert TaggedProcesses(tag, "two sleepers").remove()
    assert tagged_pids(tag) == []
    assert start_time_of(parent.pid) is None
    assert not TaggedProcesses(tag, "two sleepers").remove()
