"""Changes of a study by options of `vtax run`, kept with it in `changed_by`: plans, runs and reports state them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from vtax.study.fields import StudyTable


class ChangedPart(StudyTable):
    """One change. label: of the benchmark that alone it is about."""

    what: str = Field(description="the change, such as 'duration_s ÷ 5'")
    label: str = Field("", description="label of the one benchmark that it is about; empty: of all")


class StudyChange(StudyTable):
    """All that one option changed."""

    option: str = Field(description="the option as typed, such as '--scale quick'")
    parts: list[ChangedPart] = Field(description="what it changed")

    def __str__(self) -> str:
        """`--scale quick: duration_s ÷ 5; disk: file_size ÷ 64`."""
        return f"{self.option}: {listed(self.parts)}"


def listed(parts: Iterable[ChangedPart]) -> str:
    """Return changes in one line: `duration_s ÷ 5; disk: file_size ÷ 64`."""
    return "; ".join(f"{part.label}: {part.what}" if part.label else part.what for part in parts)


def changed_by(option: str, parts: Sequence[ChangedPart]) -> dict[str, Any]:
    """Return a change as the value of a study file that is not validated yet."""
    return StudyChange(option=option, parts=list(parts)).model_dump()
