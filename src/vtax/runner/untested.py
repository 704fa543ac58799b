"""Why a platform cannot carry a point of a study, which is then not tested there."""

from __future__ import annotations

from vtax.errors import BadInput
from vtax.guest.guest import ENVIRONMENT
from vtax.image import own
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import Platform
from vtax.runner import memory
from vtax.runner.networks import network_obstacle
from vtax.runner.points import Point
from vtax.runner.tuning import reason_unavailable, tuning_obstacle
from vtax.units import about_size


def platform_obstacle(
    platform: Platform, point: Point, image: Image, source: str
) -> BadInput | None:
    """Return why a platform cannot do what a point requests; None when it can. source: the study."""
    return (
        tuning_obstacle(platform, point.tuning, source)
        or _why_not_placed(platform, point, source)
        or network_obstacle(platform, point, source)
        or _why_not_started(platform, point, image, source)
        or _why_not_in_image(platform, point, image, source)
        or _why_not_several(platform, point, source)
        or _why_not_cold(platform, point, source)
    )


def host_obstacle(
    platform: Platform, point: Point, memory_bytes: int, source: str
) -> BadInput | None:
    """Return why this host cannot run a point on a platform, as another host may; None when it can.

    It lacks what the point's level of tuning needs, or the memory for its guests, of so much each.
    """
    error = reason_unavailable(point.tuning, source)
    if error:
        return error
    available = memory.platform_memory(platform)
    if point.colocation.total == 1 or available.fits(point.guests, memory_bytes):
        return None
    return BadInput(
        Note(
            "guests-memory",
            guests=point.guests,
            size=about_size(memory_bytes),
            total=about_size(point.guests * memory_bytes),
            available=str(available),
        ),
        where=f"{source}: [[benchmark]] {point.label}",
        hint=Note("hint-fewer-guests"),
    )


def _why_not_placed(platform: Platform, point: Point, source: str) -> BadInput | None:
    """Why /scratch of a platform's guests cannot lie where a level of the factor wants it; None when it can."""
    if "scratch" not in point.levels or platform.scratch(point.scratch) == point.scratch:
        return None
    return BadInput(
        Note("cannot-place-scratch", name=platform.name, level=point.scratch),
        where=f"{source}: key scratch",
        hint=Note("hint-level-or-platform", name=platform.name),
    )


def _why_not_several(platform: Platform, point: Point, source: str) -> BadInput | None:
    if point.guests == 1 or platform.driver.uses_image:
        return None
    return BadInput(
        Note("one-machine", name=platform.name),
        where=f"{source}: key platforms, and [[benchmark]] {point.label}",
        hint=Note("hint-one-machine", name=platform.name),
    )


def _why_not_cold(platform: Platform, point: Point, source: str) -> BadInput | None:
    if not point.is_cold or platform.driver.writes_below_directory:
        return None
    what = Note("files-elsewhere", name=platform.name)
    if platform.driver.uses_image:
        what = Note("files-in-daemon", name=platform.name)
    return BadInput(
        what,
        where=f"{source}: key platforms, and [[benchmark]] {point.label}",
        hint=Note("hint-warm-or-other"),
    )


def _why_not_in_image(
    platform: Platform, point: Point, image: Image, source: str
) -> BadInput | None:
    """Return why an image of the user's cannot run a benchmark: its program is not there. None when it can."""
    if not image.is_own or not platform.driver.uses_image:
        return None
    try:
        programs = point.programs("guest")
    except BadInput:  # the guest's size decides, and the point was checked with it
        return None
    for program in programs:
        if not own.has_program(image.tree, program, ENVIRONMENT["PATH"].split(":")):
            return BadInput(
                Note("program-not-in-image", program=program, label=point.label),
                where=f"{source}: [[benchmark]] {point.label}",
                hint=Note("hint-program-of-image"),
            )
    return None


def _why_not_started(
    platform: Platform, point: Point, image: Image, source: str
) -> BadInput | None:
    """Return why a platform's starts cannot be timed, or not cold; None when they can."""
    benchmark, driver = point.benchmark, platform.driver
    if not benchmark.stages:
        return None
    where = f"{source}: key platforms, and [[benchmark]] {point.label}"
    if not driver.uses_image:
        return BadInput(
            Note("machine-not-started", name=platform.name),
            where=where,
            hint=Note("hint-out-of", name=platform.name, name2=benchmark.name),
        )
    if benchmark.is_cold(point.parameters) and driver.image_files(image) is None:
        return BadInput(
            Note("image-in-daemon", name=platform.name), where=where, hint=Note("hint-warm-image")
        )
    return None
