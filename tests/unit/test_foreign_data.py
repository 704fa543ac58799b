"""JSON and TOML of others: whatever it is nested, the outcomes are a value of few levels and ValueError."""

import json

import pytest

from vtax.errors import BadInput
from vtax.foreign_data import NestedTooDeep, parse_json, parse_toml
from vtax.limits import DOCUMENT
from vtax.study.text import parse

MANY = 200_000


@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
@pytest.mark.parametrize("of", [str, str.encode])
def test_json_is_read_to_so_many_levels_and_no_deeper(pair, of):
    opening, closing = pair[:-1], pair[-1]

    def nested(levels: int) -> str:
        return opening * (levels - 1) + pair[0] + closing + closing * (levels - 1)

    assert parse_json(of(nested(DOCUMENT.depth))) == json.loads(nested(DOCUMENT.depth))
    for levels in (DOCUMENT.depth + 1, 500, 3000, MANY):
        with pytest.raises(NestedTooDeep):
            parse_json(of(nested(levels)))


def test_brackets_beside_each_other_and_in_texts_are_no_levels():
    wide = [[1]] * 1000 + ["[" * 1000, {"{[" * 100: {}}]
    assert parse_json(json.dumps(wide)) == wide
    assert parse_json(json.dumps(wide), levels=3) == wide
    with pytest.raises(NestedTooDeep):
        parse_json(json.dumps([wide]), levels=3)


@pytest.mark.parametrize("text", ["", "[", "[" * MANY, '{"a":' * MANY, b"\xff", "[1", "x" * 10])
def test_what_is_no_json_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        parse_json(text)


def test_numbers_that_json_has_not_are_refused_where_that_is_asked_for():
    def refuse(text: str) -> None:
        raise ValueError(text)

    with pytest.raises(ValueError, match="NaN"):
        parse_json("[NaN]", parse_constant=refuse)


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * 3000}{']' * 3000}",
        f"a = {'[' * 100}{']' * 100}",
        f"a = {'{b = ' * 3000}1{'}' * 3000}",
        f"{'.'.join('a' * 100)} = 1",
        f"[{'.'.join('a' * 100)}]",
    ],
)
def test_toml_that_is_nested_too_deep_is_refused(text):
    with pytest.raises(NestedTooDeep):
        parse_toml(text)


def test_a_study_that_ends_the_parser_is_refused():
    with pytest.raises(BadInput):
        parse(f"a = {'[' * 3000}{']' * 3000}".encode(), "a.toml")


def test_other_toml_is_read():
    assert parse_toml("a.b = [[1], {c = 2}]") == {"a": {"b": [[1], {"c": 2}]}}
