"""Tags and notes of runs: written, shown, found again, and taken along."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from a_run import begin, fill, put_store
from command_line import output_of, refusal

from vtax.host.home import Home
from vtax.store import schema
from vtax.store.annotations import MAX_NOTE_CHARS, MAX_NOTES, MAX_TAGS
from vtax.store.database import writing
from vtax.store.store import Store

HOSTS = ({"cpus": 2, "machine_id": "aaaaaaaaaaaa"}, {"cpus": 8, "machine_id": "bbbbbbbbbbbb"})
UPDATED = "after the BIOS update"


@pytest.fixture(autouse=True)
def home(unmade_home: Path, tmp_path: Path, monkeypatch) -> Home:
    """tour-1 and tour-2 of two hosts."""
    monkeypatch.chdir(tmp_path)
    made = Home.from_environment().ensure()
    put_store(made.store_file, measure)
    return made


def measure(store: Store) -> None:
    for number, host in enumerate(HOSTS, start=1):
        run = begin(store, f"tour-{number}", host=host, started_at=1.7e9 + number)
        fill(run, blocks=2, trials=1, warmup=0, seed=number)


def names(*conditions: str) -> list[str]:
    options = [option for each in conditions for option in ("--where", each)]
    return [run["name"] for run in json.loads(output_of("list", *options, "--json"))]


def annotations(run: str) -> tuple[list[str], list[str]]:
    found = json.loads(output_of("show", run, "--json"))
    return found["tags"], found["notes"]


def test_notes_and_tags_are_shown_wherever_the_run_is(set_locale):
    output_of("note", "tour-1", *UPDATED.split(" ", 1), "--tag", "paper", "--tag", "quiet")
    assert output_of("note", "tour-1") == f"tags: paper, quiet\n1. {UPDATED}\n"
    shown = output_of("show", "tour-1")
    assert "tags: paper, quiet" in shown
    assert f"note: {UPDATED}" in shown
    result = json.loads(output_of("show", "tour-1", "--json"))
    assert (result["tags"], result["notes"]) == (["paper", "quiet"], [UPDATED])
    line = next(line for line in output_of("list").splitlines() if line.startswith("tour-1"))
    assert "paper, quiet" in line
    assert UPDATED in line
    set_locale("pt_BR")
    assert "etiquetas: paper, quiet" in output_of("show", "tour-1")
    output_of("report", "tour-1", "-o", "x.html")
    assert UPDATED in Path("x.html").read_text()


def test_a_run_is_found_by_its_tag_its_note_and_its_host():
    output_of("note", "tour-1", "after the BIOS update", "--tag", "paper")
    output_of("note", "tour-2", "--tag", "draft")
    assert names("tag=paper") == ["tour-1"]
    assert names("tag=paper", "tag=draft") == ["tour-1", "tour-2"]
    assert names("note=bios") == ["tour-1"]
    assert names("note=bios", "tag=draft") == []
    assert names("host=bbbb") == ["tour-2"]


def test_notes_and_tags_are_removed_again():
    output_of("note", "tour-1", "one", "--tag", "a", "--tag", "b")
    output_of("note", "tour-1", "two")
    output_of("note", "tour-1", "three", "--remove", "1", "--untag", "a")
    assert annotations("tour-1") == (["b"], ["two", "three"])
    assert "no note 3: it has 2" in refusal("note", "tour-1", "--remove", "3").what
    assert "no tag 'a'" in refusal("note", "tour-1", "--untag", "a").what
    assert annotations("tour-1") == (["b"], ["two", "three"])
    assert (
        output_of("note", "tour-1", "--remove", "1,2", "--untag", "b")
        == "tour-1 has no tags and no notes\n"
    )
    assert "add one: " in output_of("note", "tour-1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tag", "two words"], "is no tag"),
        (["--tag", "x" * 41], "is no tag"),
        (["--tag", "a=b"], "is no tag"),
        (["--tag", ""], "'' names nothing"),
        (["  "], "the note is empty"),
        (["x" * (MAX_NOTE_CHARS + 1)], f"at most {MAX_NOTE_CHARS} characters"),
        ([f"--tag=t{n}" for n in range(MAX_TAGS + 1)], f"at most {MAX_TAGS} tags"),
    ],
)
def test_what_is_no_note_or_tag_is_refused_and_nothing_is_stored(arguments, said):
    assert said in refusal("note", "tour-1", *arguments).what
    assert annotations("tour-1") == ([], [])


def test_a_run_has_a_bounded_number_of_notes_and_tags():
    set_run(notes=["x"] * MAX_NOTES, tags=[f"t{n}" for n in range(MAX_TAGS)])
    assert f"at most {MAX_NOTES} notes" in refusal("note", "tour-1", "one more").what
    assert f"at most {MAX_TAGS} tags" in refusal("note", "tour-1", "--tag", "more").what
    output_of("note", "tour-1", "another", "--remove", "1")


def test_vtax_run_refuses_what_is_no_tag_before_anything_else():
    error = refusal("run", "no-such-study", "--tag", "two words")
    assert "is no tag" in error.what
    assert error.where == "--tag"


def set_run(**values: object) -> None:
    with (
        Store.open(Home.from_environment().store_url) as store,
        writing(store.engine) as connection,
    ):
        connection.execute(
            schema.run.update().where(schema.run.c.name == "tour-1").values(**values)
        )


def test_text_of_another_store_is_cleaned_and_cut():
    set_run(notes=["red \x1b[31m\nand \u202eback", "x" * 5000, 7], tags=["a\x07b", "y" * 100])
    tags, notes = annotations("tour-1")
    assert notes[0] == "red \N{REPLACEMENT CHARACTER}[31m and \N{REPLACEMENT CHARACTER}back"
    assert len(notes[1]) == MAX_NOTE_CHARS
    assert [len(tag) for tag in tags] == [3, 40]
    assert "\x1b" not in output_of("list") + output_of("show", "tour-1")


@pytest.fixture
def elsewhere(tmp_path: Path, use_home) -> Callable[[], None]:
    def move() -> None:
        use_home(tmp_path / "there")

    return move


def finish() -> None:
    with Store.open(Home.from_environment().store_url) as store:
        for name in ("tour-1", "tour-2"):
            store.open_run(name).finish("finished", "all blocks", 1.7e9 + 100)


def test_a_bundle_has_them_and_a_run_that_differs_in_them_alone_is_the_same(elsewhere):
    finish()
    output_of("note", "tour-1", "before", "--tag", "paper")
    output_of("export", "tour-1")
    output_of("note", "tour-1", "later")
    assert "tour-1 is this run already" in output_of("import", "tour-1.vtax.gz")
    assert annotations("tour-1") == (["paper"], ["before", "later"])
    elsewhere()
    output_of("import", "tour-1.vtax.gz")
    assert annotations("tour-1") == (["paper"], ["before"])


def test_an_anonymized_bundle_has_no_names_in_notes_and_tags():
    set_run(host={"hostname": "box7.lab.example", "machine_id": "aaaaaaaaaaaa"})
    finish()
    output_of("note", "tour-1", "box7 at 10.1.2.3, /home/alice", "--tag", "box7")
    output_of("export", "tour-1", "--anonymize")
    content = gzip.decompress(Path("tour-1.vtax.gz").read_bytes()).decode()
    assert [name for name in ("box7", "10.1.2.3", "alice") if name in content] == []


def test_a_merged_run_has_the_tags_and_notes_of_its_parts():
    finish()
    output_of("note", "tour-1", "one", "--tag", "a", "--tag", "b")
    output_of("note", "tour-2", "two", "--tag", "b")
    output_of("merge", "tour-1", "tour-2")
    assert annotations("tour-merged-1") == (["a", "b"], ["tour-1: one", "tour-2: two"])
    assert names("host=aaaa") == ["tour-1", "tour-merged-1"]
