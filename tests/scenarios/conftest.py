"""What runs of scripted platforms share: the driver in place, a home, and a store in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic_run
from scripted import ScriptedDriver, install

from vtax.host.home import Home
from vtax.store.store import Store


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ScriptedDriver:
    """The scripted driver, registered for the test."""
    return install(monkeypatch)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of the test's own."""
    return Home(tmp_path).ensure()


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    """A store in that home."""
    with Store.open(f"sqlite:///{home.root / 'store.sqlite'}") as opened:
        yield opened


@pytest.fixture
def home_store(home: Home, store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store in that home, which commands use too."""
    monkeypatch.setenv("VTAX_HOME", str(home.root))
    monkeypatch.delenv("VTAX_STORE", raising=False)
    return store


@pytest.fixture
def tour(home_store: Store) -> Store:
    """The same with a run: `tour-1` of synthetic_run."""
    synthetic_run.fill(synthetic_run.begin(home_store))
    return home_store
