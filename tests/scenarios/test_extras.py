"""What a host that only measures does without: every command loads, and what it cannot do names the extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vtax.cli.commands import COMMANDS
from vtax.doctor.packages import NEEDS, judge_packages
from vtax.extras import EXTRAS
from vtax.messages import forms_of

CHECKOUT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"vl_convert": "vl-convert-python"}
WITHOUT = """
import sys
from importlib import import_module
from vtax.extras import EXTRAS
sys.modules.update(dict.fromkeys(EXTRAS))
"""


def core(code, tmp_path, *arguments, **environment):
    """A child in which no package of an extra can be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code, *arguments],
        env={"VTAX_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def vtax(tmp_path, *arguments, **environment):
    return core(
        "from vtax.cli.main import main; main(sys.argv[1:])", tmp_path, *arguments, **environment
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    directory = tmp_path_factory.mktemp("home")
    done = vtax(directory, "import", str(CHECKOUT / "docs/examples/tour.vtax.gz"))
    assert done.returncode == 0, done.stderr
    return directory


def test_every_command_loads_without_any_extra(tmp_path):
    names = ", ".join(repr(f"vtax.cli.{name}") for name in COMMANDS)
    done = core(f"for name in ({names},): import_module(name)", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_result_is_shown_without_any_extra_in_english_whatever_the_locale(home):
    plain = vtax(home, "show", LC_ALL="C.UTF-8")
    assert plain.returncode == 0, plain.stderr
    assert "native" in plain.stdout
    assert vtax(home, "show", LC_ALL="pt_BR.UTF-8").stdout == plain.stdout


def test_what_needs_an_extra_is_refused_with_the_command_that_installs_it(home, tmp_path):
    refused = {
        "report -o x.html": "report",
        "export --format csv -o x.csv": "report",
        "export --format parquet -o x.parquet": "report",
        "figures --output x": "report",
        "serve --port 0": "page",
    }
    code = (
        "import os; from vtax.cli.main import main; os.chdir(sys.argv[1])\n"
        "for line in sys.argv[2:]:\n"
        "    try: main(line.split())\n"
        "    except SystemExit as end: print(line, end.code, file=sys.stderr)\n"
    )
    errors = core(code, home, str(tmp_path), *refused, LC_ALL="C.UTF-8").stderr
    for line, extra in refused.items():
        said, _, errors = errors.partition(f"{line} 2\n")
        assert f"pipx install --force 'WHEEL[{extra}]'" in said, (line, said)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_report_without_drawings_needs_no_extra(home, tmp_path):
    done = vtax(
        home, "export", "--format", "markdown", "-o", str(tmp_path / "report.md"), LC_ALL="C.UTF-8"
    )
    assert done.returncode == 0, done.stderr


def test_every_module_of_an_extra_is_one_of_its_packages_and_none_is_one_of_the_core():
    for module, extra in EXTRAS.items():
        distribution = DISTRIBUTIONS.get(module, module)
        assert any(
            each.startswith(distribution) for each in PROJECT["optional-dependencies"][extra]
        )
        assert not any(each.startswith(distribution) for each in PROJECT["dependencies"])


def test_doctor_needs_the_packages_that_quickstart_installs_for_every_run():
    lines = re.findall(
        r"^((?:to build|for the (?:lab|topologies))[^|]*)\|([^|]+)\|(.+)$",
        (CHECKOUT / "quickstart").read_text(),
        re.MULTILINE,
    )
    installed = [
        (purpose, tuple(signs.split()), tuple(names.split())) for purpose, signs, names in lines
    ]
    needed = [
        (forms_of(need.purpose)[0].removesuffix(": {names}"), need.signs, need.packages)
        for need in NEEDS
    ]
    assert needed == installed


def test_doctor_names_what_apt_must_install(monkeypatch):
    present = {"ip", "mke2fs"}
    monkeypatch.setattr("vtax.doctor.packages.is_present", lambda sign: sign in present)
    seen = judge_packages()
    assert seen.severity == "bad"
    assert "for the lab network: iptables, ethtool;" in seen.observed
    assert seen.hint.endswith(
        "mmdebstrap debian-archive-keyring iptables ethtool openvswitch-switch"
    )
    present.update(sign for need in NEEDS for sign in need.signs)
    assert judge_packages().severity == "ok"
