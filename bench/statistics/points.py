"""A table of simulated points, a row each, as every program here prints one: made in several processes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def parser_of(text: str | None, studies: int) -> argparse.ArgumentParser:
    """Return the parser of a program. text: its docstring. studies: for each point, by default."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0] if text else "")
    parser.add_argument("--studies", type=int, default=studies)
    parser.add_argument("--processes", type=int, default=2)
    return parser


def print_points(
    head: Sequence[str],
    row: Callable[[Any, int], list[str]],
    keys: Sequence[Any],
    options: argparse.Namespace,
) -> None:
    """Print the table in markdown. row: (a key, number of studies) -> its cells."""
    started_at = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for cells in pool.map(row, keys, [options.studies] * len(keys)):
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"{options.studies} studies per point; {time.monotonic() - started_at:.0f} s")
