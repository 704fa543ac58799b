"""The typical ratio where trials or boots are slow at times: coverage and width of its interval, the pauses it finds.

python bench/statistics/pauses.py [--studies 1000]
"""

from __future__ import annotations

import argparse

import numpy as np
from hard import generator, percent

from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.rules import FixedRule

DESIGNS = ((10, 3), (10, 5), (20, 5))  # blocks, trials
PAUSES = {  # (share of slow trials, how many times slower, share of slow blocks), of the platform and of the baseline
    "none": ((0.0, 1.0, 0.0), (0.0, 1.0, 0.0)),
    "one trial of ten 20 % slower, on both sides": ((0.1, 1.2, 0.0), (0.1, 1.2, 0.0)),
    "one trial of eight twice as slow, on both sides": ((1 / 8, 2.0, 0.0), (1 / 8, 2.0, 0.0)),
    "one boot of five 30 % slower, on both sides": ((0.0, 1.3, 0.2), (0.0, 1.3, 0.2)),
    "one trial of eight 30 % slower, on the platform": ((1 / 8, 1.3, 0.0), (0.0, 1.0, 0.0)),
    "one trial of eight twice as slow, on the platform": ((1 / 8, 2.0, 0.0), (0.0, 1.0, 0.0)),
}


def typical(name: str, studies: int) -> list[str]:
    """Trials of CV 2 %, boots of 1 %: coverage and width of the typical ratio, and how often it finds pauses."""
    row = [name]
    for blocks, trials in DESIGNS:
        rng = generator("typical", name, blocks, trials)
        covers, widths, found = 0, [], 0
        for _ in range(studies):
            averages, medians = np.zeros(blocks), np.zeros(blocks)
            for sign, (slow, times, boots) in zip((1, -1), PAUSES[name], strict=True):
                logs = 0.01 * rng.standard_normal((blocks, 1)) + 0.02 * rng.standard_normal(
                    (blocks, trials)
                )
                is_slow = (rng.random(logs.shape) < slow) | (rng.random((blocks, 1)) < boots)
                values = np.exp(logs) * np.where(is_slow, times, 1.0)
                averages += sign * np.log(values.mean(axis=1))
                medians += sign * np.log(np.median(values, axis=1))
            contrast = Contrast(averages, "lower", medians=medians, trials=trials)
            (answer,) = analyse(FixedRule(), {"a": contrast}).values()
            assert isinstance(answer, Comparison)
            assert answer.typical is not None
            covers += answer.typical.low <= 1 <= answer.typical.high
            found += answer.typical.pauses != ""
            widths.append(
                np.log(answer.typical.high / answer.typical.low)
                / np.log(answer.ratio.high / answer.ratio.low)
            )
        row += [percent(covers / studies), f"{np.median(widths):.2f}", percent(found / studies)]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    whats = ("typical ratio covers 1", "width", "pauses found")
    heads = [
        "pauses",
        *(
            f"{blocks} blocks of {trials} trials: {what}"
            for blocks, trials in DESIGNS
            for what in whats
        ),
    ]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in PAUSES:
        print(f"| {' | '.join(typical(name, studies))} |", flush=True)


if __name__ == "__main__":
    main()
