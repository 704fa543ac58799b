"""Fields of the tables of a study: names, durations, levels, and the error of keys that do not agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)
from pydantic_core import PydanticCustomError

from vtax.messages import packed, restored
from vtax.units import duration_s, share_of, size_bytes

Duration = Annotated[
    float, BeforeValidator(duration_s), Field(json_schema_extra={"type": ["number", "string"]})
]
Size = Annotated[
    int, BeforeValidator(size_bytes), Field(json_schema_extra={"type": ["integer", "string"]})
]
KeptNote = Annotated[str, AfterValidator(restored), PlainSerializer(packed, return_type=str)]
"""A text, or a note of vtax, which is kept by its code and data so that a report can say it in any language."""
Share = Annotated[
    float,
    BeforeValidator(share_of),
    Field(json_schema_extra={"type": ["number", "string"]}),
]
Privilege = Literal["asynchronous-io", "raw-sockets", "real-time"]
"""Privileges that a benchmark may ask for beyond the confinement of guests; then all guests under test of a run get it alike."""
Scratch = Literal["volume", "layer", "memory"]
"""Where the directory lies in which benchmarks write: in one of the host, in the guest's own layer, or in memory."""
Text = TypeVar("Text", bound=str)


def checked_name(text: str) -> str:
    """Return a name of something in a study, or of an image. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", text):
        raise ValueError("names are at most 64 lower-case letters, digits, '.', '_' and '-'")
    return text


Name = Annotated[str, AfterValidator(checked_name)]


def as_tuple(value: Text | Sequence[Text]) -> tuple[Text, ...]:
    """Return what a key holds that takes one name or a list of them."""
    return (value,) if isinstance(value, str) else tuple(value)


def disagreement(text: str, *key: str | int) -> PydanticCustomError:
    """Return the error of a check over several keys: key is the one to change, below the table that checks."""
    return PydanticCustomError("disagreement", "{text}", {"text": text, "key": key})


class StudyTable(BaseModel):
    """Base of every table: unknown keys are refused, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)
