"""Sight of a host: a run of the store that measured there the baseline against itself.

Two guests of one platform differ by nothing but the host's noise. A margin below what their noise lets a number of
blocks see is decided by no gate on that host, whatever is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.errors import BadInput, StoreError
from vtax.report.analysis.result import analyse
from vtax.report.analysis.sessions import of_hosts
from vtax.report.analysis.values import Analysis, every_row, rows_to_baseline
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.planning import smallest_overhead
from vtax.store.hosts import MACHINE_ID, host_id
from vtax.store.records import PlatformRecord
from vtax.store.store import Store

_RUNS_READ = 30  # of the newest of a host


@dataclass(frozen=True)
class HostSees:
    """The smallest effect that one benchmark can show on the host of a run, by that host's calibration."""

    benchmark: Annotated[str, Means("benchmark")]
    run: Annotated[str, Means("run of the host that measured the baseline against itself")]
    noise: Annotated[
        float, Means("standard deviation of the logarithm of its ratio from block to block")
    ]
    blocks: Annotated[
        int, Means("blocks of the comparisons of the gate; the most, where they differ")
    ]
    sees: Annotated[
        float, Means("share of performance lost that so many blocks show with a probability of 0.8")
    ]


def host_sees(store: Store, analysis: Analysis) -> tuple[HostSees, ...]:
    """Return what the baseline against itself, newest first, lets each benchmark see on the run's host; of several
    hosts, the one that sees least. Nothing where no run measured that."""
    found: dict[str, HostSees] = {}
    for sessions in of_hosts(analysis.sessions).values():
        identity = host_id(sessions[0].host)
        machine = str(sessions[0].host.get(MACHINE_ID, ""))
        for each in _of_host(store, identity, machine, analysis) if machine else ():
            if each.benchmark not in found or each.sees > found[each.benchmark].sees:
                found[each.benchmark] = each
    return tuple(found.values())


def _of_host(store: Store, identity: str, machine: str, analysis: Analysis) -> Iterator[HostSees]:
    seen = set[str]()
    for calibration in _calibrations(store, identity, machine, analysis):
        for section, _, row, base in rows_to_baseline(calibration.primary):
            ratio = row.ratio
            if ratio is None or row.platform.identity != base.platform.identity:
                continue
            sd = ratio.se_log * math.sqrt(ratio.n_blocks)
            blocks = _blocks_of(section.benchmark, analysis)
            if (
                ratio.n_sessions == 1
                and 0 < sd < math.inf
                and blocks >= MINIMUM_BLOCKS
                and section.name not in seen
            ):
                yield HostSees(
                    section.benchmark, calibration.name, sd, blocks, smallest_overhead(sd, blocks)
                )
        seen |= {section.name for section in calibration.primary}


def _blocks_of(benchmark: str, analysis: Analysis) -> int:
    """Return the most blocks of a comparison of a benchmark; 0 without one."""
    blocks = [0]
    for section, _, row in every_row(analysis.primary):
        if section.benchmark == benchmark and row.ratio is not None:
            blocks.append(row.ratio.n_blocks)
    return max(blocks)


def _is_same(platform: PlatformRecord, baseline: PlatformRecord) -> bool:
    return platform is not baseline and platform.identity == baseline.identity


def _calibrations(
    store: Store, identity: str, machine: str, analysis: Analysis
) -> Iterator[Analysis]:
    """Yield the runs of a host that have the baseline twice, the newest first."""
    of_host = [
        run for run in reversed(store.runs()) if machine in run.hosts and run.status == "finished"
    ]
    for run in of_host[:_RUNS_READ]:
        if len(run.platforms) < 2 or run.name == analysis.name:
            continue
        try:
            platforms = store.open_run(run.name).platforms
            base = next((each for each in platforms if each.is_baseline), None)
            if base is None or not any(_is_same(each, base) for each in platforms):
                continue
            found = analyse(store, run.name)
        except (BadInput, StoreError):
            continue
        if {host_id(session.host) for session in found.sessions} == {identity}:
            yield found
