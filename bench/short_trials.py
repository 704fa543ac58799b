"""Whether a short trial tells the same: the ratio of a platform to native in trials of 0.1 s and of 4 s, in the same blocks.

A real run of a study with every benchmark twice, by the runner and the store, on fresh guests in random order. A
block gives the ratio of both lengths; their quotient, averaged over blocks as a logarithm, is 1 where what a short
trial holds besides the work is alike on both platforms. The same for the host's CPU time for a unit of work, from which
the runner subtracts a trial of the least work.

    sudo .venv/bin/python bench/short_trials.py [--platform docker] [--only sysbench-cpu ...] [--blocks 20] [--long 4s]

The promise (docs/promises.md): within 1 % for CPU, 3 % for others. Where it is missed, trials are to be twice as long.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import cleanup
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from vtax.cli.needed_image import provide, recipe_for
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.store.query import RunData, load
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

SHORT, LONG = "short", "long"
TIMED: Mapping[str, Mapping[str, Any]] = {
    "sysbench-cpu": {"name": "sysbench-cpu"},
    "linpack": {"name": "linpack"},
    "kernel-paths": {"name": "kernel-paths"},
    "memory-latency": {"name": "memory-latency"},
    "python-imports": {"name": "python-imports"},
    "netperf streams": {"name": "netperf", "parameters": {"test": "tcp_stream"}},
    "netperf streams from the peer": {"name": "netperf", "parameters": {"test": "tcp_maerts"}},
    "netperf transactions": {"name": "netperf", "parameters": {"test": "tcp_rr"}},
    "iperf2": {"name": "iperf2"},
    "fio": {"name": "fio", "parameters": {"size": "64MiB", "direct": True}},
    "redis": {"name": "redis"},
    "memcached": {"name": "memcached"},
    "nginx": {"name": "nginx"},
    "pgbench": {"name": "pgbench", "parameters": {"scale": 1}},
    "sysbench-oltp": {
        "name": "sysbench-oltp",
        "parameters": {"test": "oltp_read_only", "rows": 10000},
    },
}
"""Tables of a study, whose trials are made of a length by `trial_time`."""
BY_PARAMETERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "stream": ({"repetitions": 2}, {"repetitions": 20}),
    "dd": (
        {"file_size": "64MiB", "cache": "direct"},
        {"file_size": "1GiB", "cache": "direct"},
    ),
}
"""Parameters of a short and a long trial of the others."""
OF_CPU = ("sysbench-cpu", "linpack")
TARGET_OF_CPU, TARGET = 0.01, 0.03


def tables(only: Sequence[str], long: str) -> list[dict[str, Any]]:
    """Return the tables of a study with every benchmark twice. long: the time of a long trial."""
    found: list[dict[str, Any]] = []
    for name, table in TIMED.items():
        for kind, trial_time in ((SHORT, "0.1s"), (LONG, long)):
            found.append({**table, "label": f"{name}: {kind}", "trial_time": trial_time})
    for name, lengths in BY_PARAMETERS.items():
        for kind, parameters in zip((SHORT, LONG), lengths, strict=True):
            found.append({"name": name, "label": f"{name}: {kind}", "parameters": parameters})
    names = [*TIMED, *BY_PARAMETERS]
    unknown = set(only) - set(names)
    if unknown:
        raise BadInput(f"unknown: {', '.join(unknown)}", hint=f"known: {', '.join(names)}")
    wanted = set(only or names)
    return [table for table in found if table["label"].rpartition(":")[0] in wanted]


def measure(platform: str, only: Sequence[str], blocks: int, long: str) -> RunData:
    """Run the study and return its data."""
    declared = {
        "name": "short-trials",
        "baseline": "native",
        "platforms": ["native", platform],
        "guest": {"memory": "1GiB"},
        "design": {"blocks": blocks},
        "benchmark": tables(only, long),
    }
    loaded = LoadedStudy(validate(declared, __file__), __file__)
    home = Home.from_environment().ensure()
    plan = make_plan(loaded, image=provide(home, recipe_for(loaded)))
    with (
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        Store.open(f"sqlite:///{directory}/store.sqlite") as store,
    ):
        run = begin(store, plan, vtax_version="bench")
        execute(plan, run, home, Observer())
        return load(store.engine, run)


Values = dict[tuple[str, str], dict[tuple[str, str], dict[int, float]]]
"""(benchmark, metric) -> (kind, platform) -> block -> value."""


def values_by_benchmark(data: RunData) -> Values:
    """Return the primary metrics and the costs of a run."""
    found: Values = defaultdict(lambda: defaultdict(dict))
    measured = data.measurements
    for trial, metric, value in zip(measured.trial, measured.metric, measured.value, strict=True):
        cell = data.run.cells[data.trials.cell[trial]]
        record = data.run.metrics[metric]
        is_cost = record.name.startswith("host_cpu_per_") or record.name == "cpu_per_gigabyte"
        if not (record.is_primary or is_cost) or not data.trials.is_ok[trial]:
            continue
        name, _, kind = cell.label.rpartition(": ")
        block = int(data.trials.block[trial])
        found[name, record.name][kind, cell.platform][block] = float(value)
    return found


def quotient(
    sides: Mapping[tuple[str, str], Mapping[int, float]], platform: str
) -> NDArray[np.float64]:
    """Return the logarithm of the ratio in short trials over that in long ones, of each block that has all four."""
    of_all = [
        sides.get((kind, name), {}) for kind in (SHORT, LONG) for name in (platform, "native")
    ]
    blocks = sorted(set.intersection(*(set(side) for side in of_all)))
    logs = np.log([[side[block] for side in of_all] for block in blocks]).reshape(-1, 4)
    return np.asarray(logs[:, 0] - logs[:, 1] - logs[:, 2] + logs[:, 3])


def line(name: str, metric: str, logs: NDArray[np.float64]) -> str:
    """Return a row: the mean quotient with its 95 % interval, and whether the promise is kept."""
    if logs.size < 2:
        return f"{name:<32}{metric:<26}{logs.size:>7}"
    half = stats.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) / math.sqrt(logs.size)
    low, mid, high = (
        math.exp(value) for value in (logs.mean() - half, logs.mean(), logs.mean() + half)
    )
    target = TARGET_OF_CPU if name in OF_CPU else TARGET
    kept = "not shown"
    if 1 - target <= low and high <= 1 + target:
        kept = "yes"
    elif high < 1 - target or low > 1 + target:
        kept = "no"
    interval = f"{mid:.4f} [{low:.4f}, {high:.4f}]"
    return f"{name:<32}{metric:<26}{logs.size:>7}  {interval:<26}  {target:.0%}  {kept}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="ratios in short trials against those in long ones"
    )
    parser.add_argument("--platform", default="docker", help="compared with native")
    parser.add_argument(
        "--only", action="append", default=[], help="a benchmark; repeat for several"
    )
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--long", default="4s", help="time of a long trial")
    arguments = parser.parse_args()
    data = measure(arguments.platform, arguments.only, arguments.blocks, arguments.long)
    print(f"{arguments.platform} / native in trials of 0.1 s, over the same in long ones")
    print(f"{'benchmark':<32}{'metric':<26}{'blocks':>7}  {'quotient [95 %]':<26}  room  kept")
    for (name, metric), sides in sorted(values_by_benchmark(data).items()):
        print(line(name, metric, quotient(sides, arguments.platform)))
    for error in sorted({failure.error for failure in data.failures}):
        print(f"failed: {error}")


if __name__ == "__main__":
    cleanup.run(main)
