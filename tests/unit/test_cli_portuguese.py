"""Help and tables are in the language of the locale; errors, hints and progress are English in every language."""

from __future__ import annotations

import runpy
from pathlib import Path

import click
import pytest
from command_line import ended, output_of

from vtax.benchmarks.registry import about, benchmarks
from vtax.cli.commands import COMMANDS
from vtax.cli.language import paragraphs, translate
from vtax.cli.main import group
from vtax.doctor import packages
from vtax.doctor.examine import Examination
from vtax.doctor.finding import Finding
from vtax.messages import Note
from vtax.network.registry import topologies
from vtax.platforms.base import Probe
from vtax.platforms.registry import drivers
from vtax.study.keys import keys

pytestmark = pytest.mark.usefixtures("unmade_home")
TUNABLE = Finding("address layout", "warn", Note("doctor-layout-fixed"), "why", "a hint", True)


@pytest.fixture(autouse=True)
def portuguese(set_locale) -> None:
    set_locale("pt_BR")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_has_a_line_in_english(name):
    command = group.get_command(click.Context(group), name)
    printed = " ".join(output_of(name, "--help").split())
    assert printed.startswith("Uso: ")
    assert "Options" not in printed
    english = paragraphs(command.help or "")[:1] + [
        getattr(each, "help", None) or "" for each in command.params
    ]
    english += [each.short_help or "" for each in getattr(command, "commands", {}).values()]
    assert [
        text for text in english if text and " ".join(text.split("  [")[0].split()) in printed
    ] == []


@pytest.mark.parametrize(
    "arguments", [("show", "nosuch-1"), ("run", "toru", "--dry-run"), ("sho",), ("list", "--wher")]
)
def test_an_error_is_the_same_in_every_language(arguments, capsys, set_locale):
    status, answer = ended(capsys, *arguments)
    set_locale("C.UTF-8")
    assert ended(capsys, *arguments) == (status, answer)
    assert "  hint: " in answer


def test_a_plan_is_english_since_it_is_the_progress_of_a_run(ordinary_user, set_locale):
    plan = output_of("run", "tour", "--dry-run", "--seed", "1")
    set_locale("C.UTF-8")
    assert output_of("run", "tour", "--dry-run", "--seed", "1") == plan


@pytest.mark.parametrize("name", sorted(benchmarks()))
def test_what_a_benchmark_is_and_what_its_parameters_mean_is_in_portuguese(name):
    benchmark = benchmarks()[name]
    printed = " ".join(output_of("benchmarks", name).split())
    assert printed.startswith(f"{name}: ")
    texts = [
        benchmark.title,
        *about(benchmark).split("\n\n"),
        *(key.meaning for key in keys(benchmark.Parameters)),
    ]
    assert [text for text in texts if " " in text and " ".join(text.split()) in printed] == []


@pytest.mark.parametrize(
    ("command", "things", "heading"),
    [
        (("topologies",), topologies(), "topologia descrição"),
        (("platforms", "--no-probe"), drivers(), "plataforma driver"),
        (("benchmarks",), {}, "benchmark descrição"),
    ],
    ids=["topologies", "platforms", "benchmarks"],
)
def test_tables_have_portuguese_headings_and_descriptions(command, things, heading):
    printed = " ".join(output_of(*command).split())
    assert heading in printed
    assert [thing.summary for thing in things.values() if thing.summary in printed] == []


def test_what_a_key_may_hold_is_in_portuguese():
    printed = " ".join(output_of("topologies").split())
    assert "bytes do maior pacote IP" in printed
    assert "'nat' ou 'own-nat'" in printed


def test_the_words_of_a_platform_and_of_a_finding_are_in_portuguese(examined):
    probes = {"one": Probe(True, marks=("emulated",)), "two": Probe(True, marks=("emulated",))}
    examined(Examination(probes, (TUNABLE,), 1.0))
    printed = output_of("doctor")
    lines = printed.splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["one", "sim", "emulada"],
        ["two", "sim", "como", "one"],
    ]
    assert translate(TUNABLE.observed) in printed
    assert "disposição dos endereços (vtax run --tune-host o faz):\n    a hint" in printed


def test_a_missing_package_is_a_sentence_of_the_catalogue_with_its_purpose(monkeypatch):
    monkeypatch.setattr(packages, "is_present", lambda sign: sign not in ("mmdebstrap", "ip"))
    assert translate(packages.judge_packages().observed) == (
        "falta: para construir a imagem dos convidados: mmdebstrap; para a rede do laboratório: ip"
    )


def test_what_is_no_entry_of_the_catalogue_stays_as_it_is():
    assert translate("no such {thing} of 1 block") == "no such {thing} of 1 block"
    assert translate("same as {name}", name="native") == "o mesmo que native"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", ""])
def test_other_locales_are_english(locale, set_locale):
    set_locale(locale)
    assert translate("platform") == "platform"
    assert translate("same as {name}", name="native") == "same as native"


def test_the_catalogue_has_what_commands_translate_within_f_strings_and_as_columns():
    script = runpy.run_path(str(Path(__file__).resolve().parents[2] / ".ci" / "messages"))
    found = {text for text, _ in script["texts_of_tables"]()}
    assert {"Debian packages", "identity of the host", "why it matters", "last answer"} <= found
