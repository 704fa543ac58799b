"""The command line speaks the language of the locale: help, errors, plans and tables."""

from __future__ import annotations

import re

import click
import pytest
from command_line import ended, output_of

from vtax.benchmarks.registry import about, benchmarks
from vtax.cli.commands import COMMANDS
from vtax.cli.language import Catalogue, paragraphs, said
from vtax.cli.main import group
from vtax.doctor.examine import Examination
from vtax.doctor.finding import Finding
from vtax.platforms.base import Probe
from vtax.study.keys import keys

pytestmark = pytest.mark.usefixtures("unmade_home")


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


def test_every_problem_of_a_file_is_in_portuguese(tmp_path, capsys):
    study = tmp_path / "bad.toml"
    study.write_text(
        'name = "bad"\nplatforms = ["native"]\n[[benchmark]]\nname = "stream"\nthrads = 3\n'
    )
    printed = ended(capsys, "run", str(study), "--dry-run")[1]
    assert "chave 'thrads'" in printed
    assert "onde: " in printed
    assert "dica: " in printed
    assert not re.search(r"\b(hint|where|unknown|is missing)\b", printed)


def test_a_plan_is_in_portuguese(golden, ordinary_user):
    printed = output_of("run", "tour", "--dry-run", "--seed", "1")
    golden(printed)
    assert not re.search(r"\b(the|of|with|and|about|block)\b", printed)


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
    assert not re.search(
        r"\b(whole number|higher|lower|default)\b", printed.partition("significado")[2]
    )


def test_settings_of_links_are_in_portuguese():
    printed = " ".join(output_of("topologies").split())
    assert "bytes do maior pacote IP, ajustados em cada salto" in printed
    assert "'nat' ou 'own-nat'" in printed


TUNABLE = Finding("address layout", "warn", "seen", "why", "a hint", True)
CATALOGUE = Catalogue(
    {"a hint": "uma dica", "block": "bloco"},
    tuple(
        (max(re.split(r"\{\w+\}", english), key=len), english, other)
        for english, other in (
            ("no run of {name}", "sem {name}"),
            ("cannot read {path}: {why}", "{why} em {path}"),
        )
    ),
)


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("what nobody translated", "what nobody translated"),
        ("no run of block", "sem block"),
        ("no run of 1 block", "sem 1 bloco"),
        ("cannot read /x: a hint", "uma dica em /x"),
        ("nobody knows; no run of x", "nobody knows; sem x"),
        ("  - place: no run of x\n      a hint", "  - place: sem x\n      uma dica"),
    ],
)
def test_names_and_what_is_not_known_stay_as_they_are(english, expected):
    assert CATALOGUE.of(english) == expected


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "en_US.UTF-8", "de_DE.UTF-8", ""])
def test_other_locales_are_english(locale, set_locale):
    set_locale(locale)
    assert said("run it again with sudo") == "run it again with sudo"


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        (
            "1.99 of 2 CPUs busy; busiest: qemu (7) 146 %",
            "1,99 de 2 CPUs ocupadas; mais ocupados: qemu (7) 146 %",
        ),
        ("0.5\u00a0% of CPU time", "0,5\u00a0% do tempo de CPU"),
        ("present: crun; missing: youki, kata", "presente: crun; falta: youki, kata"),
        ("20.1 GiB available", "20,1 GiB disponíveis"),
        ("as kvm-e1000: accel=kvm", "como kvm-e1000: accel=kvm"),
        (
            "a duration from 1ms to 1s, in seconds or with a unit",
            "uma duração de 1ms a 1s, em segundos ou com unidade",
        ),
        (
            "Docker version 20.10.24, a private daemon, runc version 1.1.5",
            "Docker version 20.10.24, um daemon privado, runc version 1.1.5",
        ),
        (
            "not available here: energy: the kernel has no powercap (module intel_rapl_common), or hides RAPL from a "
            "virtual machine; cycles: nobody knows",
            "não disponível aqui: energia: o kernel não tem powercap (módulo intel_rapl_common), ou esconde o RAPL de "
            "uma máquina virtual; cycles: nobody knows",
        ),
        ("QEMU 7.2 runs '0.5 s'", "QEMU 7.2 runs '0.5 s'"),
    ],
)
def test_what_doctor_and_platforms_show_is_in_portuguese(english, expected):
    assert said(english) == expected


def test_the_words_of_a_platform_are_in_portuguese(examined):
    probes = {"one": Probe(True, marks=("emulated",)), "two": Probe(True, marks=("emulated",))}
    examined(Examination(probes, (TUNABLE,), 1.0))
    lines = output_of("doctor").splitlines()
    assert [line.split() for line in lines[2:4]] == [
        ["one", "sim", "emulada"],
        ["two", "sim", "como", "one"],
    ]
    assert "disposição dos endereços (vtax run --tune-host o faz):" in lines
