"""Damaged and forged stores: every command that reads one ends in an answer or in one error, never in a traceback."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

import pytest
from a_run import PLATFORMS, begin, cells, fill, trial
from click.testing import CliRunner
from forged_values import JSON_TEXTS, VALUES

from vtax.cli.main import group
from vtax.cli.orphans import close_orphans
from vtax.errors import StoreError
from vtax.host.home import Home
from vtax.messages import Note, quoted
from vtax.runner.resume import rebuild_plan
from vtax.store import schema
from vtax.store.records import SAMPLES
from vtax.store.store import Store

COMMANDS = (
    ["list"],
    ["list", "--json"],
    ["show"],
    ["show", "--all"],
    ["show", "--json"],
    ["show", "--variance"],
    ["show", "--to", "direction=send", "--benchmark", "iperf3"],
    ["show", "--counters"],
    ["show", "--counters", "--json"],
    ["show", "--audit"],
    ["show", "--audit", "--all"],
    ["show", "--audit", "--json"],
    ["show", "tour-1", "--variance", "--json"],
    ["show", "--trials"],
    ["show", "--raw"],
    ["show", "--raw", "--json"],
    ["show", "--platform", "docker", "--where", "direction=send"],
    ["compare", "docker", "lxc"],
    ["compare", "docker", "lxc", "--json"],
    ["export", "--format", "csv"],
    ["export", "--format", "parquet"],
    ["export", "--format", "json"],
    ["report"],
    ["remove", "--yes", "tour-1"],
    ["remove", "--yes", "last"],
    ["resume"],
    ["clean"],
)
SLOW = ("html", "json", "--json", "--all")
TABLES = tuple(schema.metadata.tables)
COLUMNS = [
    (table, column) for table, found in schema.metadata.tables.items() for column in found.columns
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two runs with everything in it that a view shows, as one file."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        for name in ("tour-1", "tour-2"):
            run = begin(store, name)
            fill(run, blocks=3, trials=1)
        facts = {
            "kernel": "6.1",
            "memory_visible_bytes": 512 << 20,
            "mounts": ["/", "/proc"],
            "tuning": "pinned",
        }
        counters = {
            (place, counter): 5.0
            for place in ("guest", "peer", "layer", "link")
            for counter in (
                "ctxt",
                "host_cpu_s",
                "kernel_cpu_s",
                "lost",
                "guest.eth0.rx_bytes",
                "guest.eth0.tx_bytes",
            )
        }
        for platform in ("native", "docker"):
            guest = run.begin_guest(platform, 3, "point-to-point", 1.7e9)
            cell = next(cell for cell in cells() if cell.platform == platform)
            used = {
                "flows": 1,
                "congestion": "cubic",
                SAMPLES: {"events": [999.0, 1001.0, 1000.0, 998.0] * 5},
            }
            given = {
                "guest_id": guest,
                "block": 3,
                "position": run.next_position(),
                "effective": used,
            }
            run.add_trial(trial(cell, counters=counters, warnings=(quoted("odd"),), **given))
            run.end_guest(
                guest,
                ready_s=0.1,
                clock_offset_s=0.1,
                facts={**facts, "cpu": platform},
                notes=("none",),
            )
        run.add_warning(Note("resumed", place="after", block=1, later=""))
        run.finish("interrupted", "stopped on request", 1.7e9 + 300)
    assert not file.with_name("store.sqlite-wal").exists()
    return file


def flip(random: Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    first = random.choice((0, 0, 100, len(data) // 2))
    for _ in range(random.choice((1, 1, 3, 20, 300))):
        data[random.randrange(first, len(data))] = random.randrange(256)
    file.write_bytes(data)


def cut(random: Random, file: Path) -> None:
    data = file.read_bytes()
    at = random.choice((0, 1, 50, 100, 4096, random.randrange(len(data))))
    file.write_bytes(
        random.choice((data[:at], data[at:], data[:at] + bytes(len(data) - at), data + data[:at]))
    )


def swap(random: Random, file: Path) -> None:
    data = file.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    a, b = random.randrange(len(pages)), random.randrange(len(pages))
    pages[a], pages[b] = pages[b], pages[a]
    file.write_bytes(b"".join(pages))


def forge(random: Random, file: Path) -> None:
    """Values of a row, or of all rows of a column, that no vtax ever wrote."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for _ in range(random.choice((1, 1, 2, 5))):
            table, column = random.choice(COLUMNS)
            is_json = str(column.type) == "JSON"
            value = random.choice(JSON_TEXTS if is_json and random.random() < 0.8 else VALUES)
            some = random.choice(("", "", " WHERE rowid % 2", " WHERE rowid = 1"))
            if table in ("measurement", "counter"):
                some = ""
            with suppress(sqlite3.Error, OverflowError):
                connection.execute(f"UPDATE {table} SET {column.name} = ?{some}", (value,))


def tear(random: Random, file: Path) -> None:
    """Tables, columns or rows that are missing."""
    table, column = random.choice(COLUMNS)
    statements = (
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} DROP COLUMN {column.name}",
        f"ALTER TABLE {table} RENAME COLUMN {column.name} TO other",
        f"DELETE FROM {table}",
        f"DELETE FROM {table} WHERE random() % 2 = 0",
        f"ALTER TABLE {table} RENAME TO other",
        "DROP TABLE alembic_version",
        "DELETE FROM alembic_version",
        f"UPDATE alembic_version SET version_num = '{random.choice(('0001', '0003', '9999', '', 'x'))}'",
        f"CREATE TABLE other AS SELECT * FROM {table}",
    )
    with (
        closing(sqlite3.connect(file, isolation_level=None)) as connection,
        suppress(sqlite3.Error),
    ):
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(random.choice(statements))


DAMAGES: tuple[Callable[[Random, Path], None], ...] = (
    flip,
    cut,
    swap,
    forge,
    forge,
    forge,
    forge,
    tear,
)


def damage(random: Random, file: Path) -> None:
    random.choice(DAMAGES)(random, file)


def run_command(arguments: list[str]) -> None:
    """A command in this process; what a person would see as a traceback is raised."""
    home = Home.from_environment()
    if arguments[0] == "resume":  # as far as it reads the store: nothing is measured here
        rebuild_plan(Store.existing(home.store_url).open_run("last"), home)
    elif arguments[0] == "clean":
        close_orphans(home)
    else:
        result = CliRunner().invoke(group, arguments)
        result.output.encode()
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception


@pytest.fixture
def store_file(unmade_home: Path, monkeypatch) -> Path:
    unmade_home.mkdir()
    monkeypatch.chdir(unmade_home)
    return Path(Home.from_environment().store_url)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_whole_store_is_read_by_every_command(arguments, whole, store_file):
    shutil.copy(whole, store_file)
    if arguments == ["resume"]:
        with pytest.raises(Exception, match="no longer there"):
            run_command(arguments)
    else:
        run_command(arguments)


def test_no_damage_of_a_store_ends_a_command_in_a_traceback(campaign, whole, store_file):
    def attack(random: Random) -> None:
        for leftover in store_file.parent.iterdir():
            if leftover.is_file():
                leftover.unlink()
        shutil.copy(whole, store_file)
        damage(random, store_file)
        command = random.choice(COMMANDS)
        if any(slow in command for slow in SLOW) and random.random() < 0.7:
            command = random.choice(COMMANDS)
        run_command(command)

    shutil.copy(whole, store_file)
    run_command(["report"])  # what drawing needs of memory is taken before it is measured
    made = campaign(60, attack)
    assert made.outcomes["survived"]


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
@pytest.mark.parametrize("column", ["facts", "notes"])
def test_what_a_guest_once_said_of_itself_keeps_no_view_from_being_shown(
    column, text, whole, store_file
):
    shutil.copy(whole, store_file)
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        pytest.skip("no database of JSON would hold it")
    with closing(sqlite3.connect(store_file)) as connection, connection:
        connection.execute(f"UPDATE guest SET {column} = ?", (text,))
    for view in (
        ["show", "--audit", "--all"],
        ["show", "--audit", "--json"],
        ["export", "--format", "csv"],
    ):
        assert CliRunner().invoke(group, view).exit_code == 0


@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE run SET host = \'{"memory_bytes": "x"}\'',
        "UPDATE run SET host = '{\"cpus\": {}}'",
        "UPDATE platform SET available = 0",
        "UPDATE platform SET is_baseline = 1",
        "UPDATE trial SET cell_id = 9999 WHERE id = (SELECT max(id) FROM trial)",
        "UPDATE trial SET block = 99999999999 WHERE id = (SELECT max(id) FROM trial)",
        "UPDATE trial SET started_at = 1e300",
        "UPDATE trial SET session = 12 WHERE id = (SELECT max(id) FROM trial)",
        "UPDATE measurement SET value = 9e999",
        "UPDATE metric SET better = 'x'",
        "UPDATE run SET name = '../x' WHERE name = 'tour-2'",
        "DELETE FROM platform",
    ],
)
def test_what_reports_rely_on_is_checked_when_a_run_is_opened(statement, whole, store_file):
    shutil.copy(whole, store_file)
    with closing(sqlite3.connect(store_file)) as connection, connection:
        connection.execute("DELETE FROM run_column")  # so that trials are read from their rows
        connection.executescript(statement)
    for view in (["show"], ["report"]):
        result = CliRunner().invoke(group, view)
        assert isinstance(result.exception, StoreError)


def test_a_run_that_cannot_be_read_can_be_removed(whole, store_file):
    shutil.copy(whole, store_file)
    with closing(sqlite3.connect(store_file)) as connection, connection:
        connection.execute("UPDATE run SET declared = '[]' WHERE name = 'tour-2'")
    result = CliRunner().invoke(group, ["show", "tour-2"])
    assert "the store is damaged" in str(result.exception)
    assert CliRunner().invoke(group, ["show", "tour-1"]).exit_code == 0
    assert len(PLATFORMS) == 5
    assert CliRunner().invoke(group, ["remove", "--yes", "tour-2"]).exit_code == 0
