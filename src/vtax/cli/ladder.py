"""The value of `vtax anatomy --of`: `PLATFORM[:OPTION=VALUE...]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise

from vtax.cli.two_sides import OPTION, name_of, options_of
from vtax.errors import BadInput, placed
from vtax.levels import Level
from vtax.platforms import registry
from vtax.platforms.base import Rung
from vtax.study.ladder import ChosenLadder, LadderRung
from vtax.study.two_sides import PlatformSide

_HINT = "vtax doctor lists the ladders and which of their rungs run here"


def ladder_of(text: str, alone: Sequence[str] = ()) -> ChosenLadder:
    """Return the ladder of a platform, and above it a rung for each option that is given.

    alone: rungs whose mechanism is measured alone on the ground, too, by their names.
    Raises BadInput for a platform without a ladder, for an option that its driver does not have, and for a rung that
    cannot be alone.
    """
    name, *assignments = OPTION.split(text)
    ladders = registry.ladders()
    if name not in ladders:
        near = get_close_matches(name, ladders, 3)
        suggestion = f"; did you mean {', '.join(near)}?" if near else ""
        hint = f"{_HINT}: {', '.join(ladders)}"
        raise BadInput(f"there is no ladder of {name!r}{suggestion}", where="--of", hint=hint)
    rungs = [*ladders[name], *_above(ladders[name][-1], options_of(assignments, text), text)]
    sides = {rung: _alone(rungs, rung) for rung in alone}
    chosen = [LadderRung(_side(r), r.mechanism, r.remedy, sides.get(r.name)) for r in rungs]
    return ChosenLadder(" --alone ".join([text, *alone]), chosen)


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


def _alone(rungs: Sequence[Rung], name: str) -> PlatformSide:
    """Return the ground with nothing but what is new on a rung.

    It is of the driver of the ground, or else of the first rung above it, whichever has the options.
    """
    possible: dict[str, Rung] = {}
    for below, rung in pairwise(rungs[1:]):
        alone = _on_ground(rungs, below, rung)
        if alone is not None:
            possible[rung.name] = alone
    if name not in possible:
        hint = f"give one of {', '.join(possible)}"
        raise BadInput(f"{name!r} is no rung that could be alone", where="--alone", hint=hint)
    with placed(f"--alone {name}"):
        registry.platform_of(possible[name])
    return _side(possible[name])


def _on_ground(rungs: Sequence[Rung], below: Rung, rung: Rung) -> Rung | None:
    """Return the ground with what is new on a rung; None where that is no option of it."""
    if rung.driver != below.driver:
        return None
    changes = {}
    for key, value in rung.options.items():
        if key not in below.options or below.options[key] != value:
            changes[key] = value
    ground, first = rungs[:2]
    for driver, base in ((ground.driver, ground.options), (first.driver, {})):
        if changes.keys() <= registry.drivers()[driver].Options.model_fields.keys():
            return Rung(f"{rung.name}-alone", rung.mechanism, driver, {**base, **changes})
    return None


def _side(rung: Rung) -> PlatformSide:
    options = None if rung.name in registry.names() else rung.options
    return PlatformSide(rung.name, rung.driver, options)
