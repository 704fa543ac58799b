"""Values of a publication's figure: the value of each place, as the publication computes it and from blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from vtax.described import BESIDE, Means, Only
from vtax.levels import BENCHMARK, METRIC
from vtax.report.analysis.claim_cells import Mapped
from vtax.store.records import MARKS
from vtax.study.figures import FigureTable, Quantity


@dataclass(frozen=True)
class Estimate:
    """A value with the bounds of an interval; None without one. Unit of the metric, or a ratio."""

    value: Annotated[float, Means("value")]
    low: Annotated[float | None, Means("bounds of its interval")] = None
    high: Annotated[float | None, Means("bounds of its interval")] = None


@dataclass(frozen=True)
class PublicationStatistic:
    """Statistic of a publication over all tests of a cell, taken as independent. sd, cv: NaN of one.

    drawn: the mean, with the bounds that the figure's statistic has.
    """

    n: Annotated[int, Means("tests that the left side is of", name="tests")]
    mean: Annotated[
        float, Means("mean of all tests, as if they were independent", name="test_mean")
    ]
    sd: Annotated[float, Means("standard deviation of them", name="test_sd")]
    cv: Annotated[float, Means("coefficient of variation of them", name="test_cv")]
    drawn: Annotated[
        Estimate,
        Means("bounds of `statistic`", name="test_low", take="low"),
        Means("bounds of `statistic`", name="test_high", take="high"),
    ]


@dataclass(frozen=True)
class Plotted:
    """One value of a figure. levels: factor -> level as written, with `benchmark` and `metric`.

    here: of this run, from blocks. tests: as the publication computes it.
    """

    platform: Annotated[str, Means("platform of the run")]
    there: Annotated[
        str, Means("what it stands for in the publication", name="publication_platform")
    ]
    levels: Mapping[str, str]
    unit: Annotated[str, Means("unit")]
    quantity: Annotated[Quantity, Means("`value`, `efficiency` or `largest_cv`")]
    host: Annotated[int, Means("the host of a merged run; 0 for all")] = 0
    test: Annotated[int, Means("number of a single test; 0 for all")] = 0
    blocks: Annotated[int, Means("blocks that the right side is of")] = 0
    here: Annotated[Estimate | None, BESIDE] = None
    tests: Annotated[PublicationStatistic | None, BESIDE] = None
    ratio: Annotated[
        Estimate | None,
        Means("ratio to the baseline, within blocks", name="ratio", take="value"),
        Means("bounds of its interval", name="ratio_low", take="low"),
        Means("bounds of its interval", name="ratio_high", take="high"),
    ] = None
    printed: Annotated[
        Estimate | None,
        Means("number that the publication prints", name="printed", take="value"),
        Means("bounds of its interval", name="printed_low", take="low"),
        Means("bounds of its interval", name="printed_high", take="high"),
    ] = None
    marks: Annotated[tuple[str, ...], MARKS] = ()
    is_other_quantity: Annotated[
        bool,
        Means(
            "whether trials measured something else than the study asks for", name="other_quantity"
        ),
    ] = False

    @property
    def benchmark(self) -> Annotated[str, Means("label of the benchmark")]:
        """Its label."""
        return self.levels[BENCHMARK]

    @property
    def metric(self) -> Annotated[str, Means("metric")]:
        """Its metric."""
        return self.levels[METRIC]

    @property
    def factors(self) -> Annotated[Mapping[str, str], Means("factor -> level", name="levels")]:
        """The levels of factors alone."""
        return {
            name: level for name, level in self.levels.items() if name not in (BENCHMARK, METRIC)
        }


@dataclass(frozen=True)
class Drawing:
    """A figure of the publication with what a run has for it. places: in the order of sections, points, platforms.

    single: of x = `test`, every test; places are then of whole cells. hosts: how many the run has.
    """

    figure: Annotated[
        FigureTable,
        Only(
            "id",
            "title",
            "title_pt",
            "kind",
            "x",
            "y",
            "series",
            "panel",
            "statistic",
            "note",
            "left_out",
            meaning="as the study has it",
        ),
    ]
    places: tuple[Plotted, ...]
    single: tuple[Plotted, ...]
    absent: Annotated[
        tuple[str, ...], Means("platforms of it, or of the publication, without a value")
    ]
    hosts: int
    mapped: Annotated[
        Mapped,
        Means("platform or host of the publication -> the one of the run that is drawn for it"),
    ] = field(default_factory=dict)

    @property
    def values(
        self,
    ) -> Annotated[tuple[Plotted, ...], Means("every value, those of single tests last")]:
        """All places."""
        return (*self.places, *self.single)

    @property
    def is_measured(
        self,
    ) -> Annotated[bool, Means("whether the run has a value of it", name="is_drawn")]:
        """Whether the run has a value for any place."""
        return any(place.here is not None or place.tests is not None for place in self.places)
