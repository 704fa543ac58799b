"""What programs read of a dataclass: fields and properties with a meaning, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from vtax.described import (
    BESIDE,
    Field,
    Means,
    Only,
    fields_of,
    json_default,
    moment,
    tables_of,
    values_of,
)
from vtax.study.claims import ClaimTable


@dataclass(frozen=True)
class Inner:
    name: Annotated[str, Means("its name")]
    hidden: int = 0


@dataclass(frozen=True)
class Outer:
    began: Annotated[float, Means("when", name="started", is_time=True)]
    inner: Annotated[Inner, BESIDE]
    chosen: Annotated[Inner | None, Means("which", take="name")]
    several: Annotated[tuple[Inner, ...], Means("all of them")]
    data: Annotated[Mapping[str, Any], Means("anything")]
    kind: Annotated[Literal["a", "b"], Means("a or b")] = "a"
    share: Annotated[float | None, Means("a share", unit="fraction")] = None
    hidden: bool = False

    @property
    def is_known(self) -> Annotated[bool, Means("whether it is known")]:
        return self.share is not None


@dataclass(frozen=True)
class Plain:
    first: int
    second: str


def test_fields_have_name_kind_unit_and_meaning_in_their_order():
    found = [(field.name, field.kind, field.unit, field.meaning) for field in fields_of(Outer)]
    assert found == [
        ("started", "time", "", "when"),
        ("name", "text", "", "its name"),
        ("chosen", "text", "", "which"),
        ("several", "list", "", "all of them"),
        ("data", "object", "", "anything"),
        ("kind", "text", "", "a or b"),
        ("share", "number", "fraction", "a share"),
        ("is_known", "flag", "", "whether it is known"),
    ]


def test_values_are_those_of_the_fields_and_no_other():
    inner = Inner("x", 3)
    assert values_of(Outer(1_700_000_000.25, inner, inner, (inner,), {"a": 1}, share=0.5)) == {
        "started": "2023-11-14T22:13:20.250Z",
        "name": "x",
        "chosen": "x",
        "several": (inner,),
        "data": {"a": 1},
        "kind": "a",
        "share": 0.5,
        "is_known": True,
    }
    assert values_of(Plain(1, "b")) == {"first": 1, "second": "b"}


def test_every_dataclass_within_has_a_table_under_its_path():
    assert [path for path, _ in tables_of(Outer)] == ["", "several[]"]
    assert dict(tables_of(Outer))["several[]"] == (Field("name", "text", "", "its name", "name"),)


@dataclass(frozen=True)
class Parts:
    inner: Annotated[
        Inner | None,
        Means("its name", name="called", take="name"),
        Means("how deep", take="hidden"),
    ]
    claim: Annotated[ClaimTable | None, Only("id", "published", meaning="of the study")]
    outer: Annotated[Outer | None, Only("share", "inner.name")]


def test_an_attribute_may_have_several_keys_and_give_parts_of_what_may_not_be_there():
    found = [(field.name, field.kind, field.meaning) for field in fields_of(Parts)]
    assert found == [
        ("called", "text", "its name"),
        ("inner", "integer", "how deep"),
        ("id", "text", "of the study"),
        ("published", "number", "of the study"),
        ("share", "number", "a share"),
        ("name", "text", "its name"),
    ]
    outer = Outer(0.0, Inner("x"), Inner("y"), (), {}, share=0.5)
    assert values_of(Parts(Inner("z", 3), None, outer)) == {
        "called": "z",
        "inner": 3,
        "id": None,
        "published": None,
        "share": 0.5,
        "name": "x",
    }
    assert set(values_of(Parts(None, None, None)).values()) == {None}


def test_what_is_no_time_has_no_text():
    assert [moment(each) for each in (None, float("nan"), float("inf"), 1e18)] == [None] * 4


def test_json_has_what_programs_read_of_a_dataclass_at_every_depth():
    inner = Inner("x", 3)
    outer = Outer(1.0, inner, inner, (inner,), {"a": inner})
    written = json.loads(json.dumps([outer, Path("/y")], default=json_default))
    assert (written[0]["several"], written[0]["data"]) == ([{"name": "x"}], {"a": {"name": "x"}})
    assert "hidden" not in written[0]
    assert written[1] == "/y"
