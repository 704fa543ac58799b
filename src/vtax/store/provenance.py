"""Where a run of a store is from: measured into it, imported from a bundle, or merged from several runs.

A run's identity is 32 hexadecimal digits that stay with it in every store and bundle. Its provenance is an object:
empty for a run that was measured into this store. `imported`: `at` (Unix time), `name` (of the run in the bundle),
`sha256` (of the bundle), `is_other_host`, `is_anonymized`. `merged`: `at`, and `runs`, a list of `name`, `identity`
`sessions` (numbers in the merged run) and `versions` (platform -> version of its runtime). `campaign`, of a merged
run: `name`, `hosts` and `change`, see report.analysis.campaign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtax.foreign_text import clean

IMPORTED = "imported"
MERGED = "merged"
CAMPAIGN = "campaign"


def origin_of(provenance: Mapping[str, Any]) -> str:
    """Return `merged`, `imported`, `imported from another host`, or both; empty for a run measured here."""
    parts = [MERGED] if MERGED in provenance else []
    if IMPORTED in provenance:
        is_other_host = imported(provenance).get("is_other_host")
        parts.append(f"{IMPORTED} from another host" if is_other_host else IMPORTED)
    return ", ".join(parts)


def imported(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is known of the import of a run; empty for one that was not imported."""
    origin = provenance.get(IMPORTED)
    return origin if isinstance(origin, Mapping) else {}


def merged_runs(provenance: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the runs that a run was merged from, as stored: untrusted where it was imported."""
    origin = provenance.get(MERGED)
    runs = origin.get("runs") if isinstance(origin, Mapping) else None
    if not isinstance(runs, list):
        return []
    return [run for run in runs if isinstance(run, Mapping)]


def part_identities(provenance: Mapping[str, Any]) -> set[str]:
    """Return the identities of the runs that a run was merged from."""
    return {str(part.get("identity")) for part in merged_runs(provenance)}


def versions_of(provenance: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    """Return the version of each platform's runtime by session of a merged run, of runs that say it. Untrusted, as
    above."""
    by_session: dict[int, dict[str, str]] = {}
    for run in merged_runs(provenance):
        versions, sessions = run.get("versions"), run.get("sessions")
        if not isinstance(versions, Mapping) or not isinstance(sessions, list):
            continue
        own_versions = {
            clean(str(platform)): clean(str(version)) for platform, version in versions.items()
        }
        for session in sessions:
            if isinstance(session, int):
                by_session[session] = own_versions
    return by_session
