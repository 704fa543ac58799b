"""A run of a store becomes a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from vtax.errors import BadInput, StoreError
from vtax.messages import packed
from vtax.store.anonymous import Anonymizer, Replaced
from vtax.store.bundle import as_text, write_bundle
from vtax.store.rows import reading_rows
from vtax.store.run import RunHandle
from vtax.store.transfer import Row, Watch, rows_of, unwatched


@dataclass(frozen=True)
class Exported:
    """sha256: of the bundle's content. replaced: by an anonymizer, empty without one."""

    sha256: str
    replaced: tuple[Replaced, ...]


def export_run(
    engine: Engine,
    run: RunHandle,
    path: Path,
    *,
    anonymize: bool = False,
    host_names: Iterable[str] = (),
    users: Iterable[str] = (),
    watch: Watch = unwatched,
) -> Exported:
    """Write a run to a file. host_names, users: known names to replace when it is made anonymous. watch: shows
    progress.

    Raises BadInput for a run that is measured now, and StoreError for one that cannot be read or is too large.
    """
    if run.status == "running":
        raise BadInput(f"{run.name} is still running", hint="export it when it has ended")
    with reading_rows(engine) as connection:
        anonymizer = Anonymizer(run.identity, host_names, users) if anonymize else None
        rows = as_text(watch("written", _rows(connection, run)))
        if anonymizer:
            anonymizer.see(as_text(watch("examined", _rows(connection, run))))
            rows = anonymizer.rows(rows)
        try:
            digest = write_bundle(path, rows, is_anonymized=anonymize)
        except ValueError as error:
            raise StoreError(f"{run.name} cannot be exported: {error}") from error
    return Exported(digest, anonymizer.replaced if anonymizer else ())


def _rows(connection: Connection, run: RunHandle) -> Iterator[Row]:
    """Yield the rows of a run; the store has a killed one as `running` until something writes to it."""
    for name, row in rows_of(connection, run.id):
        if name == "run" and row["status"] != run.status:
            row |= {"status": run.status, "stopped_because": packed(run.stopped_because)}
        yield name, row
