"""What vtax 0.1 stored is shown as vtax 0.1 showed it: the same figures, under the names of today.

The store is of a real run (native, LXC and nspawn; sysbench and iperf3 over two interfaces), without raw outputs. The
views are the JSON that the release which made it printed for each of its views.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import output_of

STORED = Path(__file__).parents[1] / "unit" / "fixtures" / "store-0.1"
VIEWS: dict[str, Any] = json.loads(lzma.decompress((STORED / "views.json.xz").read_bytes()))
RENAMED = {
    "cards": "interfaces", "cure": "hint", "trouble": "reason", "took_s": "duration_s",
    "shortfalls": "missed_targets",
    "interval_least_mbit_s": "interval_min_mbit_s", "interval_most_mbit_s": "interval_max_mbit_s",
    "guest_and_layer": "layer", "guest_kernel": "guest", "furthest_off_s": "max_offset_s",
    "lost": "drops", "lost_packets": "drops", "used": "effective", "link.lost.packets": "link.drops.packets",
}  # fmt: skip
GONE = {"pairs"}  # a setting of another topology
SENTENCES = {"text", "texts"}  # of answers, interactions and warnings: the figures are beside them
REPLACED = {"blocks_needed"}  # of verdicts: a range in place of one number
WORDS = {"(not shown)": "(not reported)", "(only what is common)": "(common items only)"}


def name_of(key: str) -> str:
    """The name that a key of the former release has now."""
    return f"interface.{key.removeprefix('card.')}" if key.startswith("card.") else RENAMED.get(key, key)


def differences(before: Any, now: Any, place: str) -> Iterator[str]:
    """Whatever was printed before and is not printed now with the same value; what is new is left out."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key, value in before.items():
            if key in GONE | SENTENCES or (key in REPLACED and "verdict" in place):
                continue
            if name_of(key) not in now:
                yield f"{place}: no {name_of(key)}"
            elif key != "code" or not place.startswith("show.warnings"):  # `statistics` has several codes now
                yield from differences(value, now[name_of(key)], f"{place}.{name_of(key)}")
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{place}: {len(before)} values before, {len(now)} now"
        for number, (one, other) in enumerate(zip(before, now, strict=False)):
            yield from differences(one, other, f"{place}[{number}]")
    elif isinstance(before, float) and isinstance(now, float):
        if before != pytest.approx(now, rel=1e-9, abs=0):
            yield f"{place}: {before} before, {now} now"
    elif WORDS.get(str(before), before) != now:
        yield f"{place}: {before!r} before, {now!r} now"


@pytest.mark.parametrize("view", VIEWS)
def test_a_stored_run_of_the_first_release_has_the_figures_it_had(
    view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store.sqlite"
    store.write_bytes(lzma.decompress((STORED / "store.sqlite.xz").read_bytes()))
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{store}")
    options = [] if view == "show" else [view]
    now = json.loads(output_of("show", "old-1", *options, "--json"))
    assert list(differences(VIEWS[view], now, view)) == []
