"""Why a platform cannot carry a point of a study, which is then not tested there."""

from __future__ import annotations

from vtax.errors import BadInput
from vtax.image.image import Image
from vtax.platforms.base import Platform
from vtax.runner import memory, networks, tuning
from vtax.runner.points import Point
from vtax.study.units import about_size


def why_not(platform: Platform, point: Point, image: Image, source: str) -> BadInput | None:
    """Why a platform cannot do what a point requests; None when it can. source: the study."""
    return (
        tuning.why_not(platform, point.tuning, source)
        or networks.why_not(platform, point, source)
        or _why_not_started(platform, point, image, source)
        or _why_not_several(platform, point, source)
        or _why_not_cold(platform, point, source)
    )


def why_not_here(platform: Platform, point: Point, memory_bytes: int, source: str) -> BadInput | None:
    """Why this host cannot run a point on a platform, as another host may; None when it can.

    It lacks what the point's level of tuning needs, or the memory for its guests, of so much each.
    """
    if error := tuning.reason_unavailable(point.tuning, source):
        return error
    available = memory.of(platform)
    if point.colocation.total == 1 or available.fits(point.guests, memory_bytes):
        return None
    return BadInput(
        f"{point.guests} guests of {about_size(memory_bytes)} at once need {about_size(point.guests * memory_bytes)} "
        f"of memory, and {available}",
        where=f"{source}: [[benchmark]] {point.label}",
        hint="use fewer guests, or less memory in [guest]",
    )


def _why_not_several(platform: Platform, point: Point, source: str) -> BadInput | None:
    if point.guests == 1 or platform.driver.uses_image:
        return None
    return BadInput(
        f"{platform.name} is one machine of yours: vtax starts no second one",
        where=f"{source}: key platforms, and [[benchmark]] {point.label}",
        hint=f"take {platform.name} out of studies with several guests",
    )


def _why_not_cold(platform: Platform, point: Point, source: str) -> BadInput | None:
    if not point.is_cold or platform.driver.writes_below_directory:
        return None
    what = (
        f"files of {platform.name} are on a machine of yours, where vtax cannot drop them from the page cache of "
        "the host"
    )
    if platform.driver.uses_image:
        what = (
            f"files of {platform.name} are in the storage of its daemon, where vtax cannot drop them from the page "
            "cache of the host"
        )
    return BadInput(
        what,
        where=f"{source}: key platforms, and [[benchmark]] {point.label}",
        hint="measure it without a cold cache, or take another platform",
    )


def _why_not_started(platform: Platform, point: Point, image: Image, source: str) -> BadInput | None:
    """Why a platform's starts cannot be timed, or not cold; None when they can."""
    benchmark, driver = point.benchmark, platform.driver
    if not benchmark.stages:
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
