"""Hostile bundles: each is refused with one error, or becomes a run that every view shows."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attack import at_most
from click.testing import CliRunner
from forged_values import JSON_TEXTS, VALUES
from synthetic_run import begin, fill

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.report.files import write
from vtax.store.store import Store

VIEWS = (
    ["list"], ["list", "--json"], ["show"], ["show", "--json"], ["show", "--audit", "--all"], ["show", "--raw"],
    ["show", "--trials"], ["show", "--sessions", "--json"], ["show", "--host"], ["show", "--counters"],
    ["report", "--format", "csv"], ["report", "--format", "json"], ["report", "--format", "markdown"],
    ["export", "-o", "again.gz"], ["export", "--anonymize", "-o", "again.gz"], ["remove", "--yes", "last"],
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bundle of a run."""
    place = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("VTAX_STORE", f"sqlite:///{place}/store.sqlite")
        with Store.open(Home.from_environment().store_url) as store:
            run = begin(store)
            fill(run, blocks=2, trials=1)
            for file_format in ("csv", "json", "markdown"):  # what is loaded once is no growth
                write(store, "tour-1", file_format, place / f"run.{file_format}")
        made = CliRunner().invoke(group, ["export", "-o", str(place / "x.gz")], catch_exceptions=False)
    assert made.exit_code == 0
    return (place / "x.gz").read_bytes()


@pytest.fixture
def place(unmade_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory in a home without a store."""
    unmade_home.mkdir()
    monkeypatch.chdir(unmade_home)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return unmade_home


def packed(rows: list[Any]) -> bytes:
    """A bundle with the hash of its content."""
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return gzip.compress(text + json.dumps({"sha256": hashlib.sha256(text).hexdigest()}).encode() + b"\n", 1)


def flip(random: Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 50))):
        found[random.randrange(len(found))] = random.randrange(256)
    return bytes(found)


def cut(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data))
    return random.choice((data[:at], data[at:], data[:at] + data, data + data, data + b"x" * 100))


def tear(random: Random, data: bytes) -> bytes:
    """Lines that are cut, swapped, repeated or no rows, under their right hash."""
    rows = [json.loads(line) for line in gzip.decompress(data).splitlines()[:-1]]
    at, other = random.randrange(len(rows)), random.randrange(len(rows))
    match random.randrange(5):
        case 0:
            del rows[at:other]
        case 1:
            rows[at], rows[other] = rows[other], rows[at]
        case 2:
            rows.insert(at, rows[other])
        case 3:
            rows[at] = random.choice((None, [], 5, "x", {}, {"trial": 5}, {"x": {}}, {"run": {}, "trial": {}}))
        case _:
            random.shuffle(rows)
    return packed(rows)


def forge(random: Random, data: bytes) -> bytes:
    """Values that no vtax ever wrote, under their right hash."""
    rows = [json.loads(line) for line in gzip.decompress(data).splitlines()[:-1]]
    for _ in range(random.choice((1, 1, 2, 5))):
        table = random.choice([next(iter(row)) for row in rows[1:]])
        some = [row[table] for row in rows[1:] if table in row]
        column = random.choice([*some[0]])
        value = random.choice([value for value in VALUES if not isinstance(value, bytes)])
        if isinstance(some[0][column], dict | list) or random.random() < 0.2:
            try:
                value = json.loads(random.choice(JSON_TEXTS))
            except (ValueError, RecursionError):
                value = {}
        for row in some if random.random() < 0.3 else [random.choice(some)]:
            row[column] = value
    return packed(rows)


ATTACKS: tuple[Callable[[Random, bytes], bytes], ...] = (flip, cut, tear, forge, forge, forge)


def invoke(arguments: list[str]) -> None:
    """A command; what a person would see as a traceback is raised."""
    result = CliRunner().invoke(group, arguments)
    result.output.encode()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def test_no_bundle_ends_a_command_in_a_traceback(campaign: Any, whole: bytes, place: Path) -> None:
    def attack(random: Random) -> None:
        for leftover in place.iterdir():
            if leftover.is_file():
                leftover.unlink()
        (place / "x.gz").write_bytes(random.choice(ATTACKS)(random, whole))
        try:
            invoke(["import", "x.gz"])
        finally:
            assert not [*(place.parent / "temporary").iterdir()]
        for _ in range(2):
            invoke(random.choice(VIEWS))

    made = campaign(60, attack)
    assert made.outcomes["survived"]


NAMES = ("../../x", "/etc/x", "a/b", "..", ".x", "-x", "x\n", "\x1b[2J", "", "last", "x" * 81)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_bundle_becomes_a_path(name: str, whole: bytes, place: Path) -> None:
    rows = [json.loads(line) for line in gzip.decompress(whole).splitlines()[:-1]]
    rows[1]["run"]["name"] = name
    (place / "x.gz").write_bytes(packed(rows))
    with pytest.raises(BadInput, match="the bundle is damaged"):
        invoke(["import", "x.gz"])


def test_nothing_that_never_ends_or_grows_without_end_is_read(whole: bytes, place: Path) -> None:
    os.mkfifo(place / "pipe")
    with (place / "bomb.gz").open("wb") as file:
        for _ in range(150):  # members of one line without an end
            file.write(gzip.compress(b" " * (1 << 20), 1))
    with (place / "deep.gz").open("wb") as file:
        file.write(gzip.compress(b"[" * 10_000_000 + b"\n", 1))
    for name in ("pipe", "/dev/zero", "bomb.gz", "deep.gz", "."):
        with at_most(30), pytest.raises(BadInput):
            invoke(["import", name])


def test_a_hostile_text_is_shown_without_its_control_characters(whole: bytes, place: Path) -> None:
    rows = [json.loads(line) for line in gzip.decompress(whole).splitlines()[:-1]]
    for row in rows[1:]:
        for table in ("platform", "trial"):
            if table in row:
                row[table].update({"reason": "\x1b[2J\u202ex"} if table == "platform" else {"error": "\x1b]0;x\x07"})
    rows[1]["run"]["declared"]["title"] = "\x1b[2J\u202etitle"
    rows[1]["run"]["provenance"] = {"merged": {"runs": [{"name": "\x1b[2J"}, 5, {"name": {}}]}}
    (place / "x.gz").write_bytes(packed(rows))
    invoke(["import", "x.gz"])
    for view in (["show"], ["show", "--trials"], ["list"], ["show", "--audit"]):
        printed = CliRunner().invoke(group, view).output
        assert "\x1b" not in printed
        assert "\u202e" not in printed


def test_a_store_in_place_of_a_bundle_is_refused(whole: bytes, place: Path) -> None:
    assert whole
    with Store.open(f"sqlite:///{place}/other.sqlite"):
        pass
    shutil.copy(place / "other.sqlite", place / "x.gz")
    with pytest.raises(BadInput, match="this is no bundle of vtax"):
        invoke(["import", "x.gz"])
