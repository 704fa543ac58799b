"""How soon a run decides: comparisons with a word, and widths of intervals, after its first minutes.

A stored run is judged anew by its whole blocks of the first minutes alone, by its own rule.

    vtax run tour --budget 10min
    .venv/bin/python bench/decided.py [RUN] [--minutes 1,2,3,5,10] [--json]

`speed` and `CPU` are comparisons of primary metrics and of host CPU per unit of work that have a word (slower, faster,
equivalent, at most the margin; likewise for costs), of all. Half-widths (percent, 95 %) are medians over the platforms
that are not emulated.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from vtax.host.home import Home
from vtax.report.analysis.result import judged_run
from vtax.report.analysis.values import Section, every_row
from vtax.store.query import RunData, load
from vtax.store.store import LAST, Store


def first_blocks(data: RunData, until: float) -> RunData:
    """Return the data of a run as if it had ended at a moment: its blocks that were whole by then."""
    late = data.trials.block[data.trials.started_at + data.trials.outside_s > until]
    blocks = int(late.min()) if late.size else int(data.trials.block.max()) + 1
    return data.of_trials(data.trials.block < blocks)


def judged_sections(sections: tuple[Section, ...]) -> Iterator[tuple[str, Section]]:
    """Yield the sections that have an answer, with what it is about."""
    for section in sections:
        if section.metric.is_primary:
            yield "speed", section
        elif section.metric.name.startswith("host_cpu_per_"):
            yield "CPU", section


def line(data: RunData, minutes: float) -> dict[str, Any]:
    """Return what is decided after so many minutes from the first trial on."""
    part = first_blocks(data, float(data.trials.started_at.min()) + minutes * 60)
    found = judged_run(part)
    decided: defaultdict[str, int] = defaultdict(int)
    all_of: defaultdict[str, int] = defaultdict(int)
    widths: defaultdict[str, list[float]] = defaultdict(list)
    for kind, section in judged_sections(found.sections):
        for _, _, row in every_row((section,)):
            if row.platform.is_baseline:
                continue
            all_of[kind] += 1
            decided[kind] += row.verdict is not None and row.verdict.kind != "undecided"
            if row.ratio is not None and kind == "speed" and "emulated" not in row.platform.marks:
                widths[section.name].append(row.ratio.half_width * 100)
    return {
        "minutes": minutes,
        "blocks": found.blocks,
        "speed": [decided["speed"], all_of["speed"]],
        "CPU": [decided["CPU"], all_of["CPU"]],
        "half_widths": {name: statistics.median(each) for name, each in widths.items()},
    }


def main() -> None:
    """Print a line for each number of minutes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", default=LAST)
    parser.add_argument("--minutes", default="1,2,3,5,10")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with Store.open(Home.from_environment().store_url) as store:
        data = load(store.engine, store.open_run(arguments.run))
        lines = [line(data, float(minutes)) for minutes in arguments.minutes.split(",")]
    if arguments.json:
        print(json.dumps(lines))
        return
    for each in lines:
        widths = ", ".join(f"{name} {width:.1f}" for name, width in each["half_widths"].items())
        print(
            f"{each['minutes']:g} min: {each['blocks']} blocks; "
            f"speed {each['speed'][0]} of {each['speed'][1]}, CPU {each['CPU'][0]} of {each['CPU'][1]}; "
            f"half-widths {widths}"
        )


if __name__ == "__main__":
    main()
