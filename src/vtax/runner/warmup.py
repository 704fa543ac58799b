"""How many trials of a fresh guest come before its steady state: declared, or found in first guests of the baseline.

Found once a run, in a block of its own before the others, and then the same for every platform and block: a number
that each guest chose for itself would let the layer under test choose which trials are excluded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from vtax.runner.plan import Plan, Session
from vtax.stats.steadiness import Warmup, find_warmup

DETECTION_BLOCKS = (-2, -3, -4)  # a guest each
DETECTION_TRIALS = 30


def detection_sessions(plan: Plan) -> list[Session]:
    """The guests in which warm-up is looked for: several of the baseline's, each with every cell."""
    sessions = [session for block in DETECTION_BLOCKS for session in plan.sessions(block)]
    return [session for session in sessions if session.platform.name == plan.study.baseline]


def detected(plan: Plan, values: Iterable[tuple[str, int, str, float]]) -> dict[str, tuple[int, str]]:
    """Point key -> its warm-up, the longest over the primary metrics, and a sentence about it for the run's warnings.

    values: (cell key, block, metric, value) of the detection blocks, in the order measured.
    """
    series: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    point_of = {cell.key: cell.point.key for cell in plan.cells}
    for key, block, metric, value in values:
        series[point_of[key], metric][block].append(value)
    found = {}
    for point in plan.points:
        tests = [
            (find_warmup(list(guests.values())), [len(each) for each in guests.values()])
            for (key, _), guests in series.items()
            if key == point.key
        ]
        warmup, trials = max(tests, key=lambda test: test[0].trials, default=(None, []))
        found[point.key] = (warmup.trials if warmup else 0, f"{point.label}: {_described(warmup, trials)}")
    return found


def _described(warmup: Warmup | None, trials: list[int]) -> str:
    if warmup is None:
        return "its warm-up is not known, since no trial that was to find it went well; none is left out"
    guests = f"{len(trials)} guest{'s' if len(trials) != 1 else ''}"
    test = f"found in {sum(trials)} trials of {guests} on the baseline (change point, p = {warmup.p_value:.2g})"
    return "; ".join((f"{warmup.trials} warm-up trials in every guest, {test}", *warmup.warnings))
