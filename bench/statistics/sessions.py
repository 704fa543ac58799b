"""Sessions and runs as units: what intervals cover when a boot of the host, or its hour, adds noise of its own.

    python bench/statistics/sessions.py                  # prints all tables
    python bench/statistics/sessions.py --only contrasts --studies 300

Every study is judged by `vtax.stats` itself. Values are logarithms, one per block: the noise of a platform is 1 %,
and so is that of a block, which all platforms share. An effect of a session is given as a multiple of a platform's
noise in a block: in `sessions` each platform has its own, in `contrasts` all platforms of a run have one in common.
Alarms are counted with a margin of 0.2 %, so that significance alone decides.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from vtax.stats.contrasts import unpaired_ratio_of_logs
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.ratio import Ratio, ratio_of_logs
from vtax.stats.rules import FixedRule
from vtax.stats.sessions import ratio_over_sessions, unpaired_over_sessions
from vtax.stats.verdict import judge_family

Array = npt.NDArray[np.float64]
FAMILY, BLOCKS, MARGIN, NOISE = 6, 5, 0.02, 0.01
EFFECTS = (0.0, 0.5, 1.0)


def generator(*key: object) -> np.random.Generator:
    """A stream of random numbers of its own for every point."""
    return np.random.default_rng([2001, zlib.crc32(repr(key).encode())])


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def holds(ratio: Ratio, truth: float = 0.0) -> bool:
    return bool(ratio.low <= np.exp(truth) <= ratio.high)


def values(
    sizes: list[int],
    effect: float,
    rng: np.random.Generator,
    common: float = 0.0,
    shape: str = "normal",
) -> Array:
    """Logarithms of shape (1 + FAMILY, blocks) of one study, the baseline first. sizes: blocks of each session."""
    blocks = sum(sizes)
    of = np.repeat(np.arange(len(sizes)), sizes)
    size = (1 + FAMILY, blocks)
    if shape == "log-normal":
        own = np.log1p(0.15 * (rng.lognormal(0, 0.5, size) - np.exp(0.125)) / 0.604) * NOISE / 0.15
    else:
        own = NOISE * rng.standard_normal(size)
    shared = NOISE * rng.standard_normal(blocks)
    sessions = effect * NOISE * rng.standard_normal((1 + FAMILY, len(sizes)))
    together = common * NOISE * rng.standard_normal(len(sizes))
    return np.asarray(own + shared + sessions[:, of] + together[of])


def sessions(key: tuple[str, float, tuple[int, ...]], studies: int) -> list[str]:
    """Blocks as of one session → over sessions: coverage and false verdicts; how often the next one is inside."""
    name, effect, sizes = key
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng, rule = generator("sessions", key), FixedRule()
    strict = replace(rule, margin=MARGIN / 10)
    covers, alarms, equal, inside = np.zeros(2), np.zeros(2), np.zeros(2), 0
    shape = "log-normal" if "log-normal" in name else "normal"
    for _ in range(studies):
        made = values([*sizes, sizes[-1]], effect, rng, shape=shape)
        logs, later = made[:, : labels.size], made[:, labels.size :]
        own = logs[1] - logs[0]
        covers += [holds(ratio_of_logs(own)), holds(found := ratio_over_sessions(own, labels))]
        assert found.predicted_low is not None
        assert found.predicted_high is not None
        inside += (
            found.predicted_low <= np.exp((later[1] - later[0]).mean()) <= found.predicted_high
        )
        for k, of in enumerate((None, labels)):
            family = {
                str(n): Contrast(logs[n] - logs[0], "lower", sessions=of)
                for n in range(1, 1 + FAMILY)
            }
            verdicts = [
                c.verdict.kind
                for c in analyse(strict, family).values()
                if isinstance(c, Comparison)
            ]
            alarms[k] += any(kind in ("slower", "faster") for kind in verdicts)
            margin = {"a": Contrast(own + np.log1p(MARGIN), "lower", sessions=of)}
            (answer,) = analyse(rule, margin).values()
            equal[k] += isinstance(answer, Comparison) and answer.verdict.kind == "equivalent"
    arrows = (
        " → ".join(percent(rate / studies) for rate in pair) for pair in (covers, alarms, equal)
    )
    return [name, f"{effect:g}", str(len(sizes)), *arrows, percent(inside / studies)]


def contrasts(key: tuple[float, int], studies: int) -> list[str]:
    """Two sides of runs: blocks as two samples → the run is the unit; and ratios of ratios of one run a side."""
    effect, runs = key
    rng = generator("contrasts", key)
    labels = np.repeat(np.arange(runs), BLOCKS)
    covers, alarms, inside, relative = np.zeros(2), np.zeros(2), 0, np.zeros(2)
    for _ in range(studies):
        a, b = (values([BLOCKS] * (runs + 1), 0.0, rng, common=effect) for _ in range(2))
        mine, other = a[:, : labels.size], b[:, : labels.size]
        by_blocks = [unpaired_ratio_of_logs(mine[n], other[n]) for n in range(1, 1 + FAMILY)]
        over = [
            unpaired_over_sessions((mine[n], labels), (other[n], labels))
            for n in range(1, 1 + FAMILY)
        ]
        by_runs = [ratio for ratio in over if ratio is not None]
        covers[0] += holds(by_blocks[0])
        alarms[0] += _any_false(by_blocks)
        if by_runs:
            first = by_runs[0]
            covers[1] += holds(first)
            alarms[1] += _any_false(by_runs)
            assert first.predicted_low is not None
            assert first.predicted_high is not None
            later = a[1, labels.size :].mean() - b[1, labels.size :].mean()
            inside += first.predicted_low <= np.exp(later) <= first.predicted_high
        for k, own in enumerate((0.0, 0.5)):  # effect of a run on each platform alone
            c, d = (values([BLOCKS] * runs, own * effect, rng, common=effect) for _ in range(2))
            logs = c[1] - c[0], d[1] - d[0]
            found = unpaired_over_sessions((logs[0], labels), (logs[1], labels))
            relative[k] += holds(found or unpaired_ratio_of_logs(*logs))
    unit = [percent(covers[1] / studies), percent(alarms[1] / studies), percent(inside / studies)]
    shown = unit if runs > 1 else ["", "0 (withheld)", ""]
    return [
        f"{effect:g}",
        str(runs),
        f"{percent(covers[0] / studies)} → {shown[0]}",
        f"{percent(alarms[0] / studies)} → {shown[1]}",
        shown[2],
        *(percent(rate / studies) for rate in relative),
    ]


def _any_false(ratios: list[Ratio]) -> bool:
    """Whether a family of equal pairs has `faster` or `slower`."""
    verdicts = judge_family(ratios, [MARGIN / 10] * len(ratios), ["lower"] * len(ratios), 0.05)
    return any(verdict.kind in ("slower", "faster") for verdict in verdicts)


SIZES = [(n, (BLOCKS,) * n) for n in (2, 3, 5, 8)]
KEYS: dict[str, list[object]] = {
    "sessions": [
        *(("5 blocks each", effect, sizes) for effect in EFFECTS for _, sizes in SIZES),
        *(("2 and 10 blocks in turn", effect, (2, 10, 2, 10)) for effect in EFFECTS),
        *(("5 blocks each, log-normal noise", effect, (BLOCKS,) * 4) for effect in EFFECTS),
    ],
    "contrasts": [(effect, runs) for effect in EFFECTS for runs in (1, 2, 3, 5, 8)],
}
HEADS = {
    "sessions": [
        "sessions",
        "effect",
        "number",
        "covers: of blocks → over sessions",
        "any alarm of six",
        "`equivalent` at the margin",
        "next session inside",
    ],
    "contrasts": [
        "effect of a run",
        "runs a side",
        "covers: blocks → runs",
        "any alarm of six",
        "next runs inside",
        "ratio of ratios covers",
        "the same, and half the effect on each platform alone",
    ],
}
PLANS: dict[str, Callable[..., list[str]]] = {"sessions": sessions, "contrasts": contrasts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=1500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", choices=PLANS)
    options = parser.parse_args()
    started_at = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        for name, function in PLANS.items():
            if options.only in (None, name):
                rows = pool.map(function, KEYS[name], [options.studies] * len(KEYS[name]))
                print(f"\n## {name}\n\n| {' | '.join(HEADS[name])} |\n|{'---|' * len(HEADS[name])}")
                for row in rows:
                    print(f"| {' | '.join(row)} |", flush=True)
    print(f"{options.studies} studies per point; {time.monotonic() - started_at:.0f} s")


if __name__ == "__main__":
    main()
