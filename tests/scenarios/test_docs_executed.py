"""The commands that the documentation shows are carried out, as far as an ordinary user gets.

What needs root must say so and nothing else: its arguments are understood by then. Left out is what installs a
package of the reader's own (the pages on adding a platform and a benchmark, whose examples have tests of their own),
campaigns, which need hosts, and inline commands that are fragments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from a_run import begin, fill
from click.testing import CliRunner
from doc_examples import BLOCK, ROOT, blocks, commands

from vtax.cli.main import group
from vtax.doctor import examine
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.store.store import Store

LOOKS = (
    "show",
    "report",
    "schema",
    "studies",
    "topologies",
    "benchmarks",
    "platforms",
    "list",
    "image",
)
IN_THE_STORE = {"podman": "lxc", "RUN": "last"}
"""What a page names, and what the invented run has in its place."""
NEEDS_ROOT = (
    ["run"],
    ["anatomy"],
    ["resume"],
    ["clean"],
    ["shell"],
    ["pack"],
    ["image", "add"],
    ["image", "build"],
    ["image", "import"],
)


def shown() -> list[tuple[str, ...]]:
    """Whole commands: of shell blocks, and inline ones that only look."""
    in_blocks = {place for language in ("sh", "console", "bash") for place, _ in blocks(language)}
    found = dict.fromkeys(
        tuple(words)
        for place, words in commands()
        if not place.startswith("add-a-")
        and (place in in_blocks or words[0] in LOOKS)
        and words[0] != "campaign"
    )
    fragments = ("NAME", "DRIVER", "KEY", "RUN1", "MODULE", "STUDY.toml", "[TRIAL]", "remove")
    whole = [
        words
        for words in found
        if not any(re.split("[,=]", word)[0] in fragments for word in words)
    ]
    return [words for words in whole if words[-1] != "add"]


def study_of(name: str) -> str:
    """The study that the page which names this file shows; the first of the README where the page shows none."""
    pages = [
        page
        for page in (*ROOT.glob("README*.md"), *(ROOT / "docs").glob("*.md"))
        if name in page.read_text()
    ]
    texts = [
        match[2]
        for page in [*pages, ROOT / "README.md"]
        for match in BLOCK.finditer(page.read_text())
    ]
    return next(text for text in texts if re.search(r"^platforms = ", text, re.MULTILINE))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory to work in as an ordinary user, with a finished run in the store and nothing else installed."""
    directory = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VTAX_HOME", str(directory / "home"))
        patch.delenv("VTAX_STORE", raising=False)
        patch.setattr("os.geteuid", lambda: 1000)
        patch.setattr(examine, "sample_load", partial(examine.sample_load, 0.01))
        patch.chdir(directory)
        with Store.open(Home.from_environment().ensure().store_url) as store:
            run = begin(store)
            fill(run, blocks=6, trials=1)
        yield directory


def test_there_are_commands_to_carry_out():
    assert len(shown()) > 20
    assert ("run", "my-service.toml", "--dry-run") in shown()


@pytest.fixture
def with_example(
    tmp_path: Path,
    use_home: Callable[[Path], None],
    use_store: Callable[[Path], None],
    example: Callable[[str], Path],
) -> Callable[[list[str]], list[str]]:
    """Arguments with the path of a file of docs/examples that they name; the store has the example of a named run."""
    runs = {
        f"{bundle.name.partition('.')[0]}-1"
        for bundle in (ROOT / "docs/examples").glob("*.vtax.gz")
    }

    def prepare(given: list[str]) -> list[str]:
        if any(word.startswith("docs/examples/") for word in given):
            use_home(tmp_path / "home")
        for word in runs.intersection(given):
            use_store(example(word.removesuffix("-1")))
        return [str(ROOT / word) if word.startswith("docs/examples/") else word for word in given]

    return prepare


@pytest.mark.parametrize("words", shown(), ids=" ".join)
def test_a_command_of_the_documentation_does_what_an_ordinary_user_may_have(
    words, reader, with_example
):
    given = with_example([IN_THE_STORE.get(word, word) for word in words])
    for word in given:
        if word.endswith(".toml"):
            (reader / word).write_text(study_of(word))
    done = CliRunner().invoke(group, given)
    root = any(given[: len(start)] == start for start in NEEDS_ROOT) and not {"--dry-run"} & set(
        given
    )
    if root:
        assert isinstance(done.exception, BadInput), done.output
        assert "needs root" in done.exception.what
    else:
        finds_slower = words[0] == "compare" and done.exit_code == 1  # as it is in the invented run
        assert done.exception is None or finds_slower, done.output
        assert done.output.strip()
