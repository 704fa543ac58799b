"""Any false word of a table, by kind, and how many true ones: families of five, one host's noise on all sides.

    python bench/statistics/words.py [--studies 1000]

Five platforms with one baseline, normal noise of every side, so that ratios share the baseline's. True losses: none;
just the margin (2 %); two of none and three of the margin. False are `slower` and `faster` of equals, `equivalent` and
`at-most` at a loss of the margin. Every study is judged by `vtax.stats.judge.analyse`, after a fixed number of blocks.
True `at-most` is counted at a gain of half the margin, where it is the strongest word most of the time.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import numpy as np
from hard import generator

from vtax.stats.assumptions import unequal_noise
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.outlook import Outlook
from vtax.stats.rules import FixedRule

MARGIN, FAMILY = 0.02, 5
TRUTHS = {
    "none": (0, 0, 0, 0, 0),
    "the margin": (1, 1, 1, 1, 1),
    "two none, three the margin": (0, 0, 1, 1, 1),
    "a gain of half the margin": (-0.5,) * FAMILY,
}
NOISES = (0.005, 0.01, 0.02)
BLOCKS = (10, 40)


def row(name: str, noise: float, blocks: int, studies: int) -> str:
    """A line of one truth, noise of a side and number of blocks: percent of tables."""
    rng = generator("words", name, noise, blocks)
    losses = np.array(TRUTHS[name]) * np.log1p(MARGIN)
    counts = np.zeros(6)
    with (
        patch("vtax.stats.verdict.further_blocks", lambda *_: Outlook(None, None)),
        patch("vtax.stats.judge.needed", lambda *_: None),
    ):
        for _ in range(studies):
            sides = noise * rng.standard_normal((FAMILY + 1, blocks))
            contrasts = {}
            for k, loss in enumerate(losses):
                unequal = unequal_noise(sides[k], sides[-1])
                contrasts[str(k)] = Contrast(loss + sides[k] - sides[-1], "lower", unequal)
            answers = analyse(FixedRule(blocks=blocks), contrasts)
            words = [a.verdict.kind for a in answers.values() if isinstance(a, Comparison)]
            differs = any(
                word in ("slower", "faster") and loss == 0
                for word, loss in zip(words, losses, strict=True)
            )
            equal = any(w == "equivalent" and x > 0 for w, x in zip(words, losses, strict=True))
            most = any(w == "at-most" and x > 0 for w, x in zip(words, losses, strict=True))
            shares = (words.count(word) / FAMILY for word in ("at-most", "undecided"))
            counts += (differs, equal, most, differs or equal or most, *shares)
    texts = [f"{100 * count / studies:.1f}" for count in counts]
    return f"| {name} | {100 * noise:g} % | {blocks} | {' | '.join(texts)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=1000)
    options = parser.parse_args()
    points = [(name, noise, blocks) for name in TRUTHS for noise in NOISES for blocks in BLOCKS]
    print(
        "| true losses | noise of a side | blocks | any false slower or faster | equivalent | at-most | any "
        "| at-most, of comparisons | undecided |\n|---|---|---|---|---|---|---|---|---|"
    )
    with ProcessPoolExecutor(2) as pool:
        for line in pool.map(row, *zip(*points, strict=True), [options.studies] * len(points)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
