"""What it costs that a verdict for the noisier side stands where unseen slow blocks could not undo it.

    python bench/statistics/room.py --studies 2000

One platform has noise, its baseline 0.02 %. False `equivalent` at the margin of 2 % and false `faster` at no
difference: the worst of 5, 10, 16 and 30 blocks, where they are withheld always → unless there is room.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import numpy as np
from hard import MARGIN, extra, generator, percent
from noise import Array

from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.rules import FixedRule
from vtax.stats.withholding import ROOM

SHAPES = {
    "normal": "normal",
    "log-normal of shape 0.5": "0.5",
    "log-normal of shape 1": "1",
    "log-normal of shape 1.5": "1.5",
    "exponential tail": "exponential",
}
CV = 0.15  # of the noise that `hard.extra` makes
BASELINE = 0.0002
BLOCKS = (5, 10, 16, 30)


def row(name: str, cv: float, studies: int) -> list[str]:
    """Of one shape and coefficient of variation."""
    worst = np.zeros((2, 2))
    for blocks in BLOCKS:
        rng = generator("room", name, cv, blocks)
        baseline = BASELINE * rng.standard_normal((studies, blocks))
        noise = cv / CV * extra(SHAPES[name], (studies, blocks), rng)
        for k, (truth, kind) in enumerate(((np.log1p(MARGIN), "equivalent"), (0.0, "faster"))):
            for m, room in enumerate((np.inf, ROOM)):
                with patch("vtax.stats.withholding.ROOM", room):
                    words = [verdict(truth + a, b) for a, b in zip(noise, baseline, strict=True)]
                worst[k, m] = max(worst[k, m], words.count(kind) / studies)
    return [name, f"{100 * cv:g} %", *(" → ".join(percent(x) for x in each) for each in worst)]


def verdict(treatment: Array, baseline: Array) -> str:
    """Of one comparison of times, given as logarithms."""
    contrast = Contrast(treatment - baseline, "lower", unequal_noise(treatment, baseline))
    (answer,) = analyse(FixedRule(blocks=treatment.size), {"a": contrast}).values()
    return answer.verdict.kind if isinstance(answer, Comparison) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=2000)
    options = parser.parse_args()
    points = [(name, cv) for name in SHAPES for cv in (0.003, 0.02, CV)]
    print(
        "| noise of the platform | CV | `equivalent` at the margin | `faster` at no difference |\n|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for cells in pool.map(row, *zip(*points, strict=True), [options.studies] * len(points)):
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
