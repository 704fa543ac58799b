"""Platforms in different boots of the host: what intervals cover, and how wide they are, when a boot has an effect.

    python bench/statistics/boots.py
    python bench/statistics/boots.py --studies 300

Native stands in one boot, six others in another one. Every study is judged by `vtax.stats` itself. Values are
logarithms, one per block: the noise of a platform is 1 %, and so is that of an hour, which all platforms of a block
have in common as long as they share a boot. The effect of a boot is a multiple of a platform's noise, the same for
all platforms in it. Ten blocks, in these designs:

- one boot: all platforms of a block in one boot, of which every block has its own. For comparison: not possible here.
- own boots: a boot per side in every block (sessions = blocks, what a study with [[boot]] does).
- 5 sessions of 2: a boot per side in every session, blocks of which share both.
- shared: as own boots, but a block begins in the boot in which the one before ended, where the random order allows.
- two boots: all blocks in one boot per side.

Alarms are counted with a margin of 0.2 %, so that significance alone decides.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from points import parser_of, print_points

from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.rules import FixedRule
from vtax.stats.sessions import ratio_over_sessions

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
FAMILY, BLOCKS, MARGIN, NOISE = 6, 10, 0.02, 0.01
EFFECTS = (0.0, 0.5, 1.0, 2.0)
DESIGNS = ("one boot", "own boots", "5 sessions of 2", "shared", "two boots")


def boots_of(design: str, rng: np.random.Generator) -> tuple[Labels, Labels, Labels]:
    """(boot of native, boot of the others, session) of every block; boots are numbered over the run."""
    blocks = np.arange(BLOCKS)
    if design == "one boot":
        return blocks, blocks, blocks
    if design == "two boots":
        return 0 * blocks, 0 * blocks + 1, 0 * blocks
    if design == "5 sessions of 2":
        return 2 * (blocks // 2), 2 * (blocks // 2) + 1, blocks // 2
    if design == "own boots":
        return 2 * blocks, 2 * blocks + 1, blocks
    sides: list[tuple[int, int]] = []
    boot, last = 0, -1
    for _ in blocks:
        order = rng.permutation(2)
        found = [0, 0]
        for side in order.tolist():
            boot += side != last
            found[side], last = boot, side
        sides.append((found[0], found[1]))
    return np.array([side[0] for side in sides]), np.array([side[1] for side in sides]), blocks


def logs_of(design: str, effect: float, rng: np.random.Generator) -> tuple[Array, Labels, int]:
    """(log-ratio of every other platform to native in every block, session of every block, boots)."""
    native, others, sessions = boots_of(design, rng)
    boots = 1 + max(int(native.max()), int(others.max()))
    of_boot = effect * NOISE * rng.standard_normal(boots)
    own = NOISE * rng.standard_normal((1 + FAMILY, BLOCKS))
    hours = NOISE * rng.standard_normal((2, BLOCKS))
    if design == "one boot":
        hours[1] = hours[0]
    base = own[0] + hours[0] + of_boot[native]
    return own[1:] + hours[1] + of_boot[others] - base, sessions, np.union1d(native, others).size


def row(key: tuple[str, float], studies: int) -> list[str]:
    """Coverage, alarms, false `equivalent`, half-width and boots of a design."""
    design, effect = key
    rng = np.random.default_rng([2026, zlib.crc32(repr(key).encode())])
    rule = FixedRule()
    strict = replace(rule, margin=MARGIN / 10)
    covers, alarms, equal, boots, halves = 0, 0, 0, 0, []
    for _ in range(studies):
        logs, sessions, number = logs_of(design, effect, rng)
        labels = sessions if np.unique(sessions).size > 1 else None
        if design == "shared":
            labels = None  # as if boots did not matter
        ratio = ratio_over_sessions(logs[0], np.arange(BLOCKS) if labels is None else labels)
        covers += ratio.low <= 1 <= ratio.high
        halves.append((ratio.high - ratio.low) / 2)
        boots += number
        family = {str(n): Contrast(logs[n], "lower", sessions=labels) for n in range(FAMILY)}
        verdicts = [
            c.verdict.kind for c in analyse(strict, family).values() if isinstance(c, Comparison)
        ]
        alarms += any(kind in ("slower", "faster") for kind in verdicts)
        margin = {"a": Contrast(logs[0] + np.log1p(MARGIN), "lower", sessions=labels)}
        (answer,) = analyse(rule, margin).values()
        equal += isinstance(answer, Comparison) and answer.verdict.kind == "equivalent"
    shown = [f"{100 * count / studies:.1f}" for count in (covers, alarms, equal)]
    return [
        design,
        f"{effect:g}",
        f"{boots / studies:.0f}",
        *shown,
        f"{100 * float(np.mean(halves)):.2f}",
    ]


HEAD = [
    "design",
    "effect",
    "boots",
    "covers",
    "any alarm of six",
    "`equivalent` at the margin",
    "half-width, %",
]


def main() -> None:
    keys = [(design, effect) for effect in EFFECTS for design in DESIGNS]
    print_points(HEAD, row, keys, parser_of(__doc__, 1500).parse_args())


if __name__ == "__main__":
    main()
