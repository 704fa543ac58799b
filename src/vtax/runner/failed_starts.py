"""Ends a run when no guest starts any more, instead of failing all its trials."""

from __future__ import annotations

from vtax.errors import ImageError, PlatformError
from vtax.messages import Note
from vtax.runner.plan import Plan

MAX_FAILED = 3
"""Starts that fail in a row, on every platform of the plan: then the host or the image is to blame."""


class FailedStarts:
    """Recent failed starts of a run's guests."""

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
            raise PlatformError(
                Note(
                    "no-guest-starts",
                    count=len(self._failed),
                    error=error if isinstance(error, Note) else error.splitlines()[0],
                ),
                hint=Note("hint-doctor"),
            )
