"""Reports on a terminal are in the language of the locale."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from command_line import output_of

from vtax.cli.main import group
from vtax.report.renderers.language import of_locale


@pytest.fixture(autouse=True)
def store(tour_file, unmade_home, use_store):
    """A store with one finished run."""
    use_store(tour_file)


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({}, "en"),
        ({"LANG": "C"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "en_GB.UTF-8"}, "en"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "pt_PT.UTF-8"}, "en"),
        ({"LANG": "pt_BR.UTF-8"}, "pt-BR"),
        ({"LANG": "pt_BR"}, "pt-BR"),
        ({"LANG": "pt_BR.ISO-8859-1@euro"}, "pt-BR"),
        ({"LANG": "pt_BR.UTF-8", "LC_MESSAGES": "C"}, "en"),
        ({"LANG": "C", "LC_MESSAGES": "pt_BR.UTF-8"}, "pt-BR"),
        ({"LC_ALL": "", "LANG": "pt_BR.UTF-8"}, "pt-BR"),
        ({"LC_ALL": "en_US.UTF-8", "LC_MESSAGES": "pt_BR", "LANG": "pt_BR"}, "en"),
        ({"LANG": "../../etc/passwd"}, "en"),
    ],
)
def test_the_language_is_that_of_the_messages_of_the_locale(environment, code):
    assert of_locale(environment) == code


COMMANDS = (
    ["show"],
    ["show", "--variance"],
    ["explain"],
    ["compare", "docker", "lxc"],
    ["recommend"],
    ["compare", "--detect", "99%"],
    ["history", "tour"],
    ["list"],
)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_follows_the_locale_and_programs_get_the_same_values(command, set_locale):
    def printed(*options: str) -> str:
        return CliRunner().invoke(group, [*command, *options]).output

    english, values = printed(), printed("--json")
    set_locale("pt_BR")
    assert printed() != english
    assert printed("--json") == values
    assert json.loads(values)


@pytest.mark.slow
def test_a_page_follows_the_locale(tmp_path, set_locale):
    set_locale("pt_BR")
    output_of("report", "-o", str(tmp_path / "x.html"))
    assert '<html lang="pt-BR"' in (tmp_path / "x.html").read_text()
