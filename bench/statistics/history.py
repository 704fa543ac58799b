"""Change points of `vtax history`: false ones where nothing changed, and how often a change is found and placed.

    python bench/statistics/history.py [--series 2000] [--only false|found] [--processes 2]

Every series has a value a run, of standard deviation 1, in logarithms. The noise of the runs is normal, `heavy`
(Student's t with 3 degrees of freedom scaled to the same deviation), or AR(1) with a correlation of 0.3 or 0.6 from
run to run. Of false ones those without a warning stand behind the others. A change is a step in the middle. Of 12
series at once, as of 4 platforms and 3 metrics, false is any change point in any of them.
"""

from __future__ import annotations

import argparse
import os
import zlib
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import numpy.typing as npt

from vtax.stats.change_points import change_points_of

Array = npt.NDArray[np.float64]
RUNS, NOISES, STEPS, FAMILY = (
    (8, 10, 20, 40),
    ("normal", "heavy", "0.3", "0.6"),
    (1.0, 2.0, 4.0),
    12,
)


def noise_of(kind: str, runs: int, random: np.random.Generator) -> Array:
    if kind == "heavy":
        return random.standard_t(3, runs) / np.sqrt(3.0)
    values: Array = random.standard_normal(runs)
    if kind != "normal":
        correlation = float(kind)
        for n in range(1, runs):
            values[n] = correlation * values[n - 1] + np.sqrt(1 - correlation**2) * values[n]
    return values


def false_rate(task: tuple[str, int, int, int]) -> tuple[float, float]:
    """Shares of histories with any change point, and with any that has no warning, though nothing changed."""
    kind, runs, family, count = task
    random = np.random.default_rng([2014, zlib.crc32(repr(task[:3]).encode())])
    found = [
        change_points_of([noise_of(kind, runs, random) for _ in range(family)])
        for _ in range(count)
    ]
    sure = [any(point.is_sure for points in each for point in points) for each in found]
    return float(np.mean([any(each) for each in found])), float(np.mean(sure))


def found_rate(task: tuple[str, int, float, int, int]) -> tuple[float, float, float]:
    """Shares with a change point at most one run aside, with one at the very run, and with a further one."""
    kind, runs, step, family, count = task
    random = np.random.default_rng([2014, zlib.crc32(repr(task[:4]).encode())])
    near = exact = further = 0
    for _ in range(count):
        series = [noise_of(kind, runs, random) for _ in range(family)]
        series[0][runs // 2 :] += step
        asides = [abs(point.index - runs // 2) for point in change_points_of(series)[0]]
        near += any(aside <= 1 for aside in asides)
        exact += 0 in asides
        further += len(asides) > 1
    return near / count, exact / count, further / count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=2000, help="histories for each point")
    parser.add_argument("--only", choices=("false", "found"), help="one of the two tables")
    parser.add_argument("--processes", type=int, help="by default one for each CPU")
    arguments = parser.parse_args()
    count = arguments.series
    family_count = max(100, count // 10)
    os.nice(10)
    alone = [(kind, runs, 1, count) for kind in NOISES for runs in RUNS]
    families = [("normal", runs, FAMILY, family_count) for runs in RUNS]
    steps = [
        (kind, runs, step, 1, count)
        for kind in (*NOISES[:2], "0.3")
        for runs in RUNS
        for step in STEPS
    ]
    family_steps = [("normal", runs, step, FAMILY, family_count) for runs in RUNS for step in STEPS]
    tasks = [] if arguments.only == "found" else [*alone, *families]
    steps = [] if arguments.only == "false" else [*steps, *family_steps]
    with ProcessPoolExecutor(arguments.processes) as pool:
        if tasks:
            print(
                "| noise | runs | series | any change point (without a warning) |\n|---|---:|---:|---:|"
            )
        for (kind, runs, series, _), (rate, sure) in zip(
            tasks, pool.map(false_rate, tasks), strict=True
        ):
            print(
                f"| {kind} | {runs} | {series} | {100 * rate:.1f} ({100 * sure:.1f}) |", flush=True
            )
        if steps:
            print(
                "\n| noise | runs | series | step, SDs | found within one run | at the very run | with more |"
            )
            print("|---|---:|---:|---:|---:|---:|---:|")
        for (kind, runs, step, series, _), rates in zip(
            steps, pool.map(found_rate, steps), strict=True
        ):
            shown = " | ".join(f"{100 * rate:.1f}" for rate in rates)
            print(f"| {kind} | {runs} | {series} | {step:g} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
