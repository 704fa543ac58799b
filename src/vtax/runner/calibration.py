"""The smallest detectable effect of this host: native against native, with the design and statistics of a real run.

Two identical platforms (native twice) run in fresh guests, in blocks of random order. The variance of their ratios is
the host's noise in any comparison; it determines the smallest overhead that a number of blocks detects. A platform
with more noise (a virtual machine) needs more blocks.
"""

from __future__ import annotations

import math
import secrets
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vtax import __version__
from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.runner.events import Observer
from vtax.runner.execute import begin, execute
from vtax.runner.plan import Plan, make_plan
from vtax.stats.planning import blocks_for, noise_upper, smallest_overhead
from vtax.stats.ratio import Ratio, paired_ratio
from vtax.store.run import RunHandle
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

MIN_DURATION_S = 10.0
_ALL_BENCHMARKS_FROM_S = 30.0
_AGAIN = "native-again"
BLOCKS = (5, 10, 30)
OVERHEADS = (0.01, 0.05, 0.10)
_MIN_BLOCKS = 3


@dataclass(frozen=True)
class NoiseResult:
    """Result of native against native for one benchmark.

    ratio: of the two, which are the same. noise: standard deviation of a block's log-ratio, about its coefficient of
    variation; noise_upper: its upper 95 % bound. smallest: blocks -> smallest detectable overhead; needed: overhead
    -> blocks that detect it, None for more than 10 000. Power 0.8, significance level 5 %.
    """

    benchmark: str
    metric: str
    blocks: int
    ratio: Ratio
    noise: float
    noise_upper: float
    smallest: dict[int, float]
    needed: dict[float, int | None]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        shown = {k: v for k, v in asdict(self).items() if k not in ("ratio", "smallest", "needed")}
        r = self.ratio
        return {
            **shown,
            "ratio": {"estimate": r.estimate, "low": r.low, "high": r.high, "p_value": r.p_value},
            "smallest_overhead": [{"blocks": n, "overhead": e} for n, e in self.smallest.items()],
            "blocks_needed": [{"overhead": e, "blocks": n} for e, n in self.needed.items()],
        }


def calibrate(home: Home, image: Image, seconds: float, observer: Observer) -> tuple[NoiseResult, ...]:
    """Measure native against native for about this many seconds; nothing is stored.

    Below 30 s only the CPU is measured, above also memory and network. The caller holds the
    measuring lock. Raises VtaxError when the time was too short, RunInterrupted on request.
    """
    plan = make_plan(LoadedStudy(validate(_study(seconds), "the calibration"), "the calibration"), image=image)
    directory = home.guests / f"vtax-calibrate-{secrets.token_hex(3)}"
    with Journal(home.journal) as journal:
        journal.register(Tree(str(directory)))
        directory.mkdir(parents=True)
        with Store.open(directory / "store.sqlite") as store:
            run = begin(store, plan, vtax_version=__version__)
            execute(plan, run, home, observer)
            return _results(plan, run)


def _study(seconds: float) -> dict[str, Any]:
    benchmarks: list[dict[str, Any]] = [{"name": "sysbench-cpu", "parameters": {"duration_s": 1}}]
    if seconds >= _ALL_BENCHMARKS_FROM_S:
        benchmarks.append({"name": "stream", "parameters": {"repetitions": 5}})
        benchmarks.append({"name": "iperf3", "parameters": {"duration_s": 1}})
    return {
        "name": "calibration",
        "platforms": ["native", _AGAIN],
        "platform": [{"name": _AGAIN, "driver": "native"}],
        "design": {"stop": "budget", "budget": seconds},
        "benchmark": benchmarks,
    }


def _results(plan: Plan, run: RunHandle) -> tuple[NoiseResult, ...]:
    cells = {cell.key: cell for cell in plan.cells}
    values: dict[tuple[str, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for key, block, metric, value in run.primary_values():
        values[cells[key].point.label, metric][cells[key].platform.name][block] = value
    return tuple(_noise_result(label, metric, found) for (label, metric), found in values.items())


def _noise_result(label: str, metric: str, found: dict[str, dict[int, float]]) -> NoiseResult:
    """Raise VtaxError when there are too few whole blocks."""
    first, again = found["native"], found[_AGAIN]
    blocks = sorted(first.keys() & again.keys())
    if len(blocks) < _MIN_BLOCKS:
        raise VtaxError(f"the time sufficed for {len(blocks)} blocks of {label} only", hint="calibrate for longer")
    ratio = paired_ratio(np.array([again[b] for b in blocks]), np.array([first[b] for b in blocks]))
    noise = ratio.se_log * math.sqrt(len(blocks))
    return NoiseResult(
        benchmark=label,
        metric=metric,
        blocks=len(blocks),
        ratio=ratio,
        noise=noise,
        noise_upper=noise_upper(noise, len(blocks)),
        smallest={n: smallest_overhead(noise, n) for n in BLOCKS},
        needed={e: blocks_for(noise, e) for e in OVERHEADS},
    )
