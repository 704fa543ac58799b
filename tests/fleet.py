"""Runs of several hosts with invented figures, merged as a campaign's are. Never shown to anyone as a result."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from a_run import METRICS, PLATFORMS, a_run, cells

from vtax.store.campaigns import merge_campaign
from vtax.store.records import CellRecord
from vtax.store.store import Store

DAY_S = 86_400.0
START = 1_700_000_000.0
NAMES = ("native", "docker")


def measure(
    store: Store,
    hosts: Sequence[str],
    sessions: int = 2,
    *,
    blocks: int = 3,
    speed: Callable[[str, int, str], float] = lambda host, session, platform: 1.0,
    facts: Callable[[str, int], Mapping[str, Any]] = lambda host, session: {},
    noise: float = 0.002,
    seed: int = 1,
    platforms: Sequence[str] = NAMES,
) -> dict[str, list[str]]:
    """Store a run for each session of each host; returns host -> its runs. session: from 1, a day after the last."""
    draw = random.Random(seed)
    made = [each for each in PLATFORMS if each.name in platforms]
    own = [
        cell for cell in cells() if cell.platform in platforms and cell.benchmark == "sysbench-cpu"
    ]
    found: dict[str, list[str]] = {}
    for number, host in enumerate(hosts):
        for session in range(1, sessions + 1):
            name = f"{host}-s{session}"
            known = {
                "machine_id": f"{number:012x}",
                "cpu_model": "A CPU",
                "kernel": "6.1",
                **facts(host, session),
            }
            run = a_run(name).platforms(*made).cells(own).metrics(METRICS[:1])
            run = run.having(host=known, boot_id=f"{host}-{session}")
            run = run.having(started_at=START + session * DAY_S + number)

            def value(cell: CellRecord, *where: int) -> float:
                share = speed(host, session, cell.platform)  # noqa: B023
                return 1000.0 * share * math.exp(draw.gauss(0, noise))

            run.blocks(blocks).values(value).stored(store)
            found.setdefault(host, []).append(name)
    return found


def merged(store: Store, runs: Mapping[str, Sequence[str]], **record: Any) -> str:
    """Merge the runs as those of a campaign; returns the name. record: of the campaign, beside its hosts."""
    hosts = [
        {"host": host, "runs": list(of), "planned": len(of), "state": "collected"}
        for host, of in runs.items()
    ]
    names = {name: store.open_run(name).identity for of in runs.values() for name in of}
    return merge_campaign(store, names, {"name": "fleet", "hosts": hosts, **record}).name
