"""The sides of a contrast as a reader chooses them: a run and a platform from lists, or written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from vtax.store import schema
from vtax.store.listing import names_of_study, state_of
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import LAST, Store

_MOST_OFFERED = 200
_MOST_CHARS = 500


@dataclass(frozen=True)
class Offer:
    """Choices: the newest runs, and platforms. examples: (treatment, baseline) that make sense."""

    runs: Sequence[str] = ()
    platforms: Sequence[str] = ()
    examples: Sequence[tuple[str, str]] = ()


def side_of(parameters: Mapping[str, str], key: str) -> str:
    """Return a side: as it was written, or a run with the platform that was chosen. key: `treatment` or `baseline`."""
    side = parameters.get(key, "").strip()[:_MOST_CHARS]
    platform = parameters.get(f"{key}_platform", "").strip()[:_MOST_CHARS]
    return f"{side}:{platform}" if side and platform and ":" not in side else side


def offer(store: Store) -> Offer:
    """Return what the runs of a store offer. Raises StoreError."""
    names = names_of_study(store, "", _MOST_OFFERED)
    run, platform = schema.run, schema.platform
    with reading_rows(store.engine) as connection:
        all_platforms = select(platform.c.name).distinct().order_by(platform.c.name)
        platforms = [row.name for row in fetch(connection, all_platforms)]
        finished = run.c.status == "finished"
        newest = (
            select(run.c.id, run.c.name, run.c.study)
            .where(finished)
            .order_by(run.c.started_at.desc())
        )
        examples: list[tuple[str, str]] = []
        for row in fetch(connection, newest.limit(1)):
            examples += _examples(connection, row)
    return Offer(names, platforms, examples)


def _examples(connection: Connection, row: Any) -> Iterator[tuple[str, str]]:
    """Yield two platforms of a run, and the run against the one before it of its study. row: id, name, study."""
    run, platform = schema.run, schema.platform
    tested = (
        select(platform.c.name)
        .where(platform.c.run_id == row.id, platform.c.available)
        .order_by(platform.c.is_baseline, platform.c.position)
    )
    if len(platforms := fetch(connection, tested.limit(2))) == 2:
        yield f"{row.name}:{platforms[0].name}", f"{row.name}:{platforms[1].name}"
    of_study = select(run.c.name).where(
        run.c.study == row.study, run.c.status == "finished", run.c.id != row.id
    )
    for before in fetch(connection, of_study.order_by(run.c.started_at.desc()).limit(1)):
        yield row.name, before.name


def state_of_sides(store: Store, sides: Sequence[str]) -> str:
    """Return the state of all runs that the sides name; of the last one where they name none."""
    names = {name.strip() for side in sides for name in side.partition(":")[0].split(",")}
    known = names.intersection(store.run_names()) or {store.run_name(LAST)}
    return " ".join(state_of(store, name) for name in sorted(known))
