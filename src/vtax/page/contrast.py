"""The sides of a contrast as a reader chooses them: a run and a platform from lists, or written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from vtax.store import schema
from vtax.store.listing import names_of_study, state_of
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import LAST, Store

_MOST_OFFERED = 200
_MOST_CHARS = 500


@dataclass(frozen=True)
class Offer:
    """What can be chosen: the newest runs, and platforms. examples: (treatment, baseline) that make sense."""

    runs: Sequence[str] = ()
    platforms: Sequence[str] = ()
    examples: Sequence[tuple[str, str]] = ()


def side_of(parameters: Mapping[str, str], key: str) -> str:
    """A side, from a run and a platform that were chosen, or as it was written. key: `treatment` or `baseline`."""
    side, platform = (parameters.get(name, "").strip()[:_MOST_CHARS] for name in (key, f"{key}_platform"))
    return f"{side}:{platform}" if side and platform and ":" not in side else side


def offer(store: Store) -> Offer:
    """What the runs of a store offer. Raises StoreError."""
    names = names_of_study(store, "", _MOST_OFFERED)
    if not names:
        return Offer()
    run, platform = schema.run, schema.platform
    with reading_rows(store.engine) as connection:
        all_platforms = select(platform.c.name).distinct().order_by(platform.c.name)
        platforms = [row.name for row in fetch(connection, all_platforms)]
        newest = select(run.c.id, run.c.study).where(run.c.name == names[0])
        (row,) = fetch(connection, newest)
        of_newest = (
            select(platform.c.name)
            .where(platform.c.run_id == row.id, platform.c.available)
            .order_by(platform.c.is_baseline, platform.c.position)
        )
        tested = [each.name for each in fetch(connection, of_newest)]
    examples = [(f"{names[0]}:{tested[0]}", f"{names[0]}:{tested[1]}")] if len(tested) > 1 else []
    if len(same := names_of_study(store, row.study, 2)) > 1:
        examples.append((same[0], same[1]))
    return Offer(names, platforms, examples)


def state_of_sides(store: Store, sides: Sequence[str]) -> str:
    """The state of all runs that the sides name; of the last one where they name none."""
    names = {name.strip() for side in sides for name in side.partition(":")[0].split(",")}
    known = names.intersection(store.run_names()) or {store.run_name(LAST)}
    return " ".join(state_of(store, name) for name in sorted(known))
