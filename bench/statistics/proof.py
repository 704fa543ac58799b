"""Writes docs/proof.md anew: every table there is what the command above it prints.

    python bench/statistics/proof.py [--only PLACE ...]

A place in the document is `<!-- NAME -->`, what is written there, `<!-- end NAME -->`. Commands are seeded: the same
one gives the same figures.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "proof.md"
NUMBER = re.compile(r"\d+(?:\.\d+)?")
Row = Sequence[str]


@dataclass(frozen=True)
class Place:
    """Where a table stands. command: of which it is. table: which one of those that are printed.

    columns: those shown, from 0; none: all. by: columns in which rows that are alike become one, of whose other
    figures the range is shown, or the largest.
    """

    command: str
    table: int = 0
    columns: tuple[int, ...] = ()
    by: tuple[int, ...] = ()
    largest: tuple[int, ...] = ()


PLACES: Mapping[str, Place] = {
    "noises": Place("simulate.py --only noises"),
    "economy": Place("simulate.py --only economy"),
    "others": Place("simulate.py --only others"),
    "limits": Place("simulate.py --only limits"),
    "assumptions": Place("hard.py --only assumptions --studies 300", columns=(0, 1, 2, 3, 6, 7, 8)),
    "untuned": Place("hard.py --only untuned"),
    "errors": Place(
        "leaving.py --only errors --studies 200", columns=(0, 1, 4, 5, 6), by=(0, 1), largest=(4,)
    ),
    "slow": Place("leaving.py --only slow --studies 200"),
    "tour": Place("leaving.py --only tour --studies 20", columns=(0, 1, 2)),
    "words": Place("words.py --studies 600"),
    "ladder": Place("ladder.py --ladders 600", columns=(0, 1, 3, 4, 5, 6), by=(0, 1)),
    "ladder_example": Place(
        "ladder.py --example anatomy --ladders 600", columns=(0, 1, 3, 4, 5, 6), by=(0, 1)
    ),
    "room": Place("room.py --studies 300"),
    "guard": Place("guard.py --studies 1200"),
    "dependence": Place("dependence.py", columns=(0, 1, 2, 3, 6, 8, 9, 10)),
    "anytime": Place("anytime.py"),
    "width": Place("anytime.py", table=1),
    "sessions": Place("sessions.py --only sessions", columns=(0, 1, 3, 4, 5, 6), by=(0, 1)),
    "runs": Place("sessions.py --only contrasts"),
    "hosts": Place("hosts.py", columns=(0, 1, 3, 4, 5, 6), by=(0, 1, 3)),
    "updates": Place("host_change.py", columns=(0, 1, 4, 5, 6), by=(0, 1)),
    "shares": Place("level_shares.py", columns=(0, 1, 3, 4, 5, 6), by=(0, 1)),
    "boots": Place("boots.py", columns=(0, 2, 3, 4, 5, 6), by=(0,), largest=(4, 5)),
    "changes": Place("history.py --series 300 --only false", by=(0, 2), columns=(0, 2, 3)),
    "steps": Place("history.py --series 300 --only found", by=(1, 3), columns=(1, 3, 4)),
    "failures": Place("hard.py --only failures"),
    "further": Place("further_blocks.py --studies 3000", columns=(0, 4, 5, 6), by=(0,)),
    "lost": Place("further_blocks.py --studies 3000", table=1),
    "steadiness": Place("hard.py --only steadiness"),
    "check": Place("check.py", columns=(0, 3, 4, 5, 6), by=(0,), largest=(3, 4, 5)),
    "against": Place(
        "check.py --against", columns=(0, 2, 3, 4, 5, 6), by=(0, 2), largest=(3, 4, 5)
    ),
    "claims": Place("claims.py --studies 500", columns=(1, 2, 3, 4), by=(1,)),
    "quantiles": Place("quantiles.py", columns=(0, 1, 3, 4, 5), by=(0, 1)),
    "shipped": Place("shipped.py"),
}


def tables_in(output: str) -> list[list[Row]]:
    """The Markdown tables of a text, each its heads and its rows."""
    found: list[list[Row]] = []
    is_inside = False
    for line in output.splitlines():
        if not line.startswith("|"):
            is_inside = False
            continue
        if not is_inside:
            found.append([])
        is_inside = True
        if not set(line) <= set("|-: "):
            found[-1].append([cell.strip() for cell in line.strip()[1:-1].split("|")])
    return found


def shown(place: Place, table: Sequence[Row]) -> list[Row]:
    """Heads and rows of a table as they stand in the document."""
    heads, *rows = table
    if place.by:
        groups: dict[Row, list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[each] for each in place.by), []).append(row)
        rows = [
            [
                merged([row[at] for row in group], is_largest=at in place.largest)
                for at in range(len(heads))
            ]
            for group in groups.values()
        ]
    columns = place.columns or range(len(heads))
    names = [f"{heads[at]}, largest" if at in place.largest else heads[at] for at in columns]
    return [names, *([row[at] for at in columns] for row in rows)]


def merged(cells: Sequence[str], *, is_largest: bool = False) -> str:
    """One cell in place of several, each of whose numbers is the range of theirs, or the largest."""
    numbers = list(zip(*(NUMBER.findall(cell) for cell in cells), strict=True))

    def spanned(match: re.Match[str]) -> str:
        low, high = min(numbers[0], key=float), max(numbers.pop(0), key=float)
        return high if is_largest or float(low) == float(high) else f"{low} to {high}"

    return NUMBER.sub(spanned, cells[0])


def body(place: Place, rows: Sequence[Row]) -> str:
    """What stands at a place: its command, and the table."""
    heads, *others = rows
    lines = [
        f"|{'|'.join(heads)}|",
        f"|{'---|' * len(heads)}",
        *(f"|{'|'.join(row)}|" for row in others),
    ]
    return f"`python bench/statistics/{place.command}`\n\n" + "\n".join(lines)


def written(text: str, name: str, inside: str) -> str:
    """The document with this at a place. Raises SystemExit where it has not one of that name."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)"
    text, found = re.subn(
        pattern, lambda match: f"{match[1]}{inside}\n{match[2]}", text, flags=re.DOTALL
    )
    if found != 1:
        raise SystemExit(f"{DOCUMENT} has {found} places for the table {name}")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=PLACES, metavar="PLACE", default=list(PLACES))
    names = parser.parse_args().only
    for command in dict.fromkeys(PLACES[name].command for name in names):
        began = time.monotonic()
        script, *arguments = command.split()
        argv = [sys.executable, str(HERE / script), *arguments]
        found = tables_in(
            subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
        )
        text = DOCUMENT.read_text()
        for name in names:
            if PLACES[name].command == command:
                text = written(
                    text, name, body(PLACES[name], shown(PLACES[name], found[PLACES[name].table]))
                )
        DOCUMENT.write_text(text)
        print(f"{command}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
