"""Room for the files of trials: on the disk of virtual machines, and in the caches below and above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from vtax.benchmarks.base import Context
from vtax.errors import BadInput
from vtax.host.file_systems import free_bytes_below, memory_below
from vtax.host.home import Home
from vtax.image.export import DISK_BYTES, check_host_has, free_bytes
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import Platform
from vtax.runner import memory
from vtax.runner.points import Point
from vtax.store.records import HOST_CACHE
from vtax.study.load import LoadedStudy
from vtax.units import about_size


def problems(
    loaded: LoadedStudy, points: Sequence[Point], image: Image, platforms: Sequence[Platform]
) -> Iterator[BadInput]:
    """Yield a problem for a disk that finds no room on this host, and each benchmark whose files a disk cannot hold.

    platforms: those of the study; there is no problem of a disk where no guest has one.
    """
    guest = loaded.study.guest
    yield from _without_room(loaded, points)
    if all(platform.disk is None for platform in platforms):
        return
    where = f"{loaded.source}: [guest], key disk"
    size = free = guest.disk or DISK_BYTES
    try:
        check_host_has(size, Home.from_environment().guests)
    except BadInput as error:
        error.where = where
        yield error
        return
    with suppress(OSError):  # no image yet, or only root can see it: then at most that
        size, free = image.disk.stat().st_size, free_bytes(image.disk)
    room = f"has {about_size(size)}"
    if free < size:
        room += f", {about_size(free)} free"
    largest: dict[str, int] = {}
    for point in points:
        files_bytes = _files_bytes(point, _context(loaded))
        largest[point.label] = max(largest.get(point.label, 0), files_bytes)
    for label, needed in largest.items():
        if needed > free:
            yield BadInput(
                f"the files of {label} need {about_size(needed)}, and the disk of virtual machines {room}",
                where=where,
                hint=f'disk = "{-(-(needed + size - free) // 1024**3) + 1}GiB" in [guest], or smaller files',
            )


def _without_room(loaded: LoadedStudy, points: Sequence[Point]) -> Iterator[BadInput]:
    """Yield a problem for each benchmark whose guests together write more files than the host's disk has room for.

    A benchmark refuses the files of one guest itself. The guests of a block that run at once have theirs at once.
    """
    directory = Home.from_environment().guests
    free = free_bytes_below(directory)
    needed: dict[str, tuple[int, int]] = {}
    for point in points:
        guests = point.colocation.guests
        together = guests * (_files_bytes(point, _context(loaded)) + _data_bytes(point))
        needed[point.label] = max(needed.get(point.label, (0, 0)), (together, guests))
    for label, (together, guests) in needed.items():
        if free is not None and guests > 1 and together > free:
            yield BadInput(
                f"the files of {label} need {about_size(together)} in {guests} guests at once, and the disk of the guests "
                f"has {about_size(free)} free",
                where=f"{loaded.source}: [[benchmark]] {label}, key guests",
                hint="fewer guests, smaller files, or set VTAX_HOME to a directory on a larger disk",
            )


def _data_bytes(point: Point) -> int:
    """Return about how many bytes of data every guest copies; 0 for a benchmark without data."""
    benchmark = point.benchmark
    return benchmark.data(point.parameters).size_bytes if benchmark.makes_data else 0


def memory_lines(study_points: Sequence[Point]) -> list[str]:
    """Return a line for the benchmarks of disks, where the files of guests are in memory."""
    home = Home.from_environment()
    memory_kind = memory_below(home.guests)
    of_disks = [point for point in study_points if point.benchmark.resource == "disk"]
    labels = [point.label for point in of_disks]
    in_memory = [point.label for point in of_disks if point.scratch == "memory"]
    if in_memory:
        return [
            f"{', '.join(dict.fromkeys(in_memory))}: /scratch is in memory: what is measured is memory, not a disk, "
            "and files count towards the memory of a guest"
        ]
    if not memory_kind or not labels:
        return []
    return [
        f"{', '.join(dict.fromkeys(labels))}: the files of guests are in memory, since VTAX_HOME ({home.root}) is on "
        f"{memory_kind}: what is measured is memory, not a disk; set VTAX_HOME to a directory on a disk"
    ]


def cache_lines(
    study_points: Sequence[Point], context: Context, available: Sequence[Platform]
) -> list[str]:
    """Return a line for each benchmark whose files fit a cache on some platforms and on others none.

    Guests are limited to the same memory, page cache included. Below the disk of a virtual machine may be the host's
    page cache, which that limit does not bound.
    """
    cached: list[str] = []
    others: list[str] = []
    for platform in available:
        if platform.driver.tunings and platform.driver.uses_image:
            has_cache = platform.disk is not None and platform.disk.cached
            (cached if has_cache else others).append(platform.name)
    if not cached or not others:
        return []
    sizes: dict[str, set[int]] = {}
    for point in study_points:
        needed = _bytes_in_host_cache(point, context)
        if needed:
            sizes.setdefault(point.label, set()).add(needed)
    lines = []
    for label, label_sizes in sizes.items():
        lines.append(
            f"{label}: files of {', '.join(map(about_size, sorted(label_sizes)))} do not fit the memory of a guest "
            f"({about_size(context.memory_bytes)}); below the disk of {', '.join(cached)} the page cache of this host "
            f"({about_size(memory.host_memory())}) holds them, and no cache does on {', '.join(others)}"
        )
    return lines


def host_cache_note(point: Point, context: Context, platform: Platform) -> Note | None:
    """Return the note of a trial whose files only the page cache below the guest's disk holds; None for another."""
    if platform.disk is None or not platform.disk.cached:
        return None
    needed = _bytes_in_host_cache(point, context)
    if not needed:
        return None
    return Note(
        HOST_CACHE,
        size=about_size(needed),
        guest=about_size(context.memory_bytes),
        host=about_size(memory.host_memory()),
    )


def _bytes_in_host_cache(point: Point, context: Context) -> int:
    """Return bytes of the files of a trial that do not fit a guest's memory and fit this host's; 0 for others."""
    needed = _files_bytes(point, context)
    return needed if context.memory_bytes < needed <= memory.host_memory() else 0


def _files_bytes(point: Point, context: Context) -> int:
    """Return bytes of the files of a trial; 0 for a benchmark that writes none."""
    return point.benchmark.files_bytes(point.parameters, context)


def _context(loaded: LoadedStudy) -> Context:
    return Context(loaded.study.guest.vcpus, loaded.study.guest.memory)
