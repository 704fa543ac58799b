"""Why a platform cannot carry a point of a study, which is then not tested there."""

from __future__ import annotations

from vtax.benchmarks.base import StartsGuests
from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.platforms.base import Platform
from vtax.runner import networks
from vtax.runner.points import Point


def why_not(platform: Platform, point: Point, image: Image, source: str) -> BadInput | None:
    """Why a platform cannot do what a point requests; None when it can. source: the study."""
    return networks.why_not(platform, point, source) or _why_not_started(platform, point, image, source)


def _why_not_started(platform: Platform, point: Point, image: Image, source: str) -> BadInput | None:
    """Why a platform's starts cannot be timed, or not cold; None when they can."""
    benchmark, driver = point.benchmark, platform.driver
    if not isinstance(benchmark, StartsGuests):
        return None
    where = f"{source}: key platforms, and [[benchmark]] {point.label}"
    if not driver.uses_image:
        return BadInput(
            f"{platform.name} is a machine of yours: vtax starts an agent there, not the machine",
            where=where,
            hint=f"take {platform.name} out of studies with {benchmark.name}",
        )
    if benchmark.is_cold(point.parameters) and driver.image_files(image) is None:
        return BadInput(
            f"the files of the image for {platform.name} are in the storage of its daemon, where vtax cannot drop "
            "them from the page cache",
            where=where,
            hint="use image = 'warm', or another platform",
        )
    return None
