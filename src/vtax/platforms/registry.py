"""Finds drivers: modules that register one, of this package, of files and of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from vtax.errors import BadInput
from vtax.host.plugins import Origin, discover, origins
from vtax.platforms.base import Driver, Platform
from vtax.study.refusals import RefusedStudy, validated

_MOST_OF_A_FAMILY = 6  # suggested


@cache
def drivers() -> Mapping[str, Driver]:
    """Return all drivers by name, the shipped ones first."""
    found: Mapping[str, Driver] = discover("platform", Driver)
    return found


def foreign() -> Mapping[str, Origin]:
    """Return where drivers that vtax does not ship come from, by name."""
    return origins("platform", Driver)


def names() -> list[str]:
    """Return names of all platforms that drivers ship, the baseline first."""
    return sorted(
        {n for d in drivers().values() for n in d.variants}, key=lambda n: (n != "native", n)
    )


def forms() -> Mapping[str, Driver]:
    """Drivers whose platforms are named `DRIVER:ARGUMENT`, by the form of those names, such as `ssh:HOST`."""
    return {f"{d.name}:{d.argument.upper()}": d for d in drivers().values() if d.argument}


def get(name: str, more: Iterable[str] = ()) -> Platform:
    """Return the platform of a name: a shipped one, or `DRIVER:ARGUMENT`. Of two drivers that ship a name the first
    has it.

    Raises BadInput with the nearest names. more: further names that were possible.
    """
    for driver in drivers().values():
        if name in driver.variants:
            return make(name, driver.name, driver.variants[name])
    driver_name, _, value = name.partition(":")
    if value and driver_name in drivers() and (key := drivers()[driver_name].argument):
        return make(name, driver_name, {key: value})
    near = _near(name, [*more, *names(), *forms()])
    raise BadInput(
        f"there is no platform {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""),
        hint="vtax platforms lists them",
    )


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return the names that may be meant, whatever the capitals; of a family, such as kvm, its members."""
    typed = name.lower()
    if typed in known:
        return [typed]
    family = [each for each in known if each.startswith(f"{typed}-")]
    return family[:_MOST_OF_A_FAMILY] or get_close_matches(typed, known, 3)


def make(name: str, driver_name: str, options: Mapping[str, Any]) -> Platform:
    """Return a platform of one's own from a driver and options. Raises BadInput on an unknown driver or option."""
    driver = drivers().get(driver_name)
    if driver is None:
        near = get_close_matches(driver_name, drivers(), 3)
        raise BadInput(
            f"there is no driver {driver_name!r}"
            + (f"; did you mean {', '.join(near)}?" if near else ""),
            hint=f"known: {', '.join(sorted(drivers()))}",
        )
    try:
        hint = f"vtax platforms {driver_name} lists the options"
        return Platform(name, driver, validated(driver.Options, options, "option", hint))
    except RefusedStudy as error:
        raise BadInput(f"platform {name}: {error.what}", hint=error.hint) from error
