"""A platform of somebody else's: the package of docs/add-a-platform.md, built, installed aside, and measured on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from doc_examples import text_of
from support import needs_program, needs_root

PAGE = "add-a-platform.md"
pytestmark = [
    needs_root,
    needs_program("unshare"),
    pytest.mark.skipif(
        find_spec("hatchling") is None, reason="not installed: hatchling, which builds the package"
    ),
]
STUDY = """
name = "third-party"
platforms = ["native", "unshare"]
[guest]
memory = "256MiB"
[design]
blocks = 2
[[benchmark]]
name = "sysbench-cpu"
parameters = { duration_s = 1 }
[[benchmark]]
name = "iperf3"
parameters = { duration_s = 1 }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with nothing but the installed package: the environment of the tests stays as it is."""
    project, target = tmp_path_factory.mktemp("my-package"), tmp_path_factory.mktemp("installed")
    package = project / "src" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "unshare.py").write_text(text_of(PAGE, "python"))
    (project / "pyproject.toml").write_text(text_of(PAGE, "toml"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--target",
        str(target),
        "--no-build-isolation",
        "--no-index",
    ]
    command += ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (target / "my_package-1.0.dist-info" / "entry_points.txt").is_file()
    return target


def vtax(*arguments: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A vtax command that finds further packages in a directory; waits while another run measures on this host."""
    environment = {**os.environ, **({"PYTHONPATH": str(packages)} if packages else {})}
    command = [sys.executable, "-m", "vtax", *arguments]
    for _ in range(120):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=environment
        )
        if done.returncode != os.EX_TEMPFAIL:
            break
        time.sleep(5)
    return done


def test_a_study_runs_on_a_platform_of_an_installed_package(
    installed, image, private_home, tmp_path
):
    study = tmp_path / "third-party.toml"
    study.write_text(STUDY)
    run = vtax("run", str(study), packages=installed)
    assert run.returncode == 0, run.stderr
    shown = json.loads(vtax("show", "last", "--json").stdout)
    assert shown["failed"] == 0
    platforms = {platform["name"]: platform for platform in shown["platforms"]}
    assert set(platforms) == {"native", "unshare"}
    assert "util-linux" in platforms["unshare"]["version"]
    assert list(private_home.guests.iterdir()) == list(private_home.journal.iterdir()) == []


def test_it_is_listed_where_it_is_installed_and_nowhere_else(installed, private_home):
    assert "unshare-host-ipc" in vtax("platforms", "unshare", packages=installed).stdout
    without = vtax("platforms", "unshare")
    assert without.returncode == 2
    assert "unshare" in without.stderr


def test_its_options_make_platforms_of_ones_own_and_wrong_ones_are_refused(
    installed, image, private_home, tmp_path
):
    study = tmp_path / "third-party.toml"
    own = '[[platform]]\nname = "mine"\ndriver = "unshare"\nipcs = false\n'
    study.write_text(STUDY.replace('"unshare"', '"mine"') + own)
    refused = vtax("run", str(study), packages=installed)
    assert refused.returncode == 2
    assert "ipcs" in refused.stderr
    assert "third-party.toml: [[platform]] number 1 (mine)" in refused.stderr
