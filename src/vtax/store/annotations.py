"""Notes that people write beside a run: tags, which are names to find it by, and notes, which are sentences.

They judge nothing and change no figure. They travel in bundles; two copies of a run that differ in them alone are the
same run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from sqlalchemy import Engine, select, update

from vtax.described import Means
from vtax.errors import BadInput
from vtax.foreign_text import clean, one_line
from vtax.store import schema
from vtax.store.database import writing
from vtax.store.rows import fetch

MAX_TAGS, MAX_TAG_CHARS = 20, 40
MAX_NOTES, MAX_NOTE_CHARS = 100, 1000
COLUMNS = ("tags", "notes")  # of the table `run`
_MOST_READ = 1000  # of either, of a run of another store
_TAG = re.compile(rf"\w[\w.-]{{0,{MAX_TAG_CHARS - 1}}}")


@dataclass(frozen=True)
class Annotations:
    """The tags and the notes of a run, in the order they were added."""

    tags: Annotated[tuple[str, ...], Means("names that people gave it to find it by")] = ()
    notes: Annotated[tuple[str, ...], Means("sentences that people wrote beside it")] = ()

    @classmethod
    def read(cls, tags: Iterable[Any], notes: Iterable[Any]) -> Annotations:
        """Return what a store or a bundle has: one line each, cut to their lengths."""
        return cls(
            tuple(one_line(str(tag), MAX_TAG_CHARS) for tag in tags)[:_MOST_READ],
            tuple(one_line(str(note), MAX_NOTE_CHARS) for note in notes)[:_MOST_READ],
        )


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as they are stored, each once. Raises BadInput for what is no tag, and for too many."""
    unique = tuple(dict.fromkeys(tags))
    for tag in unique:
        if not _TAG.fullmatch(tag):
            raise BadInput(
                f"{clean(tag, 60)!r} is no tag",
                hint=f"a tag has letters, digits, dots, hyphens and underscores, at most {MAX_TAG_CHARS}; "
                "sentences are notes: vtax note RUN TEXT",
            )
    if len(unique) > MAX_TAGS:
        raise BadInput(
            f"a run has at most {MAX_TAGS} tags, not {len(unique)}",
            hint="vtax note RUN --untag TAG",
        )
    return unique


def checked_note(text: str) -> str:
    """Return a note as it is stored: on one line. Raises BadInput for an empty one and for one that is too long."""
    note = one_line(text, MAX_NOTE_CHARS + 1)
    if not note:
        raise BadInput("the note is empty", hint="vtax note RUN TEXT")
    if len(note) > MAX_NOTE_CHARS:
        raise BadInput(
            f"a note has at most {MAX_NOTE_CHARS} characters", hint="split it into several"
        )
    return note


def annotate(
    engine: Engine, run_id: int, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Store what a change makes of the annotations of a run, in one transaction; returns it.

    Raises BadInput for too many, StoreError, and whatever the change raises.
    """
    run = schema.run
    with writing(engine) as connection:
        # locked until the update, where the database lets two writers in (PostgreSQL); SQLite has one
        query = select(run.c.tags, run.c.notes).where(run.c.id == run_id).with_for_update()
        rows = fetch(connection, query)
        if not rows:
            raise BadInput("the run was removed meanwhile", hint="vtax list shows the runs")
        (row,) = rows
        old = Annotations.read(row.tags, row.notes)
        new = change(old)
        if len(new.tags) > max(MAX_TAGS, len(old.tags)):
            checked_tags(new.tags)
        if len(new.notes) > max(MAX_NOTES, len(old.notes)):
            raise BadInput(
                f"a run has at most {MAX_NOTES} notes",
                hint="vtax note RUN --remove NUMBER removes one",
            )
        values = {"tags": list(new.tags), "notes": list(new.notes)}
        connection.execute(update(run).where(run.c.id == run_id).values(values))
    return new


def without_notes(notes: Sequence[str], numbers: Iterable[int]) -> tuple[str, ...]:
    """Return the notes but some, by their numbers from 1. Raises BadInput for a number that is not there."""
    numbers_removed = set(numbers)
    for number in sorted(numbers_removed):
        if not 0 < number <= len(notes):
            count = len(notes) or "none"
            raise BadInput(
                f"the run has no note {number}: it has {count}", hint="vtax note RUN lists them"
            )
    return tuple(
        note for number, note in enumerate(notes, start=1) if number not in numbers_removed
    )
