"""Hosts as units: what intervals cover when hosts differ, and sessions of each host too.

    python bench/statistics/hosts.py
    python bench/statistics/hosts.py --only lost --studies 500

Every study is judged by `vtax.stats` itself. Values are log-ratios, one per block, five blocks a session. A block's
noise is 1 %, so is the effect of a session; that of a host is given as a multiple of a session's. *Like these* is an
interval that is to cover the mean of all hosts; *these*, the mean of the hosts that were measured.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
from points import parser_of, print_points

from vtax.stats.ratio import Ratio
from vtax.stats.sessions import ratio_over_sessions

Array = npt.NDArray[np.float64]
BLOCKS, NOISE = 5, 0.01
HOSTS = (2, 3, 5, 10, 30, 100)
EFFECTS = (0.0, 0.5, 1.0, 3.0)
UNEQUAL = (1, 3, 5, 7, 9)
THIRD = 1 / 3
Key = tuple[str, str, float, int]


def generator(*key: object) -> np.random.Generator:
    """A stream of random numbers of its own for every point."""
    return np.random.default_rng([2029, zlib.crc32(repr(key).encode())])


def covers(ratio: Ratio, truth: float) -> bool:
    return bool(ratio.low <= np.exp(truth) <= ratio.high)


def sessions_of(how: str, hosts: int) -> list[int]:
    """How many sessions each host has."""
    if how == "1 to 9 sessions":
        return [UNEQUAL[number % len(UNEQUAL)] for number in range(hosts)]
    return [int(how.split()[0])] * hosts


def kept(lost: str, effects: Array, rng: np.random.Generator) -> Array:
    """Numbers of the hosts that are not lost: a third is, at random or because slow."""
    many = max(2, round(effects.size * (1 - THIRD)))
    if lost == "at random":
        return rng.permutation(effects.size)[:many]
    if lost == "slowest":
        return np.argsort(effects)[:many]
    return np.arange(effects.size)


def point(key: Key, studies: int) -> list[str]:
    """What is covered at one point: over sessions, over hosts, of these hosts, and by the range of the next host."""
    how, lost, effect, hosts = key
    rng, found = generator(*key), np.zeros(4)
    for _ in range(studies):
        own = effect * NOISE * rng.standard_normal(hosts)
        there = kept(lost, own, rng)
        sizes = np.array(sessions_of(how, hosts))[there]
        spread = np.where(there % 2, 1.0, 3.0 if "unlike" in how else 1.0)
        host = np.repeat(np.arange(there.size), sizes)
        sessions = own[there][host] + spread[host] * NOISE * rng.standard_normal(host.size)
        session = np.repeat(np.arange(host.size), BLOCKS)
        logs = sessions[session] + NOISE * rng.standard_normal(session.size)
        over = ratio_over_sessions(logs, np.column_stack([host[session], session]))
        these = over.of_these_hosts
        later = effect * NOISE * rng.standard_normal() + NOISE * rng.standard_normal(5).mean()
        later += NOISE * rng.standard_normal((5, BLOCKS)).mean()
        assert these is not None
        assert over.predicted_low is not None
        assert over.predicted_high is not None
        found += [
            covers(ratio_over_sessions(logs, session), 0.0),
            covers(over, 0.0),
            these.low <= np.exp(own[there].mean()) <= these.high,
            over.predicted_low <= np.exp(later) <= over.predicted_high,
        ]
    by_sessions, by_hosts, of_these, inside = (f"{100 * value / studies:.1f}" for value in found)
    return [how, lost, str(hosts), f"{effect:g}", f"{by_sessions} → {by_hosts}", of_these, inside]


KEYS: dict[str, list[Key]] = {
    "equal": [("5 sessions", "none", effect, hosts) for effect in EFFECTS for hosts in HOSTS],
    "unequal": [
        *(
            ("1 to 9 sessions", "none", effect, hosts)
            for effect in EFFECTS[1:]
            for hosts in (3, 5, 10, 30)
        ),
        *(
            ("5 unlike sessions", "none", effect, hosts)
            for effect in EFFECTS[1:]
            for hosts in (3, 5, 10, 30)
        ),
    ],
    "lost": [
        ("5 sessions", lost, effect, hosts)
        for lost in ("at random", "slowest")
        for effect in EFFECTS[1:]
        for hosts in (5, 10, 30)
    ],
}
HEAD = [
    "of each host",
    "hosts lost",
    "hosts",
    "effect",
    "covers, like these: over sessions → over hosts",
    "these",
    "next host inside",
]


def main() -> None:
    parser = parser_of(__doc__, 2000)
    parser.add_argument("--only", choices=KEYS)
    options = parser.parse_args()
    keys = [key for name, of in KEYS.items() if options.only in (None, name) for key in of]
    print_points(HEAD, point, keys, options)


if __name__ == "__main__":
    main()
