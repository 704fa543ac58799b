"""What a key may hold is said in words: in listings and in refusals, and by both alike."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from vtax.benchmarks.registry import benchmarks
from vtax.network.settings import LinkSettings
from vtax.platforms.registry import drivers
from vtax.study.claims import CheckTable
from vtax.study.declared import Example, alternatives_of, bounds_of, is_share
from vtax.study.fields import Duration, Share, Size
from vtax.study.keys import Key, keys
from vtax.study.model import BenchmarkTable, DesignTable, GuestTable, PlatformTable, Study
from vtax.study.refusals import Problem, RefusedStudy, validated


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    depth: int = Field(1, ge=1)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str]


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid")
    way: Literal["send", "receive", "both"] = Field("send", description="which way")
    duration_s: int = Field(7, ge=1, le=86400)
    rate_mbit_s: float | None = Field(None, gt=0)
    loss_percent: float = Field(0, ge=0, le=100)
    share: Share = Field(0.5, gt=0, lt=1)
    size: Size = Field(65536, ge=1024)
    minimum: Size | None = Field(None, ge=1, le=1024**2)
    timeout: Duration = Field(60.0, gt=0)
    mss: int = Field(536, ge=88, json_schema_extra={"unit": "bytes"})
    quiet: bool = False
    warm: Annotated[int, Field(ge=0)] | Literal["detect"] = 0
    host: str = Field("a", pattern="^[a-z]+$")
    place: Annotated[str, Example("/opt"), Example("/srv/a")] = Field("/", pattern="^/")
    names: list[str] = Field(default_factory=list)
    counts: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    inner: Inner = Inner()
    open: Open = Open()
    inners: list[Inner] = Field(default_factory=list)
    levels: dict[str, list[bool | int | str]] = Field(default_factory=dict)


def refusal(given: Any, word: str = "key", model: type[BaseModel] = Table) -> tuple[Problem, ...]:
    with pytest.raises(RefusedStudy) as caught:
        validated(model, given, word)
    return caught.value.problems


def key(name: str) -> Key:
    (found,) = [each for each in keys(Table) if each.name == name]
    return found


@pytest.mark.parametrize(
    ("name", "default", "allowed", "unit"),
    [
        ("way", "send", "'send', 'receive' or 'both'", ""),
        ("duration_s", "7", "a whole number from 1 to 86400 s", "s"),
        ("rate_mbit_s", "", "a number above 0 Mbit/s", "Mbit/s"),
        ("share", "0.5", "a share above 0 and below 1, or a percentage such as '5%'", ""),
        ("size", "64KiB", "a size of at least 1KiB, in bytes or with a unit", "bytes"),
        ("minimum", "", "a size from 1B to 1MiB, in bytes or with a unit", "bytes"),
        ("timeout", "60", "a duration above 0s, in seconds or with a unit", "s"),
        ("mss", "536", "a whole number of at least 88 bytes", "bytes"),
        ("quiet", "false", "true or false", ""),
        ("warm", "0", "a whole number of at least 0 or 'detect'", ""),
        ("host", "a", "text of the form ^[a-z]+$", ""),
        ("place", "/", "text such as '/opt' or '/srv/a'", ""),
    ],
)
def test_a_key_says_what_it_may_hold(name, default, allowed, unit):
    found = key(name)
    assert (found.default_text, found.allowed, found.unit) == (default, allowed, unit)


def test_the_json_of_a_key_has_choices_and_bounds_for_programs():
    plain = key("way").as_json()
    assert (plain["choices"], plain["default"], plain["meaning"]) == (
        ["send", "receive", "both"],
        "send",
        "which way",
    )
    assert (
        key("duration_s").as_json().items()
        >= {"ge": 1, "le": 86400, "unit": "s", "needed": False}.items()
    )


@pytest.mark.parametrize(
    ("given", "place", "printed"),
    [
        ({"way": "up"}, ("way",), "way is 'up'; it must be 'send', 'receive' or 'both'"),
        (
            {"duration_s": 0},
            ("duration_s",),
            "duration_s is 0; it must be a whole number from 1 to 86400",
        ),
        (
            {"duration_s": "x"},
            ("duration_s",),
            "duration_s is 'x'; it must be a whole number from 1 to 86400",
        ),
        ({"quiet": "maybe"}, ("quiet",), "quiet is 'maybe'; it must be true or false"),
        (
            {"warm": "often"},
            ("warm",),
            "warm is 'often'; it must be a whole number of at least 0 or 'detect'",
        ),
        (
            {"warm": -1},
            ("warm",),
            "warm is -1; it must be a whole number of at least 0 or 'detect'",
        ),
        (
            {"size": "1B"},
            ("size",),
            "size is 1B; it must be a size of at least 1KiB, in bytes or with a unit",
        ),
        ({"size": "5 potatoes"}, ("size",), "'5 potatoes' is not understood; write for example"),
        ({"host": "a b"}, ("host",), "host is 'a b'; it must be text of the form ^[a-z]+$"),
        ({"names": "x"}, ("names",), "names is 'x'; it must be a list"),
        ({"names": ["x", 1]}, ("names", 1), "entry 2 of names is 1; it must be text"),
        ({"inner": 3}, ("inner",), "inner is 3; it must be a table"),
        ({"inner": {"depht": 3}}, ("inner", "depht"), "unknown key 'depht'; did you mean depth?"),
        (
            {"inners": [{}, {"depth": 0}]},
            ("inners", 1, "depth"),
            "depth is 0; it must be a whole number of at least 1",
        ),
        (
            {"levels": {"a": [1, [2]]}},
            ("levels", "a", 1),
            "entry 2 of a is [2]; it must be true or false, a whole number or text",
        ),
        ({"levels": {"a": 1}}, ("levels", "a"), "a is 1; it must be a list"),
        ({"inners": {}}, ("inners",), "inners is a table; it must be tables, each under [[...]]"),
        (
            {"open": {"driver": [1]}},
            ("open", "driver"),
            "driver is [1]; it must be a whole number or text",
        ),
        (
            {"duration_s": True},
            ("duration_s",),
            "duration_s is true; it must be a whole number from 1 to 86400",
        ),
        (
            {"inners": [{"depth": True}]},
            ("inners", 0, "depth"),
            "depth is true; it must be a whole number",
        ),
        ({"timeout": "60"}, ("timeout",), "'60' has no unit; write for example"),
        ({"size": "4096"}, ("size",), "'4096' has no unit; write for example"),
        (
            {"size": "512Mb"},
            ("size",),
            "'512Mb' ends in b, for bits; for bytes write '512MB' or '512MiB'",
        ),
        ({"size": "9b"}, ("size",), "'9b' ends in b, for bits; for bytes write '9B'"),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_allowed(given, place, printed):
    (problem,) = refusal(given)
    assert problem.place == place
    assert printed in problem.what
    assert "Input should" not in problem.what


def test_all_problems_are_found_and_unknown_keys_come_first():
    found = refusal(
        {"way": "up", "quiet": "x", "duration_s": True, "tiemout": 3, "inner": {"depht": 1}}
    )
    assert [problem.place for problem in found] == [
        ("inner", "depht"),
        ("tiemout",),
        ("way",),
        ("quiet",),
        ("duration_s",),
    ]
    assert [problem.near for problem in found[:3]] == ["depth", "timeout", ""]


@pytest.mark.parametrize(("written", "share"), [("5%", 0.05), ("0.5 %", 0.005), (0.5, 0.5)])
def test_a_share_is_a_number_below_1_or_a_percentage(written, share):
    assert validated(Table, {"share": written}).share == share


@pytest.mark.parametrize("written", [5, 1, "5", "100%", 0, "0%", "x", True, [0.5]])
def test_what_is_no_share_is_refused(written):
    (problem,) = refusal({"share": written})
    assert problem.place == ("share",)


def test_every_key_of_a_study_between_0_and_1_is_a_share():
    shares = {}
    for model in (DesignTable, GuestTable, BenchmarkTable, PlatformTable, CheckTable, Study):
        for name, info in model.model_fields.items():
            for kind in alternatives_of(info.annotation, tuple(info.metadata)):
                bounds = bounds_of(kind.metadata)
                if kind.annotation is float and bounds.get("lt", bounds.get("le", 2)) <= 1:
                    shares[f"{model.__name__}.{name}"] = is_share(kind.metadata)
    assert [name for name, is_so in shares.items() if not is_so] == []
    assert {"DesignTable.margin", "DesignTable.precision", "CheckTable.within"} <= shares.keys()


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"share": 5}, "for 5 % write '5%' or 0.05"),
        ({"share": 1}, "for 1 % write '1%' or 0.01"),
        ({"loss_percent": "2.5 %"}, "write 2.5"),
        ({"duration_s": "7s"}, "write 7: it counts seconds"),
        ({"duration_s": "2min"}, "write 120: it counts seconds"),
        ({"rate_mbit_s": "100Mbit"}, "a number alone, without quotes and unit: it counts Mbit/s"),
        ({"names": "x"}, 'write a list: names = ["x"]'),
        ({"names": "[x, 2]"}, 'write a list: names = ["x", 2]'),
        ({"levels": {"a": "1500"}}, "write a list: a = [1500]"),
        ({"counts": "x"}, "write a list: counts = [1, 2]"),
        ({"counts": "2, 4"}, "write a list: counts = [2, 4]"),
        ({"inners": {"depth": 1}}, "write [[inners]], in two brackets: there may be several"),
        ({"way": "sned"}, "did you mean 'send'?"),
        ({"warm": "detct"}, "did you mean 'detect'?"),
        ({"mss": "many"}, ""),
    ],
)
def test_a_refusal_hints_at_what_was_meant(given, hint):
    (problem,) = refusal(given)
    assert problem.hint == hint


def test_a_refusal_calls_keys_as_they_are_called():
    for given, printed in (
        ({"mode": 1}, "unknown option 'mode'; known: way, "),
        ({"way": 1}, "option way is 1; it must"),
    ):
        assert refusal(given, "option")[0].what.startswith(printed)


def test_a_table_that_takes_no_key_says_so():
    class Empty(BaseModel):
        model_config = ConfigDict(extra="forbid")

    (problem,) = refusal({"foo": 1}, "option", Empty)
    assert "unknown option 'foo'" in problem.what


def every_model() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {
        f"benchmark {n}": b.Parameters for n, b in benchmarks().items()
    }
    found |= {f"driver {n}": d.Options for n, d in drivers().items()}
    tables = (Study, DesignTable, GuestTable, PlatformTable, BenchmarkTable, LinkSettings)
    return found | {table.__name__: table for table in tables}


@pytest.mark.parametrize("name", every_model())
def test_every_key_there_is_can_be_explained(name):
    for each in keys(every_model()[name]):
        assert each.allowed not in ("", "a value"), each.name


@pytest.mark.parametrize(
    "name", [n for n in every_model() if n.startswith(("benchmark", "driver"))]
)
def test_every_parameter_and_option_has_a_meaning_and_a_default_within_its_bounds(name):
    for each in keys(every_model()[name]):
        assert each.meaning, each.name
        if each.choices and each.default is not None:
            assert each.default in each.choices
        for bound, holds in (
            ("ge", lambda v, b: v >= b),
            ("le", lambda v, b: v <= b),
            ("gt", lambda v, b: v > b),
        ):
            if bound in each.bounds and each.default is not None:
                assert holds(each.default, each.bounds[bound])
