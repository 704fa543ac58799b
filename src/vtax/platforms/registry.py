"""Finds drivers: modules that register one, of this package, of files and of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, cast

from vtax.errors import BadInput, did_you_mean, nearest_of
from vtax.host.plugins import Origin, discover, origins, shipped_plugin
from vtax.platforms.base import Driver, Platform, Rung
from vtax.study.refusals import RefusedStudy, validated

_MOST_OF_A_FAMILY = 6  # suggested


@cache
def drivers() -> Mapping[str, Driver]:
    """Return all drivers by name, the shipped ones first."""
    return cast(Mapping[str, Driver], discover("platform", Driver))


def find_driver(name: str) -> Driver | None:
    """Return the driver of a name; None of one that is not installed. Of those that vtax ships it imports no other."""
    driver: Driver | None = shipped_plugin("platform", name) or drivers().get(name)
    return driver


def foreign() -> Mapping[str, Origin]:
    """Return where drivers that vtax does not ship come from, by name."""
    return origins("platform", Driver)


def names() -> list[str]:
    """Return names of all platforms that drivers ship, the baseline first."""
    variants: set[str] = set()
    for driver in drivers().values():
        variants.update(driver.variants)
    return sorted(variants, key=lambda name: (name != "native", name))


def ladders() -> Mapping[str, tuple[Rung, ...]]:
    """Return the ladders of all drivers by name: rungs from the ground up."""
    rungs_by_name: dict[str, tuple[Rung, ...]] = {}
    for driver in drivers().values():
        rungs_by_name |= driver.ladders()
    return rungs_by_name


def platform_of(rung: Rung) -> Platform:
    """Return the platform of a rung. Raises BadInput on an unknown driver or option."""
    return make(rung.name, rung.driver, rung.options)


def forms() -> Mapping[str, Driver]:
    """Return drivers whose platforms are named `DRIVER:ARGUMENT`, by the form of those names, such as `ssh:HOST`."""
    drivers_with_argument = [driver for driver in drivers().values() if driver.argument]
    return {f"{driver.name}:{driver.argument.upper()}": driver for driver in drivers_with_argument}


def get(name: str, further_names: Iterable[str] = ()) -> Platform:
    """Return the platform of a name: a shipped one, or `DRIVER:ARGUMENT`.

    Of two drivers that ship a name the first has it. Raises BadInput with the nearest names.

    further_names: that were possible, too.
    """
    for driver in drivers().values():
        if name in driver.variants:
            return make(name, driver.name, driver.variants[name])
    driver_name, _, value = name.partition(":")
    key = drivers()[driver_name].argument if driver_name in drivers() else ""
    if value and key:
        return make(name, driver_name, {key: value})
    suggestion = did_you_mean(_nearest_names(name, [*further_names, *names(), *forms()]), ", ")
    raise BadInput(f"there is no platform {name!r}{suggestion}", hint="vtax platforms lists them")


def _nearest_names(name: str, all_names: Sequence[str]) -> list[str]:
    """Return the names that may be meant, whatever the capitals; of a family, such as kvm, its members."""
    lower_name = name.lower()
    if lower_name in all_names:
        return [lower_name]
    family = [member for member in all_names if member.startswith(f"{lower_name}-")]
    return family[:_MOST_OF_A_FAMILY] or get_close_matches(lower_name, all_names, 3)


def make(name: str, driver_name: str, options: Mapping[str, Any]) -> Platform:
    """Return a platform of one's own from a driver and options. Raises BadInput on an unknown driver or option."""
    driver = drivers().get(driver_name)
    if driver is None:
        raise BadInput(
            f"there is no driver {driver_name!r}{nearest_of(driver_name, drivers())}",
            hint=f"known: {', '.join(sorted(drivers()))}",
        )
    try:
        hint = f"vtax platforms {driver_name} lists the options"
        return Platform(name, driver, validated(driver.Options, options, "option", hint))
    except RefusedStudy as error:
        raise BadInput(f"platform {name}: {error.what}", hint=error.hint) from error
