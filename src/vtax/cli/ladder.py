"""The value of `vtax anatomy --of`: `PLATFORM[:OPTION=VALUE...]`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from vtax.cli.two_sides import OPTION, name_of, options_of
from vtax.errors import BadInput, placed
from vtax.platforms import registry
from vtax.platforms.base import Rung, with_first
from vtax.study.ladder import ChosenLadder, LadderRung
from vtax.study.two_sides import PlatformSide

_HINT = "vtax doctor lists the ladders and which of their rungs run here"


def ladder_of(text: str, first: str = "") -> ChosenLadder:
    """Return the ladder of a platform, and above it a rung for each option that is given.

    first: the rung that comes right above the ground, by its name; empty for the order of the driver.
    Raises BadInput for a platform without a ladder, for an option that its driver does not have, and for a rung that
    cannot be the first.
    """
    name, *assignments = OPTION.split(text)
    ladders = registry.ladders()
    if name not in ladders:
        near = get_close_matches(name, ladders, 3)
        suggestion = f"; did you mean {', '.join(near)}?" if near else ""
        hint = f"{_HINT}: {', '.join(ladders)}"
        raise BadInput(f"there is no ladder of {name!r}{suggestion}", where="--of", hint=hint)
    in_order = _with_first(ladders[name], first) if first else ladders[name]
    rungs = [_rung(rung) for rung in in_order]
    top = ladders[name][-1]
    given = {}
    for key, value in options_of(assignments, text).items():
        given[key] = value
        side_name = name_of(name, given) or f"{name}-{len(given)}"
        with placed(f"--of, {text}"):
            platform = registry.make(side_name, top.driver, {**top.options, **given})
        options = {each: getattr(platform.options, each) for each in (*top.options, *given)}
        side = PlatformSide(side_name, top.driver, options)
        written = str(value).lower() if isinstance(value, bool) else value
        rungs.append(LadderRung(side, f"{key} = {written}", f"leave {key} as it is by default"))
    return ChosenLadder(f"{text} --first {first}" if first else text, rungs)


def _with_first(rungs: Sequence[Rung], first: str) -> Sequence[Rung]:
    names = [rung.name for rung in rungs[1:] if rung.driver == rungs[1].driver]
    try:
        moved = with_first(rungs, first)
    except KeyError:
        what = f"{first!r} is no rung that could be the first"
        raise BadInput(what, where="--first", hint=f"give one of {', '.join(names)}") from None
    for rung in moved:
        with placed(f"--first {first}"):
            registry.platform_of(rung)
    return moved


def _rung(rung: Rung) -> LadderRung:
    options = None if rung.name in registry.names() else rung.options
    return LadderRung(PlatformSide(rung.name, rung.driver, options), rung.mechanism, rung.remedy)
