"""`vtax anatomy --of PLATFORM`: a study with the rungs of a ladder in place of its own platforms, or with what measures
its largest rungs in both orders."""

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
    choice: how a platform has what it gains; empty where it is no choice.
    """

    side: PlatformSide
    adds: str
    remedy: str = ""
    choice: str = ""


@dataclass(frozen=True)
class ChosenLadder:
    """Rungs from the ground up. text: what the ladder is of, as it was written."""

    text: str
    rungs: Sequence[LadderRung]

    @property
    def ends(self) -> tuple[str, str]:
        """The names of the ground and of the highest rung."""
        return self.rungs[0].side.name, self.rungs[-1].side.name

    def put_into(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a valid study with these rungs, each of which is compared with the one below.

        What is about the study's own platforms is left out; it has no boots of the host.
        """
        ground, *upper_names = [rung.side.name for rung in self.rungs]
        changes = [f"{ground} on the ground", f"above it {', '.join(upper_names)}"]
        values = with_platforms(
            data, f"--of {self.text}", [rung.side for rung in self.rungs], changes
        )
        rungs = [
            {
                "platform": rung.side.name,
                "adds": rung.adds,
                "remedy": rung.remedy,
                "choice": rung.choice,
            }
            for rung in self.rungs
        ]
        return {**values, "rung": rungs}


@dataclass(frozen=True)
class MechanismInOrders:
    """A mechanism of a ladder in both orders.

    alone: the ground with nothing but that; None where that is no option.
    without: the highest rung with all but that; None likewise.
    taking: what else `without` does not have.
    """

    name: str
    alone: PlatformSide | None
    without: PlatformSide | None
    taking: str = ""


@dataclass(frozen=True)
class ChosenOrders:
    """Mechanisms of a ladder that are added to its ground first, and left out of its highest rung last.

    text: what the ladder is of, as it was written.
    """

    text: str
    ground: PlatformSide
    top: PlatformSide
    mechanisms: Sequence[MechanismInOrders]

    def __str__(self) -> str:
        """Return the names of the mechanisms."""
        return ", ".join(mechanism.name for mechanism in self.mechanisms) or "no rung is decided"

    @property
    def is_measurable(self) -> bool:
        """Whether one of them can be measured in an order at least."""
        return any(mechanism.alone or mechanism.without for mechanism in self.mechanisms)

    @property
    def ends(self) -> tuple[str, str]:
        """The names of the ground and of the highest rung."""
        return self.ground.name, self.top.name

    def put_into(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a valid study with what the orders need, see `ChosenLadder.put_into`."""
        sides = {self.ground.name: self.ground, self.top.name: self.top}
        orders = []
        for mechanism in self.mechanisms:
            order = {"mechanism": mechanism.name, "whole": self.top.name}
            for key, side in (("alone", mechanism.alone), ("without", mechanism.without)):
                if side is not None:
                    sides[side.name] = side
                order[key] = side.name if side else ""
            orders.append({**order, "taking": mechanism.taking})
        changes = [f"in both orders: {self}"]
        values = with_platforms(data, f"--of {self.text}", tuple(sides.values()), changes)
        return {**values, "both_orders": orders}
