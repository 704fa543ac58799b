"""Energy of the processors by RAPL, through powercap (Documentation/power/powercap/powercap.rst of Linux).

A zone counts microjoules up to a range, then from zero again, after some minutes of full load.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vtax.counters import table
from vtax.messages import Note

ZONES = "sys/class/powercap"
_MICROJOULES = 1e6


class Energy:
    """The zones of this host, whose counts only grow from one reading to the next."""

    def __init__(self, root: Path = Path("/")) -> None:
        """paths: of the files to read."""
        self._zones = _zones(root)
        self.paths = tuple(self._zones)
        self._last: dict[Path, int] = {}
        self._wrapped: dict[Path, int] = {}

    def counted(self, files: Mapping[Path, bytes | None]) -> dict[str, float]:
        """Return joules by the names of counters.table, zones of one kind together; nothing where no zone can be read.

        files: the content of `paths`; of several readings in the order they were made.
        """
        energy: dict[str, float] = {}
        for zone, (counter, largest) in self._zones.items():
            text = (files.get(zone) or b"").strip()
            if not text.isdigit():
                continue
            value = int(text)
            if value < self._last.get(zone, 0):
                self._wrapped[zone] = self._wrapped.get(zone, 0) + largest
            self._last[zone] = value
            joules = (value + self._wrapped.get(zone, 0)) / _MICROJOULES
            energy[counter.name] = energy.get(counter.name, 0.0) + joules
        return energy


def reason_unavailable(root: Path = Path("/")) -> str:
    """Return why this host's energy is not counted; empty when it is."""
    if not (root / ZONES).is_dir():
        return Note("no-powercap")
    if not any(_number(path) is not None for path in Energy(root).paths):
        return Note("no-rapl-zone")
    return ""


def _zones(root: Path) -> dict[Path, tuple[table.Counter, int]]:
    counter_by_file = {}
    for zone in sorted((root / ZONES).glob("intel-rapl:*")):
        name, largest = _text(zone / "name"), _number(zone / "max_energy_range_uj")
        counter = table.ENERGY.get(name.partition("-")[0])
        if counter is not None:
            counter_by_file[zone / "energy_uj"] = (counter, largest or 0)
    return counter_by_file


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isascii() and text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
