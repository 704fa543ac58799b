"""Sets the boot that a run needs next, for the next boot of its host alone; the controller reboots the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from vtax.campaign.host_runs import RequestedRun, boots_of, run_of
from vtax.described import Means
from vtax.errors import NotFound
from vtax.host import boot_loaders
from vtax.host.lock import measuring_lock


@dataclass(frozen=True)
class NextBoot:
    """Answer of `vtax host boot`."""

    id: Annotated[str, Means("id of the run; empty for none")]
    boot: Annotated[str, Means("boot of the study that this host is in; empty for none")]
    next_boot: Annotated[
        str, Means("boot that is set for the next time alone; empty where this one will do")
    ]
    entry: Annotated[str, Means("its entry of the boot loader")] = ""


def set_next_boot(requested: RequestedRun) -> NextBoot:
    """Set the entry of the boot that a run needs next, unless this boot of the host will do.

    Raises NotFound without such a run, Busy while one measures, and VtaxError for what the boot loader refuses.
    """
    with measuring_lock(f"vtax host boot {requested.id}"):
        run = run_of(requested)
        if run is None:
            raise NotFound(
                f"no run of {requested.id} has begun here", hint="vtax host run begins it"
            )
        current_boot, next_boot = boots_of(requested, run.name)
        if not next_boot:
            return NextBoot(requested.id, current_boot.name, "")
        entry = current_boot.entries[next_boot]
        boot_loaders.loader().set_next(entry)
        return NextBoot(requested.id, current_boot.name, next_boot, entry.id)


def no_next_boot() -> NextBoot:
    """Set no entry: the next boot of this host is its default. Raises Busy while a run measures."""
    with measuring_lock("vtax host boot"):
        return NextBoot("", "", "")
