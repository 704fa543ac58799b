"""Shares of variance by level: how often their intervals hold what is true.

    python bench/statistics/level_shares.py
    python bench/statistics/level_shares.py --studies 500

Values are log-ratios, five blocks a session. A block's noise is 1 %, so is the effect of a session; that of a host is
given as a multiple of it. Every interval is that of `vtax.stats`.
"""

from __future__ import annotations

import zlib

import numpy as np
from points import parser_of, print_points

from vtax.stats.level_shares import share_intervals

BLOCKS, NOISE = 5, 0.01
HOSTS = (3, 5, 10, 30)
EFFECTS = (0.5, 1.0, 3.0)
UNEQUAL = (1, 3, 5, 7, 9)
UNITS = ("host", "session", "block")
Key = tuple[str, int, float]


def sizes(how: str, hosts: int) -> list[int]:
    """How many sessions each host has."""
    return (
        [UNEQUAL[number % len(UNEQUAL)] for number in range(hosts)] if "to" in how else [5] * hosts
    )


def point(key: Key, studies: int) -> list[str]:
    """Coverage of the three shares at one point, and how wide that between hosts is."""
    how, hosts, effect = key
    rng = np.random.default_rng([2029, zlib.crc32(repr(key).encode())])
    host = np.repeat(np.arange(hosts), sizes(how, hosts))
    session = np.repeat(np.arange(host.size), BLOCKS)
    labels = np.column_stack([host[session], session])
    variances = np.array([effect**2, 1.0, 1.0])
    truth = dict(zip(UNITS, variances / variances.sum(), strict=True))
    held, widths = dict.fromkeys(UNITS, 0), []
    for _ in range(studies):
        logs = (
            NOISE
            * (effect * rng.standard_normal(hosts)[host] + rng.standard_normal(host.size))[session]
        )
        found = share_intervals(logs + NOISE * rng.standard_normal(session.size), labels)
        for unit, share in truth.items():
            held[unit] += found[unit][0] <= share <= found[unit][1]
        widths.append(found["host"][1] - found["host"][0])
    return [
        how,
        str(hosts),
        f"{effect:g}",
        *(f"{100 * held[unit] / studies:.1f}" for unit in UNITS),
        f"{100 * float(np.median(widths)):.0f}",
    ]


KEYS: list[Key] = [
    (how, hosts, effect)
    for how in ("5 sessions", "1 to 9 sessions")
    for hosts in HOSTS
    for effect in EFFECTS
]
HEAD = [
    "of each host",
    "hosts",
    "effect",
    "covers, of hosts",
    "sessions",
    "blocks",
    "width, of hosts",
]


def main() -> None:
    print_points(HEAD, point, KEYS, parser_of(__doc__, 2000).parse_args())


if __name__ == "__main__":
    main()
