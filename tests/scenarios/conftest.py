"""What runs of scripted platforms share: the driver in place, a home, and a store in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import output_of
from doc_examples import DOCS
from postgresql_server import Server, running_server
from scripted import ProcessGuest, ScriptedDriver, install

from vtax.guest.guest import Guest
from vtax.host import huge_pages
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.store.store import Store


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ScriptedDriver:
    """The scripted driver, registered for the test."""
    return install(monkeypatch)


@pytest.fixture
def image_found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Image], None]:
    """`image_found(image)` is what a run is resumed with, which may be nowhere."""

    def put(image: Image) -> None:
        monkeypatch.setattr("vtax.runner.resume.list_images", lambda home: [image])
        monkeypatch.setattr("vtax.image.contents.check", lambda image: None)

    return put


@pytest.fixture
def policy_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """`policy_in(directory)` has the host's policy of huge pages there."""
    return lambda directory: monkeypatch.setattr(huge_pages, "POLICY", directory)


@pytest.fixture
def facts_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`facts_by(function)` has guests audited by a function of them and of their programs."""
    return lambda facts: monkeypatch.setattr(Guest, "facts", facts)


@pytest.fixture
def scratch_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`scratch_in(directory)` has guests of the scripted driver work there."""
    return lambda directory: monkeypatch.setattr(
        ProcessGuest, "scratch", str(directory), raising=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of the test's own."""
    return Home(tmp_path).ensure()


@pytest.fixture
def home_store(home: Home, store: Store, use_home: Callable[[Path], None]) -> Store:
    """The store of the test's own, as that of the home of commands."""
    use_home(home.root)
    return store


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A server of PostgreSQL."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[[str], Path]:
    """`example(name)` is the file of a store with that run of docs/examples, for tests that only read.

    All workers have the same files: an import takes seconds.
    """
    own = tmp_path_factory.getbasetemp()
    directory = (own if worker_id == "master" else own.parent) / "examples"
    directory.mkdir(exist_ok=True)

    @cache
    def imported(name: str) -> Path:
        file = directory / f"{name}.sqlite"
        with (directory / f"{name}.lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
            flock(lock, LOCK_EX)
            if not file.exists():
                patch.setenv("VTAX_STORE", f"sqlite:///{file}")
                output_of("import", str(DOCS / f"examples/{name}.vtax.gz"))
        return file

    return imported


@pytest.fixture
def tour(home: Home, tour_file: Path, use_home) -> Iterator[Store]:
    """The same with a run: `tour-1` of a_run."""
    shutil.copy(tour_file, home.root / "store.sqlite")
    use_home(home.root)
    with Store.open(home.root / "store.sqlite") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store of each database in turn, which no command uses."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    else:
        url = request.getfixturevalue("postgresql").empty()
    with Store.open(url) as opened:
        yield opened
