"""A PostgreSQL store that several use at once: loaders, readers, and a server that goes away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from a_run import begin, fill
from command_line import output_of
from postgresql_server import LOCKED, PASSWORD, Server
from sqlalchemy import func, select, text

from vtax.errors import StoreBusy, StoreError
from vtax.store import schema
from vtax.store.bundle import Bundle, as_text, write_bundle
from vtax.store.importing import import_bundle
from vtax.store.store import Store
from vtax.store.transfer import Row, rows_of

OPEN = """
import sys
from vtax.store.store import Store
print("ready", flush=True)
sys.stdin.readline()
Store.open(sys.argv[1]).close()
"""
LOAD = """
import sys
from pathlib import Path
from vtax.store.bundle import Bundle
from vtax.store.importing import import_bundle
from vtax.store.store import Store
with Store.open(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    print(sum(import_bundle(store.engine, Bundle(Path(each)), "here").is_new for each in sys.argv[2:]))
"""


@pytest.fixture
def url(postgresql: Server) -> str:
    """The URL of a store without a run."""
    made = postgresql.empty()
    Store.open(made).close()
    return made


@pytest.fixture
def bundles(tmp_path: Path) -> list[Path]:
    """Bundles of six runs that have the same name on their hosts."""
    found = []
    for number in range(6):
        with Store.open(tmp_path / f"{number}.sqlite") as there:
            run = begin(there)
            fill(run, blocks=2, seed=number)
            found.append(tmp_path / f"{number}.vtax.gz")
            with there.engine.connect() as connection:
                write_bundle(found[-1], as_text(rows_of(connection, run.id)))
    return found


def listed(url: str) -> subprocess.CompletedProcess[str]:
    """`vtax list` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "vtax", "list"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "VTAX_STORE": url},
    )


@contextmanager
def role(postgresql: Server, *settings: str) -> Iterator[str]:
    """The URL of the store for a role of its own with these settings, which may do what the owner may."""
    postgresql.sql("CREATE ROLE other LOGIN IN ROLE vtax", *settings)
    try:
        yield postgresql.url("other")
    finally:
        postgresql.sql("DROP ROLE other")


def counts(store: Store) -> dict[str, int]:
    """Table -> its rows."""
    with store.engine.connect() as connection:
        return {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in schema.metadata.tables.items()
        }


def loaded(bundles: Iterable[Path], store: Store) -> dict[str, int]:
    """The rows of a store, after one after another was loaded."""
    for each in bundles:
        import_bundle(store.engine, Bundle(each), "here")
    return counts(store)


def test_two_processes_load_each_run_once(url, bundles, store):
    orders = (bundles[:4], bundles[3::-1], bundles[2:])
    loaders = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD, url, *map(str, order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for order in orders
    ]
    for each in loaders:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    new = [each.communicate("\n")[0] for each in loaders]
    assert [each.returncode for each in loaders] == [0, 0, 0]
    assert sum(map(int, new)) == len(bundles)
    with Store.open(url) as there:
        assert counts(there) == loaded(bundles, store)
        identities = {there.open_run(run.name).identity for run in there.runs()}
    assert len(identities) == len(bundles)


@pytest.mark.parametrize("table", ["run", "trial", "counter"])
def test_of_a_load_whose_server_goes_away_nothing_is_there(postgresql, url, bundles, table):
    def watch(done: str, rows: Iterable[Row]) -> Iterable[Row]:
        is_gone = done != "stored"
        for each in rows:
            if each[0] == table and not is_gone:
                postgresql.stop()
                is_gone = True
            yield each

    with Store.open(url) as store:
        try:
            with pytest.raises(StoreBusy, match="cannot be reached") as caught:
                import_bundle(store.engine, Bundle(bundles[0]), "here", watch)
        finally:
            postgresql.start()
        assert "password" not in caught.value.hint
    with Store.open(url) as store:
        assert not any(counts(store).values())
        assert import_bundle(
            store.engine, Bundle(bundles[0]), "here", watch=lambda _, rows: rows
        ).is_new


def test_first_commands_at_once_make_the_tables_once(postgresql):
    url = postgresql.empty()
    first = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for each in first:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in first:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    said = [each.communicate()[1] for each in first]
    assert said == [""] * 4
    with Store.open(url) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (["ALTER ROLE other CONNECTION LIMIT 0"], "the store cannot be reached"),
        (["ALTER ROLE other SET statement_timeout = 50"], "a statement that took too long"),
    ],
)
def test_what_a_server_refuses_for_now_may_be_tried_again(postgresql, url, settings, what):
    with (
        Store.open(url) as store,
        role(postgresql, *settings) as other,
        store.engine.connect() as connection,
        connection.begin(),
    ):
        connection.execute(text("LOCK TABLE run"))  # so that a statement takes long
        done = listed(other)
    first, *advice = done.stderr.splitlines()
    assert done.returncode == 75
    assert what in first
    assert [line.split()[0] for line in advice] == ["where:", "hint:"]
    assert "password" not in advice[1]
    assert "sudo" not in advice[1]


def test_a_lock_of_another_is_waited_for_as_long_as_the_server_says(postgresql, url):
    settings = ["ALTER ROLE other SET lock_timeout = 50"]
    with (
        Store.open(url) as store,
        role(postgresql, *settings) as other,
        store.engine.connect() as connection,
        connection.begin(),
    ):
        connection.execute(text("LOCK TABLE run"))
        done = listed(other)
    assert done.returncode == 75
    assert "holds a lock" in done.stderr
    assert len(done.stderr.splitlines()) == 3


def test_a_server_that_is_not_there_may_be_tried_again(postgresql, url):
    postgresql.stop()
    try:
        done = listed(url)
    finally:
        postgresql.start()
    assert done.returncode == 75
    assert "cannot be reached" in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) == 3
    assert listed(url).returncode == 0


def test_a_server_that_only_reads_is_not_written_to(postgresql, url, bundles):
    with (
        role(postgresql, "ALTER ROLE other SET default_transaction_read_only = on") as other,
        Store.open(other) as store,
        pytest.raises(StoreError, match="not writable") as caught,
    ):
        import_bundle(store.engine, Bundle(bundles[0]), "here")
    assert "sudo" not in caught.value.hint


def test_a_report_is_the_same_from_either_database(url, bundles, store, tmp_path, use_store):
    reports = []
    for place in (f"sqlite:///{tmp_path / 'store.sqlite'}", url):
        use_store(place)
        with Store.open(place) as there:
            name = import_bundle(there.engine, Bundle(bundles[0]), "here").name
        page, data = tmp_path / f"{len(reports)}.html", output_of("show", name, "--json", "--all")
        output_of("report", name, "-o", str(page))
        reports.append((_undated(page.read_text()), _undated(data)))
    assert reports[0] == reports[1]


def _undated(text: str) -> str:
    """A report without the moment of its import."""
    return re.sub(r"\b17\d{8}(\.\d+)?\b|\b202\d-\d\d-\d\d \d\d:\d\d(:\d\d)?", "", text)


def test_a_wrong_password_is_not_printed(postgresql, url):
    postgresql.sql(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{PASSWORD}'")
    try:
        wrong = f"{PASSWORD}2"
        done = listed(postgresql.url(LOCKED, wrong))
        assert done.returncode == 1
        assert "cannot be reached" in done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        with pytest.raises(StoreError, match="no right"):
            Store.open(postgresql.url(LOCKED, PASSWORD))
    finally:
        postgresql.sql(f"DROP ROLE {LOCKED}")


def test_a_reader_looks_and_a_writer_loads(postgresql, url, bundles):
    roles = output_of("campaign", "roles")
    people = {"looks": "vtax_reader", "loads": "vtax_writer"}
    for _ in range(2):
        postgresql.sql(*roles.splitlines(), database="vtax")
    postgresql.sql(*(f"CREATE ROLE {each} LOGIN IN ROLE {role}" for each, role in people.items()))
    try:
        with Store.open(postgresql.url("loads")) as writer:
            assert import_bundle(writer.engine, Bundle(bundles[0]), "here").is_new
            import_bundle(writer.engine, Bundle(bundles[1]), "here")
            writer.remove_runs("tour-1")
        with Store.existing(postgresql.url("looks")) as reader:
            (run,) = reader.runs()
            assert reader.open_run(run.name).platforms
            for change in (
                lambda: import_bundle(reader.engine, Bundle(bundles[0]), "here"),
                lambda: reader.remove_runs(run.name),
            ):
                with pytest.raises(StoreError, match="no right") as caught:
                    change()
                assert "vtax_writer" in caught.value.hint
            assert len(reader.runs()) == 1
    finally:
        postgresql.sql(*(f"DROP OWNED BY {each}" for each in people.values()), database="vtax")
        postgresql.sql(*(f"DROP ROLE {each}" for each in (*people, *people.values())))
