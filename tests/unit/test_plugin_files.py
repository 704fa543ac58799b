"""`--plugin FILE`: one Python file is used like an installed plug-in, and recorded with its SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ended, invoked, output_of
from foreign_driver import good
from installed_package import fresh_registries

from vtax.errors import BadInput
from vtax.host import plugins
from vtax.platforms import registry

pytestmark = pytest.mark.usefixtures("unmade_home")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing of a file stays in this process."""
    with fresh_registries():
        yield
        plugins._FILES.clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.py"
    path.write_text(good("theirs", '{"theirs-fast": {}}'))
    path.chmod(0o644)
    return path


def test_a_platform_of_a_file_is_listed_and_can_be_in_a_study(file: Path, tmp_path: Path) -> None:
    assert "theirs-fast" not in output_of("platforms", "--no-probe")
    registry.drivers.cache_clear()
    assert "theirs-fast" in output_of("--plugin", str(file), "platforms", "--no-probe")
    study = tmp_path / "mine.toml"
    study.write_text(
        'name = "mine"\nplatforms = ["native", "theirs-fast"]\n[[benchmark]]\nname = "stream"\n'
    )
    assert "theirs-fast" in output_of("--plugin", str(file), "studies", str(study))


def test_the_origin_of_a_file_is_its_name_and_hash(file: Path) -> None:
    plugins.add_file(file)
    origin = registry.foreign()["theirs"]
    assert (origin.file, origin.sha256) == (
        "theirs.py",
        hashlib.sha256(file.read_bytes()).hexdigest(),
    )
    assert origin.package == ""


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("x = 1", "registers no platform, benchmark, topology, view"),
        (
            "from vtax.platforms.base import register_platform\nregister_platform(dict)",
            "a driver must be an instance of",
        ),
        ("raise RuntimeError('no')", "cannot be imported: RuntimeError: no"),
        (good("docker", "{}"), "a plug-in with the name 'docker' exists already"),
    ],
)
def test_a_file_that_is_no_plug_in_is_refused(source: str, problem: str, file: Path) -> None:
    file.write_text(source)
    error = invoked("--plugin", str(file), "platforms", "--no-probe").exception
    assert isinstance(error, BadInput)
    assert problem in str(error)


def test_a_file_that_others_may_change_is_not_executed(file: Path) -> None:
    file.write_text("raise SystemExit('executed')")
    file.chmod(0o666)
    error = invoked("--plugin", str(file), "platforms", "--no-probe").exception
    assert "other users may change" in str(error)


def test_a_missing_file_is_named() -> None:
    assert "no file nothing.py" in str(invoked("--plugin", "nothing.py", "platforms").exception)


def test_after_a_command_the_option_is_refused_with_its_place(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed = ended(capsys, "platforms", "--plugin", str(file))
    assert status == 2
    assert "hint: did you mean vtax --plugin ... platforms?" in printed
