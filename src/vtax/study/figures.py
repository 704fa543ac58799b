"""`[[figure]]`: a figure or table of the publication that a study repeats, as data that a run is drawn by.

A figure selects cells of the study, as `[[claim.check]]` does, and says what is drawn along which axis.
`report/answers/figures/compute.py` evaluates it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM
from vtax.question import Selection
from vtax.study.claims import Where
from vtax.study.fields import Name, StudyTable, as_tuple, disagreement

TEST, QUANTITY = "test", "quantity"
NAMED_AXES = (PLATFORM, TEST, HOST, BENCHMARK, METRIC, QUANTITY)
"""Names of axes beside factors."""
Quantity = Literal["value", "efficiency", "largest_cv"]
Names = Annotated[list[str], Field(min_length=1)]


class FigureTable(StudyTable):
    """`[[figure]]`: one figure or table of the publication."""

    id: Name = Field(description="its number in the publication, such as figure-5.1")
    title: str = Field(min_length=1, description="what it shows, in English")
    title_pt: str = Field(min_length=1, description="the same in Portuguese")
    kind: Literal["bars", "lines", "heatmap", "table"] = Field(
        description="bars: grouped by series; lines: over numbers; heatmap: x by y; table: benchmarks with their "
        "metrics by platforms (x = 'platform'), or platforms by metrics (x = 'metric')"
    )
    benchmark: str | Names = Field(description="label of the benchmark, or several")
    metric: str | Names = Field(description="metric, or several")
    where: Where = Field(
        default_factory=dict, description="factor -> level or levels; other points are left out"
    )
    platforms: list[str] = Field(
        default_factory=list, description="the only ones that are drawn; absent: all"
    )
    without: list[str] = Field(default_factory=list, description="platforms that are left out")
    host: int | None = Field(
        None,
        ge=1,
        description="the only host that is drawn, by its number in a merged run; absent: all together",
    )
    x: str = Field(
        PLATFORM,
        description="platform, test (number of the trial), host, benchmark, metric, or a factor",
    )
    y: str | None = Field(None, description="factor of the rows of a heatmap")
    series: str = Field(PLATFORM, description="what colours and symbols stand for: as x")
    panel: str | None = Field(
        None, description="one drawing for each: platform, benchmark, metric, quantity, a factor"
    )
    quantity: Quantity | list[Quantity] = Field(
        "value",
        description="value: of the metric; efficiency: ratio to the baseline at the same point, of times its "
        "inverse; largest_cv: of tables",
    )
    log: list[Literal["x", "y"]] = Field(
        default_factory=list, description="axes with a logarithmic scale"
    )
    statistic: Literal["mean", "sd", "cv", "t_interval"] = Field(
        "mean",
        description="what the publication states beside the mean of all tests: nothing, standard deviation, "
        "coefficient of variation, or Student's t-interval",
    )
    note: str = Field("", description="what is chosen here, or to beware of")
    left_out: Where = Field(
        default_factory=dict,
        description="factor -> levels of `where` that --scale left out; written by vtax run",
    )

    @model_validator(mode="after")
    def _axes_agree(self) -> FigureTable:
        if (self.y is not None) != (self.kind == "heatmap"):
            raise disagreement("a heatmap needs y, and no other kind has it", "y")
        if "largest_cv" in self.quantities and not self.is_of_largest_cv:
            raise disagreement("quantity = 'largest_cv' is of a table, and alone", "quantity")
        if self.kind == "table" and (
            self.x not in (PLATFORM, METRIC) or self.panel or len(self.quantities) > 1
        ):
            raise disagreement(
                "a table is of one quantity, with x = 'platform' or 'metric' and no panel", "kind"
            )
        if self.log and self.kind != "lines":
            raise disagreement("only lines have logarithmic axes", "log")
        if len(self.quantities) > 1 and self.panel != QUANTITY:
            raise disagreement("several quantities need panel = 'quantity'", "panel")
        for name, names in ((BENCHMARK, self.benchmarks), (METRIC, self.metrics)):
            if len(names) > 1 and name not in self.axes and self.kind != "table":
                raise disagreement(
                    f"several of {name} are drawn at one place; name it as x, series or panel", name
                )
        if TEST in (self.series, self.panel, self.y):
            raise disagreement("test can be x alone", "x")
        if self.x == TEST and self.kind != "lines":
            raise disagreement("x = 'test' is drawn with lines", "kind")
        return self

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The labels, in order."""
        return as_tuple(self.benchmark)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, in order."""
        return as_tuple(self.metric)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """The quantities, in order."""
        return as_tuple(self.quantity)

    @property
    def is_of_largest_cv(self) -> bool:
        """Whether it is a table of the largest coefficients of variation, one of all points of a benchmark."""
        return self.kind == "table" and self.quantities == ("largest_cv",)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names that something is drawn along, each once: names of NAMED_AXES and factors."""
        axes: list[str] = []
        for axis in (self.panel, self.x, self.y, self.series):
            if axis is not None and axis not in axes:
                axes.append(axis)
        return tuple(axes)

    @property
    def selection(self) -> Selection:
        """The cells that `where` leaves."""
        return Selection.of(self.where)

    def shows_platform(self, name: str) -> bool:
        """Return whether cells of a platform are drawn."""
        return (not self.platforms or name in self.platforms) and name not in self.without
