"""`vtax topologies NAME`, `vtax studies NAME`, and errors in how a command was typed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from vtax.cli import main
from vtax.cli.main import group
from vtax.study.load import shipped


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(group, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_topology_is_explained_with_all_settings_of_its_links():
    text = printed("topologies", "vlan-pairs")
    assert text.startswith("vlan-pairs: pairs of guests")
    assert "mtu" in text
    assert "interfaces" not in text.partition("link setting")[2].split()
    described = json.loads(printed("topologies", "vlan-pairs", "--json"))
    assert {"mtu", "pairs"} <= {key["name"] for key in described["link"]}


def test_a_study_is_explained_with_its_design_and_benchmarks():
    text = printed("studies", "tour")
    assert text.startswith("tour: What does each layer")
    assert "design: rule verdict, 5 blocks or more, trials = 1" in text
    assert "direction = send, receive" in text
    assert json.loads(printed("studies", "tour", "--json"))["cells"] == 35
    assert printed("studies", "tour", "--toml") == shipped()["tour"].read_text()


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["show", "--foo"], ["vtax: no such option '--foo'", "  where: vtax show [OPTIONS] [RUN]"]),
        (["run"], ["vtax: missing argument 'STUDY'", "  where: vtax run [OPTIONS] STUDY"]),
        (["list", "x"], ["vtax: got unexpected extra argument (x)", "  where: vtax list [OPTIONS]"]),
    ],
)
def test_what_was_typed_wrongly_is_said_as_every_error(arguments, lines, capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == lines
    assert said[2] == f"  hint: vtax {arguments[0]} --help lists what it takes"


@pytest.mark.parametrize(
    ("option", "what", "hint"),
    [
        ("--sessions=x", "invalid value for '--sessions': 'x' is not a whole number", "from 1 to 1000"),
        ("--sessions=0", "invalid value for '--sessions': 0 is not in the range 1<=x<=1000", "from 1 to 1000"),
        ("--blocks=2.5", "invalid value for '--blocks': '2.5' is not a whole number", "from 1 to 10000"),
    ],
)
def test_what_is_no_whole_number_is_refused_with_the_range(option, what, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(["run", "tour", option])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert (said[0], said[2]) == (f"vtax: {what}", f"  hint: write a whole number {hint}")
