"""Watches over the trials of a run: starts that fail, trials that spoil their guest, settings that differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vtax.benchmarks.base import Outcome
from vtax.errors import ImageError, PlatformError
from vtax.messages import Note
from vtax.runner.plan import Plan, PlannedCell

MAX_FAILED = 3
"""Starts that fail in a row, on every platform of the plan: then the host or the image is to blame."""


class FailedStarts:
    """Recent failed starts of a run's guests. Ends a run when no guest starts, instead of failing all its trials."""

    def __init__(self, plan: Plan) -> None:
        self._platforms = {cell.platform.name for cell in plan.cells}
        self._image = plan.image
        self._had_image = plan.image.directory.exists()
        self._failed: list[str] = []

    def succeeded(self) -> None:
        """Note that a guest started: what failed before was that platform's own fault."""
        self._failed.clear()

    def failed(self, platform: str, error: str) -> None:
        """Note that a guest did not start. Raises ImageError or PlatformError when none can any more."""
        if self._had_image and not self._image.directory.exists():
            raise ImageError(
                f"the guest image {self._image.key} was removed during the run; no guest starts without it",
                where=str(self._image.directory),
                hint="sudo vtax image build",
            )
        self._failed.append(platform)
        if len(self._failed) >= MAX_FAILED and self._platforms <= set(self._failed):
            cause = error if isinstance(error, Note) else error.splitlines()[0]
            raise PlatformError(
                Note("no-guest-starts", count=len(self._failed), error=cause),
                hint=Note("hint-doctor"),
            )


class TrialFailures:
    """The trials of a run that failed: which of them leave a guest that is not trusted."""

    def __init__(self) -> None:
        self._in_fresh_guests: set[str] = set()  # cells

    def spoils_guest(self, cell: str, error: str, *, is_first: bool) -> bool:
        """Return whether a fresh guest is needed after a trial.

        The guest is not the cause where the cell fails in a fresh one too.

        cell: its key.
        error: empty when the trial is good.
        is_first: it was the guest's first trial.
        """
        if not error:
            self._in_fresh_guests.discard(cell)
        elif is_first:
            self._in_fresh_guests.add(cell)
        return bool(error) and cell not in self._in_fresh_guests


class SameSettings:
    """Effective settings that every platform should have alike: a difference is a warning of the run.

    A tool may choose its code by what the (virtual) CPU says of itself, as OpenBLAS does. What differs between
    platforms is then that choice too, which no ratio shows. A resumed run compares the trials that it makes itself.
    """

    def __init__(self) -> None:
        # (point, setting) -> (platform, value)
        self._first: dict[tuple[str, str], tuple[str, Any]] = {}

    def differences(self, cell: PlannedCell, outcome: Outcome) -> Iterator[Note]:
        """Yield a note for each setting that differs from that of the first platform with the same point."""
        for name in cell.point.benchmark.same_everywhere:
            value, platform = outcome.effective.get(name), cell.platform.name
            other, known = self._first.setdefault((cell.point.key, name), (platform, value))
            if value != known and platform != other:
                yield Note(
                    "different-settings",
                    label=cell.point.label,
                    name=name,
                    known=str(known),
                    other=other,
                    found=str(value),
                    platform=platform,
                )
