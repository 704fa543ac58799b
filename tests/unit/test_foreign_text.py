"""Text of others: nothing in it moves a cursor, turns a line round, breaks an encoder or fills a screen."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtax.foreign_text import (
    MAX_TEXT_CHARS,
    clean,
    cleaned,
    escaped,
    left_out,
    one_line,
)
from vtax.limits import VALUE

any_text = st.text(st.characters(exclude_categories=()), max_size=60)


@given(any_text)
def test_nothing_but_tab_and_newline_controls_and_all_can_be_encoded(text):
    for made in (clean(text), escaped(text), one_line(text)):
        made.encode()
        assert all(
            c in "\t\n" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in made
        )
        assert all(
            unicodedata.bidirectional(c) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")
            for c in made
        )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\ufffd[2Jgone"),
        ("\x9b31m", "\ufffd31m"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("50 %\rdone", "50 %\ufffddone"),
        ("user\u202egnp", "user\ufffdgnp"),
        ("\ud800", "\ufffd"),
        ("ü ² 名 👍", "ü ² 名 👍"),
    ],
)
def test_what_is_unfit_is_replaced_and_the_rest_is_kept(text, shown):
    assert clean(text) == shown


def test_what_is_cut_off_is_shown():
    assert clean("x" * 10, 10) == "x" * 10
    assert clean("x" * 11, 10) == "x" * 9 + "…"
    cut = clean("x" * 10**6)
    assert MAX_TEXT_CHARS - 10 < len(cut) <= MAX_TEXT_CHARS
    kept, _, more = cut.partition("…")
    assert more == f" ({10**6 - len(kept)} characters more)"


def test_one_character_more_is_one():
    assert (left_out(1), left_out(2, ": there")) == (
        "… (1 character more)",
        "… (2 characters more: there)",
    )


def test_a_version_is_one_line():
    assert one_line(" iperf 3.18\n\n (cJSON\t1.7) ") == "iperf 3.18 (cJSON 1.7)"


def test_raw_output_is_shown_whole_with_escapes():
    assert escaped("\x1b[2J\u202e\udcff\nfine") == "\\x1b[2J\\u202e\\udcff\nfine"
    assert len(escaped("x" * 10**6)) == 10**6


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_a_cleaned_value_can_be_written_everywhere(value):
    json.dumps(cleaned(value), ensure_ascii=False, allow_nan=False).encode()


@given(
    st.dictionaries(st.text("abc"), st.integers(-5, 5) | st.text("xyz") | st.lists(st.booleans()))
)
def test_a_fit_value_is_left_as_it_is(value):
    assert cleaned(value) == value


def test_depth_and_size_of_a_value_are_bounded():
    deep = []
    for _ in range(5000):
        deep = [deep]
    assert json.dumps(cleaned(deep)).count("[") == VALUE.depth
    assert len(cleaned([0] * 10**6)) <= VALUE.count
    assert cleaned({"n": 10**400, "m": -(10**400), "x": float("nan")}) == {
        "n": "\ufffd",
        "m": "-\ufffd",
        "x": "nan",
    }
