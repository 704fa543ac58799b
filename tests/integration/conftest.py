"""Tests of real guests wait for what else measures or tests on this host: both would be refused, or disturbed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import alone_on_host
from three_machines import three_machines

from vtax.host.home import Home
from vtax.host.journal import Journal

WAIT_S = 1800.0  # of all tests together; then they run, and those that measure are refused
_left_s = pytest.StashKey[float]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait before a test, outside of the limit of time that pytest-timeout sets it."""
    if os.geteuid() != 0:
        return (yield)
    left_s, started_at = item.config.stash.get(_left_s, WAIT_S), time.monotonic()
    with alone_on_host(
        left_s, lambda line: item.config.get_terminal_writer().line(f"\n{item.name}: {line}")
    ):
        item.config.stash[_left_s] = max(0.0, left_s - (time.monotonic() - started_at))
        return (yield)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A case that has one of the values of `push_with` is of the push tier."""
    marker = item.get_closest_marker("push_with")
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    if marker is not None and {str(value) for value in parameters.values()} & {*marker.args}:
        item.add_marker("push")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Three machines that ssh joins (see `three_machines`)."""
    with three_machines(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One home of a module, also for child processes: private Docker daemons import the image once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_HOME", str(tmp_path_factory.mktemp("home")))
        yield Home.from_environment().ensure()


@pytest.fixture(scope="module")
def module_journal(module_home: Home) -> Iterator[Journal]:
    """The journal of `module_home`; the last test fails when something in it could not be removed."""
    journal = Journal(module_home.journal)
    yield journal
    assert not journal.close()
