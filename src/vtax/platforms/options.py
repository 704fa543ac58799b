"""Base of the options of every driver."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class DriverOptions(BaseModel):
    """Base of the options of a driver, and those of one that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)
