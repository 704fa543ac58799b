"""How much ratios vary from block to block on this host, by its stored runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from vtax.errors import StoreError
from vtax.pairing import mean_logs
from vtax.report.analysis.result import analyse_data
from vtax.report.analysis.values import Analysis, rows_to_baseline
from vtax.store.query import load
from vtax.store.store import Store

_FEWEST_BLOCKS = 3


@dataclass(frozen=True)
class BlockNoise:
    """sd: typical standard deviation of a block's log-ratio to the baseline. source: `run NAME`, with the
    platforms that it is of where these are not the ones asked for."""

    sd: float
    source: str


ASSUMED = BlockNoise(0.05, "assumed: no run here has it")
"""Noise of a host with a few other programs."""


def noise_of_host(
    store: Store, machine: str, benchmarks: Collection[str], platforms: Collection[str]
) -> dict[str, BlockNoise]:
    """Benchmark -> its noise in the newest run of a machine that has it on three blocks or more.

    machine: see counters.host.machine_id. The median over its primary metrics on these platforms; on any of the run's
    where it has none of these. Benchmarks without such a run are absent, and runs that cannot be read passed over.
    """
    noise_by_benchmark: dict[str, BlockNoise] = {}
    for run in store.newest(machine):
        if set(benchmarks) <= set(noise_by_benchmark):
            break
        try:
            analysis = analyse_data(load(store.engine, run))
        except StoreError:
            continue
        for benchmark in set(benchmarks) - set(noise_by_benchmark):
            deviations = list(_deviations(analysis, benchmark))
            if (
                chosen := [deviation for deviation in deviations if deviation[0] in platforms]
                or deviations
            ):
                of = list(dict.fromkeys(platform for platform, _ in chosen))
                is_of_all = set(platforms) <= {*of, analysis.baseline}
                source = f"run {run.name}" if is_of_all else f"run {run.name}, of {', '.join(of)}"
                noise_by_benchmark[benchmark] = BlockNoise(
                    float(np.median([sd for _, sd in chosen])), source
                )
    return noise_by_benchmark


def _deviations(analysis: Analysis, benchmark: str) -> Iterator[tuple[str, float]]:
    """(platform, standard deviation of its log-ratios) at every point of a benchmark's primary metrics."""
    sections = [section for section in analysis.primary if section.benchmark == benchmark]
    for _, _, row, base in rows_to_baseline(sections):
        logs = mean_logs([row.means_of_blocks]) - mean_logs([base.means_of_blocks])
        if logs.values.size >= _FEWEST_BLOCKS:
            yield row.platform.name, float(logs.values.std(ddof=1))
