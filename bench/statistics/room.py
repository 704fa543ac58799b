"""What it costs that a verdict for the noisier side stands where unseen slow blocks could not undo it.

    python bench/statistics/room.py --studies 2000

One platform has noise, its baseline 0.02 %. False `equivalent` at the margin of 2 %, false `faster` at no difference,
and true `equivalent` at no difference, by the room that a verdict must have: none, one standard deviation of a block,
`withholding.room_of`, 40 / n of them. Of false ones the worst of 5, 10, 16 and 30 blocks, of true ones those at 10 and 30.
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
from vtax.stats.withholding import room_of

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
SHOWN = (10, 30)
ROOMS = (lambda _: 0.0, lambda _: 1.0, room_of, lambda blocks: 40 / blocks)


def row(name: str, cv: float, studies: int) -> list[str]:
    """Of one shape and coefficient of variation."""
    worst, true = np.zeros((2, len(ROOMS))), np.zeros((2, len(ROOMS)))
    for blocks in BLOCKS:
        rng = generator("room", name, cv, blocks)
        baseline = BASELINE * rng.standard_normal((studies, blocks))
        noise = cv / CV * extra(SHAPES[name], (studies, blocks), rng)
        for m, room in enumerate(ROOMS):
            with patch("vtax.stats.withholding.room_of", room):
                for k, truth in enumerate((np.log1p(MARGIN), 0.0)):
                    words = [verdict(truth + a, b) for a, b in zip(noise, baseline, strict=True)]
                    kind = ("equivalent", "faster")[k]
                    worst[k, m] = max(worst[k, m], words.count(kind) / studies)
                if blocks in SHOWN:
                    true[SHOWN.index(blocks), m] = words.count("equivalent") / studies
    cells = (" / ".join(percent(x) for x in each) for each in (*worst, *true))
    return [name, f"{100 * cv:g} %", *cells]


def verdict(treatment: Array, baseline: Array) -> str:
    """Of one comparison of times, given as logarithms."""
    contrast = Contrast(treatment - baseline, "lower", unequal_noise(treatment, baseline))
    (answer,) = analyse(FixedRule(blocks=treatment.size), {"a": contrast}).values()
    return answer.verdict.kind if isinstance(answer, Comparison) else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=2000)
    options = parser.parse_args()
    points = [(name, cv) for name in SHAPES for cv in (0.003, 0.006, 0.02, CV)]
    print(
        "| noise of the platform | CV | `equivalent` at the margin | `faster` at no difference "
        "| true `equivalent`, 10 blocks | 30 blocks |\n|---|---|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for cells in pool.map(row, *zip(*points, strict=True), [options.studies] * len(points)):
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
