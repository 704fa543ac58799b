"""The sides of a comparison as a reader chooses them: a run and a platform from lists, or written out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from vtax.store import schema
from vtax.store.listing import state_of
from vtax.store.rows import fetch, reading_rows
from vtax.store.store import LAST, Store

SIDES = ("a", "b")
_MOST_OFFERED = 200
_MOST_CHARS = 500


@dataclass(frozen=True)
class Offer:
    """Choices for both sides.

    runs: the newest ones, and the platforms that each of them measured, its baseline first.
    examples: (A, B) that make sense.
    """

    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    examples: Sequence[tuple[str, str]] = ()

    def platforms(self, side: str) -> Sequence[str]:
        """Return the platforms of the run of a side; those of all runs where it names none."""
        run = side.partition(":")[0]
        if run:
            return self.runs.get(run, ())
        return sorted({name for names in self.runs.values() for name in names})


def sides_of(parameters: Mapping[str, str], choices: Offer) -> tuple[str, str]:
    """Return both sides: as they were written, or a run with the platform that was chosen.

    B is of the run of A where only its platform was chosen, and the baseline of that run where nothing was, as of
    `vtax compare`.
    """
    a = _side(parameters, "a")
    b = _side(parameters, "b")
    run, has_platform, _ = a.partition(":")
    if b or not has_platform:
        return a, b
    platform = parameters.get("b_platform", "").strip()[:_MOST_CHARS]
    baseline = next(iter(choices.platforms(run)), "")
    return a, f"{run}:{platform or baseline}" if platform or baseline else ""


def _side(parameters: Mapping[str, str], key: str) -> str:
    side = parameters.get(key, "").strip()[:_MOST_CHARS]
    platform = parameters.get(f"{key}_platform", "").strip()[:_MOST_CHARS]
    return f"{side}:{platform}" if side and platform and ":" not in side else side


def offer(store: Store) -> Offer:
    """Return what the runs of a store offer. Raises StoreError."""
    names = store.newest_names(_MOST_OFFERED)
    run, platform = schema.run, schema.platform
    with reading_rows(store.engine) as connection:
        platforms_query = (
            select(run.c.name.label("run"), platform.c.name)
            .join_from(run, platform)
            .where(run.c.name.in_(names), platform.c.available)
            .order_by(platform.c.is_baseline.desc(), platform.c.position)
        )
        runs: dict[str, list[str]] = {name: [] for name in names}
        for row in fetch(connection, platforms_query):
            runs[row.run].append(row.name)
        is_finished = run.c.status == "finished"
        newest = (
            select(run.c.name, run.c.study).where(is_finished).order_by(run.c.started_at.desc())
        )
        examples: list[tuple[str, str]] = []
        for row in fetch(connection, newest.limit(1)):
            examples += _examples(connection, row, runs.get(row.name, ()))
    return Offer(runs, examples)


def _examples(
    connection: Connection, row: Any, platforms: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield two platforms of a run, and the run against the one before it of its study.

    row: its name and study.
    platforms: of the run, its baseline first.
    """
    run = schema.run
    if len(platforms) > 1:
        against = platforms[2] if len(platforms) > 2 else platforms[0]
        yield f"{row.name}:{platforms[1]}", f"{row.name}:{against}"
    of_study = select(run.c.name).where(
        run.c.study == row.study, run.c.status == "finished", run.c.name != row.name
    )
    for before in fetch(connection, of_study.order_by(run.c.started_at.desc()).limit(1)):
        yield row.name, before.name


def state_of_sides(store: Store, sides: Sequence[str]) -> str:
    """Return the state of all runs that the sides name; of the last one where they name none."""
    names = {name.strip() for side in sides for name in side.partition(":")[0].split(",")}
    run_names = names.intersection(store.run_names()) or {store.run_name(LAST)}
    return " ".join(state_of(store, name) for name in sorted(run_names))
