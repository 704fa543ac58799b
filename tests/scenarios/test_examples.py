"""The runs in docs/examples are read by this vtax: each can be imported, and its claims and report be made."""

import json
import re

import pytest
from command_line import output_of
from doc_examples import DOCS
from shown import english

from vtax.report.analysis.source import source_of
from vtax.report.chapters import report
from vtax.report.parts.sentences import sentence_of
from vtax.report.renderers.html import html
from vtax.report.renderers.markdown import markdown
from vtax.store.store import Store
from vtax.study.load import load

EXAMPLES = DOCS / "examples"
CHAPTER = re.compile(r"^## ([a-z0-9-]+)\n+\d+ blocks, .*, (\d+) trials, (\d+) failed", re.MULTILINE)
TRIALS = {
    name: (trials, failed)
    for name, trials, failed in CHAPTER.findall((DOCS / "found.md").read_text())
}


def test_every_bundle_has_a_chapter():
    assert {path.name.removesuffix(".vtax.gz") for path in EXAMPLES.glob("*.vtax.gz")} == set(
        TRIALS
    )


@pytest.mark.parametrize("name", TRIALS)
def test_an_example_is_read_and_its_answer_fits_a_window_of_a_terminal(
    name, example, use_store, set_width
):
    use_store(example(name))
    (listed,) = json.loads(output_of("list", "--json"))
    assert (listed["study"], listed["status"], listed["failed"]) == (
        name.removesuffix("-kvm").removesuffix("-xen"),
        "finished",
        int(TRIALS[name][1]),
    )
    assert listed["trials"] == int(TRIALS[name][0])
    study = load(listed["study"]).study
    if study.claim:
        assert json.loads(output_of("claims", "--json"))["claims"]
    set_width("80")
    text = output_of("show")
    assert text.startswith(f"{listed['name']}: finished")
    lines = text.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    lengths = {
        "tour": (70, 80),
        "service": (61, 75),
        "anatomy": (114, 130),
    }  # of which two are tables
    short, long = lengths.get(name, (89, 100))
    assert (
        len(lines) <= long
    )  # every cell has its bound, and below it its cost; a legend says what they are
    starts = [study.title, "Caution:", "Next:"]
    places = [next(n for n, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert places == sorted(places)
    assert len(lines) - places[0] <= short
    assert lines[places[0] :].count("") <= 4, (
        "matrix, answer, cautions and next step stand together"
    )


def test_tables_stand_below_all_or_a_filter(example, use_store):
    use_store(example("tour"))
    brief, every, one = (
        output_of("show"),
        output_of("show", "--all"),
        output_of("show", "--benchmark", "stream"),
    )
    table = "±95\N{NO-BREAK SPACE}%"
    assert table not in brief
    more = re.search(
        r"vtax show tour-1 --all: tables of (\d+) metrics; --benchmark NAME: those of one;", brief
    )
    assert more is not None
    assert every.count(table) == int(more[1])
    assert one.count(table) == 1
    assert [text.count("Warnings\n") for text in (brief, every, one)] == [0, 1, 0]


@pytest.mark.parametrize("study", ["tour", "rootless", "runtimes", "service", "shares"])
def test_the_answer_has_at_most_30_words_for_platforms_that_are_alike(example, study):
    store = Store.existing(example(study))
    (run,) = store.runs()
    sentence = english(sentence_of(source_of(store, run.name).analysis))
    groups = sentence.split(". ")  # a number and its sign are one word
    assert [each for each in groups if len(each.split(" ")) > 30] == []


def test_terminal_report_and_recommendation_say_one_sentence(example, use_store):
    use_store(example("tour"))
    store = Store.existing(example("tour"))
    (run,) = store.runs()
    source = source_of(store, run.name)
    sentence = " ".join(english(sentence_of(source.analysis)).split())
    assert sentence in " ".join(output_of("show").split())
    assert sentence in " ".join(output_of("recommend").split())
    for render in (html, markdown):
        assert sentence.partition("qemu")[0] in " ".join(
            re.sub("<[^>]*>|\\\\", "", render(report(source))).split()
        )


def test_a_comparison_ends_with_its_answer_and_what_would_decide(example, use_store):
    use_store(example("service"))
    tables, _, summary = output_of("compare", "docker", "lxc").partition("\nSummary\n")
    answer = " ".join(summary.split())
    largest = re.match(
        r"docker against lxc: .*; no difference in speed found; a slowdown of up to (\d\S*)\s% \(",
        answer,
    )
    assert largest is not None
    bounds = [float(each) for each in re.findall(r"at most (\d\S*)\s% slower", tables)]
    assert bounds
    assert float(largest[1]) == max(bounds)
    assert re.search(r"\. Next: no number of blocks within an hour would decide .*\.$", answer)
