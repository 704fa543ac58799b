"""Runs of one study become one run, whose sessions are theirs: copied, numbered one after another, with provenance.

Nothing is computed here. What is made has the form of a run of several sessions, so every view reads it, and
intervals are over sessions (stats.sessions). The runs that it was made of stay as they are.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from vtax.errors import BadInput
from vtax.foreign_text import clean
from vtax.messages import Note, columns_of, packed
from vtax.stats.stopping import rule_of
from vtax.store import schema
from vtax.store.appending import append, describe_platforms
from vtax.store.database import writing
from vtax.store.hosts import cloned, digests, half_known, shared_machines
from vtax.store.provenance import MERGED, merged_runs
from vtax.store.run import RunHandle
from vtax.store.store import Store, next_name
from vtax.store.transfer import RunIsThere, add_rows
from vtax.study.programs import with_names_of_files

Watch = Callable[[Iterable[RunHandle]], Iterable[RunHandle]]
"""Shows progress: runs that are merged -> the same."""
_OF_LENGTH = (
    "seed",
    "blocks",
    "min_blocks",
    "max_blocks",
    "budget",
    "sessions",
)  # of a design: how long, not what
_MAX_SHOWN = 80  # characters of a value
_MOST_SHOWN = 6  # differences
_DIGITS = 12  # of a digest


MERGED_AGAIN = "merged-again"
"""The warning of a merged run of which another selection was merged before."""
IMAGE_UNKNOWN = "image-unknown"
"""The warning of a merged run of which a part does not say what its image held."""


def unwatched(runs: Iterable[RunHandle]) -> Iterable[RunHandle]:
    """No progress is shown."""
    return runs


def merge(store: Store, names: Sequence[str], watch: Watch = unwatched) -> str:
    """Store the merged run of several; returns its name. watch: shows progress.

    Raises BadInput with the difference for runs of different studies, images, agents, plug-ins or platforms, for
    those that are not finished, share a session, or are of hosts that are not independent, and where the study's rule
    has no sessions; StoreError.
    """
    runs = sorted(
        (store.open_run(name) for name in dict.fromkeys(names)),
        key=lambda run: (run.started_at, run.name),
    )
    if len({run.id for run in runs}) < 2:
        raise BadInput(
            f"merging needs two runs or more; {runs[0].name} is the only one named",
            hint="vtax merge RUN RUN",
        )
    _check(runs)
    identity = merged_identity(run.identity for run in runs)
    parts = _parts(runs)
    with writing(store.engine) as connection:
        table = schema.run
        stored = connection.execute(
            select(table.c.identity, table.c.name, table.c.provenance)
        ).all()
        known = {row.identity: row.name for row in stored}
        if identity in known:
            raise BadInput(
                f"these runs are merged already: {known[identity]}",
                hint=f"vtax show {known[identity]}",
            )
        name = next_name(f"{runs[0].study}-merged", known.values())
        look = _look([(row.name, row.identity, row.provenance) for row in stored], runs)
        merged = add_rows(connection, [("run", _run_row(parts, name, identity))])
        append(connection, merged, watch(runs))
        describe_platforms(connection, merged, runs)
        _warn(connection, merged, look, _unknown_image(runs))
    return name


def extend(store: Store, merged: RunHandle, names: Sequence[str], watch: Watch = unwatched) -> None:
    """Add the sessions of further runs to a merged run, which keeps its name.

    Raises as `merge`, and RunIsThere where another process added some since it was opened; nothing is added then.
    """
    runs = [merged, *sorted(map(store.open_run, names), key=lambda run: (run.started_at, run.name))]
    if sum(len(each.get("sessions") or ()) for each in merged_runs(merged.provenance)) != len(
        merged.sessions
    ):
        raise BadInput(
            f"{merged.name} does not know of which runs its sessions are",
            hint=f"vtax remove {merged.name}; it is made again from its runs",
        )
    _check(runs)
    row = _run_row(_parts(runs), merged.name, "")
    parts = [*merged_runs(merged.provenance), *row["provenance"][MERGED]["runs"][1:]]
    row["identity"] = merged_identity(str(part.get("identity")) for part in parts)
    row["provenance"] = {**merged.provenance, MERGED: {**row["provenance"][MERGED], "runs": parts}}
    row["notes"] = [*merged.annotations.notes, *(note for run in runs[1:] for note in _notes(run))]
    row["stopped_because"] = packed(Note("merged", count=len(parts)))
    table = schema.run
    as_opened = update(table).where(table.c.id == merged.id, table.c.identity == merged.identity)
    with writing(store.engine) as connection:
        if connection.execute(as_opened.values(row)).rowcount != 1:
            raise RunIsThere(merged.name)
        append(connection, merged.id, watch(runs[1:]))
        describe_platforms(connection, merged.id, runs)
        _warn(connection, merged.id, _unknown_image(runs[1:]))


def _warn(connection: Connection, run_id: int, *notes: Note | None) -> None:
    for each in notes:
        if each:
            connection.execute(insert(schema.warning).values(run_id=run_id, **columns_of(each)))


def _notes(run: RunHandle) -> list[str]:
    return [f"{run.name}: {note}" for note in run.annotations.notes]


def merged_identity(identities: Iterable[str]) -> str:
    """Return the identity that the merged run of runs with these has in every store."""
    return hashlib.sha256("".join(sorted(identities)).encode()).hexdigest()[:32]


def _look(
    stored: Iterable[tuple[str, str, Mapping[str, Any]]], runs: Sequence[RunHandle]
) -> Note | None:
    """Return the warning that some of these runs were merged before in another selection; None when none were.

    stored: name, identity and provenance of every run.
    """
    own = set().union(*(_identities(run) for run in runs))
    earlier = [
        name
        for name, identity, provenance in stored
        if merged_runs(provenance) and own & _all_identities(identity, provenance)
    ]
    if not earlier:
        return None
    return Note(MERGED_AGAIN, runs=tuple(earlier))


def _check(runs: Sequence[RunHandle]) -> None:
    """Raise BadInput for runs that cannot be merged, with every difference to the first."""
    first, *others = runs
    for run in runs:
        if run.status != "finished":
            raise BadInput(
                f"{run.name} is not finished: {run.status}", hint=f"sudo vtax resume {run.name}"
            )
    design = first.declared.get("design", {})
    if not rule_of(design).takes_more or design.get("order") == "sequential":
        raise BadInput(
            f"{first.study} has no sessions to merge: stop = {design.get('stop')!r}, order = {design.get('order')!r}",
            hint="measure with stop = 'fixed', 'open' or 'budget', in randomized order; vtax compare RUN,RUN "
            "RUN,RUN compares others",
        )
    for run in others:
        if run.study != first.study:
            raise BadInput(
                f"{first.name} is of the study {first.study}, and {run.name} of {run.study}",
                hint="merge runs of one study; vtax compare compares runs of two",
            )
        if found := list(_differences(first, run)):
            raise BadInput(
                f"{first.name} and {run.name} cannot be merged: {_some(found)}",
                hint="merge runs of one study, image and version of vtax",
            )
    _check_hosts(runs)
    seen: dict[str, str] = {}
    for run in runs:
        for identity in _identities(run):
            if identity in seen:
                raise BadInput(
                    f"{seen[identity]} and {run.name} have sessions in common",
                    hint="merge the other runs without one",
                )
            seen[identity] = run.name


def _check_hosts(runs: Sequence[RunHandle]) -> None:
    """Raise BadInput for runs in images of other files, of a host and of its copy, and of hosts that share some of
    their other machines."""
    hosts = [session.host for run in runs for session in run.sessions]
    if machines := cloned(hosts):
        raise BadInput(
            f"two hosts have the machine-id {_short(machines[0])}: one is a copy of the other",
            hint="give the copy an id of its own, and measure there again: rm /etc/machine-id; "
            "systemd-machine-id-setup",
        )
    if machines := half_known(hosts):
        raise BadInput(
            f"of the machine-id {_short(machines[0])} one run knows the hardware and another does not, so that they "
            "may be one host or two",
            hint="measure again as root, with this version of vtax, on each host",
        )
    if machines := shared_machines(hosts):
        raise BadInput(
            f"the machine {_short(machines[0])} is at an end of the runs of several hosts, but not of all: intervals "
            "over hosts take these to be independent",
            hint="merge runs of hosts that were measured with one other machine, or each with one of its own",
        )
    known = sorted(digests(hosts) - {""})
    if len(known) > 1:
        of = {each: next(run.name for run in runs if each in _digests(run)) for each in known}
        listed = ", ".join(f"{name} {digest[:_DIGITS]}" for digest, name in of.items())
        raise BadInput(
            f"the runs have images of other files, though of one recipe: {listed}",
            hint="build the image on one host, take it to the others with vtax image export and vtax image import, "
            "and measure there again",
        )


def _digests(run: RunHandle) -> frozenset[str]:
    return digests(session.host for session in run.sessions)


def _unknown_image(runs: Sequence[RunHandle]) -> Note | None:
    """Return the warning that some of these runs do not say what their images held; None when all do."""
    unknown = tuple(run.name for run in runs if "" in _digests(run))
    return Note(IMAGE_UNKNOWN, runs=unknown) if unknown else None


def _some(differences: Sequence[str]) -> str:
    """Return the first of them, a line each."""
    more = [f"and {len(differences) - _MOST_SHOWN} more"] if len(differences) > _MOST_SHOWN else []
    return "".join(f"\n  - {each}" for each in (*differences[:_MOST_SHOWN], *more))


def _identities(run: RunHandle) -> set[str]:
    """Return the identities of a run and of those that it was merged from."""
    return _all_identities(run.identity, run.provenance)


def _all_identities(identity: str, provenance: Mapping[str, Any]) -> set[str]:
    lists = [part.get("includes") for part in merged_runs(provenance)]
    return {identity, *(str(each) for found in lists if isinstance(found, list) for each in found)}


def _differences(a: RunHandle, b: RunHandle) -> Iterator[str]:
    """Yield what keeps two runs from being merged, a sentence each."""
    plain = (
        ("image", a.image_key, b.image_key),
        ("agent (version of vtax)", a.vtax_version, b.vtax_version),
        ("plug-ins", [vars(each) for each in a.plugins], [vars(each) for each in b.plugins]),
    )
    for what, one, other in plain:
        if one != other:
            yield f"{what} {_short(one)} and {_short(other)}"
    names = (a.name, b.name)
    yield from _unlike("", _settings(a.declared), _settings(b.declared), names)
    of_a, of_b = (
        {p.name: {**p.identity, "baseline": p.is_baseline} for p in run.platforms} for run in (a, b)
    )
    yield from _unlike("platforms", of_a, of_b, names)


def _settings(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study without how long it lasts, its figures, platforms (compared by what they are), the words of its
    scale (what it changed is in the rest), and the directories of files, whose contents are in the keys of cells."""
    declared = with_names_of_files(declared)
    design = {
        name: value for name, value in declared.get("design", {}).items() if name not in _OF_LENGTH
    }
    return {
        **{
            name: value
            for name, value in declared.items()
            if name not in ("figure", "platforms", "changed_by")
        },
        "design": design,
    }


def _unlike(place: str, a: Any, b: Any, names: tuple[str, str]) -> Iterator[str]:
    """Where two values differ, a sentence each; an absent setting is None. names: of the runs that they are of."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for values, other, name in ((a, b, names[0]), (b, a, names[1])):
            if only := [
                str(key)
                for key, value in values.items()
                if value is not None and other.get(key) is None
            ]:
                yield f"{place or 'setting'}: only in {name}: {_short(', '.join(only))}"
        for key in sorted(key for key in a if a[key] is not None and b.get(key) is not None):
            yield from _unlike(f"{place}.{key}" if place else str(key), a[key], b[key], names)
    elif _are_tables(a) and _are_tables(b):
        yield from _unlike(place, _by_name(a), _by_name(b), names)
    elif _are_words(a) and _are_words(b) and {*a} != {*b}:
        yield from _unlike(place, dict.fromkeys(a, True), dict.fromkeys(b, True), names)
    elif a != b:
        yield f"{place}: {_short(a)} and {_short(b)}"


def _are_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping) and "name" in each for each in value
    )


def _by_name(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(each.get("label") or each["name"]): each for each in tables}


def _short(value: Any) -> str:
    return clean(str(value), _MAX_SHOWN)


@dataclass(frozen=True)
class _Part:
    """A run that is merged. sessions: its own, by their numbers in the merged run."""

    run: RunHandle
    sessions: list[int]


def _parts(runs: Iterable[RunHandle]) -> list[_Part]:
    found: list[_Part] = []
    last = 0
    for run in runs:
        found.append(_Part(run, [last + session.number for session in run.sessions]))
        last += len(run.sessions)
    return found


def _run_row(parts: Sequence[_Part], name: str, identity: str) -> dict[str, Any]:
    """Return the row of the merged run: what all runs have in common, and where it is from."""
    runs = [part.run for part in parts]
    hosts = [session.host for run in runs for session in run.sessions]
    common = {
        fact: value
        for fact, value in hosts[0].items()
        if all(host.get(fact) == value for host in hosts)
    }
    design = dict(runs[0].declared.get("design", {}))
    design["sessions"] = sum(
        int(run.declared.get("design", {}).get("sessions") or 1) for run in runs
    )
    for key in ("blocks", "budget"):
        given = [run.declared.get("design", {}).get(key) for run in runs]
        if all(isinstance(value, int | float) for value in given):
            design[key] = sum(given)
    untested = [
        vars(each) for each in runs[0].untested if all(each in run.untested for run in runs)
    ]
    provenance = {
        MERGED: {
            "at": time.time(),
            "runs": [
                {
                    "name": part.run.name,
                    "identity": part.run.identity,
                    "sessions": part.sessions,
                    "includes": sorted(_identities(part.run)),
                    "versions": _versions(part.run),
                }
                for part in parts
            ],
        }
    }
    durations = [run.duration_s for run in runs]
    return {
        "name": name,
        "study": runs[0].study,
        "declared": {**runs[0].declared, "design": design},
        "seed": runs[0].seed,
        "status": "finished",
        "vtax_version": runs[0].vtax_version,
        "image_key": runs[0].image_key,
        "host": common,
        "untested": untested,
        "plugins": [vars(each) for each in runs[0].plugins],
        "started_at": runs[0].started_at,
        "ended_at": max(run.ended_at or run.started_at for run in runs),
        "active_s": sum(each for each in durations if each is not None),
        "stopped_because": packed(Note("merged", count=len(runs))),
        "identity": identity,
        "provenance": provenance,
        "tags": list(dict.fromkeys(tag for run in runs for tag in run.annotations.tags)),
        "notes": [note for run in runs for note in _notes(run)],
    }


def _versions(run: RunHandle) -> dict[str, str]:
    return {platform.name: platform.version for platform in run.platforms if platform.available}
