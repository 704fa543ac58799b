"""Finds views: modules that register one, of this package, of files and of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from vtax.host.plugins import Origin, discover, origins
from vtax.report.views.base import View

DEFAULT = "result"


@cache
def views() -> Mapping[str, View]:
    """Return all views by name, the one that is shown when none is asked for first."""
    views_by_name: Mapping[str, View] = discover("view", View)
    return dict(
        sorted(
            views_by_name.items(),
            key=lambda name_and_view: (
                name_and_view[0] != DEFAULT,
                not name_and_view[1].place,
                name_and_view[0],
            ),
        )
    )


def foreign() -> Mapping[str, Origin]:
    """Return where views that vtax does not ship come from, by name."""
    return origins("view", View)


def in_reports() -> list[View]:
    """Return the views that a report is made of, in its order."""
    return sorted((view for view in views().values() if view.place), key=lambda view: view.place)
