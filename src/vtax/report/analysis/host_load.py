"""When trials ran, and what the host did beside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vtax.counters import table
from vtax.report.analysis.source import Source
from vtax.store.query import Floats, Trials, trial_counters

_LONGEST_GAP_S = 900.0  # between two trials of one session; a longer one is a pause
_MOST_TRIALS = 2000  # whose counters are read, evenly over the run
_BINS = 60
_BUSY = tuple(counter.name for counter in table.OF_PROGRAMS)  # as in the warning host-busy
_STEAL = table.CPU_STEAL.name
_TOTAL = tuple(counter.name for counter in table.CPU_TIMES)
_OWN = (table.HOST_CPU.name, table.SWITCH_CPU.name)
_NAMES = (*_TOTAL, table.DOMAINS_CPU.name, *_OWN)


@dataclass(frozen=True)
class CpuShares:
    """Shares of the CPU time of all of the host's CPUs, over the minutes of a run.

    others: what ran beside the guests of the trials; vtax itself is in it. steal: what the outer host took away.
    """

    minutes: Floats
    others: Floats
    steal: Floats


def minutes_of(trials: Trials) -> Floats:
    """Return when each trial began: minutes of measuring since the first one began, pauses left out."""
    order = np.argsort(trials.position, kind="stable")
    began, session = trials.started_at[order], trials.session[order]
    lasted = np.nan_to_num(trials.outside_s[order])
    steps = np.diff(began)
    is_pause = (np.diff(session) != 0) | (steps < 0) | (steps - lasted[:-1] > _LONGEST_GAP_S)
    elapsed_s = np.concatenate([[0.0], np.cumsum(np.where(is_pause, lasted[:-1], steps))])
    minutes = np.empty(began.size)
    minutes[order] = elapsed_s[: began.size] / 60
    return minutes


def load_of(source: Source) -> CpuShares | None:
    """Return the load of the host over all of the run; None where it was not counted. Raises StoreError."""
    trials, store = source.whole.data.trials, source.store
    if store is None or trials.id.size < 2:
        return None
    numbers = np.unique(np.linspace(0, trials.id.size - 1, _MOST_TRIALS).astype(np.int64))
    index = {trial: number for number, trial in enumerate(trials.id[numbers].tolist())}
    total, others, steal = np.zeros((3, numbers.size))
    is_counted = np.zeros(numbers.size, np.bool_)
    for trial, place, name, value in trial_counters(store.engine, list(index), _NAMES):
        number = index[trial]
        if name in _OWN:
            others[number] -= value
            is_counted[number] = True
        elif place == table.HOST:
            total[number] += value if name in _TOTAL else 0.0
            others[number] += value if name not in _TOTAL or name in _BUSY else 0.0
            steal[number] += value if name == _STEAL else 0.0
    minutes = minutes_of(trials)[numbers]
    bins = np.minimum((minutes / (minutes.max() or 1.0) * _BINS).astype(np.int64), _BINS - 1)
    sums = [np.bincount(bins, seconds * is_counted, _BINS) for seconds in (total, others, steal)]
    middle = np.bincount(bins, minutes, _BINS) / np.maximum(np.bincount(bins, minlength=_BINS), 1)
    has_trials = sums[0] > 0
    if not has_trials.any():
        return None
    shares = [np.clip(part[has_trials] / sums[0][has_trials], 0.0, 1.0) for part in sums[1:]]
    return CpuShares(middle[has_trials], *shares)
