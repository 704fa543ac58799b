"""Drivers of the platforms of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vtax.report.analysis.values import Analysis

if TYPE_CHECKING:
    from vtax.platforms.base import Driver
    from vtax.platforms.options import Choice


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


def choice_behind(driver: Driver | None, fact: str, value: str, baseline: str) -> Choice | None:
    """Return the option of a driver that a fact of the audit depends on, its level and the other; None without one."""
    from vtax.platforms.options import DriverOptions

    if driver is None or not issubclass(driver.Options, DriverOptions):
        return None
    return driver.Options.choice_behind(fact, value, baseline)
