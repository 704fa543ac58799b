"""Studies with another design than their files have: how many blocks, in how many sessions, for how long."""

from __future__ import annotations

from typing import Any

from vtax.study.load import Chosen, LoadedStudy, load
from vtax.study.model import Study


def of_design(
    study: Study, blocks: int | None, sessions: int | None, budget: str | None
) -> dict[str, Any]:
    """Return what --blocks, --sessions and --budget change."""
    design: dict[str, Any] = {}
    if blocks is not None:
        no_budget = {"budget": None} if study.design.budget is not None else {}
        design = {
            "stop": "open" if study.design.stop == "open" else "fixed",
            "blocks": blocks,
            **no_budget,
        }
    if budget is not None:
        stop = {"stop": "budget"} if study.design.stop == "fixed" and blocks is None else {}
        design = {**design, **stop, "budget": budget}
    if sessions is not None:
        design = {**design, "sessions": sessions}
    return {"design": design} if design else {}


def redesigned(reference: str, scale: str, blocks: int) -> LoadedStudy:
    """Return a study as `vtax run --scale --blocks` measures it. blocks: 0 for as many as it has by itself.

    Raises BadInput as `load` does.
    """
    chosen = Chosen(scale)
    loaded = load(reference, chosen=chosen)
    return (
        load(reference, of_design(loaded.study, blocks, None, None), chosen) if blocks else loaded
    )
