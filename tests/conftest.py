"""Fixtures of every layer: a home of one's own, and the image that guests run.

The image is the only costly thing tests share: it is built at most once, in the home of this installation, and
never written to. Everything else that a test makes goes into a home that no other test or run sees.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image import build as images
from vtax.image.image import Image

if TYPE_CHECKING:
    from stubbed_host import Machine

# How long an example takes says nothing on a shared machine. `pytest --hypothesis-profile thorough` looks longer.
settings.register_profile("vtax", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("vtax")


# Texts are in English, whatever the language is of whoever starts the tests.
for _variable in ("LC_ALL", "LC_MESSAGES"):
    os.environ.pop(_variable, None)
os.environ["LANG"] = "C.UTF-8"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="every case of tests/integration, not one of each kind")
    parser.addoption("--attacks", type=int, metavar="N", help="how many attacks each program of tests/security makes")
    parser.addoption("--attack-seed", type=int, metavar="S", default=1, help="which attacks it makes")
    parser.addoption(
        "--attack-log",
        type=Path,
        metavar="FILE",
        help="note each campaign here, as JSON",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only --all runs: `thorough` cases, and of `one_at_a_time` tests those that differ from the
    first case in several parameters."""
    if config.getoption("--all"):
        return
    first: dict[str, dict[str, object]] = {}
    kept, left_out = [], []
    for item in items:
        parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
        usual = first.setdefault(item.nodeid.partition("[")[0], parameters)
        alone = item.get_closest_marker("one_at_a_time")  # others may have arrays, which do not compare
        differing = sum(parameters[name] != usual[name] for name in parameters) if alone else 0
        is_left_out = item.get_closest_marker("thorough") or differing > 1
        (left_out if is_left_out else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line of figures for each campaign of attacks."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == "attacks" and report.when == "call":
                terminalreporter.write_line(text)


@pytest.fixture
def attacks(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many attacks a program makes: `--attacks`, or what the test finds enough for every day."""
    requested = request.config.getoption("--attacks")
    return lambda default: default if requested is None else requested


@pytest.fixture(autouse=True)
def any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as without a terminal, whatever the one is that tests are started from."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def shared_home() -> Home:
    """The home of this installation, as the environment names it when the tests start."""
    return Home.from_environment()


@pytest.fixture
def unmade_home(tmp_path: Path, shared_home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a home of the test's own would be (`VTAX_HOME`), also for child processes; nothing is there yet."""
    monkeypatch.setenv("VTAX_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("VTAX_STORE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def private_home(unmade_home: Path, shared_home: Home) -> Home:
    """A fresh home, also for child processes (`VTAX_HOME`), that shares only built images."""
    unmade_home.mkdir()
    if shared_home.images.is_dir():
        (unmade_home / "images").symlink_to(shared_home.images)
    return Home.from_environment().ensure()


@pytest.fixture
def journal(private_home: Home) -> Iterator[Journal]:
    """The journal of one test; the test fails when something in it could not be removed."""
    journal = Journal(private_home.journal)
    yield journal
    problems = journal.close()
    assert not problems, problems


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A host of files that reboots, with scripted platforms."""
    from stubbed_host import Machine

    return Machine(tmp_path / "root", monkeypatch)


@pytest.fixture(scope="session")
def image(shared_home: Home) -> Image:
    """The built image; building it takes minutes the first time on a machine."""
    return images.ensure(shared_home)
