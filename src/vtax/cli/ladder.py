"""The value of `vtax anatomy --of`, `PLATFORM[:OPTION=VALUE...]`, and its mechanisms in both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from vtax.cli.two_sides import OPTION, name_of, options_of
from vtax.errors import BadInput, placed
from vtax.levels import Level
from vtax.platforms import registry
from vtax.platforms.base import Rung
from vtax.study.ladder import ChosenLadder, ChosenOrders, LadderRung, MechanismInOrders
from vtax.study.two_sides import PlatformSide

_HINT = "vtax doctor lists the ladders and which of their rungs run here"
_IN_BOTH_ORDERS = 2  # mechanisms


def ladder_of(text: str) -> ChosenLadder:
    """Return the ladder of a platform, and above it a rung for each option that is given.

    Raises BadInput for a platform without a ladder, and for an option that its driver does not have.
    """
    rungs = []
    for rung in _rungs_of(text):
        rungs.append(LadderRung(_side(rung), rung.mechanism, rung.remedy, rung.choice))
    return ChosenLadder(text, rungs)


def orders_of(text: str, largest: Sequence[str]) -> ChosenOrders:
    """Return mechanisms of a ladder in both orders: the largest that can be measured in one of them at least.

    text: what the ladder is of.
    largest: its rungs by name, the largest first; those before the last that is measured are among the mechanisms,
    and have no platform where they have none.
    """
    rungs = _rungs_of(text)
    below = {rung.name: lower for lower, rung in pairwise(rungs)}
    by_name = {rung.name: rung for rung in rungs}
    mechanisms: list[MechanismInOrders] = []
    measured = 0
    for name in largest:
        rung = by_name[name]
        alone = _alone(rungs, below[name], rung)
        without = _without(rungs[-1], below[name], rung)
        mechanisms.append(MechanismInOrders(rung.mechanism, alone, without, rung.taking))
        measured += alone is not None or without is not None
        if measured == _IN_BOTH_ORDERS:
            break
    return ChosenOrders(text, _side(rungs[0]), _side(rungs[-1]), mechanisms)


def _rungs_of(text: str) -> list[Rung]:
    name, *assignments = OPTION.split(text)
    ladders = registry.ladders()
    if name not in ladders:
        near = get_close_matches(name, ladders, 3)
        suggestion = f"; did you mean {', '.join(near)}?" if near else ""
        hint = f"{_HINT}: {', '.join(ladders)}"
        raise BadInput(f"there is no ladder of {name!r}{suggestion}", where="--of", hint=hint)
    return [*ladders[name], *_above(ladders[name][-1], options_of(assignments, text), text)]


def _above(top: Rung, given: Mapping[str, Level], text: str) -> list[Rung]:
    """Return a rung for each option above the highest one of a ladder."""
    rungs: list[Rung] = []
    added: dict[str, Level] = {}
    for key, value in given.items():
        added[key] = value
        name = name_of(top.name, added) or f"{top.name}-{len(added)}"
        with placed(f"--of, {text}"):
            platform = registry.make(name, top.driver, {**top.options, **added})
        options = {each: getattr(platform.options, each) for each in (*top.options, *added)}
        written = str(value).lower() if isinstance(value, bool) else value
        remedy = f"leave {key} out, as by default"
        rungs.append(Rung(name, f"{key} = {written}", top.driver, options, remedy))
    return rungs


def _alone(rungs: Sequence[Rung], below: Rung, rung: Rung) -> PlatformSide | None:
    """Return the ground with nothing but what is new on a rung; None where that is no platform.

    It is of the driver of the ground, or else of the first rung above it, whose ground has no options then.
    """
    ground, first = rungs[:2]
    if below is ground:
        return _side(rung)
    if rung.driver != below.driver:
        return None
    name, changes = f"{rung.name}-alone", _changes(below, rung)
    side = _made(name, ground.driver, {**ground.options, **changes})
    if side is None and first.driver != ground.driver:
        side = _made(name, first.driver, changes)
    return side


def _without(top: Rung, below: Rung, rung: Rung) -> PlatformSide | None:
    """Return the highest rung with all but what is new on another one; None where that is no platform."""
    if rung.left_out_by is not None:
        options = {**top.options, **rung.left_out_by}
    elif rung.driver == below.driver == top.driver:
        options = dict(top.options)
        for key in _changes(below, rung):
            options.pop(key)
            if key in below.options:
                options[key] = below.options[key]
    else:
        return None
    return _made(f"without-{rung.name}", top.driver, options)


def _changes(below: Rung, rung: Rung) -> dict[str, Any]:
    changes = {}
    for key, value in rung.options.items():
        if key not in below.options or below.options[key] != value:
            changes[key] = value
    return changes


def _made(name: str, driver: str, options: Mapping[str, Any]) -> PlatformSide | None:
    """Return a platform of these options; None where the driver does not have them, or not without others."""
    try:
        registry.make(name, driver, options)
    except BadInput:
        return None
    return PlatformSide(name, driver, options)


def _side(rung: Rung) -> PlatformSide:
    options = None if rung.name in registry.names() else rung.options
    return PlatformSide(rung.name, rung.driver, options)
