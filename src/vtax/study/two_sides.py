"""`vtax run --ab OLD,NEW`: a study with two platforms of one driver in place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    "rung": "rung",
    "both_orders": "mechanism",
}
"""Key of a study that is about its own platforms -> what one of its entries is called."""


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
        text = f"{self.name} is {self.driver}"
        if not self.options:
            return text
        options = [f"{key} = {_as_toml(value)}" for key, value in self.options.items()]
        return f"{text} with {', '.join(options)}"


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
    changes = [str(sides.old), str(sides.new), f"compared with {sides.old.name}"]
    return with_platforms(data, f"--ab {sides.text}", (sides.old, sides.new), changes)


def with_platforms(
    data: Mapping[str, Any], option: str, platforms: Sequence[PlatformSide], changes: Sequence[str]
) -> dict[str, Any]:
    """Return the values of a valid study with these platforms, the first of which is the baseline.

    What is about the study's own platforms is left out, see `with_two_sides`.

    option: as it was typed.
    changes: what it changes, in words.
    """
    tables = [*data.get("platform", ())]
    for platform in platforms:
        if platform.options is not None:
            tables.append({"name": platform.name, "driver": platform.driver, **platform.options})
    omissions = _count_omissions(data)
    texts = [*changes]
    if omissions:
        texts.append(f"left out, about other platforms: {', '.join(omissions)}")
    parts = [ChangedPart(what=text) for text in texts]
    return {
        **{key: value for key, value in data.items() if key not in _OF_OWN_PLATFORMS},
        "baseline": platforms[0].name,
        "platforms": [platform.name for platform in platforms],
        "platform": tables,
        "changed_by": [*data.get("changed_by", ()), changed_by(option, parts)],
    }


def _count_omissions(data: Mapping[str, Any]) -> list[str]:
    """`24 claims`, `3 figures`, `the publication`."""
    texts = []
    for key, noun in _OF_OWN_PLATFORMS.items():
        if data.get(key):
            texts.append(format_count(len(data[key]), noun) if noun else "the publication")
    return texts


def _as_toml(value: Level) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
