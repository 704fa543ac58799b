"""`vtax run --ab OLD,NEW`: a study with two platforms of one driver in place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vtax.errors import BadInput
from vtax.levels import Level
from vtax.study.changes import ChangedPart, changed_by
from vtax.units import format_count

_OF_OWN_PLATFORMS = {
    "claim": "claim",
    "published": "published number",
    "figure": "figure",
    "paper": "",
}


@dataclass(frozen=True)
class PlatformSide:
    """A platform of a run. options: put over those of its driver; None: the platform is one that there is already."""

    name: str
    driver: str
    options: Mapping[str, Level] | None = None

    def __str__(self) -> str:
        """`podman-crun is podman with runtime = crun`; the name alone of a platform that there is already."""
        if self.options is None:
            return self.name
        options = ", ".join(f"{key} = {_written(value)}" for key, value in self.options.items())
        return f"{self.name} is {self.driver}" + (f" with {options}" if options else "")


@dataclass(frozen=True)
class TwoSides:
    """Two sides that are compared in one run. text: as it was written."""

    text: str
    old: PlatformSide
    new: PlatformSide


def with_two_sides(data: Mapping[str, Any], sides: TwoSides) -> dict[str, Any]:
    """Return the values of a valid study with these two platforms.

    Claims, published numbers and figures are left out, since they are about the study's own platforms, and so is the
    publication that it repeats. Raises BadInput for a study of several boots.
    """
    if data.get("boot"):
        raise BadInput(
            "the study measures its platforms in several boots of the host, and both sides need one",
            where="--ab",
            hint="two [[platform]] tables in [[boot]] tables of a study of your own compare platforms of two boots",
        )
    tables = [
        {"name": side.name, "driver": side.driver, **side.options}
        for side in (sides.old, sides.new)
        if side.options is not None
    ]
    changed = {key: value for key, value in data.items() if key not in _OF_OWN_PLATFORMS}
    changes = [str(sides.old), str(sides.new), f"compared with {sides.old.name}"]
    if left_out := ", ".join(_left_out(data)):
        changes.append(f"left out, about other platforms: {left_out}")
    parts = [ChangedPart(what=text) for text in changes]
    return {
        **changed,
        "baseline": sides.old.name,
        "platforms": [sides.old.name, sides.new.name],
        "platform": [*data.get("platform", ()), *tables],
        "changed_by": [*data.get("changed_by", ()), changed_by(f"--ab {sides.text}", parts)],
    }


def _left_out(data: Mapping[str, Any]) -> Iterator[str]:
    """`24 claims`, `3 figures`, `the publication`."""
    for key, name in _OF_OWN_PLATFORMS.items():
        if given := data.get(key):
            yield format_count(len(given), name) if name else "the publication"


def _written(value: Level) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
