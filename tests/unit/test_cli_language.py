"""What a terminal shows is in the language of the locale, unless --language names another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import output_of
from synthetic_run import begin, fill

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.report.renderers.language import of_locale
from vtax.store.store import Store


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one finished run."""
    found = tmp_path_factory.mktemp("store") / "store.sqlite"
    with Store.open(f"sqlite:///{found}") as store:
        fill(run := begin(store))
        run.finish("finished", "all blocks", 1_700_000_100.0)
    return found


@pytest.fixture(autouse=True)
def store(file: Path, unmade_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{file}")
    assert Home.from_environment().store_url.endswith(str(file))


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
    ["show"], ["show", "--variance"], ["explain"], ["compare", "docker", "lxc"], ["recommend"],
    ["compare", "--detect", "99%"], ["history", "tour"], ["list"], ["note", "tour-1"],
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_with_a_language_follows_the_locale(command, monkeypatch):
    def printed(*options: str) -> str:
        return CliRunner().invoke(group, [*command, *options]).output

    english, portuguese = printed(), printed("--language", "pt-BR")
    assert english != portuguese
    values = printed("--json")
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    assert printed() == portuguese
    assert printed("--language", "en") == english
    assert printed("--json") == values
    assert json.loads(values)


def test_a_page_follows_the_locale(monkeypatch, tmp_path):
    monkeypatch.setenv("LANG", "pt_BR.UTF-8")
    output_of("report", "-o", str(tmp_path / "x.html"))
    assert '<html lang="pt-BR"' in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("pt", "did you mean pt-BR?"),
        ("pt_BR", "did you mean pt-BR?"),
        ("../pt-BR", "languages: en, pt-BR"),
        ("de", "languages: en, pt-BR"),
    ],
)
def test_a_language_without_a_catalogue_is_refused_with_the_nearest(code, hint):
    error = CliRunner().invoke(group, ["show", "--language", code]).exception
    assert isinstance(error, BadInput)
    assert error.hint == hint
