"""The factor `tuning`: what its levels mean for a guest and for the host, and which platforms can follow them.

A level is one or two words. `default`: every vCPU runs where the host's scheduler puts it, and what shares the host's
kernel gets the time of as many CPUs as it has vCPUs. `pinned`: each vCPU on a host CPU of its own. `hugepages`: while
the guest lives, the host makes huge pages wherever it can; a virtual machine's memory is filled before it starts, and
its kernel uses huge pages, too. Without the factor everything is `pinned`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vtax.errors import BadInput
from vtax.guest.guest import Guest
from vtax.host import huge_pages
from vtax.host.journal import Journal, Registration
from vtax.messages import Note
from vtax.platforms.base import Platform, Resources

_HUGE = "hugepages"
_POLICY = huge_pages.POLICY / "enabled"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CANNOT = {"default": "cannot-unpin", "pinned": "cannot-pin", _HUGE: "cannot-huge-pages"}


def resources_at(level: str, pinned: Resources) -> Resources:
    """Return what a guest may use at a level (none: no such factor). pinned: what it may use when it is pinned."""
    words = level.split("+") if level else ["pinned"]
    huge = _HUGE in words
    if "pinned" in words:
        return replace(pinned, huge_pages=huge)
    return replace(pinned.unpinned(), huge_pages=huge)


def apply(level: str, journal: Journal) -> list[Registration]:
    """Set the host for guests of a level; returns what to release after them, last first. Raises PlatformError."""
    return huge_pages.turn_on(journal) if _HUGE in level.split("+") else []


def apply_inside(level: str, guest: Guest) -> None:
    """Have the kernel of a guest with one of its own do the same: left alone, it makes none in a small machine."""
    if _HUGE in level.split("+"):
        own_kernel = f'test "$(cat {_BOOT_ID})" != {_BOOT_ID.read_text().strip()}'
        guest.run(
            ["sh", "-c", f"{own_kernel} && test -w {_POLICY} && echo always >{_POLICY}"],
            timeout_s=30.0,
        )


def tuning_obstacle(platform: Platform, level: str, source: str) -> BadInput | None:
    """Return why a platform's guests cannot be started at a level (empty: no such factor); None when they can.

    source: the study.
    """
    if not level:
        return None
    refusal = None
    if getattr(platform.options, "cpu_limit", "cpuset") != "cpuset":
        refusal = Note("tuning-and-cpu-limit", name=platform.name)
    else:
        for word in _needed(level):
            if word not in platform.driver.tunings:
                refusal = Note(_CANNOT[word], name=platform.name, level=level)
                break
    if refusal is None:
        return None
    hint = Note("hint-level-or-platform", name=platform.name)
    return BadInput(refusal, where=f"{source}: key tuning", hint=hint)


def reason_unavailable(level: str, source: str) -> BadInput | None:
    """Return why no guest on this host can be started at a level; None when some can. source: the study."""
    if _HUGE in level and not huge_pages.available():
        return BadInput(
            Note("no-huge-pages"),
            where=f"{source}: key tuning",
            hint=Note("hint-level", level=f"{level!r}"),
        )
    return None


def _needed(level: str) -> list[str]:
    words = level.split("+")
    return words if "pinned" in words or "default" in words else ["default", *words]
