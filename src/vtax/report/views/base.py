"""Base of a view: a name, what it is good for, its place in reports, and the function that makes its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtax.host.plugins import register
from vtax.report import document as doc
from vtax.report.analysis.source import Source


@dataclass(frozen=True)
class Options:
    """Options: what of a run is wanted.

    depth: what a terminal shows at once, everything, or all that belongs into a report. mapped:
    platform of a publication -> platform of the run that stands for it, in claims and figures.
    """

    depth: Literal["brief", "all", "report"] = "brief"
    mapped: Mapping[str, str] = field(default_factory=dict)

    @property
    def every_metric(self) -> bool:
        """Whether metrics that are not primary are wanted too."""
        return self.depth == "all"


REPORT = Options("report")


@dataclass(frozen=True)
class View:
    """A look at a run.

    name: of the option of `vtax show` and of the key in its JSON. title: the heading in reports. help: what the
    option shows. document: makes it. place: in reports, in ascending order; 0 for none. has_chapters: whether its
    sections are chapters of a report, rather than parts of one. command: the one of vtax that shows it, so that
    `vtax show` has no option for it. about: what a report says of the chapter, where help speaks of options.
    """

    name: str
    title: doc.Message
    help: doc.Message
    document: Callable[[Source, Options], doc.Document]
    place: int = 0
    has_chapters: bool = False
    command: str = ""
    about: doc.Message | None = None


def register_view(view: View) -> View:
    """Make a view known. Returns it."""
    register("view", view)
    return view
