"""Pairs of hosts: what intervals cover when both ends of a pair add to what is measured between them.

    python bench/statistics/pairs.py
    python bench/statistics/pairs.py --studies 500

Every study is judged by `vtax.stats` itself. Values are log-ratios, one per block, two sessions of three blocks a
pair. The noise of a block, of a session and of a pair is 1 % each; the effect of a host is a multiple of that, at the
near end, where the platforms are, and at the far one. *Every pair* has one direction each, drawn so that a host is at
either end about as often; *ring*: each host with its two neighbours; *clients and servers*: a third are servers;
*one server*: of all hosts but two, which are a pair. *Both ways*: each pair in both directions. The effect of a host
that is in every pair, as the hub of a star, is none: intervals are for pairs with that host.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
from points import parser_of, print_points

from vtax.stats.sessions import ratio_over_sessions

BLOCKS, SESSIONS, NOISE = 3, 2, 0.01
HOSTS = (4, 6, 10)
EFFECTS = ((0.0, 0.0), (1.0, 1.0), (3.0, 3.0), (3.0, 0.0), (0.0, 3.0))
Key = tuple[str, int, tuple[float, float]]


def pairs_of(how: str, hosts: int) -> npt.NDArray[np.int64]:
    """The (near, far) hosts of each pair."""
    name = how.removesuffix(" both ways")
    if name == "ring":
        found = [(i, (i + 1) % hosts) for i in range(hosts)]
    elif name == "path":
        found = [(i, i + 1) for i in range(hosts - 1)]
    elif name == "pairs":
        found = [(i, i + 1) for i in range(0, hosts, 2)]
    elif name == "star":
        found = [(i, 0) for i in range(1, hosts)]
    elif name == "star, one exchanged":
        found = [(i, 0) for i in range(1, hosts)] + [(0, 1)]
    elif name == "one server":
        found = [(i, 0) for i in range(1, hosts - 2)] + [(hosts - 2, hosts - 1)]
    elif name == "clients and servers":
        servers = max(2, hosts // 3)
        found = [(i, j) for i in range(servers, hosts) for j in range(servers)]
    else:
        found = [
            (i, j) if (i + j) % 2 else (j, i) for i in range(hosts) for j in range(i + 1, hosts)
        ]
    if name != how:
        found += [(j, i) for i, j in found]
    return np.array(found)


def point(key: Key, studies: int) -> list[str]:
    """What is covered at one point: over sessions, over pairs, over the near hosts, and over both ends."""
    how, hosts, effects = key
    rng = np.random.default_rng([2030, zlib.crc32(repr(key).encode())])
    pairs = pairs_of(how, hosts)
    pair = np.repeat(np.arange(len(pairs)), SESSIONS)
    session = np.repeat(np.arange(pair.size), BLOCKS)
    near, far = pairs[pair[session]].T
    labels = {
        "sessions": session,
        "pairs": np.column_stack([pair[session], session]),
        "near": np.column_stack([near, session]),
        "both": np.column_stack([near, far, session]),
    }
    found, widths = dict.fromkeys(labels, 0), dict.fromkeys(labels, 0.0)
    for _ in range(studies):
        of_near, of_far = (effect * NOISE * rng.standard_normal(hosts) for effect in effects)
        if (
            how != "clients and servers"
        ):  # a host is the same at either end, but for the part that one end alone has
            of_far = of_near * (effects[1] / effects[0]) if effects[0] else of_far
        if "star" in how:
            of_near[0] = of_far[0] = 0.0
        own = of_near[pairs[:, 0]] + of_far[pairs[:, 1]] + NOISE * rng.standard_normal(len(pairs))
        logs = (own[pair] + NOISE * rng.standard_normal(pair.size))[
            session
        ] + NOISE * rng.standard_normal(session.size)
        for name, each in labels.items():
            over = ratio_over_sessions(logs, each)
            found[name] += over.low <= 1.0 <= over.high
            widths[name] += np.log(over.high / over.low)
    shown = [f"{100 * count / studies:.1f}" for count in found.values()]
    near_effect, far_effect = effects
    return [
        how,
        str(hosts),
        f"{near_effect:g}, {far_effect:g}",
        *shown,
        f"{widths['both'] / widths['pairs']:.2f}",
    ]


KEYS: list[Key] = [
    *(("every pair", hosts, effects) for effects in EFFECTS for hosts in HOSTS),
    *(
        (how, hosts, effects)
        for how in ("ring", "clients and servers")
        for effects in EFFECTS[:3]
        for hosts in (6, 10)
    ),
    *(
        (how, hosts, effects)
        for how, hosts in (
            ("pairs", 6),
            ("pairs both ways", 4),
            ("pairs both ways", 10),
            ("path", 4),
            ("path", 6),
            ("ring", 3),
            ("ring", 4),
            ("every pair both ways", 3),
            ("star both ways", 6),
            ("star, one exchanged", 4),
            ("one server", 7),
            ("one server", 12),
        )
        for effects in EFFECTS
    ),
]
HEAD = [
    "pairs",
    "hosts",
    "effects, near, far",
    "covers: over sessions",
    "pairs",
    "near hosts",
    "both ends",
    "width, both ends over pairs",
]


def main() -> None:
    print_points(HEAD, point, KEYS, parser_of(__doc__, 2000).parse_args())


if __name__ == "__main__":
    main()
