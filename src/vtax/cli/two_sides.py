"""The value of `vtax run --ab`: `PLATFORM[:OPTION=VALUE...],PLATFORM[:OPTION=VALUE...]`, old and new."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from vtax.errors import BadInput, nearest_of, placed
from vtax.levels import Level
from vtax.platforms import registry
from vtax.platforms.base import Platform
from vtax.study.model import Study
from vtax.study.two_sides import PlatformSide, TwoSides

EXAMPLE = "--ab podman:confinement=none,podman:confinement=default"
_FORM = f"for example {EXAMPLE}"
_IN_STUDY = "a value with a comma needs a [[platform]] table for each side in the study, and their names here: --ab OLD,NEW"
# a colon inside a value, as in qemu:///system, stays
OPTION = re.compile(r":(?=[a-z][a-z0-9_]*=)")
_IN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LONGEST = 32  # characters of a name that is made of values: it is the first column of every table


def two_sides(text: str, study: Study) -> TwoSides:
    """Return both sides, of which study may define the platforms.

    Raises BadInput for what is not two of one driver.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        count = len(list(filter(None, parts)))
        raise BadInput(
            f"--ab takes two platforms with a comma between them, and {text!r} names {count}",
            where="--ab",
            hint=_IN_STUDY if count > 2 else _FORM,
        )
    old, old_platform = _side(parts[0], study)
    new, new_platform = _side(parts[1], study)
    driver = old_platform.driver
    if driver is not new_platform.driver:
        raise BadInput(
            f"{parts[0]} is of the driver {driver.name}, and {parts[1]} of {new_platform.driver.name}; "
            "--ab compares two platforms of one driver",
            where="--ab",
            hint="--platforms compares platforms of any drivers",
        )
    if old_platform.identity() == new_platform.identity():
        raise BadInput(
            f"{parts[0]} and {parts[1]} are the same platform; nothing differs",
            where="--ab",
            hint=f"give the sides different options: vtax platforms {driver.name} lists them",
        )
    taken_names = {*registry.names(), *(table.name for table in study.platform)}
    if not _are_free(old, new, taken_names):
        old, new = _rename_side(old, parts[0], "old"), _rename_side(new, parts[1], "new")
    if not _are_free(old, new, taken_names):
        names = " and ".join(side.name for side in (old, new) if side.options is not None)
        raise BadInput(
            f"the study has platforms of the names that the sides would have: {names}",
            where="--ab",
            hint="define both sides as [[platform]] tables of the study, and name these: --ab OLD,NEW",
        )
    return TwoSides(text, old, new)


def _are_free(old: PlatformSide, new: PlatformSide, taken_names: Container[str]) -> bool:
    """Return whether both have names, different ones, and those that are made of values are nobody else's."""
    for side in (old, new):
        if side.options is not None and (not side.name or side.name in taken_names):
            return False
    return old.name != new.name


def _side(text: str, study: Study) -> tuple[PlatformSide, Platform]:
    """Return a side and its platform."""
    name, *assignments = OPTION.split(text)
    driver, base = _base(name, study)
    options = options_of(assignments, text)
    is_there = name in registry.names() or any(table.name == name for table in study.platform)
    with placed(f"--ab, {text}"):
        platform = registry.make(name, driver, {**base, **options})
    if is_there and not options:
        return PlatformSide(name, driver), platform
    values = {key: getattr(platform.options, key) for key in (*base, *options)}
    side_name = name_of(name, {key: values[key] for key in options})
    return PlatformSide(side_name, driver, values), platform


def _base(name: str, study: Study) -> tuple[str, Mapping[str, Any]]:
    """Return (driver, options) of a platform of the study, a shipped one, or a driver."""
    for table in study.platform:
        if table.name == name:
            return table.driver, table.options
    for driver in registry.drivers().values():
        if name in driver.variants:
            return driver.name, driver.variants[name]
    if name in registry.drivers():
        return name, {}
    known_names = {
        *(table.name for table in study.platform),
        *registry.names(),
        *registry.drivers(),
    }
    what = f"there is no platform and no driver {name!r}{nearest_of(name, known_names)}"
    raise BadInput(what, where="--ab", hint=_FORM)


def options_of(assignments: list[str], text: str) -> dict[str, Level]:
    """Return values by option, of which true and false are no text. Raises BadInput for an option that is given twice."""
    options: dict[str, Level] = {}
    for assignment in assignments:
        key, _, value = assignment.partition("=")
        if key in options:
            raise BadInput(
                f"{text} gives {key} twice", where="--ab", hint="give each option of a side once"
            )
        options[key] = {"true": True, "false": False}.get(value, value)
    return options


def name_of(base: str, options: Mapping[str, Level]) -> str:
    """Return `podman-crun`, `kvm-virtio-queues-4`; empty where the values do not make a readable name."""
    parts = [base]
    for key, value in options.items():
        text = str(value).lower()
        parts += [text] if isinstance(value, str) else [key.replace("_", "-"), text]
        if not _IN_NAME.fullmatch(text):
            return ""
    name = "-".join(parts)
    return name if len(name) <= _LONGEST else ""


def _rename_side(side: PlatformSide, text: str, suffix: str) -> PlatformSide:
    """Return a side whose name cannot be made of its values, or is taken."""
    if side.options is None:
        return side
    return replace(side, name=f"{OPTION.split(text)[0]}-{suffix}")
