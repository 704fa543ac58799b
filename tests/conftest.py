"""Fixtures of every layer: a home of one's own, and the image that guests run.

The image is the only costly thing tests share: it is built at most once, in the home of this installation, and
never written to. Everything else that a test makes goes into a home that no other test or run sees.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from golden_files import Golden, golden_of
from hypothesis import settings

from vtax.host import lock
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.image import build as images
from vtax.image.image import Image

# Modules that load the store and reports are imported where they are used: tests of parsers need neither, and
# begin at once.
if TYPE_CHECKING:
    from installed_package import Install
    from stubbed_host import Machine

    from vtax.report.analysis import Analysis
    from vtax.store.query import RunData
    from vtax.store.store import Store

# How long an example takes says nothing on a shared machine. `pytest --hypothesis-profile thorough` looks longer.
settings.register_profile("vtax", deadline=None, max_examples=40)
settings.register_profile("thorough", deadline=None, max_examples=1000)
settings.load_profile("vtax")


# Texts are in English and times in UTC, whatever the language and zone are of whoever starts the tests.
for _variable in ("LC_ALL", "LC_MESSAGES"):
    os.environ.pop(_variable, None)
os.environ.update(LANG="C.UTF-8", TZ="UTC")
time.tzset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="every case of tests/integration, not one of each kind",
    )
    parser.addoption(
        "--write-golden", action="store_true", help="make the files of tests/golden again"
    )
    parser.addoption(
        "--attacks",
        type=int,
        metavar="N",
        help="how many attacks each program of tests/security makes",
    )
    parser.addoption(
        "--attack-seed", type=int, metavar="S", default=1, help="which attacks it makes"
    )
    parser.addoption(
        "--attack-log",
        type=Path,
        metavar="FILE",
        help="note each campaign here, as JSON",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only --thorough runs: `thorough` cases, and of `one_at_a_time` tests those that differ from the
    first case in several parameters."""
    if config.getoption("--thorough"):
        return
    first: dict[str, dict[str, object]] = {}
    kept, left_out = [], []
    for item in items:
        parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
        usual = first.setdefault(item.nodeid.partition("[")[0], parameters)
        alone = item.get_closest_marker(
            "one_at_a_time"
        )  # others may have arrays, which do not compare
        differing = sum(parameters[name] != usual[name] for name in parameters) if alone else 0
        is_left_out = item.get_closest_marker("thorough") or differing > 1
        (left_out if is_left_out else kept).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs root for an ordinary user."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


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


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    """`golden(text)` compares a printed text with its file in tests/golden, whole."""
    return golden_of(
        request.path, request.node.name, tmp_path, writes=request.config.getoption("--write-golden")
    )


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """`on_path(name, script)` has a script of the shell in a program's place; returns its path."""

    def put(name: str, script: str) -> Path:
        program = tmp_path / "programs" / name
        if not program.parent.exists():
            program.parent.mkdir()
            monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return put


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`installed(but="xl")` has vtax find every program but one; `installed()` none."""

    def find(*, but: str | None = None) -> None:
        has = (lambda name: False) if but is None else (lambda name: name != but)
        monkeypatch.setattr(
            "shutil.which", lambda name, path="": f"/usr/bin/{name}" if has(name) else None
        )

    return find


@pytest.fixture
def temporary_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """`temporary_in(directory)` has temporary files of this process made there."""
    return lambda directory: monkeypatch.setattr("tempfile.tempdir", str(directory))


@pytest.fixture
def set_width(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`set_width("80")` is how many columns a terminal has."""
    return lambda columns: monkeypatch.setenv("COLUMNS", columns)


@pytest.fixture
def in_zone() -> Iterator[Callable[[str], None]]:
    """`in_zone("Asia-9")` has this process tell the time of a zone."""

    def move(zone: str) -> None:
        os.environ["TZ"] = zone
        time.tzset()

    yield move
    move("UTC")


@pytest.fixture
def set_cpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int]], None]:
    """`set_cpus({0, 1})` is where this process may run."""
    return lambda cpus: monkeypatch.setattr("os.sched_getaffinity", lambda pid: cpus)


@pytest.fixture
def host_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`host_memory(bytes)` is what this host has."""
    return lambda size: monkeypatch.setattr("vtax.runner.memory.host_memory", lambda: size)


@pytest.fixture
def free_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`free_disk(bytes)` is what every disk has free."""
    return lambda free: monkeypatch.setattr(
        "shutil.disk_usage", lambda path: SimpleNamespace(free=free)
    )


@pytest.fixture
def host_docker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`host_docker(daemon)` runs on this host; None for none."""

    def put(daemon: Any) -> None:
        for module in ("docker", "docker_daemon"):
            monkeypatch.setattr(f"vtax.platforms.oci.{module}.host_daemon", lambda: daemon)

    return put


@pytest.fixture
def probe_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`probe_by(function)` has every platform probed by a function of it and the image."""
    return lambda probe: monkeypatch.setattr("vtax.platforms.base.Platform.probe", probe)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`examined(examination)` is what doctor finds on this host."""
    return lambda found: monkeypatch.setattr(
        "vtax.cli.doctor.examine", lambda image, not_probed: found
    )


@pytest.fixture
def without_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have no script for their figures."""
    monkeypatch.setattr("vtax.report.renderers.vega.javascript", lambda: "")


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory in the place of /dev, where platforms look for their devices."""
    monkeypatch.setattr("vtax.platforms.probing.DEVICES", tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    return tmp_path / "dev"


@pytest.fixture
def set_locale(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`set_locale("pt_BR")` has commands print in a language."""
    return lambda locale: monkeypatch.setenv("LANG", locale)


@pytest.fixture
def use_store(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | str], None]:
    """`use_store(file)` has commands use a store (`VTAX_STORE`), of a file or a URL."""
    return lambda of: monkeypatch.setenv(
        "VTAX_STORE", of if isinstance(of, str) else f"sqlite:///{of}"
    )


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take whoever runs them for an ordinary user."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)


@pytest.fixture
def taken_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take whoever runs them for root."""
    monkeypatch.setattr("os.geteuid", lambda: 0)


@pytest.fixture(scope="session", autouse=True)
def drawn_once() -> Iterator[None]:
    """Vega puts its script together, in seconds, and draws each figure, in a fifth of a second, once a process."""

    def kept(make: Callable[..., Any]) -> Callable[..., Any]:
        made: dict[str, Any] = {}

        def once(*given: Any, **options: Any) -> Any:
            key = json.dumps((given, options))
            made[key] = made[key] if key in made else make(*given, **options)
            return made[key]

        return once

    if not has_imported("vtax.report"):
        yield
        return
    import vl_convert

    with pytest.MonkeyPatch.context() as patch:
        for name in ("javascript_bundle", "vegalite_to_svg"):
            patch.setattr(vl_convert, name, kept(getattr(vl_convert, name)))
        yield


def has_imported(*modules: str) -> bool:
    """Whether a collected test imports one of these modules."""
    return any(module in sys.modules for module in modules)


@pytest.fixture(scope="session", autouse=True)
def unsynced() -> Iterator[str]:
    """What this process writes need survive no power cut. The fixture is how vtax has SQLite write for its users."""
    if not has_imported("vtax.store.database", "vtax.report"):
        yield ""
        return
    from vtax.store import database

    with pytest.MonkeyPatch.context() as patch:
        of_users = database.SYNCHRONOUS
        patch.setattr(database, "SYNCHRONOUS", "OFF")
        patch.setattr(os, "fsync", lambda file: None)
        yield of_users


@pytest.fixture(scope="session", autouse=True)
def host_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The measuring lock as this process knows it: runs of this host disturb no test, and no test disturbs one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "HOST_LOCK", tmp_path_factory.getbasetemp() / "measuring.lock")
        yield lock.HOST_LOCK


@pytest.fixture
def measuring(host_lock: Path) -> Iterator[None]:
    """The run `tour-7` measures on this host."""
    with measuring_lock("tour-7"):
        yield


@pytest.fixture(scope="session")
def shared_home() -> Home:
    """The home of this installation, as the environment names it when the tests start."""
    return Home.from_environment()


@pytest.fixture
def use_home(monkeypatch: pytest.MonkeyPatch, shared_home: Home) -> Callable[[Path], None]:
    """`use_home(directory)` has commands use a home (`VTAX_HOME`) and the store in it, also in child processes."""

    def use(directory: Path) -> None:
        monkeypatch.setenv("VTAX_HOME", str(directory))
        monkeypatch.delenv("VTAX_STORE", raising=False)

    return use


@pytest.fixture
def unmade_home(tmp_path: Path, use_home: Callable[[Path], None]) -> Path:
    """Where a home of the test's own would be (`VTAX_HOME`), also for child processes; nothing is there yet."""
    use_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of the test's own, which its environment does not name."""
    return Home(tmp_path / "home").ensure()


@pytest.fixture
def private_home(unmade_home: Path, shared_home: Home) -> Home:
    """A fresh home, also for child processes (`VTAX_HOME`), that shares only built images."""
    unmade_home.mkdir()
    if shared_home.images.is_dir():
        (unmade_home / "images").symlink_to(shared_home.images)
    return Home.from_environment().ensure()


@pytest.fixture
def store(tmp_path: Path, use_store: Callable[[Path], None]) -> Iterator[Store]:
    """A store of the test's own, which commands use too (`VTAX_STORE`)."""
    from vtax.store.store import Store

    use_store(tmp_path / "store.sqlite")
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def module_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of the module's own, which commands use too (`VTAX_STORE`)."""
    from vtax.store.store import Store

    file = tmp_path_factory.mktemp("module") / "store.sqlite"
    with Store.open(file) as opened, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_STORE", f"sqlite:///{file}")
        yield opened


@pytest.fixture(scope="session")
def tour_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with a finished run, `tour-1` of a_run. Tests that write copy it."""
    import a_run

    from vtax.store.store import Store

    file = tmp_path_factory.mktemp("tour") / "store.sqlite"
    with Store.open(file) as opened:
        a_run.fill(a_run.begin(opened))
    return file


@pytest.fixture(scope="session")
def tour_analysis(tour_file: Path) -> Analysis:
    """What reports say of that run."""
    from vtax.report.analysis import analyse
    from vtax.store.store import Store

    with Store.open(tour_file) as opened:
        return analyse(opened)


@pytest.fixture(scope="session")
def alike() -> RunData:
    """A run in memory whose platforms are equivalent at each size."""
    from a_run import kinds, measured, noisy

    data, analysis = measured(noisy(0.002, 0.002), blocks=12)
    assert set(kinds(analysis).values()) == {"equivalent"}
    return data


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(name, source)` installs a package with a plug-in for the time of a test."""
    from installed_package import Install, fresh_registries

    monkeypatch.syspath_prepend(tmp_path)
    with fresh_registries():
        yield Install(tmp_path, monkeypatch)


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
