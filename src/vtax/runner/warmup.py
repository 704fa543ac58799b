"""How many trials of a fresh guest come before its steady state: declared, or found in a first guest of the baseline.

Found once a run, in a block of its own before the others, and then the same for every platform and block: a number
that each guest chose for itself would let the layer under test choose what is thrown away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from vtax.runner.plan import Plan, Session
from vtax.stats.steadiness import Warmup, find_warmup

DETECTION_BLOCK = -2
DETECTION_TRIALS = 30  # find_warmup looks from 20 on; below that the first of n values is too often the largest


def detection_sessions(plan: Plan) -> list[Session]:
    """The guests in which warm-up is looked for: the baseline's, with every cell."""
    sessions = plan.sessions(DETECTION_BLOCK)
    return [session for session in sessions if session.platform.name == plan.study.baseline]


def detected(plan: Plan, values: Iterable[tuple[str, int, str, float]]) -> Mapping[str, Warmup]:
    """Point key -> its warm-up, the longest over the benchmark's primary metrics.

    values: (cell key, block, metric, value) of the detection block, in the order measured.
    """
    series: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, _, metric, value in values:
        series[key, metric].append(value)
    point_of = {cell.key: cell.point.key for cell in plan.cells}
    found: dict[str, Warmup] = {}
    for (key, _), measured in series.items():
        warmup = find_warmup(measured)
        point = point_of[key]
        if point not in found or warmup.trials > found[point].trials:
            found[point] = warmup
    return found


def described(label: str, warmup: Warmup) -> str:
    """One sentence for the run's warnings."""
    doubt = "" if warmup.steady else "; the guest was not steady by then"
    return (
        f"{label}: {warmup.trials} warm-up trials in every guest, found in {DETECTION_TRIALS} trials of a first "
        f"guest (change point, p = {warmup.p_value:.2g}){doubt}"
    )
