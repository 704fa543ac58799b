"""`vtax anatomy --of PLATFORM`: a study with the rungs of a ladder in place of its own platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vtax.study.two_sides import PlatformSide, with_platforms


@dataclass(frozen=True)
class LadderRung:
    """A platform of a ladder.

    adds: what is new on it.
    remedy: how its cost is avoided; empty where there is no way.
    alone: the ground with nothing but that; None where it is not measured.
    """

    side: PlatformSide
    adds: str
    remedy: str = ""
    alone: PlatformSide | None = None


@dataclass(frozen=True)
class ChosenLadder:
    """Rungs from the ground up. text: what the ladder is of, as it was written."""

    text: str
    rungs: Sequence[LadderRung]


def with_ladder(data: Mapping[str, Any], ladder: ChosenLadder) -> dict[str, Any]:
    """Return the values of a valid study with these rungs, each of which is compared with the one below.

    What is about the study's own platforms is left out; it has no boots of the host.
    """
    ground, *above = [rung.side.name for rung in ladder.rungs]
    changes = [f"{ground} on the ground", f"above it {', '.join(above)}"]
    alone = [rung.alone for rung in ladder.rungs if rung.alone is not None]
    sides = [*(rung.side for rung in ladder.rungs), *alone]
    values = with_platforms(data, f"--of {ladder.text}", sides, changes)
    rungs = [
        {
            "platform": rung.side.name,
            "adds": rung.adds,
            "remedy": rung.remedy,
            "alone": rung.alone.name if rung.alone else "",
        }
        for rung in ladder.rungs
    ]
    return {**values, "rung": rungs}
