"""Damaged journals: `clean` undoes what can be read, reports the rest, and never ends in a traceback.

What these journals record is harmless: files below the test's own directory. Nothing else is removed or run: where a
damaged record names anything else, `clean` is refused its way to it.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from vtax.errors import VtaxError
from vtax.host import resources
from vtax.host.journal import Cleaned, Journal, _read_unreleased, boot_id, clean
from vtax.host.process import Result
from vtax.host.resources import Tree, from_record, to_record

NAME = f"1-1-abc-{boot_id()}.jsonl"
HOSTILE: tuple[bytes, ...] = (
    b"[" * 200_000,
    b"[" * 200_000 + b"\n",
    b"9" * 5000,
    b'{"register":"x"}',
    b"[]",
    b"1",
    b'"a"',
    b"null",
    b"true",
    b'{"register":1,"deregister":{},"at":0.5}',
    b"{}",
    b'{"register":1e400}',
    b'{"deregister":{}}',
    b'{"register": 1e400}',
    b'{"register": NaN}',
    b'{"register": true}',
    b'{"register": null}',
    b'{"deregister": {}}',
    b'{"deregister": []}',
    b'{"register": 1, "at": "x", "kind": "files", "path": "/none"}',
    b'{"register": 1, "at": NaN, "kind": "files"}',
    b'{"register": 1, "at": {}}',
    b'{"register": ' + b"[" * 200_000,
    b"\xff\xfe{}",
    b"\0" * 100_000,
    b'{"register": ' + b"9" * 5000 + b"}",
    b"x" * 3_000_000,
    b'{"register": 1, "kind": "files", "path": "\xff"}',
    b"\x1b[2J",
)
NOT_UNDONE: tuple[dict[str, Any], ...] = (
    {}, {"kind": 5}, {"kind": None}, {"kind": []}, {"kind": {}}, {"kind": "x" * 5000}, {"kind": "files"},
    {"kind": "files", "path": 5}, {"kind": "files", "path": None}, {"kind": "files", "path": ["/none"]},
    {"kind": "files", "path": ""}, {"kind": "files", "path": "none"}, {"kind": "files", "path": "/none\0"},
    {"kind": "files", "path": "/none\ud800"}, {"kind": "mount", "path": "."}, {"kind": "setting", "path": "x"},
    {"kind": "setting", "path": "/none", "before": 1}, {"kind": "cgroup", "paths": "/none"},
    {"kind": "cgroup", "paths": [1]}, {"kind": "cgroup", "paths": {"/": 1}}, {"kind": "command", "what": "x"},
    {"kind": "command", "what": "x", "argv": "rm"}, {"kind": "command", "what": "x", "argv": [["rm"]]},
    {"kind": "command", "what": "x", "argv": ["none"], "late_s": float("inf")},
    {"kind": "command", "what": "x", "argv": ["none"], "late_s": "9"}, {"kind": "processes", "tag": 5, "what": "x"},
)  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal's file to be written, of a dead process; nothing outside of its directory is touched."""
    inside, remove = str(tmp_path), Tree.remove

    def refuse(*_: Any, **__: Any) -> Result:
        raise VtaxError("nothing is run here")

    def within(tree: Tree) -> bool:
        if not str(Path(tree.path).resolve()).startswith(f"{inside}/made"):
            raise VtaxError("nothing else is removed here")
        return remove(tree)

    monkeypatch.setattr(resources, "run", refuse)
    monkeypatch.setattr(resources, "tagged_pids", lambda _: [])
    monkeypatch.setattr(Tree, "remove", within)
    for kind in (resources.FileValue, resources.Mount, resources.ControlGroup):
        monkeypatch.setattr(kind, "remove", refuse)
    monkeypatch.setattr("vtax.host.journal._EXEC_S", 0.0)
    (tmp_path / "journal").mkdir(mode=0o700)
    return tmp_path / "journal" / NAME


def line_of(number: int, path: Path) -> bytes:
    return (
        b"\n%s\n"
        % json.dumps(
            {"register": number, "at": number, "kind": "files", "path": str(path)}
        ).encode()
    )


def cleaned(journal: Path, **how: bool) -> Cleaned:
    return clean(journal.parent, lambda _: None, **how)


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_record_is_reported_and_the_rest_undone(journal, tmp_path, content):
    made = tmp_path / "made"
    for text in (content, content + b"\n" + line_of(7, made), line_of(7, made) + content + b"\n\n"):
        made.touch()
        journal.write_bytes(text)
        done = cleaned(journal)
        assert [f"journal {NAME}: 1 line is damaged" in problem for problem in done.problems] == [
            True
        ]
        assert "--forget" in done.problems[0]
        assert made.exists() == (b"/made" not in text)
        assert journal.exists()
    assert cleaned(journal, forget=True).problems
    assert not journal.exists()


@pytest.mark.parametrize("record", NOT_UNDONE, ids=range(len(NOT_UNDONE)))
def test_a_record_of_nothing_that_can_be_undone_is_reported(journal, record):
    with pytest.raises(VtaxError, match="cannot remove"):
        from_record(record)
    journal.write_text(json.dumps({"register": 0, **record}))
    done = cleaned(journal)
    assert done.removed == ()
    assert [
        f"{NAME}: this version of vtax cannot remove" in problem for problem in done.problems
    ] == [True]
    assert len(done.problems[0]) < 300


def test_a_journal_cut_anywhere_is_not_damaged_also_after_more_was_written(tmp_path):
    path = tmp_path / NAME
    whole = b"".join(
        b"\n%s\n" % json.dumps({"register": n, **to_record(Tree(f"/none-{n}"))}).encode()
        for n in range(2)
    )
    more = b'\n{"deregister": 0, "kind": "files"}\n'
    for length in range(len(whole)):
        for content in (whole[:length], whole[:length] + more):
            path.write_bytes(content)
            assert _read_unreleased(path)[1] == ""


@pytest.mark.whole(100)
def test_a_large_file_of_nothing_is_read_in_bounded_memory_and_kept(campaign, journal):
    def attack(random: Random) -> None:
        journal.write_bytes(b"")
        with journal.open("r+b") as file:
            file.truncate(random.choice((50 << 20, 250 << 20, 1 << 40)))
        assert (
            "damaged" in cleaned(journal).problems[0]
            or "larger than" in cleaned(journal).problems[0]
        )
        assert journal.exists()

    campaign(4, attack)


def test_no_damage_of_a_journal_ends_clean_in_a_traceback(campaign, journal, tmp_path):
    with Journal(tmp_path / "journal") as real:
        for number in range(6):
            real.register(Tree(str(tmp_path / f"made-{number}")))
        real._registered[2].release()
        real._registered[3].release()
        whole = real.path.read_bytes()

    def attack(random: Random) -> None:
        made = tmp_path / f"made-{random.randrange(6)}"
        made.touch()
        journal.write_bytes(damaged(random, whole))
        cleaned(journal)
        cleaned(journal, forget=True)
        assert not journal.exists()
        made.unlink(missing_ok=True)

    campaign(150, attack)


def damaged(random: Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(random.choice((1, 1, 2, 5, 50))):
        at, until = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        way = random.randrange(6)
        if way == 0 and at < len(data):
            data[at] = random.randrange(256)
        elif way == 1:
            data[at:until] = b""
        elif way == 2:
            data[at:at] = random.choice(HOSTILE)[:300_000]
        elif way == 3:
            data[at : at + 20] = b"\0" * random.choice((1, 20, 4096))
        elif way == 4 and len(data) < 100_000:
            data[at:at] = data[at:until]
        elif b'"path": ' in data:
            wrong = random.choice(
                ("5", "null", "[]", "{}", '""', '"."', '"\\u0000"', '"\\ud800"', "1e999", '"/"')
            )
            data = bytearray(
                bytes(data).replace(b'"path": ', b'"path": %s, "x": ' % wrong.encode(), 1)
            )
    return bytes(data)
