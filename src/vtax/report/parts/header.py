"""The lines above a document about a run: title, run, host, filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.campaign import campaign_of
from vtax.report.analysis.sessions import of_hosts
from vtax.report.document import joined, msg, plural, term
from vtax.store.annotations import Annotations
from vtax.store.provenance import imported, merged_runs


def header_of(analysis: Analysis) -> tuple[doc.Inline, tuple[doc.Inline, ...]]:
    """(title, lines below it)."""
    title = term(str(analysis.declared.get("title") or analysis.study))
    if (hosts := len(of_hosts(analysis.sessions))) > 1:  # titles of studies speak of one
        title = plural(
            "{study} on {count} host", "{study} on {count} hosts", hosts, study=analysis.study
        )
    lines = (
        joined([analysis.name, run_line(analysis)], ": "),
        provenance_line(analysis.provenance),
        hosts_line(analysis),
        *annotation_lines(analysis.annotations),
        filter_line(analysis),
    )
    return title, tuple(line for line in lines if line != "")


STATUSES = ("running", "finished", "failed", "interrupted", "paused")
"""Statuses of a run, as they are stored."""


_MOST_NAMED = 8  # runs of a merged one


def status_word(status: str) -> doc.Inline:
    """Return the word about how far a run is. status: as it is stored."""
    return {
        "finished": msg("finished"),
        "interrupted": msg("interrupted"),
        "failed": msg("failed"),
        "running": msg("running"),
        "paused": msg("paused"),
    }.get(status, status)


def run_line(analysis: Analysis) -> doc.Inline:
    """`finished: 5 blocks, 2024-03-01 12:30, duration 4 min 10 s, seed 17, /scratch: volume`."""
    status = status_word(analysis.status)
    trials: doc.Inline = plural("{count} trial", "{count} trials", analysis.trials)
    if analysis.failed:
        trials = joined(
            [trials, plural("({count} failed)", "({count} failed)", analysis.failed)], " "
        )
    blocks = plural("{count} block", "{count} blocks", analysis.blocks)
    parts: list[doc.Inline] = [
        joined([status, blocks], ": "),
        trials,
        doc.Moment(analysis.started_at),
    ]
    campaign = campaign_of(analysis.provenance)
    planned_sessions = campaign.planned_sessions if campaign else analysis.planned_sessions
    if (planned_sessions := max(planned_sessions, len(analysis.sessions))) > 1:
        sessions_made = doc.Count(len(analysis.sessions))
        parts.append(
            plural(
                "{made} of {count} session",
                "{made} of {count} sessions",
                planned_sessions,
                made=sessions_made,
            )
        )
    if analysis.duration_s is not None:
        parts.append(msg("duration {duration}", duration=doc.Duration(analysis.duration_s)))
    return joined([*parts, msg("seed {seed}", seed=str(analysis.seed)), _scratch(analysis)])


def _scratch(analysis: Analysis) -> str:
    """`/scratch: volume (docker: layer)`, as declared, and where guests had it elsewhere; empty for a run without it."""
    scratch_places = analysis.declared.get("scratch")
    if not scratch_places:
        return ""
    places: dict[str, dict[str, None]] = {}
    for guest in analysis.guests:
        if "scratch" in guest.facts:
            places.setdefault(guest.platform, {})[str(guest.facts["scratch"])] = None
    other_places = []
    for name, place in places.items():
        if set(place) != set(scratch_places):
            other_places.append(f"{name}: {', '.join(place)}")
    exceptions = f" ({'; '.join(other_places)})" if other_places else ""
    return f"/scratch: {', '.join(scratch_places)}{exceptions}"


def changed_line(analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield which options changed the study, if any: `changed by --scale quick`; a report says in what."""
    changes = [
        case
        for warning in analysis.warnings
        if warning.code == "study-changed"
        for case in warning.cases
    ]
    if changes:
        yield msg("changed by {options}", options=joined([change["option"] for change in changes]))


def provenance_line(provenance: Mapping[str, Any]) -> doc.Inline:
    """Return whether a run was imported, and what it was merged from; empty for one that was measured into this
    store."""
    parts: list[doc.Inline] = []
    if runs := merged_runs(provenance):
        has_names = len(runs) <= _MOST_NAMED
        names = ", ".join(str(run.get("name", "")) for run in runs)
        count_of_runs = msg("merged from {count} runs", count=doc.Count(len(runs)))
        parts.append(msg("merged from {runs}", runs=names) if has_names else count_of_runs)
    if import_record := imported(provenance):
        name, at = str(import_record.get("name", "")), import_record.get("at")
        moment = doc.Moment(at) if isinstance(at, int | float) else doc.Nothing()
        origin = msg("imported, from a bundle of {name}, on {when}", name=name, when=moment)
        if import_record.get("is_other_host"):
            origin = msg(
                "imported from another host, where it is {name}, on {when}", name=name, when=moment
            )
        parts.append(origin)
        if import_record.get("is_anonymized"):
            parts.append(msg("anonymized"))
    return joined(parts)


def annotation_lines(annotations: Annotations) -> list[doc.Inline]:
    """Return what people wrote beside the run: its tags, and each note."""
    tags: list[doc.Inline] = (
        [msg("tags: {tags}", tags=", ".join(annotations.tags))] if annotations.tags else []
    )
    return [*tags, *(msg("note: {note}", note=note) for note in annotations.notes)]


def filter_line(analysis: Analysis) -> doc.Inline:
    """Return the filter of the run; empty without one."""
    if not analysis.filter:
        return ""
    return msg(
        "shown: {filter}; verdicts and warnings are judged over the whole run",
        filter=analysis.filter.show(", "),
    )


def hosts_line(analysis: Analysis) -> doc.Inline:
    """`24 × AMD EPYC 7543, 23 × Intel Xeon Gold 6338` of several hosts; the facts of a single one."""
    hosts = of_hosts(analysis.sessions)
    if len(hosts) < 2:
        return host_line(analysis.host)
    models = Counter(str(sessions[-1].host.get("cpu_model", "")) for sessions in hosts.values())
    return joined([f"{count} × {model}" for model, count in models.most_common() if model])


def host_line(host: Mapping[str, Any]) -> doc.Inline:
    """`AMD EPYC 7B13, 2 CPUs, 24 GiB, Linux 6.18.0, Debian GNU/Linux 12`."""
    parts: list[doc.Inline] = [str(host.get("cpu_model", ""))]
    if "cpus" in host:
        parts.append(plural("{count} CPU", "{count} CPUs", host["cpus"]))
    if "memory_bytes" in host:
        parts.append(doc.Size(host["memory_bytes"]))
    if "kernel" in host:
        parts.append(f"Linux {host['kernel']}")
    parts.append(str(host.get("distribution", "")))
    if host.get("virtualized"):
        hypervisor = host.get("hypervisor") or msg("unknown")
        parts.append(msg("virtual machine ({hypervisor})", hypervisor=hypervisor))
    return joined(parts)
