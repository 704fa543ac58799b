"""Mistakes of new users: each is answered with what failed, where and a hint."""

from __future__ import annotations

import re

import pytest
from command_line import refusals
from golden_files import Golden

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
    "percent": HEAD + '[design]\nstop = "precision"\nprecision = 2\n' + CPU,
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
    "tour --check 5%%",
    "ufla2010 --scale qick",
)
COMMAND_LINES = (
    "sho", "compar", "plataforms", "ls", "diff", "rm", "xyz", "image buld",
    "export --format cvs", "show tuor-1", "show tour-1 --platform podmam", "show tour-1 --benchmark strem",
    "show tour-1 --where threads", "show tour-1 --where thread=1", "show --varience", "show tour-1 --rows platfrom",
    "compare", "compare podman dockr", "compare tour-1", "compare docker lxc --metric speed",
    "compare --fail-if faster-by 5%", "import nofile.vtax.gz", "report tour-1 -o /nonexistent/x.html",
    "claims tour-1", "topologies pp", "merge tour-1", "conformance x.py", "schema x",
)  # fmt: skip
pytestmark = pytest.mark.usefixtures("unmade_home")


def test_a_study_with_a_mistake(tmp_path, capsys, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in STUDIES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    check(refusals(capsys, "run --dry-run", *(f"{name}.toml" for name in STUDIES)), golden)


def test_a_run_with_a_mistake(tmp_path, capsys, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(refusals(capsys, "run --dry-run", *RUNS), golden)


def test_a_command_with_a_mistake(tour_file, tmp_path, capsys, golden, use_store, monkeypatch):
    use_store(tour_file)
    monkeypatch.chdir(tmp_path)
    check(refusals(capsys, "", *COMMAND_LINES).replace(str(tour_file), "STORE"), golden)


def check(answers: str, golden: Golden) -> None:
    """Every answer has what failed, and where or a hint."""
    golden(answers)
    for answer in answers.split("\n\n"):
        assert re.search(r"^  (where|hint): ", answer, re.MULTILINE), answer
