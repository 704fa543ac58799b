"""The points of a campaign of kill_points: noted chain by chain in a file, and their table."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from vtax.host.process import run


@dataclass(frozen=True)
class Point:
    """One kill: chain and number in it, where it fell, and what was wrong afterwards (nothing, when all held)."""

    chain: int
    platform: str
    stage: str
    delay_s: float
    problems: tuple[str, ...]


class Log:
    """The points of all chains that ended, kept in a file when it has a path."""

    def __init__(self, file: int | None, seed: int) -> None:
        self._file, self._seed = file, seed
        self._commit = run(
            ["git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD"], check=False
        ).stdout
        self.points: list[Point] = []
        self.chains: set[int] = set()
        text = "" if file is None else Path(f"/proc/self/fd/{file}").read_text()
        for line in text.splitlines():
            record = json.loads(line)
            if record["seed"] == seed:
                self.chains.add(record["chain"])
                self.points += [
                    Point(**{**each, "problems": tuple(each["problems"])})
                    for each in record["points"]
                ]

    def add(self, chain: int, points: Sequence[Point]) -> None:
        """A chain that ended."""
        self.chains.add(chain)
        self.points += points
        if self._file is not None:
            record = {
                "seed": self._seed,
                "chain": chain,
                "commit": self._commit.strip(),
                "at": time.time(),
            }
            line = json.dumps({**record, "points": [asdict(point) for point in points]})
            os.write(self._file, f"{line}\n".encode())


def summarize(points: Sequence[Point], as_json: bool) -> None:
    """Points and failures by platform and stage."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for point in points:
        counts[point.platform][point.stage] += 1
    failed = [point for point in points if point.problems]
    if as_json:
        rows = {"points": len(points), "failures": len(failed), "counts": counts}
        print(json.dumps({**rows, "failed": [asdict(point) for point in failed]}, indent=2))
        return
    print(f"{len(points)} kill points, {len(failed)} with something wrong\n")
    stages = list(dict.fromkeys(point.stage for point in points))
    print("| platform | " + " | ".join(stages) + " | failures |")
    print("|---" * (len(stages) + 2) + "|")
    for platform, by_stage in counts.items():
        wrong = sum(point.platform == platform for point in failed)
        print(
            f"| {platform} | "
            + " | ".join(str(by_stage[stage] or "") for stage in stages)
            + f" | {wrong} |"
        )
    for point in failed:
        print(
            f"\nchain {point.chain}, {point.platform}, {point.stage}: {'; '.join(point.problems)}"
        )
