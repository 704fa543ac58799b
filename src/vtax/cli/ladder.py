"""The value of `vtax anatomy --of`, `PLATFORM[:OPTION=VALUE...]`, and its mechanisms in both orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from vtax.cli.two_sides import OPTION, name_of, options_of
from vtax.errors import BadInput, nearest_of, placed
from vtax.levels import Level
from vtax.platforms import registry
from vtax.platforms.base import Rung
from vtax.study.ladder import ChosenLadder, ChosenOrders, LadderRung, MechanismInOrders
from vtax.study.two_sides import PlatformSide

_HINT = "vtax doctor lists the ladders and which of their rungs run here"
_IN_BOTH_ORDERS = 2  # mechanisms
_WHY_NONE = {"native": "it is the ground of the others", "sandbox": "it makes their rungs"}


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
    rung_below = {rung.name: lower_rung for lower_rung, rung in pairwise(rungs)}
    by_name = {rung.name: rung for rung in rungs}
    mechanisms: list[MechanismInOrders] = []
    measurable_count = 0
    for name in largest:
        rung = by_name[name]
        ground_side = _side_with_rung_alone(rungs, rung_below[name], rung)
        top_side = _side_without_rung(rungs[-1], rung_below[name], rung)
        mechanisms.append(MechanismInOrders(rung.mechanism, ground_side, top_side, rung.taking))
        measurable_count += ground_side is not None or top_side is not None
        if measurable_count == _IN_BOTH_ORDERS:
            break
    return ChosenOrders(text, _side(rungs[0]), _side(rungs[-1]), mechanisms)


def _rungs_of(text: str) -> list[Rung]:
    name, *assignments = OPTION.split(text)
    ladders = registry.ladders()
    if name not in ladders:
        what = f"there is no ladder of {name!r}{nearest_of(name, ladders)}"
        if name in registry.names():
            what = f"{name} has no ladder: {_WHY_NONE.get(name, 'its driver has none')}"
        hint = f"{_HINT}: {', '.join(ladders)}"
        raise BadInput(what, where="--of", hint=hint)
    return [*ladders[name], *_rungs_above(ladders[name][-1], options_of(assignments, text), text)]


def _rungs_above(top: Rung, options_given: Mapping[str, Level], text: str) -> list[Rung]:
    """Return a rung for each option above the highest one of a ladder."""
    rungs: list[Rung] = []
    options_above: dict[str, Level] = {}
    for key, value in options_given.items():
        options_above[key] = value
        name = name_of(top.name, options_above) or f"{top.name}-{len(options_above)}"
        with placed(f"--of, {text}"):
            platform = registry.make(name, top.driver, {**top.options, **options_above})
        options = {key_: getattr(platform.options, key_) for key_ in (*top.options, *options_above)}
        value_text = str(value).lower() if isinstance(value, bool) else value
        remedy = f"leave {key} out, as by default"
        rungs.append(Rung(name, f"{key} = {value_text}", top.driver, options, remedy))
    return rungs


def _side_with_rung_alone(
    rungs: Sequence[Rung], lower_rung: Rung, rung: Rung
) -> PlatformSide | None:
    """Return the ground with nothing but what is new on a rung; None where that is no platform.

    It is of the driver of the ground, or else of the first rung above it, whose ground has no options then.
    """
    ground, first = rungs[:2]
    if lower_rung is ground:
        return _side(rung)
    if rung.driver != lower_rung.driver:
        return None
    name, changes = f"{rung.name}-alone", _changes(lower_rung, rung)
    side = _make_side(name, ground.driver, {**ground.options, **changes})
    if side is None and first.driver != ground.driver:
        side = _make_side(name, first.driver, changes)
    return side


def _side_without_rung(top: Rung, lower_rung: Rung, rung: Rung) -> PlatformSide | None:
    """Return the highest rung with all but what is new on another one; None where that is no platform."""
    if rung.left_out_by is not None:
        options = {**top.options, **rung.left_out_by}
    elif rung.driver == lower_rung.driver == top.driver:
        options = dict(top.options)
        for key in _changes(lower_rung, rung):
            options.pop(key)
            if key in lower_rung.options:
                options[key] = lower_rung.options[key]
    else:
        return None
    return _make_side(f"without-{rung.name}", top.driver, options)


def _changes(lower_rung: Rung, rung: Rung) -> dict[str, Any]:
    changes = {}
    for key, value in rung.options.items():
        if key not in lower_rung.options or lower_rung.options[key] != value:
            changes[key] = value
    return changes


def _make_side(name: str, driver: str, options: Mapping[str, Any]) -> PlatformSide | None:
    """Return a platform of these options; None where the driver does not have them, or not without others."""
    try:
        registry.make(name, driver, options)
    except BadInput:
        return None
    return PlatformSide(name, driver, options)


def _side(rung: Rung) -> PlatformSide:
    options = None if rung.name in registry.names() else rung.options
    return PlatformSide(rung.name, rung.driver, options)
