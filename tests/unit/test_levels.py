"""How levels are read and written, and when two are the same."""

import pytest

from vtax.errors import BadInput
from vtax.levels import (
    HOST,
    PLATFORM,
    KnownLevels,
    Levels,
    canonical,
    flat,
    number_of,
)

KNOWN = KnownLevels(
    "run-1",
    [
        {"link.mtu": 1500, "direction": "send", "buffer": "64KiB", "words": "a,b"},
        {"link.mtu": 500, "direction": "Receive", "buffer": 65536, "mtu.x": 1},
    ],
    ["platform"],
)


def find(written: str) -> tuple[str, tuple[str, ...]]:
    return KNOWN.find(written, "--where", "write --where FACTOR=LEVEL")


def test_levels_are_written_as_they_are_read():
    levels = Levels({"direction": "send", "link.mtu": 1500})
    assert str(levels) == "direction=send, link.mtu=1500"
    assert str(Levels()) == ""
    assert Levels.parse(levels.show(",")) == {"direction": "send", "link.mtu": "1500"}


@pytest.mark.parametrize("text", ["", "direction", "=send", "direction=", "a=1,", "a=1,,b=2"])
def test_text_that_is_no_levels_is_refused(text):
    with pytest.raises(ValueError, match="factor=level"):
        Levels.parse(text)


def test_levels_are_not_changed():
    given = {"size": 1}
    levels = Levels(given)
    given["size"] = 2
    with pytest.raises(TypeError):
        levels["size"] = 3  # type: ignore[index]
    assert levels == {"size": 1}


def test_a_level_is_the_same_however_it_is_spelled():
    alike = [Levels({"size": size}) for size in ("1KiB", 1024, 1024.0, "1024", "1k")]
    assert {levels.canonical for levels in alike} == {Levels({"size": "1024"})}
    assert Levels({"on": True}).canonical == Levels({"on": "True"}).canonical == {"on": "true"}
    assert Levels({"on": True}).canonical != Levels({"on": 1}).canonical


def test_a_name_is_no_number():
    assert canonical(HOST, "1e5") == "1e5" != canonical(HOST, "100000")
    assert canonical(PLATFORM, "1k") == "1k"


@pytest.mark.parametrize(
    ("level", "number"), [("64KiB", 65536), ("1e3", 1000), (2, 2), ("send", None), (True, None)]
)
def test_a_level_is_a_number_or_a_size_or_neither(level, number):
    assert number_of(level) == number


def test_levels_of_a_link_are_known_by_their_own_names():
    levels = Levels({"mtu": 1, "link.mtu": 1500, "link.rate": "1g"})
    assert levels.link == {"mtu": 1500, "rate": "1g"}
    assert flat({"mtu": 1, "link": {"mtu": [1500]}}) == {"mtu": 1, "link.mtu": [1500]}
    assert flat({"link": 1}) == {"link": 1}


def test_part_of_levels_keeps_their_order():
    levels = Levels({"c": 1, "a": 2, "b": 3})
    assert list(levels.only({"b", "c"})) == ["c", "b"]
    assert list(levels.without({"c"})) == ["a", "b"]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("link.mtu=1500", ("link.mtu", ("1500",))),
        ("mtu=1500.0", ("link.mtu", ("1500",))),
        ("factor_link.mtu = 500", ("link.mtu", ("500",))),
        ("Direction=receive", ("direction", ("Receive",))),
        ("buffer=64k", ("buffer", ("64KiB", "65536"))),
    ],
)
def test_a_known_level_is_found_as_a_person_writes_it(written, found):
    assert find(written) == found


@pytest.mark.parametrize(
    ("written", "what", "hint"),
    [
        ("directoin=send", "run-1 has no factor 'directoin'", "did you mean direction?"),
        ("direction=sent", "run-1 has no level of direction, 'sent'", "did you mean send?"),
        ("link.mtu=9", "run-1 has no level of link.mtu, '9'", "known: 1500, 500"),
        ("platform=x", "run-1 has no level of platform, 'x'", "the run has none"),
        ("x", "'x' is not of the form factor=level", "write --where FACTOR=LEVEL"),
        ("", "a factor=level is missing", "write --where FACTOR=LEVEL"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest_names(written, what, hint):
    with pytest.raises(BadInput) as refused:
        find(written)
    assert (refused.value.what, refused.value.where) == (what, "--where")
    assert hint in refused.value.hint
