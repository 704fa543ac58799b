"""docs/proof.md: every table is that of a command, and one command writes them all."""

import re
import sys

import pytest
from doc_examples import ROOT

sys.path.insert(0, str(ROOT / "bench" / "statistics"))

import proof

TEXT = (ROOT / "docs" / "proof.md").read_text()
OUTPUT = """some words
| noise | blocks | covers | words |
|---|---:|---|---|
| normal | 5 | 95.0 | 3.0 → 2.5 (0.1) |
| normal | 10 | 94.1 | 1.0 → 4.0 (0.3) |
| t of 3 df | 5 | 96.2 | 10.0 → 0.5 (0.0) |

## other

| a |
|---|
| 1 |
took 3 s
"""


def test_every_place_has_its_table_below_the_command_that_prints_it():
    assert sorted(re.findall(r"<!-- (?!end )(\w+) -->", TEXT)) == sorted(proof.PLACES)
    for name, place in proof.PLACES.items():
        inside = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end {name} -->", TEXT, re.DOTALL)[1]
        command, _, table = inside.partition("\n\n")
        assert command == f"`python bench/statistics/{place.command}`"
        assert re.search(r"\d", table), name
        assert (ROOT / "bench" / "statistics" / place.command.split()[0]).is_file()


def test_simulated_figures_stand_in_places_alone():
    outside = re.sub(r"<!-- (\w+) -->.*?<!-- end \1 -->", "", TEXT, flags=re.DOTALL)
    sections = outside.split("\n## ")
    with_figures = [
        each.splitlines()[0]
        for each in sections
        if re.search(r"\d\.\d (and|to|→|\()|\d\.\d\*\*", each)
    ]
    assert set(with_figures) <= {
        "Intervals, verdicts and power",
        "Published findings",
        "Real runs",
    }  # conditions, and what was measured once


def test_rows_that_are_alike_become_one():
    first, second = proof.tables_in(OUTPUT)
    assert second == [["a"], ["1"]]
    place = proof.Place("x.py", columns=(0, 2, 3), by=(0,), largest=(3,))
    assert proof.shown(place, first) == [
        ["noise", "covers", "words, largest"],
        ["normal", "94.1 to 95.0", "3.0 → 4.0 (0.3)"],
        ["t of 3 df", "96.2", "10.0 → 0.5 (0.0)"],
    ]
    assert proof.body(place, [["a"], ["1"]]) == "`python bench/statistics/x.py`\n\n|a|\n|---|\n|1|"


def test_a_place_is_written_and_a_missing_one_is_named():
    text = "before\n<!-- a -->\nold\n<!-- end a -->\nafter\n"
    assert (
        proof.written(text, "a", "new\n|1|")
        == "before\n<!-- a -->\nnew\n|1|\n<!-- end a -->\nafter\n"
    )
    with pytest.raises(SystemExit, match="0 places for the table b"):
        proof.written(text, "b", "new")
