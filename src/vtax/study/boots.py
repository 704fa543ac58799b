"""`[[boot]]`: boots of the host that one study measures in, such as Linux alone and Linux under Xen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from vtax.study import limits
from vtax.study.fields import Name, StudyTable, disagreement

if TYPE_CHECKING:
    from vtax.study.model import DesignTable

DEFAULT_BLOCKS = 5  # study.model.DesignTable.blocks


class BootTable(StudyTable):
    """`[[boot]]`: an entry of the boot loader, and the platforms that run in it."""

    name: Name
    entry: str = Field(min_length=1, description="title or id of the boot loader's entry")
    platforms: list[str] = Field(
        min_length=1,
        max_length=limits.MAX_PLATFORMS,
        description="platforms that are measured in this boot",
    )


def with_sessions(data: Any) -> Any:
    """Return the design of a study with boots that names no number of sessions: one of each block.

    In sequential order there is one, in which every boot is made once.
    """
    if not isinstance(data, Mapping) or not data.get("boot"):
        return data
    design = data.get("design", {})
    if not isinstance(design, Mapping) or "sessions" in design:
        return data
    if design.get("order") == "sequential":
        return data
    return {**data, "design": {**design, "sessions": design.get("blocks", DEFAULT_BLOCKS)}}


def check(
    boots: Sequence[BootTable], platforms: Sequence[str], design: DesignTable, must_match: object
) -> None:
    """Raise disagreement for boots that do not fit the study's platforms, design or must_match."""
    if not boots:
        return
    names = [boot.name for boot in boots]
    entries = [boot.entry for boot in boots]
    for number, boot in enumerate(boots):
        if boot.name in names[:number]:
            raise disagreement(
                f"there are two boots of the name {boot.name!r}", "boot", number, "name"
            )
        if boot.entry in entries[:number]:
            raise disagreement(f"two boots have the entry {boot.entry!r}", "boot", number, "entry")
    for platform in platforms:
        own_boots = [boot.name for boot in boots if platform in boot.platforms]
        if len(own_boots) != 1:
            where = f"the boots {' and '.join(own_boots)}" if own_boots else "no [[boot]]"
            raise disagreement(
                f"{platform} is in {where}; a platform is measured in one boot", "boot"
            )
    _check_design(design, must_match)


def _check_design(design: DesignTable, must_match: object) -> None:
    if not design.rule_class.has_known_end or design.budget is not None:
        raise disagreement(
            "a study of several boots needs stop = 'fixed' without a budget", "design", "stop"
        )
    if design.sessions == 1 and design.blocks > 1 and design.order == "randomized":
        what = "with one session every boot is made once, and what a boot changes is part of the difference"
        raise disagreement(
            f"{what}; leave sessions out for boots of its own in every block", "design", "sessions"
        )
    if must_match:
        raise disagreement(
            "must_match compares guests of one boot, and the study has several", "must_match"
        )
