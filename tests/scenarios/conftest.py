"""What runs of scripted platforms share: the driver in place, a home, and a store in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
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
