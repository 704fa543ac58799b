"""The value of `vtax anatomy --of`: `PLATFORM[:OPTION=VALUE...]`."""

from __future__ import annotations

from difflib import get_close_matches

from vtax.cli.two_sides import OPTION, name_of, options_of
from vtax.errors import BadInput, placed
from vtax.platforms import registry
from vtax.platforms.base import Rung
from vtax.study.ladder import ChosenLadder, LadderRung
from vtax.study.two_sides import PlatformSide

_HINT = "vtax doctor lists the ladders and which of their rungs run here"


def ladder_of(text: str) -> ChosenLadder:
    """Return the ladder of a platform, and above it a rung for each option that is given.

    Raises BadInput for a platform without a ladder, and for an option that its driver does not have.
    """
    name, *assignments = OPTION.split(text)
    ladders = registry.ladders()
    if name not in ladders:
        near = get_close_matches(name, ladders, 3)
        suggestion = f"; did you mean {', '.join(near)}?" if near else ""
        hint = f"{_HINT}: {', '.join(ladders)}"
        raise BadInput(f"there is no ladder of {name!r}{suggestion}", where="--of", hint=hint)
    rungs = [_rung(rung) for rung in ladders[name]]
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
    return ChosenLadder(text, rungs)


def _rung(rung: Rung) -> LadderRung:
    options = None if rung.name in registry.names() else rung.options
    return LadderRung(PlatformSide(rung.name, rung.driver, options), rung.mechanism, rung.remedy)
