"""Mistakes of new users: each is answered with what failed, where and a hint, whole in one language."""

from __future__ import annotations

import re

import click
import pytest
from command_line import refusals
from golden_files import Golden

from vtax.cli.commands import COMMANDS
from vtax.cli.language import said
from vtax.cli.main import group
from vtax.study.keys import keys
from vtax.study.model import BenchmarkTable, DesignTable, GuestTable, Study

HEAD = 'name = "x"\nplatforms = ["native", "podman"]\n'
CPU = '[[benchmark]]\nname = "sysbench-cpu"\n'
NETWORK = '[[benchmark]]\nname = "iperf3"\n'
OWN = 'name = "x"\nplatforms = ["native", "p"]\n[[platform]]\nname = "p"\n'
STUDIES = {
    "unknown-key": HEAD.replace("platforms", "plataformas") + CPU,
    "key-of-another-table": HEAD + "blocks = 5\nparameters = { threads = 1 }\n" + CPU,
    "several-near": HEAD + "[design]\nblock = 5\n" + CPU,
    "missing": 'platforms = ["native"]\n',
    "name": HEAD.replace('"x"', '"My Study"') + CPU,
    "platform": HEAD.replace("podman", "podmam") + CPU,
    "driver": OWN + 'driver = "podmn"\n' + CPU,
    "option": OWN + 'driver = "podman"\nruntim = "crun"\n' + CPU,
    "value-of-option": OWN + 'driver = "podman"\nruntime = "runk"\n' + CPU,
    "baseline": HEAD + 'baseline = "docker"\n' + CPU,
    "benchmark": HEAD + CPU.replace("-cpu", ""),
    "brackets": HEAD + CPU.replace("[[", "[").replace("]]", "]"),
    "twice": HEAD + CPU + CPU,
    "parameter": HEAD + CPU + "parameters = { thread = 2 }\n",
    "list": HEAD + CPU + "parameters = { threads = [1, 2] }\n",
    "level": HEAD + CPU + 'factors = { threads = [1, "two"] }\n',
    "rule": HEAD + '[design]\nstop = "precise"\n' + CPU,
    "percent": HEAD + '[design]\nstop = "precision"\nprecision = "2%"\n' + CPU,
    "idle": HEAD + "[design]\nmax_blocks = 9\n" + CPU,
    "size": HEAD + "[guest]\nmemory = 512\n" + CPU,
    "topology": HEAD + NETWORK + 'topology = "p2p"\n',
    "link": HEAD + NETWORK + "link = { mtuu = 1500 }\n",
    "level-of-link": HEAD + NETWORK + 'link_factors = { mtu = ["big"] }\n',
    "toml": HEAD + "[[benchmark]\n",
}
RUNS = (
    "nofile.toml",
    "toru",
    "tour --platform podman",
    "tour --platforms podmam",
    "tour --blocks five",
    "tour --scale quick",
    "tour --link mtu",
    "tour --budget soon",
    "tour --memory lots",
    "tour --ab podman",
    "tour --ab podman,dockr",
    "tour --check 5",
    "ufla2010 --scale qick",
)
COMMAND_LINES = (
    "sho", "compar", "plataforms", "ls", "diff", "rm", "executar", "xyz", "image buld",
    "export --format cvs", "show tuor-1", "show tour-1 --platform podmam", "show tour-1 --benchmark strem",
    "show tour-1 --where threads", "show tour-1 --where thread=1", "show --varience", "show tour-1 --rows platfrom",
    "compare", "compare podman dockr", "compare tour-1", "compare docker lxc --metric speed",
    "compare --fail-if faster-by 5%", "import nofile.vtax.gz", "report tour-1 -o /nonexistent/x.html",
    "claims tour-1", "topologies pp", "merge tour-1", "conformance x.py", "schema x",
)  # fmt: skip
ENGLISH = re.compile(
    r"\b(the|is|are|was|of|and|or|with|without|for|at|least|most|from|below|above|it|its|must|be|has|have|not|there|"
    r"known|unknown|mean|key|number|parameter|option|explains|lists|write|such|file|where|hint)\b"
)
_DATA = re.compile(
    r"'[^']*'|\S+\.toml|[\w.-]*[/=_*<>-][\w./=<>_-]*|\[\[?[\w.]+\]?\]|^vtax (?!:).*$|vtax [a-z]+|\b[A-Z]+\b",
    re.MULTILINE,
)


@pytest.fixture(params=["C.UTF-8", "pt_BR.UTF-8"])
def locale(request, unmade_home, set_locale):
    set_locale(request.param)
    return request.param.split(".")[0]


def test_a_study_with_a_mistake(locale, tmp_path, capsys, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in STUDIES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    check(refusals(capsys, "run --dry-run", *(f"{name}.toml" for name in STUDIES)), locale, golden)


def test_a_run_with_a_mistake(locale, tmp_path, capsys, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(refusals(capsys, "run --dry-run", *RUNS), locale, golden)


def test_a_command_with_a_mistake(
    locale, tour_file, tmp_path, capsys, golden, use_store, monkeypatch
):
    use_store(tour_file)
    monkeypatch.chdir(tmp_path)
    check(refusals(capsys, "", *COMMAND_LINES).replace(str(tour_file), "STORE"), locale, golden)


def check(answers: str, locale: str, golden: Golden) -> None:
    """English answers are pinned; Portuguese ones have no English word beside names and values. All have what failed,
    and where or a hint."""
    if locale == "C":
        golden(answers)
    for answer in answers.split("\n\n"):
        assert re.search(r"^  (where|hint|onde|dica): ", answer, re.MULTILINE), answer
        if locale == "pt_BR":
            assert ENGLISH.findall(_DATA.sub("", answer)) == [], answer


def test_names_are_never_translated(set_locale):
    set_locale("pt_BR")
    options = {
        name
        for each in COMMANDS
        for param in command(each).params
        for name in param.opts
        if name[:2] == "--"
    }
    tables = (Study, BenchmarkTable, DesignTable, GuestTable)
    names = [f"vtax {each}" for each in COMMANDS] + [
        key.name for table in tables for key in keys(table)
    ]
    for name in (*names, *options):
        assert said(f"did you mean {name}?") == f"você quis dizer {name}?"
    for name in options:
        assert said(f"  where: {name}") == f"  onde: {name}"


def command(name: str) -> click.Command:
    """A command of vtax."""
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found
