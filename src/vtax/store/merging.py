"""Runs of one study become one run, whose sessions are theirs, numbered one after another, with provenance.

Nothing is computed here, and no trial is copied. What is made has the form of a run of several sessions, so every view
reads it, and intervals are over sessions (stats.sessions). The runs that it is made of stay as they are, and stay.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from vtax.errors import BadInput
from vtax.foreign_text import clean
from vtax.messages import Note, columns_of, packed
from vtax.stats.rules import rule_class
from vtax.store import schema
from vtax.store.database import new_id, writing
from vtax.store.hosts import cloned, digests, half_known, shared_machines
from vtax.store.parts import add_parts
from vtax.store.provenance import MERGED, merged_runs, part_identities
from vtax.store.records import CellRecord, Design, MetricRecord, PlatformRecord
from vtax.store.run import RunHandle, add_sessions
from vtax.store.store import Store, add_design, next_name
from vtax.study.programs import with_names_of_files

# keys of a design that say how long a run is, not what it measures
_LENGTH_KEYS = ("seed", "blocks", "min_blocks", "max_blocks", "budget", "sessions")
_MAX_SHOWN = 80  # characters of a value
_MOST_SHOWN = 6  # differences
_MOST_NAMED = 4  # runs in a warning
_DIGITS = 12  # of a digest
_BETWEEN = " / "  # versions of a platform


MERGED_AGAIN = "merged-again"
"""The warning of a merged run of which another selection was merged before."""
IMAGE_UNKNOWN = "image-unknown"
"""The warning of a merged run of which a part does not say what its image held."""


def merge(store: Store, names: Iterable[str], again: RunHandle | None = None) -> str:
    """Store the merged run of several; returns its name.

    again: a merged run that becomes that of these runs, and keeps its name, tags and notes.

    Raises BadInput with the difference for runs of different studies, images, agents, plug-ins or platforms, for
    those that are not finished, share a session, or are of hosts that are not independent, and where the study's rule
    has no sessions; StoreError.
    """
    opened = store.open_runs([*dict.fromkeys(names)])
    runs = sorted(opened, key=lambda run: (run.started_at, run.name))
    if len({run.id for run in runs}) < 2:
        raise BadInput(
            f"merging needs two runs or more; {runs[0].name} is the only one named",
            hint="vtax merge RUN RUN",
        )
    _check(runs)
    identity = merged_identity(run.identity for run in runs)
    table = schema.run
    with writing(store.engine) as connection:
        query = select(table.c.identity, table.c.name, table.c.provenance)
        if again:
            query = query.where(table.c.id != again.id)
        stored_runs = connection.execute(query).all()
        names_by_identity = {row.identity: row.name for row in stored_runs}
        if identity in names_by_identity:
            raise BadInput(
                f"these runs are merged already: {names_by_identity[identity]}",
                hint=f"vtax show {names_by_identity[identity]}",
            )
        if again:
            row = _run_row(runs, again.name, identity)
            _keep(row, again, runs)
            merged = again.id
            _forget_parts(connection, merged)
            connection.execute(update(table).where(table.c.id == merged).values(row))
        else:
            row = _run_row(
                runs, next_name(f"{runs[0].study}-merged", names_by_identity.values()), identity
            )
            merged = new_id(connection, table, row)
            _warn(connection, merged, _merged_before(stored_runs, runs))
        _add_parts(connection, merged, runs)
        _warn(connection, merged, _unknown_image(runs))
    return str(row["name"])


def _keep(row: dict[str, Any], merged: RunHandle, runs: Iterable[RunHandle]) -> None:
    """Keep in the row of a merged run that is merged again what people wrote, and what else is known of it."""
    part_identities_known = part_identities(merged.provenance)
    new_runs = [run for run in runs if run.identity not in part_identities_known]
    row["notes"] = [*merged.annotations.notes, *_notes(new_runs)]
    row["tags"] = list(dict.fromkeys([*merged.annotations.tags, *_tags(new_runs)]))
    row["provenance"] = {**merged.provenance, **row["provenance"]}


def _forget_parts(connection: Connection, merged: int) -> None:
    """Delete what a merged run has of its runs, and the warning about their images."""
    tables = (schema.part, schema.metric, schema.cell, schema.platform, schema.session)
    for table in tables:
        connection.execute(delete(table).where(table.c.run_id == merged))
    warning = schema.warning
    about_images = (warning.c.run_id == merged, warning.c.code == IMAGE_UNKNOWN)
    connection.execute(delete(warning).where(*about_images))


def _add_parts(connection: Connection, merged: int, runs: Sequence[RunHandle]) -> None:
    """Make runs the parts of a merged one, with all that they measured in its design."""
    sessions = [session for run in runs for session in run.sessions]
    numbered = enumerate(sessions, start=1)
    add_sessions(connection, merged, (replace(one, number=number) for number, one in numbered))
    platforms: dict[str, list[PlatformRecord]] = {}
    cells: dict[str, CellRecord] = {}
    metrics: dict[tuple[str, str], MetricRecord] = {}
    for run in runs:
        for platform in run.platforms:
            platforms.setdefault(platform.name, []).append(platform)
        for cell in run.cells:
            cells.setdefault(cell.key, cell)
        for metric in run.metrics:
            metrics.setdefault((metric.benchmark, metric.name), metric)
    design = Design(
        [_merge_platforms(records) for records in platforms.values()],
        [*cells.values()],
        [*metrics.values()],
    )
    add_design(connection, merged, design)
    add_parts(connection, merged, [(run.id, len(run.sessions)) for run in runs])


def _merge_platforms(records: Sequence[PlatformRecord]) -> PlatformRecord:
    """Return what several runs say of one platform: tested where one tested it, marked as in any."""
    available_records = [record for record in records if record.available] or records
    versions: dict[str, None] = {}
    marks: dict[str, None] = {}
    for record in available_records:
        versions.update(dict.fromkeys(record.version.split(_BETWEEN)))
        marks.update(dict.fromkeys(record.marks))
    first = available_records[0]
    return replace(
        records[0],
        available=first.available,
        reason=first.reason,
        hint=first.hint,
        marks=tuple(marks),
        version=_BETWEEN.join(versions),
    )


def _warn(connection: Connection, run_id: int, *notes: Note | None) -> None:
    for note in notes:
        if note:
            connection.execute(insert(schema.warning).values(run_id=run_id, **columns_of(note)))


def _notes(runs: Iterable[RunHandle]) -> list[str]:
    """Return the notes of runs, each with the name of its run."""
    notes = []
    for run in runs:
        notes += [f"{run.name}: {note}" for note in run.annotations.notes]
    return notes


def _tags(runs: Iterable[RunHandle]) -> list[str]:
    """Return the tags of runs, each once."""
    return list(dict.fromkeys(tag for run in runs for tag in run.annotations.tags))


def merged_identity(identities: Iterable[str]) -> str:
    """Return the identity that the merged run of runs with these has in every store."""
    return hashlib.sha256("".join(sorted(identities)).encode()).hexdigest()[:32]


def _merged_before(stored_runs: Iterable[Any], runs: Sequence[RunHandle]) -> Note | None:
    """Return the warning that some of these runs were merged before in another selection; None when none were.

    stored_runs: rows with name, identity and provenance of every run.
    """
    own_identities: set[str] = set()
    for run in runs:
        own_identities |= _identities(run.identity, run.provenance)
    earlier_names = []
    for row in stored_runs:
        is_merged = bool(merged_runs(row.provenance))
        if is_merged and own_identities & _identities(row.identity, row.provenance):
            earlier_names.append(row.name)
    return Note(MERGED_AGAIN, runs=tuple(earlier_names)) if earlier_names else None


def _check(runs: Sequence[RunHandle]) -> None:
    """Raise BadInput for runs that cannot be merged, with every difference to the first."""
    first, *other_runs = runs
    for run in runs:
        if run.status != "finished":
            raise BadInput(
                f"{run.name} is not finished: {run.status}", hint=f"sudo vtax resume {run.name}"
            )
    design = first.declared.get("design", {})
    if not rule_class(design).takes_more or design.get("order") == "sequential":
        raise BadInput(
            f"{first.study} has no sessions to merge: stop = {design.get('stop')!r}, order = {design.get('order')!r}",
            hint="measure with stop = 'fixed', 'open' or 'budget', in randomized order; vtax compare RUN,RUN "
            "RUN,RUN compares others",
        )
    for run in other_runs:
        if run.study != first.study:
            raise BadInput(
                f"{first.name} is of the study {first.study}, and {run.name} of {run.study}",
                hint="merge runs of one study; vtax compare compares runs of two",
            )
        differences = list(_differences(first, run))
        if differences:
            raise BadInput(
                f"{first.name} and {run.name} cannot be merged: {_list_first(differences)}",
                hint="merge runs of one study, image and version of vtax",
            )
    _check_hosts(runs)
    owners: dict[str, str] = {}
    for run in runs:
        for identity in _identities(run.identity, run.provenance):
            if identity in owners:
                raise BadInput(
                    f"{owners[identity]} and {run.name} have sessions in common",
                    hint="merge the other runs without one",
                )
            owners[identity] = run.name


def _check_hosts(runs: Sequence[RunHandle]) -> None:
    """Raise BadInput for runs of hosts that are not independent, or in images of other files.

    A host and its copy are not, nor are hosts that share some of their other machines.
    """
    hosts = _hosts(runs)
    machines = cloned(hosts)
    if machines:
        raise BadInput(
            f"two hosts have the machine-id {_short(machines[0])}: one is a copy of the other",
            hint="give the copy an id of its own, and measure there again: rm /etc/machine-id; "
            "systemd-machine-id-setup",
        )
    machines = half_known(hosts)
    if machines:
        raise BadInput(
            f"of the machine-id {_short(machines[0])} one run knows the hardware and another does not, so that they "
            "may be one host or two",
            hint="measure again as root, with this version of vtax, on each host",
        )
    machines = shared_machines(hosts)
    if machines:
        raise BadInput(
            f"the machine {_short(machines[0])} is at an end of the runs of several hosts, but not of all: intervals "
            "over hosts take these to be independent",
            hint="merge runs of hosts that were measured with one other machine, or each with one of its own",
        )
    run_by_digest: dict[str, str] = {}
    for run in runs:
        for digest in digests(_hosts([run])) - {""}:
            run_by_digest.setdefault(digest, run.name)
    if len(run_by_digest) > 1:
        images = [f"{run_by_digest[digest]} {digest[:_DIGITS]}" for digest in sorted(run_by_digest)]
        raise BadInput(
            f"the runs have images of other files, though of one recipe: {', '.join(images)}",
            hint="build the image on one host, take it to the others with vtax image export and vtax image import, "
            "and measure there again",
        )


def _hosts(runs: Iterable[RunHandle]) -> list[Mapping[str, Any]]:
    """Return facts of the host of every session."""
    hosts = []
    for run in runs:
        hosts += [session.host for session in run.sessions]
    return hosts


def _unknown_image(runs: Sequence[RunHandle]) -> Note | None:
    """Return the warning that some of these runs do not say what their images held; None when all do."""
    unknown = [run.name for run in runs if "" in digests(_hosts([run]))]
    if len(unknown) > _MOST_NAMED:
        unknown = [*unknown[: _MOST_NAMED - 1], f"{len(unknown) - _MOST_NAMED + 1} more runs"]
    return Note(IMAGE_UNKNOWN, runs=tuple(unknown)) if unknown else None


def _list_first(differences: Sequence[str]) -> str:
    """Return the first of them, a line each."""
    lines = list(differences[:_MOST_SHOWN])
    if len(differences) > _MOST_SHOWN:
        lines.append(f"and {len(differences) - _MOST_SHOWN} more")
    return "".join(f"\n  - {line}" for line in lines)


def _identities(identity: str, provenance: Mapping[str, Any]) -> set[str]:
    """Return the identities of a run and of those that it was merged from."""
    identities = {identity}
    for part in merged_runs(provenance):
        included_identities = part.get("includes")
        if isinstance(included_identities, list):
            identities.update(map(str, included_identities))
    return identities


def _differences(a: RunHandle, b: RunHandle) -> Iterator[str]:
    """Yield what keeps two runs from being merged, a sentence each."""
    fields = (
        ("image", a.image_key, b.image_key),
        ("agent (version of vtax)", a.vtax_version, b.vtax_version),
        ("plug-ins", list(map(vars, a.plugins)), list(map(vars, b.plugins))),
    )
    for field, value, other_value in fields:
        if value != other_value:
            yield f"{field} {_short(value)} and {_short(other_value)}"
    names = (a.name, b.name)
    if a.declared != b.declared:
        yield from _unlike("", _settings(a.declared), _settings(b.declared), names)
    yield from _unlike("platforms", _platforms(a), _platforms(b), names)


def _platforms(run: RunHandle) -> dict[str, Any]:
    """Return what the platforms of a run are, by name."""
    platforms = {}
    for platform in run.platforms:
        platforms[platform.name] = {**platform.identity, "baseline": platform.is_baseline}
    return platforms


def _settings(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study without what does not tell two measurements apart.

    That is how long it lasts, its figures, platforms (compared by what they are), the words of its scale (what it
    changed is in the rest), and the directories of files, whose contents are in the keys of cells.
    """
    settings = dict(with_names_of_files(declared))
    for name in ("figure", "platforms", "changed_by"):
        settings.pop(name, None)
    settings["design"] = dict(settings.get("design", {}))
    for name in _LENGTH_KEYS:
        settings["design"].pop(name, None)
    return settings


def _unlike(place: str, a: Any, b: Any, names: tuple[str, str]) -> Iterator[str]:
    """Yield where two values differ, a sentence each; an absent setting is None.

    place: the setting that they are of. names: of the runs that they are of.
    """
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        a = {key: value for key, value in a.items() if value is not None}
        b = {key: value for key, value in b.items() if value is not None}
        for values, other_values, name in ((a, b, names[0]), (b, a, names[1])):
            only = [str(key) for key in values if key not in other_values]
            if only:
                yield f"{place or 'setting'}: only in {name}: {_short(', '.join(only))}"
        for key in sorted(a.keys() & b.keys()):
            yield from _unlike(f"{place}.{key}" if place else str(key), a[key], b[key], names)
    elif _are_tables(a) and _are_tables(b):
        yield from _unlike(place, _by_name(a), _by_name(b), names)
    elif _are_words(a) and _are_words(b) and {*a} != {*b}:
        yield from _unlike(place, dict.fromkeys(a, True), dict.fromkeys(b, True), names)
    elif a != b:
        yield f"{place}: {_short(a)} and {_short(b)}"


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_tables(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, Mapping) and "name" in item for item in value)


def _by_name(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(table.get("label") or table["name"]): table for table in tables}


def _short(value: Any) -> str:
    return clean(str(value), _MAX_SHOWN)


def _run_row(runs: Sequence[RunHandle], name: str, identity: str) -> dict[str, Any]:
    """Return the row of the merged run: what all runs have in common, and where it is from."""
    first = runs[0]
    hosts = _hosts(runs)
    common_values = {}
    for fact, value in hosts[0].items():
        if all(host.get(fact) == value for host in hosts):
            common_values[fact] = value
    untested = []
    for point in first.untested:
        if all(point in run.untested for run in runs):
            untested.append(vars(point))
    parts: list[dict[str, Any]] = []
    sessions = 0
    for run in runs:
        parts.append(
            {
                "name": run.name,
                "identity": run.identity,
                "sessions": [sessions + session.number for session in run.sessions],
                "includes": sorted(_identities(run.identity, run.provenance)),
                "versions": _versions(run),
            }
        )
        sessions += len(run.sessions)
    return {
        "name": name,
        "study": first.study,
        "declared": {**first.declared, "design": _merge_designs(runs)},
        "seed": first.seed,
        "status": "finished",
        "vtax_version": first.vtax_version,
        "image_key": first.image_key,
        "host": common_values,
        "untested": untested,
        "plugins": list(map(vars, first.plugins)),
        "started_at": first.started_at,
        "ended_at": max(run.ended_at or run.started_at for run in runs),
        "active_s": sum(run.duration_s or 0.0 for run in runs),
        "stopped_because": packed(Note("merged", count=len(runs))),
        "identity": identity,
        "provenance": {MERGED: {"at": time.time(), "runs": parts}},
        "tags": _tags(runs),
        "notes": _notes(runs),
    }


def _merge_designs(runs: Sequence[RunHandle]) -> dict[str, Any]:
    """Return the design of the first run, with the sessions, blocks and budget of all."""
    designs = [run.declared.get("design", {}) for run in runs]
    merged = dict(designs[0])
    merged["sessions"] = sum(int(design.get("sessions") or 1) for design in designs)
    for key in ("blocks", "budget"):
        values = [design.get(key) for design in designs]
        if all(isinstance(value, int | float) for value in values):
            merged[key] = sum(values)
    return merged


def _versions(run: RunHandle) -> dict[str, str]:
    return {platform.name: platform.version for platform in run.platforms if platform.available}
