"""A language is a file: every text that a report shows comes from the catalogue. Figures here are invented."""

from __future__ import annotations

import dataclasses
import re
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from a_run import begin, fill, measured, noisy
from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po
from rich.console import Console
from shown import source_of

from vtax.counters.host import host_facts
from vtax.messages import Note, packed, restored, together
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.compare.compute import contrast
from vtax.report.answers.compare.show import document_of as contrast_document
from vtax.report.answers.counters import view as counters
from vtax.report.answers.counters.compute import Counted, HopTraffic
from vtax.report.answers.pivot import show as pivot_view
from vtax.report.answers.pivot.compute import Axes, pivot
from vtax.report.answers.pivot.values import Quantity
from vtax.report.chapters import report
from vtax.report.document import Document, IntervalCell, term
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.html import html
from vtax.report.renderers.language import Language, language, read
from vtax.report.renderers.latex import latex
from vtax.report.renderers.markdown import markdown
from vtax.report.renderers.terminal import render
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.store.store import Store

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WIDE = {
    ord(letter): ord(letter) + 0xFEE0
    for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
}
UNITS = {"min", "ms", "MiB", "GiB", "KiB", "TiB", "Gbit", "bit"}
OF_TOOLS = {
    "failed-trial",
    "lost-guest",
    "clock-skew",
}  # codes of warnings that are words of a tool or a guest
OURS = {
    "toml",
    "vtax",
    "show",
    "report",
    "export",
    "all",
    "format",
    "csv",
    "Linux",
}  # commands, and a proper name


def pseudo(text: str) -> str:
    """A template with every letter outside of its placeholders as a wide one."""
    parts = re.split(r"(\{\w+\})", text)
    return "".join(
        part if number % 2 else part.translate(WIDE) for number, part in enumerate(parts)
    )


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    """Every message of reports, to be translated."""
    found: Catalog = runpy.run_path(str(ROOT / ".ci" / "messages"))["catalogue"]()
    return found


def made_up(translate: Callable[[str], str], catalogue: Catalog, directory: Path) -> Language:
    """A language that translates each message of the catalogue alike; its numbers are written as in Brazil."""
    for message in catalogue:
        if message.id:
            message.string = (
                tuple(map(translate, message.id)) if message.pluralizable else translate(message.id)
            )
    path = directory / "pt-BR.po"
    with path.open("wb") as file:
        write_po(file, catalogue)
    return read("pt-BR", path)


@pytest.fixture(scope="module")
def wide(catalogue: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Language:
    """A language whose letters are all wide."""
    return made_up(pseudo, catalogue, tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def bracketed(catalogue: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Language:
    """A language that sets each message in brackets."""
    return made_up("⟦{}⟧".format, catalogue, tmp_path_factory.mktemp("bracketed"))


def strings(value: Any) -> Iterator[str]:
    """Every text of a run: its data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from (*strings(key), *strings(each))
    elif isinstance(value, Iterable):
        for each in value:
            yield from strings(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))


def data_words(analysis: Analysis) -> set[str]:
    """Words that are data: names, units, and what tools, guests and the host say. Texts of ours are none, stored ones
    neither: reasons, marks, notes, titles of metrics, names of the host's facts."""
    parts = (
        analysis.name,
        analysis.study,
        analysis.declared,
        list(analysis.host.values()),
        analysis.cells,
        [(p.name, p.version, p.identity) for p in analysis.platforms],
        analysis.image_key,
        analysis.vtax_version,
        [(guest.facts, guest.error) for guest in analysis.guests],
        analysis.failures,
        [(section.metric.name, section.metric.unit) for section in analysis.sections],
        [warning.data.get("text", "") for warning in analysis.warnings if warning.kind in OF_TOOLS],
        [warning.code for warning in analysis.warnings],
    )
    return {word for text in strings(parts) for word in re.findall(r"[A-Za-z]{2,}", text)}


def english_words(text: str, analysis: Analysis) -> set[str]:
    """Words of Latin letters that are no data, nor part of a command that one types."""
    text = re.sub(r"sudo\s+vtax\s+resume\s+\S+(\s+--(session|budget\s+\d+min))?", " ", text)
    text = re.sub(r"--[a-z]+", " ", text)
    return set(re.findall(r"[A-Za-z]{2,}", text)) - data_words(analysis) - UNITS - OURS


def page_text(page: str) -> str:
    """What a reader of a page can see or hear, without what is typed."""
    spoken = " ".join(re.findall(r'(?:title|aria-label)="([^"]*)"', page))
    drawn_text = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", page))
    rest = re.sub(r"<(script|style|svg|pre)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"&#?\w+;", " ", re.sub(r"<[^>]+>", " ", rest)) + spoken + drawn_text


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A run with failures, warnings, audits, an emulated host, a missed target and an untested platform."""
    from vtax.report.analysis.source import source_of as stored

    with Store.open(f"sqlite:///{tmp_path_factory.mktemp('language') / 'store.sqlite'}") as store:
        host = {
            **dict.fromkeys(host_facts(), "x"),
            "cpu_model": "Some CPU",
            "cpus": 2,
            "memory_bytes": 8 << 30,
            "swap_bytes": 0,
            "huge_page_bytes": 0,
            "kernel": "6.1",
            "virtualized": True,
            "hypervisor": "kvm",
            "cpu_emulated": True,
        }
        fill(run := begin(store, host=host))
        for platform, offset_s in (("native", 0.0), ("docker", 99.5)):
            guest = run.begin_guest(platform, 0, "", 1.0)
            facts = {
                "kernel": platform,
                "flags": ["aa", "bb"] if offset_s else ["aa"],
                "tcp_congestion_control": platform,
            }
            run.end_guest(
                guest, ready_s=1.0, clock_offset_s=offset_s, facts=facts, notes=(), error="it fell"
            )
        fill(begin(store, "tour-2", image_key="other", host={"cpu_model": "Other"}))
        yield stored(store, "tour-1")


@pytest.fixture(scope="module")
def undecided() -> Source:
    """A run of few blocks, whose noise decides nothing."""
    return source_of(measured(noisy(0.3, 0.1), blocks=3)[1])


@pytest.fixture(scope="module")
def whole(source: Source) -> Document:
    """The report of `source`."""
    return report(source)


def terminal(document: Document, language: Language) -> str:
    console = Console(width=160, highlight=False, file=None)
    with console.capture() as captured:
        render(document, console, language)
    return captured.get()


@pytest.mark.parametrize("depth", ["brief", "all", "report"])
@pytest.mark.parametrize("name", sorted(views()))
def test_no_text_of_a_view_escapes_the_catalogue(source, undecided, wide, name, depth):
    if name == "reproduce":
        pytest.skip("it is what one types")
    for made in (source, undecided):
        if name in ("variance", "counters") and made is not source:
            continue  # these ask the store
        text = terminal(views()[name].document(made, Options(depth)), wide)
        assert english_words(text, made.analysis) == set(), text
        assert re.search("[ａ-ｚ]", text)


@pytest.mark.parametrize("quantity", get_args(Quantity))
def test_no_text_of_a_table_by_factors_escapes_the_catalogue(source, wide, quantity):
    sides = (("direction", ""), ("session", "direction"))
    for (columns, panels), to in product(sides, ("", "direction=send")):
        axes, where = Axes(columns=columns, panels=panels), ["benchmark=iperf3", "platform=docker"]
        found = pivot(source, axes, quantity, where=where, to=to)
        text = terminal(pivot_view.document_of(found), wide)
        assert english_words(text, source.analysis) - {"benchmark", "session"} == set(), text


def test_no_text_of_a_report_escapes_the_catalogue(source, whole, wide, without_script):
    page = html(whole, wide)
    assert '<html lang="pt-BR">' in page
    assert english_words(page_text(page), source.analysis) == set()
    assert page.count("<figure>") == 6
    text = re.sub(r"```.*?```|`[^`]*`", "", markdown(whole, wide), flags=re.DOTALL)
    assert english_words(text, source.analysis) == set()
    assert "booktabs" in latex(whole, wide)


def test_every_text_of_a_page_is_a_translation(source, whole, bracketed, without_script):
    """In a language that sets each message in brackets, what stands outside of all is data."""
    typed = r"<(pre|code)\b.*?</\1>"
    for text in (
        page_text(re.sub(typed, " ", html(whole, bracketed), flags=re.DOTALL)),
        re.sub(r"```.*?```|`[^`]*`", "", markdown(whole, bracketed), flags=re.DOTALL),
        *(
            re.sub(
                r"vtax show \S+ --all",
                "",
                terminal(views()[name].document(source, Options("all")), bracketed),
            )
            for name in views()
            if name != "reproduce"
        ),
    ):
        outside = text
        while (shorter := re.sub(r"⟦[^⟦⟧]*⟧", " ", outside)) != outside:
            outside = shorter
        assert "⟦" in text
        assert english_words(outside, source.analysis) == set()


def test_what_a_run_stored_is_shown_in_the_readers_language_with_its_data(bracketed):
    show = Formatter(bracketed).text
    assert show(term("emulated")) == "⟦emulated⟧"
    assert show(term("a {word} of a study")) == "a {word} of a study"
    assert (
        show(restored(packed(Note("no-device", device="/dev/kvm"))))
        == "⟦this host has no /dev/kvm⟧"
    )
    both = together(
        [Note("contrasts-miss", count=2, total=6, what="a verdict", blocks=9), Note("time-is-left")]
    )
    shown = "⟦⟦2 of 6 contrasts miss ⟦a verdict⟧ after 9 blocks⟧; ⟦time is left⟧⟧"
    assert show(restored(packed(both))) == shown
    assert show("the guest's own {words}") == "the guest's own {words}"


def test_numbers_are_written_as_the_language_does(source, wide):
    text = terminal(views()["result"].document(source, Options()), wide)
    assert re.search(r"\[7,\d+; 7,\d+\]", text)
    assert not re.search(r"\d\.\d", re.sub(r"0\.1\.0|1\.0\.20|3\.18|Linux 6\.1|", "", text))


@pytest.mark.parametrize("of", ["quantity", "change"])
def test_a_semicolon_separates_two_numbers_that_have_commas(of):
    low, high = (
        Formatter(language("pt-BR"))
        .text(IntervalCell(-0.01234, 1.2345, of))
        .strip("[]")
        .split("; ")
    )
    assert "," in low + high
    assert "." not in low + high
    assert ", " in Formatter().text(IntervalCell(-0.01234, 1.2345, of))


def test_no_interval_of_a_portuguese_report_is_ambiguous(whole):
    portuguese = markdown(whole, language("pt-BR"))
    comma, semicolon = (rf"\[[−+\d][^\]\[\n]*{sign} [−+\d∞][^\]\[\n]*[\])]" for sign in ",;")
    assert re.findall(comma, markdown(whole).replace("\\", ""))
    assert re.findall(semicolon, portuguese.replace("\\", ""))
    assert re.findall(comma, portuguese.replace("\\", "")) == []


def test_units_that_are_words_are_translated(whole):
    portuguese = markdown(whole, language("pt-BR"))
    assert "eventos/s" in portuguese
    assert "events/s" not in portuguese
    assert "events/s" in markdown(whole)


def test_a_contrast_has_no_text_outside_the_catalogue(tmp_path, wide):
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        fill(begin(store), trials=1, warmup=0)
        fill(
            begin(store, "tour-2", image_key="other", host={"cpu_model": "Other"}),
            trials=1,
            warmup=0,
            seed=2,
        )
        found = contrast(store, "tour-1:docker", "tour-2:docker")
    text = terminal(contrast_document(found), wide)
    known = data_words(found.treatment.analysis) | data_words(found.baseline.analysis)
    assert set(re.findall(r"[A-Za-z]{2,}", text)) - known - UNITS - OURS == set()


def test_no_text_of_counters_escapes_the_catalogue(source, wide):
    hop = HopTraffic("eth0", 1.0, 2.0, 3.0, 4.0, 5.0)
    cell = Counted(
        "iperf3",
        {"mtu": 1500},
        "docker",
        3,
        1.0,
        2.0,
        {"peer": 0.5},
        0.25,
        1.25,
        2e9,
        {"peer": 7.0},
        (hop,),
        5.0,
        {},
        {},
    )
    text = terminal(counters.document_of([cell], source.analysis), wide)
    assert set(re.findall(r"[A-Za-z]{2,}", text)) == {"iperf", "mtu", "docker", "eth", "peer"}


def test_a_language_that_lacks_a_text_or_has_other_data_is_named(tmp_path):
    script = runpy.run_path(str(ROOT / ".ci" / "messages"))
    texts, translated = Catalog(), Catalog(locale="pt_BR")
    for text in ("plain", "with {data}", ("{count} block", "{count} blocks")):
        texts.add(text)
    translated.add("with {data}", "com {dado}")
    translated.add(("{count} block", "{count} blocks"), ("{count} bloco", ""))
    translated.add("gone", "não há mais")
    with (tmp_path / "pt-BR.po").open("wb") as file:
        write_po(file, translated)
    assert list(script["problems"](tmp_path / "pt-BR.po", texts)) == [
        "pt-BR.po lacks 'plain'",
        "pt-BR.po has other data in 'com {dado}' than 'with {data}'",
        "pt-BR.po lacks ('{count} block', '{count} blocks')",
        "pt-BR.po has a text that vtax has no more: 'gone'",
    ]
