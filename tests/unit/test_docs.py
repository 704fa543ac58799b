"""What the documentation shows must work: studies are validated, commands and options exist, links lead somewhere."""

import itertools
import re
import runpy
import tomllib

import click
import pytest
from doc_examples import PAGES, ROOT, blocks, commands

from vtax import __version__
from vtax.cli.commands import COMMANDS
from vtax.cli.main import group
from vtax.study.load import validate

NO_SENTENCE = re.compile(r"\s*$|[|#<]|!\[|    ")
"""Blank lines, tables, headings, comments, pictures and indented blocks."""
FIRST_OF_ITEM = re.compile(r"\s*([-*]|\d+\.) ")
END_OF_SENTENCE = re.compile(r"[.!?:][*_)”]*$")


def wrapped_lines(text: str) -> list[str]:
    """Lines of a page that go on in the next line of the same paragraph or item."""
    lines = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
    return [
        line
        for line, following in itertools.pairwise(lines)
        if not NO_SENTENCE.match(line)
        and not NO_SENTENCE.match(following)
        and not FIRST_OF_ITEM.match(following)
        and not END_OF_SENTENCE.search(line)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A sentence.\nAnother one:\n\n- an item\n- more.\n  Again", 0),
        ("A sentence that\ngoes on.", 1),
        ("- An item that\n  goes on.", 1),
        ("|a|\n|b|\n\n```sh\na\nb\n```\n", 0),
    ],
)
def test_a_wrapped_sentence_is_found(text, found):
    assert len(wrapped_lines(text)) == found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_sentence_has_a_line_of_its_own(page):
    assert wrapped_lines(page.read_text()) == []


def test_there_is_documentation_to_check():
    assert blocks("toml")
    assert commands()


@pytest.mark.parametrize(("place", "text"), blocks("toml"))
def test_every_study_shown_is_valid(place, text):
    data = tomllib.loads(text)
    if "benchmark" in data and "platforms" in data:
        validate(data, place)


@pytest.mark.parametrize(("place", "words"), commands())
def test_every_command_shown_exists_with_its_options(place, words):
    if words[0].startswith("-") or not words[0].islower():
        return
    assert words[0].partition("|")[0] in COMMANDS, place
    command = group.get_command(click.Context(group), words[0])
    if isinstance(command, click.Group) and len(words) > 1:
        command = command.get_command(click.Context(command), words[1])
        assert command is not None, place
    known = {
        name
        for p in command.get_params(click.Context(command))
        for name in (*p.opts, *p.secondary_opts)
    } | {"--help"}
    for word in words[1:]:
        if word.startswith("-") and word != "-":
            assert word.partition("=")[0] in known, f"{place}: {word}"


def test_every_step_of_a_trial_is_a_function_of_its_name():
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("## One trial\n")[2].partition("\n## ")[0]
    names = re.findall(r"\(`([A-Z]\w+)\.(\w+)`\)", section)
    assert len(names) >= 8
    source = "".join(path.read_text() for path in (ROOT / "src/vtax/runner").glob("*.py"))
    for owner, name in names:
        body = source.partition(f"\nclass {owner}:\n")[2].partition("\nclass ")[0]
        assert f"    def {name}(self" in body, f"{owner}.{name}"


def test_the_changelog_and_the_citation_are_of_this_version():
    changelog, citation = (ROOT / name for name in ("CHANGELOG.md", "CITATION.cff"))
    newest = re.search(r"^## (\S+), (\S+)$", changelog.read_text(), re.MULTILINE)
    cited = re.search(r"^version: (.+)\ndate-released: (.+)$", citation.read_text(), re.MULTILINE)
    assert newest
    assert cited
    assert newest.groups() == cited.groups()
    assert newest[1] == __version__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page):
    for match in re.finditer(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / match[1]).exists(), f"{page.name}: {match[1]}"


def test_every_promise_is_measured_by_a_command_that_is_there():
    """And every script of bench/ that speaks of a promise is named where promises stand."""
    page = (ROOT / "docs" / "promises.md").read_text()
    named = set(re.findall(r"bench/[a-z_/]+\.py", page))
    assert {path for path in named if not (ROOT / path).is_file()} == set()
    scripts = {
        script.relative_to(ROOT).as_posix(): script.read_text()
        for script in ROOT.glob("bench/*.py")
    }
    assert {name for name, text in scripts.items() if "promise" in text} <= named


def test_a_cell_of_the_promises_is_read_at_a_glance():
    lines = [
        line
        for line in (ROOT / "docs/promises.md").read_text().splitlines()
        if line.startswith("|")
    ]
    cells = [cell.strip() for line in lines for cell in line.strip("|").split("|")]
    assert [cell for cell in cells if len(cell.split()) > 20] == []


def test_every_page_that_a_script_cites_is_there_and_speaks_of_it():
    for script in ROOT.glob("bench/**/*.py"):
        for page in re.findall(r"docs/[a-z-]+\.md", script.read_text()):
            assert script.name in (ROOT / page).read_text(), f"{script.name} cites {page}"


def test_the_claims_that_a_host_tests_are_those_of_the_study_files():
    """Otherwise: run .ci/tested."""
    assert (
        runpy.run_path(str(ROOT / ".ci/tested"))["tested"]()
        in (ROOT / "docs/studies.md").read_text()
    )
