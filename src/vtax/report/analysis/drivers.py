"""Drivers of the platforms of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vtax.report.analysis.values import Analysis

if TYPE_CHECKING:
    from vtax.platforms.base import Driver


def drivers_of(analysis: Analysis) -> Mapping[str, Driver]:
    """Platform -> its driver, of those that were tested and whose driver is installed here."""
    from vtax.platforms.registry import find_driver

    drivers_by_platform = {}
    for platform in analysis.platforms:
        driver = (
            find_driver(str(platform.identity.get("driver", ""))) if platform.available else None
        )
        if driver is not None:
            drivers_by_platform[platform.name] = driver
    return drivers_by_platform
