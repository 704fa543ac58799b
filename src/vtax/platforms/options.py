"""Base of the options of every driver."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from vtax.study.fields import Scratch


class DriverOptions(BaseModel):
    """Base of the options of a driver, and those of one that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Scratched(DriverOptions):
    """Options of drivers that can choose where /scratch of a guest lies."""

    scratch: Scratch | None = Field(
        None,
        description="where /scratch lies: a directory of the host (volume), the guest's own writable layer (layer) or "
        "its memory (memory); absent: where the study's key scratch says",
    )
