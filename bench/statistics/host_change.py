"""A change of hosts against controls: what the difference in differences covers, and what before and after alone do.

    python bench/statistics/host_change.py
    python bench/statistics/host_change.py --studies 500

Every study is judged by `vtax.stats` itself. Values are log-ratios, five blocks a session. The noise of a block is
1 %, so is the effect of a session; that of a host is 5 %. The change costs 3 %, on each host more or less by a
multiple of a session's effect; the second window adds 2 % to every host.
"""

from __future__ import annotations

import numpy as np
from hosts import generator
from points import parser_of, print_points

from vtax.stats.host_change import Effect, effect_of_change, random_half

BLOCKS, NOISE, OF_HOST, COST, WINDOW = 5, 0.01, 0.05, -0.03, 0.02
HOSTS = (4, 5, 10, 30)
SESSIONS = (1, 3)
OTHERWISE = ("half, a fifth lost", "a fifth")
UNLIKE = (0.0, 0.5, 1.0, 2.0)
Key = tuple[str, int, int, float]


def covers(effect: Effect) -> bool:
    return bool(effect.low <= np.exp(COST) <= effect.high)


def change_of(own: float, sessions: int, added: float, rng: np.random.Generator) -> float:
    """One host: log(after / before). own: what the host is. added: between the windows."""
    means = []
    for shift in (0.0, added):
        session = np.repeat(np.arange(sessions), BLOCKS)
        logs = own + shift + NOISE * rng.standard_normal(sessions)[session]
        means.append(float((logs + NOISE * rng.standard_normal(session.size)).mean()))
    return means[1] - means[0]


def changed_hosts(how: str, names: list[str], seed: int) -> tuple[str, ...]:
    return tuple(names[: max(2, len(names) // 5)]) if how == "a fifth" else random_half(names, seed)


def point(key: Key, studies: int) -> list[str]:
    """What is covered at one point: with controls, and by the changed hosts alone."""
    how, hosts, sessions, unlike = key
    rng, found = generator(*key), np.zeros(3)
    names = [f"host{number}" for number in range(hosts)]
    for study in range(studies):
        drawn = changed_hosts(how, names, study)
        lost = (
            set(rng.choice(names, hosts // 5, replace=False))
            if how == "half, a fifth lost"
            else set()
        )
        changed, controls = [], []
        for name in names:
            own, effect = (
                OF_HOST * rng.standard_normal(),
                COST + unlike * NOISE * rng.standard_normal(),
            )
            value = change_of(own, sessions, WINDOW + (effect if name in drawn else 0.0), rng)
            if name not in lost:
                (changed if name in drawn else controls).append(value)
        effect = effect_of_change(changed, controls)
        found += [covers(effect), covers(effect_of_change(changed, [])), effect.high < 1]
    with_controls, alone, seen = (f"{100 * value / studies:.1f}" for value in found)
    return [how, str(hosts), str(sessions), f"{unlike:g}", with_controls, alone, seen]


KEYS: list[Key] = [
    *(
        ("half", hosts, sessions, unlike)
        for hosts in HOSTS
        for sessions in SESSIONS
        for unlike in UNLIKE
    ),
    *((how, hosts, 3, unlike) for how in OTHERWISE for hosts in (10, 30) for unlike in UNLIKE),
]
HEAD = [
    "changed first",
    "hosts",
    "sessions a window",
    "hosts unlike",
    "covers",
    "covers without controls",
    "loss is seen",
]


def main() -> None:
    print_points(HEAD, point, KEYS, parser_of(__doc__, 2000).parse_args())


if __name__ == "__main__":
    main()
