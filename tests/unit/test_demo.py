"""Demonstrations in emulated machines: what is refused, asked, passed on, and stored. No machine is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from counted_run import stored
from nested.machines import MACHINES

from vtax.cli import demo as command
from vtax.cli.main import group
from vtax.cli.usage import usage_error
from vtax.demo import demo, disks
from vtax.demo.demo import DEMOS
from vtax.demo.running import MachineFailed
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.store.exporting import export_run
from vtax.store.store import Store
from vtax.study.load import load

GIB = 1024**3


@pytest.fixture
def home(unmade_home: Path) -> Home:
    return Home.from_environment().ensure()


@pytest.fixture
def available(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`available(bytes)` is the free memory of this host."""
    return lambda size: monkeypatch.setattr(demo, "_available_bytes", lambda: size)


@pytest.fixture
def plenty(available, installed) -> None:
    """A host that has all programs and memory."""
    installed(but="")
    available(64 * GIB)


class Guest:
    """A machine's agent. logs: of the study's progress, one more at each look. status: its end, after these."""

    def __init__(self, logs: list[bytes], status: bytes) -> None:
        self.started: list[list[str]] = []
        self._logs, self._status = iter(logs), status
        self._log = b""

    def start(self, argv: list[str], cwd: str) -> int:
        self.started.append(argv)
        return 1

    def sample(self, paths: list[str]) -> SimpleNamespace:
        log = next(self._logs, None)
        self._log += log or b""
        found = (self._log, None if log is not None else self._status)
        return SimpleNamespace(files=dict(zip(paths, found, strict=True)))

    def get(self, path: str) -> bytes:
        return b"a bundle"


class Machine:
    """What `booted` yields."""

    boot_s = 61.0

    def __init__(self, guest: Guest, directory: Path) -> None:
        self.guest, self.directory = guest, directory

    def vtax(self, *arguments: str, timeout_s: float) -> None:
        assert arguments[0] == "export"


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes `measured` boot a machine with this guest; returns the names of the machines that were booted."""
    names: list[str] = []

    def use(guest: Guest) -> list[str]:
        @contextmanager
        def booted(machine: Any, *_: object) -> Iterator[Machine]:
            names.append(machine.name)
            yield Machine(guest, tmp_path)

        monkeypatch.setattr(demo, "booted", booted)
        monkeypatch.setattr(demo, "_POLL_S", 0.0)
        return names

    return use


@pytest.mark.parametrize("name", DEMOS)
def test_a_demonstration_has_a_valid_short_study_that_says_what_its_figures_are(name):
    study = load(str(DEMOS[name].study)).study
    assert DEMOS[name].machine in MACHINES.values()
    assert "say nothing about hardware" in study.title
    assert study.design.blocks is not None
    assert study.design.blocks <= 3
    assert all(registry.get(platform, []) for platform in study.platforms)


@pytest.mark.parametrize(
    ("program", "package"),
    [("mmdebstrap", "mmdebstrap"), ("qemu-system-x86_64", "qemu-system-x86")],
)
def test_a_missing_program_is_refused_with_its_package(home, plenty, program, package, installed):
    installed(but=program)
    with pytest.raises(BadInput, match=program) as refusal:
        demo.check_host(home, DEMOS["kvm"])
    assert refusal.value.hint == f"apt install {package}"


def test_too_little_memory_is_refused_with_both_sizes(home, plenty, available):
    available(2 * GIB)
    with pytest.raises(BadInput, match=r"needs about 4\.5 GiB of memory, and 2 GiB are available"):
        demo.check_host(home, DEMOS["xen"])


def test_the_estimated_time_contains_only_builds_that_are_missing(home):
    kvm = DEMOS["kvm"]
    built = disks.directory_of(home, kvm.machine)
    assert "to build the machine" in kvm.expected(home, has_image=True)
    built.with_name(f"{built.name}.77.partial").mkdir(parents=True)
    assert "to build the machine" in kvm.expected(home, has_image=True)
    built.mkdir()
    assert "build" not in kvm.expected(home, has_image=True)
    assert "build the guest image" in kvm.expected(home, has_image=False)


def test_a_machine_of_an_earlier_recipe_is_built_anew_which_is_estimated_announced_and_checked(
    home, plenty, boots, free_disk
):
    kvm, lines = DEMOS["kvm"], []
    disks.directory_of(home, replace(kvm.machine, disk_mib=1)).mkdir(parents=True)
    assert "to build the machine" in kvm.expected(home, has_image=True)
    assert "5 GiB of disk" in kvm.needs(home)
    boots(Guest([], b"0\n"))
    with demo.measured(kvm, home, [], lines.append):
        assert lines[0] == "building the machine debian-12 (about 8 min 00 s)"
    free_disk(2 * GIB)
    with pytest.raises(BadInput, match="5 GiB of disk, and 2 GiB are free"):
        demo.check_host(home, kvm)


@pytest.mark.parametrize("name", MACHINES)
def test_the_disk_of_an_earlier_recipe_goes_when_that_of_the_present_one_is_there(
    home, monkeypatch, name
):
    built: list[Path] = []
    monkeypatch.setattr(disks, "_build", lambda machine, image, journal, path: built.append(path))
    nested, machine = home.root / "nested", MACHINES[name]
    earlier = disks.directory_of(home, replace(machine, packages=()))
    kept = [disks.directory_of(home, other) for other in MACHINES.values() if other != machine]
    kept.append(nested / f"{earlier.name}.77.partial")
    kept += [nested / f"{name}-{data}-0123456789ab" for data in ("12", "requirements")]
    for path in (earlier, *kept):
        path.mkdir(parents=True)
    with Journal(home.journal) as journal:
        for _ in range(2):
            made = disks.ensure(home, machine, Image("key", home.root), journal).directory
            assert made == disks.directory_of(home, machine)
    assert len(built) == 1
    assert {path for path in nested.iterdir() if path.is_dir()} == {made, *kept}


def test_the_studys_progress_is_passed_on_once_and_its_bundle_handed_over(home, boots):
    guest = Guest([b"", b"block 1\nblo", b"ck 2\n", b""], b"0\n")
    names, lines = boots(guest), []
    with demo.measured(DEMOS["kvm"], home, [], lines.append) as bundle:
        assert bundle.read_bytes() == b"a bundle"
    assert names == ["debian-12"]
    assert [line.strip() for line in lines if line.startswith("  ")] == ["block 1", "block 2"]
    assert guest.started[0][-1].endswith("vtax/demo/kvm.toml")


def test_a_study_that_fails_in_the_machine_is_an_error_with_its_last_lines(home, boots):
    boots(Guest([b"vtax: no platform runs\n"], b"1\n"))
    with (
        pytest.raises(MachineFailed, match="ended with status 1") as failure,
        demo.measured(DEMOS["xen"], home, [], print),
    ):
        pass
    assert failure.value.where == "vtax: no platform runs"


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch, taken_for_root: None) -> None:
    """The command as root sees it, with an image."""
    monkeypatch.setattr(command, "provide", lambda home, recipe: None)


def test_nothing_starts_without_an_answer(home, plenty, as_root):
    for answer, status in (("n\n", 1), ("\n", 1), ("", 2)):
        result = CliRunner().invoke(group, ["demo", "kvm"], input=answer)
        assert "estimated time, longer on a busy host: about" in result.stderr
        assert "demo/kvm.toml" in result.stderr
        assert "of memory, and about 5 GiB of disk in " in result.stderr
        assert getattr(result.exception, "exit_status", None) == status
        assert result.stderr.endswith("\n")  # an error begins on a line of its own


def test_an_unknown_hypervisor_is_refused_with_those_that_there_are():
    result = CliRunner().invoke(group, ["demo", "nosuch"], standalone_mode=False)
    assert isinstance(result.exception, click.UsageError)
    refusal = usage_error(result.exception)
    assert refusal.what == "invalid value for 'HYPERVISOR': 'nosuch' is not one of 'kvm', 'xen'"
    assert refusal.where.endswith("demo [OPTIONS] HYPERVISOR")


def test_while_a_run_measures_nothing_starts(home, plenty, as_root, measuring):
    result = CliRunner().invoke(group, ["demo", "kvm"], input="y\n")
    assert "tour-7 is measuring on this host" in str(result.exception)
    assert "start it" not in result.stderr


def test_the_run_of_the_machine_is_in_the_users_store_and_shown(
    home, plenty, as_root, monkeypatch, tmp_path
):
    bundle = tmp_path / "demo.vtax.gz"
    with Store.open(tmp_path / "machine.sqlite") as store:
        run = stored(store, lambda platform, operations, random: {}, name="demo-kvm-1")
        export_run(store.engine, run, bundle)

    @contextmanager
    def measured(*_: object) -> Iterator[Path]:
        yield bundle

    monkeypatch.setattr(command, "measured", measured)
    result = CliRunner().invoke(group, ["demo", "kvm", "--yes"], catch_exceptions=False)
    assert "sandbox" in result.stdout
    assert command.NOTICE in result.stderr
    assert CliRunner().invoke(group, ["show", "demo-kvm-1"]).exit_code == 0
