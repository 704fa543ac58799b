"""The value of `vtax run --ab`: `PLATFORM[:OPTION=VALUE...],PLATFORM[:OPTION=VALUE...]`, old and new."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from vtax.errors import BadInput, placed
from vtax.levels import Level
from vtax.platforms import registry
from vtax.platforms.base import Platform
from vtax.study.model import Study
from vtax.study.two_sides import PlatformSide, TwoSides

EXAMPLE = "--ab podman:confinement=none,podman:confinement=default"
_FORM = f"for example {EXAMPLE}"
_IN_STUDY = "a value with a comma needs a [[platform]] table for each side in the study, and their names here: --ab OLD,NEW"
_OPTION = re.compile(
    r":(?=[a-z][a-z0-9_]*=)"
)  # a colon inside a value, as in qemu:///system, stays
_IN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LONGEST = 32  # characters of a name that is made of values: it is the first column of every table


def two_sides(text: str, study: Study) -> TwoSides:
    """Return both sides, of which study may define the platforms. Raises BadInput for what is not two of one
    driver."""
    written = [each.strip() for each in text.split(",")]
    if len(written) != 2 or not all(written):
        count = len(list(filter(None, written)))
        raise BadInput(
            f"--ab takes two platforms with a comma between them, and {text!r} names {count}",
            where="--ab",
            hint=_IN_STUDY if count > 2 else _FORM,
        )
    (old, of_old), (new, of_new) = (_side(each, study) for each in written)
    if of_old.driver is not of_new.driver:
        raise BadInput(
            f"{written[0]} is of the driver {of_old.driver.name}, and {written[1]} of {of_new.driver.name}; "
            "--ab compares two platforms of one driver",
            where="--ab",
            hint="--platforms compares platforms of any drivers",
        )
    if of_old.identity() == of_new.identity():
        raise BadInput(
            f"{written[0]} and {written[1]} are the same platform; nothing differs",
            where="--ab",
            hint=f"give the sides different options: vtax platforms {of_old.driver.name} lists them",
        )
    taken = {*registry.names(), *(table.name for table in study.platform)}
    if not _are_free(old, new, taken):
        old, new = _renamed(old, written[0], "old"), _renamed(new, written[1], "new")
    if not _are_free(old, new, taken):
        names = " and ".join(side.name for side in (old, new) if side.options is not None)
        raise BadInput(
            f"the study has platforms of the names that the sides would have: {names}",
            where="--ab",
            hint="define both sides as [[platform]] tables of the study, and name these: --ab OLD,NEW",
        )
    return TwoSides(text, old, new)


def _are_free(old: PlatformSide, new: PlatformSide, taken: Container[str]) -> bool:
    """Return whether both have names, different ones, and those that are made of values are nobody else's."""
    made = [side.name for side in (old, new) if side.options is not None]
    return old.name != new.name and not any(not name or name in taken for name in made)


def _side(text: str, study: Study) -> tuple[PlatformSide, Platform]:
    """Return a side and its platform."""
    name, *options = _OPTION.split(text)
    driver, base = _base(name, study)
    given = _options(options, text)
    is_there = name in registry.names() or any(table.name == name for table in study.platform)
    with placed(f"--ab, {text}"):
        platform = registry.make(name, driver, {**base, **given})
    if is_there and not given:
        return PlatformSide(name, driver), platform
    values = {key: getattr(platform.options, key) for key in (*base, *given)}
    return PlatformSide(
        _name_of(name, {key: values[key] for key in given}), driver, values
    ), platform


def _base(name: str, study: Study) -> tuple[str, Mapping[str, Any]]:
    """(driver, options) of a platform of the study, a shipped one, or a driver."""
    for table in study.platform:
        if table.name == name:
            return table.driver, table.options
    for driver in registry.drivers().values():
        if name in driver.variants:
            return driver.name, driver.variants[name]
    if name in registry.drivers():
        return name, {}
    known = {*(table.name for table in study.platform), *registry.names(), *registry.drivers()}
    near = ", ".join(get_close_matches(name, known, 3))
    what = f"there is no platform and no driver {name!r}"
    raise BadInput(what + (f"; did you mean {near}?" if near else ""), where="--ab", hint=_FORM)


def _options(written: list[str], text: str) -> dict[str, Level]:
    """Option -> value, of which true and false are no text. Raises BadInput for an option that is given twice."""
    found: dict[str, Level] = {}
    for each in written:
        key, _, value = each.partition("=")
        if key in found:
            raise BadInput(
                f"{text} gives {key} twice", where="--ab", hint="give each option of a side once"
            )
        found[key] = {"true": True, "false": False}.get(value, value)
    return found


def _name_of(base: str, given: Mapping[str, Level]) -> str:
    """`podman-crun`, `kvm-virtio-queues-4`; empty where the values do not make a readable name."""
    parts = [base]
    for key, value in given.items():
        text = str(value).lower()
        parts += [text] if isinstance(value, str) else [key.replace("_", "-"), text]
        if not _IN_NAME.fullmatch(text):
            return ""
    name = "-".join(parts)
    return name if len(name) <= _LONGEST else ""


def _renamed(side: PlatformSide, text: str, suffix: str) -> PlatformSide:
    """Return a side whose name cannot be made of its values, or is taken."""
    return (
        side if side.options is None else replace(side, name=f"{_OPTION.split(text)[0]}-{suffix}")
    )
