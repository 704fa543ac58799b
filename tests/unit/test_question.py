"""Which cells a question is about: how they are selected, put into places, and what their places mix."""

from dataclasses import dataclass

import pytest

from vtax.errors import BadInput
from vtax.levels import BENCHMARK, METRIC, PLATFORM, KnownLevels, Levels
from vtax.question import EVERYTHING, Selection, by, group, residue, rest

CELLS = [
    Levels({PLATFORM: "native", BENCHMARK: "iperf3", "link.mtu": 1500, "buffer": "64KiB"}),
    Levels({PLATFORM: "docker", BENCHMARK: "iperf3", "link.mtu": 1500, "buffer": 65536}),
    Levels({PLATFORM: "docker", BENCHMARK: "iperf3", "link.mtu": 9000, "words": "a b,c"}),
    Levels({PLATFORM: "podman", BENCHMARK: "sysbench"}),
]
KNOWN = KnownLevels("run-1", CELLS)


def parse(*conditions: str) -> Selection:
    return Selection.parse(conditions, KNOWN, "--where", "write --where FACTOR=LEVEL")


def numbers_of(selection: Selection) -> list[int]:
    return [number for number, levels in enumerate(CELLS) if selection.selects(levels)]


@pytest.mark.parametrize(
    ("written", "cells"),
    [
        (["platform=docker|podman"], [1, 2, 3]),
        (["platform=docker,podman"], [1, 2, 3]),
        (["platform=docker", "platform=podman"], [1, 2, 3]),
        (["platform=docker|podman link.mtu=1500"], [1]),
        (["platform=docker|podman,link.mtu=1500"], [1]),
        (["platform = docker", "mtu=1500.0"], [1]),
        (["buffer=64k"], [0, 1]),
        (["words=a b,c"], [2]),
        (["words=a b,c platform=docker"], [2]),
        (["platform=native words=a b,c"], []),
        ([], [0, 1, 2, 3]),
    ],
)
def test_a_selection_is_read_as_a_person_writes_it(written, cells):
    assert numbers_of(parse(*written)) == cells


def test_a_selection_is_written_as_it_is_read():
    selection = parse("platform=docker|podman link.mtu=1500")
    assert str(selection) == "platform=docker|podman link.mtu=1500"
    assert parse(str(selection)) == selection
    assert not EVERYTHING
    assert str(EVERYTHING) == ""


@pytest.mark.parametrize(
    ("written", "what", "hint"),
    [
        ("platfrom=docker", "run-1 has no factor 'platfrom'", "did you mean platform?"),
        ("platform=dokcer", "run-1 has no level of platform, 'dokcer'", "did you mean docker?"),
        ("platform=docker|podmna", "run-1 has no level of platform, 'podmna'", "podman?"),
        ("platform=docker|", "a level of platform is missing", "write --where FACTOR=LEVEL"),
        ("platform=docker link.mut=1500", "run-1 has no factor 'link.mut'", "link.mtu?"),
        ("mtu=9", "run-1 has no level of link.mtu, '9'", "known: 1500, 9000"),
        ("docker", "'docker' is not of the form factor=level", "write --where FACTOR=LEVEL"),
        ("", "a factor=level is missing", "write --where FACTOR=LEVEL"),
    ],
)
def test_what_cannot_be_selected_is_refused_with_the_nearest_names(written, what, hint):
    with pytest.raises(BadInput) as refused:
        parse(written)
    assert (refused.value.what, refused.value.where) == (what, "--where")
    assert hint in refused.value.hint


def test_a_table_of_a_study_selects_as_a_text_does():
    selection = Selection.of({"link.mtu": [1500, "9000.0"], "platform": "docker"})
    assert numbers_of(selection) == [1, 2]
    assert numbers_of(Selection.of({"buffer": 65536})) == [0, 1]
    assert not Selection.of({"on": True}).selects(Levels({"on": 1}))
    assert Selection.of({"on": True}).selects(Levels({"on": "true"}))


def test_a_cell_without_the_factor_is_allowed_and_not_selected():
    selection = Selection({"link.mtu": ("1500",)})
    assert [selection.selects(levels) for levels in CELLS] == [True, True, False, False]
    assert [selection.allows(levels) for levels in CELLS] == [True, True, False, True]


def test_the_baseline_is_beside_platforms_that_are_named():
    assert numbers_of(parse("platform=podman").beside("native")) == [0, 3]
    assert parse("mtu=9000").beside("native") == parse("mtu=9000")


def test_selections_are_put_together_and_taken_apart():
    both = parse("platform=docker mtu=1500").and_also(parse("mtu=9000"))
    assert str(both) == "platform=docker link.mtu=9000"
    assert both.only((PLATFORM,)).choices == {PLATFORM: ("docker",)}
    assert both.without((PLATFORM,)).choices == {"link.mtu": ("9000",)}
    assert both.platforms == ("docker",)
    assert both.levels == {"link.mtu": ("9000",)}


def test_one_selection_has_all_of_another_where_both_name_a_factor():
    wide = Selection({"size": ("1", "64KiB"), "mtu": ("1500",)})
    assert wide.has_all_of(Selection({"size": ("65536",), "other": ("x",)}))
    assert not wide.has_all_of(Selection({"size": ("1", "2")}))


@dataclass(frozen=True)
class Cell:
    levels: Levels


def test_cells_of_equal_levels_are_in_one_place():
    cells = [Cell(levels) for levels in CELLS]
    assert list(group(cells, by(PLATFORM)).values()) == [[cells[0]], cells[1:3], [cells[3]]]
    by_rest = group(cells, rest(PLATFORM))
    assert list(by_rest.values()) == [cells[:2], [cells[2]], [cells[3]]]
    assert by(PLATFORM, METRIC).of(CELLS[0]) == {PLATFORM: "native"}


def test_what_a_place_mixes_is_its_residue():
    docker = [levels for levels in CELLS if levels[PLATFORM] == "docker"]
    assert residue(docker, (PLATFORM,)) == {
        "link.mtu": ["1500", "9000"],
        "buffer": ["65536", "none"],
        "words": ["none", "a b,c"],
    }
    assert residue(CELLS[:2], (PLATFORM,)) == {}
    assert residue(docker, ("link.mtu", "buffer", "words")) == {}
