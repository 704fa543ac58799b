"""A PostgreSQL store that several use at once: loaders, readers, and a server that goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from a_run import begin, fill
from command_line import output_of
from postgresql_server import LOCKED, PASSWORD, Server
from sqlalchemy import func, select

from vtax.errors import StoreError
from vtax.store import schema
from vtax.store.bundle import Bundle, as_text, write_bundle
from vtax.store.importing import import_bundle
from vtax.store.store import Store
from vtax.store.transfer import Row, rows_of

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
            with pytest.raises(StoreError, match="cannot be reached") as caught:
                import_bundle(store.engine, Bundle(bundles[0]), "here", watch)
        finally:
            postgresql.start()
        assert "check VTAX_STORE" in caught.value.hint
    with Store.open(url) as store:
        assert not any(counts(store).values())
        assert import_bundle(
            store.engine, Bundle(bundles[0]), "here", watch=lambda _, rows: rows
        ).is_new


def test_a_wrong_password_is_not_printed(postgresql, url):
    postgresql.sql(f"CREATE ROLE {LOCKED} LOGIN PASSWORD '{PASSWORD}'")
    try:
        wrong = f"{PASSWORD}2"
        done = subprocess.run(
            [sys.executable, "-m", "vtax", "list"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "VTAX_STORE": postgresql.url(LOCKED, wrong)},
        )
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
