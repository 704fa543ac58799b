"""`vtax remove`: what it deletes, what it refuses, and that it asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from a_run import begin, fill, put_store
from click.testing import CliRunner, Result

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.store.store import Store


@pytest.fixture
def store(private_home: Home) -> Iterator[Store]:
    """A store with a finished, an interrupted and a running run."""
    put_store(private_home.store_file, measure)
    with Store.open(private_home.store_url) as opened:
        yield opened


def measure(store: Store) -> None:
    for name, status in (("tour-1", "finished"), ("tour-2", "interrupted")):
        run = begin(store, name)
        fill(run, blocks=2)
        run.finish(status, "as expected", 2.0)
    begin(store, "tour-3")


def remove(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(group, ["remove", *arguments], input=typed)


def names(store: Store) -> list[str]:
    return [run.name for run in store.runs()]


def test_it_asks_first_and_says_what_would_go(store):
    refused = remove("tour-1", typed="n\n")
    assert refused.exit_code == 1
    assert "tour-1" in refused.stdout
    assert names(store) == ["tour-1", "tour-2", "tour-3"]
    assert remove("tour-1", typed="y\n").exit_code == 0
    assert names(store) == ["tour-2", "tour-3"]


def test_nobody_to_ask_is_a_no_that_names_the_option(store):
    result = remove("tour-1")
    refused = result.exception
    assert result.stderr.endswith("\n")  # the error begins on a line of its own
    assert isinstance(refused, BadInput)
    assert "nothing was removed" in refused.what
    assert "--yes" in refused.hint
    assert "tour-1" in names(store)


def test_who_may_not_write_the_store_is_reported_before_being_requested(store, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode, **_: mode != os.W_OK)
    refused = remove("tour-1", typed="y\n")
    assert isinstance(refused.exception, BadInput)
    assert refused.stdout == ""
    assert "again with sudo" in refused.exception.hint
    assert "tour-1" in names(store)


def test_a_killed_run_can_go(store):
    assert remove("--yes", "tour-3").exit_code == 0
    assert names(store) == ["tour-1", "tour-2"]


def test_several_go_at_once_without_asking_when_reported_so(store):
    done = remove("--yes", "tour-2", "tour-1", "tour-1")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == ["tour-1 removed", "tour-2 removed"]
    assert names(store) == ["tour-3"]


@pytest.mark.usefixtures("measuring")
@pytest.mark.parametrize("wrong", ["tour-3", "last", "tour-9"])
def test_a_run_that_runs_or_is_not_there_is_refused_and_nothing_is_removed(store, wrong):
    refused = remove("--yes", "tour-1", wrong).exception
    assert isinstance(refused, BadInput)
    assert ("there is no run" if wrong == "tour-9" else "tour-3 is still running") in refused.what
    assert names(store) == ["tour-1", "tour-2", "tour-3"]
