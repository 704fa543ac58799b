"""Base of the options of every driver."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from vtax.study.fields import Scratch

Choice = tuple[str, str, str]
"""Name of an option, the level that a guest has, and another, as the baseline has it or that costs less."""
_PLACES = {"layer": "layer", "memory": "memory", "overlay": "layer", "tmpfs": "memory"}
"""Place or file system of /scratch -> level of the option `scratch`; all others are volumes."""


class DriverOptions(BaseModel):
    """Base of the options of a driver, and those of one that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        """Return the option that a fact of the audit depends on; None where there is none.

        fact: its name.
        value, baseline: those of a guest and of the baseline, which differ, as texts.
        """
        return None


class Scratched(DriverOptions):
    """Options of drivers that can choose where /scratch of a guest lies."""

    scratch: Scratch | None = Field(
        None,
        description="where /scratch lies: a directory of the host (volume), the guest's own writable layer (layer) or "
        "its memory (memory); absent: where the study's key scratch says",
    )

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        here, there = (_PLACES.get(place, "volume") for place in (value, baseline))
        is_place = fact.startswith("scratch") and here != there
        return ("scratch", here, there) if is_place else None
