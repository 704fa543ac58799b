"""The ranking of a run's platforms for a workload, as it is shown and exported; made by `recommendation`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.report import document as doc
from vtax.report.analysis.values import Analysis
from vtax.report.answers.recommend.workload import Missing, Unmeasured, Weighted
from vtax.stats.intervals import Interval
from vtax.store.records import MARKS, STATUS, PlatformRecord


@dataclass(frozen=True)
class Standing:
    """A platform in the ranking. With something missing score is a range, from the worst to the best of any platform
    there, and no error of measurement."""

    platform: Annotated[PlatformRecord, Means("its name", take="name")]
    score: Interval
    resources: Annotated[
        Mapping[str, Interval],
        Means("resource -> the score of it alone, as far as all of it was tested"),
    ]
    place: Annotated[
        tuple[int, int],
        Means(
            "its first and last place; a range where something was not tested on it, or on one that may be ahead"
        ),
    ]
    to_first: Annotated[
        Interval | None,
        Means(
            "score / that of the first, with intervals that hold for all platforms at once; null of the first, where "
            "it or the first has one unit, where something is missing, and where the first failed in more of its "
            "trials than another"
        ),
    ] = None
    missing: Annotated[tuple[Missing, ...], Means("what was not tested on it")] = ()
    needed: Annotated[
        float | None,
        Means(
            "ratio to the baseline from which what was not tested makes it the first",
            name="needed_to_be_first",
        ),
    ] = None
    units: Annotated[
        int,
        Means(
            "blocks (or sessions) of its figure that has the fewest: its intervals are from these"
        ),
    ] = 0
    has_left: Annotated[
        bool,
        Means("whether it left the run early, since a comparison was decided", name="left_early"),
    ] = False

    @property
    def marks(self) -> Annotated[tuple[str, ...], MARKS]:
        """The marks of the platform."""
        return self.platform.marks

    @property
    def known_score(
        self,
    ) -> Annotated[
        Interval | None,
        Means("score with its interval; null where something was not tested", name="score"),
    ]:
        """Relative to the baseline, 1 being as good."""
        return None if self.missing else self.score

    @property
    def score_range(
        self,
    ) -> Annotated[
        tuple[float, float] | None,
        Means("the score with what was not tested as the worst and the best of the run there"),
    ]:
        """None where nothing is missing."""
        return (self.score.low, self.score.high) if self.missing else None


@dataclass(frozen=True)
class Contribution:
    """Part of a resource in the lead of the first over the second."""

    resource: Annotated[str, Means("resource")]
    ratio: Annotated[Interval, Means("first / second there, higher is better")]
    factor: Annotated[
        float,
        Means(
            "what it contributes to the ratio of their scores: the ratio to the power of its share"
        ),
    ]


@dataclass(frozen=True)
class RankSwitch:
    """The weight of a resource, the others kept, at which another platform takes the first place."""

    resource: Annotated[str, Means("resource")]
    platform: Annotated[str, Means("platform that is the first there")]
    weight: Annotated[float, Means("weight of the resource, the others kept")]
    above: Annotated[bool, Means("whether it is the first above that weight, not below")]


@dataclass(frozen=True)
class Unranked:
    """A platform without any figure."""

    platform: Annotated[PlatformRecord, Means("its name", take="name")]
    reason: Annotated[doc.Inline, Means("why")]


@dataclass(frozen=True)
class Recommendation:
    """The ranking of a run's platforms for weights of its resources."""

    analysis: Analysis
    resources: Annotated[tuple[Weighted, ...], Means("resources of the run")]
    standings: Annotated[
        tuple[Standing, ...],
        Means("the platforms by place; of the same places, those that lack something behind"),
    ]
    reference: PlatformRecord | None
    baseline: Annotated[str, Means("baseline of the run")]
    unranked: Annotated[tuple[Unranked, ...], Means("platforms without any figure")]
    contributions: Annotated[
        tuple[Contribution, ...],
        Means("of first and second, what favours the first most before the others"),
    ]
    switches: Annotated[
        tuple[RankSwitch, ...], Means("weights at which another platform takes the first place")
    ]
    unmeasured: Annotated[
        tuple[Unmeasured, ...],
        Means("resources with a weight that no platform was ranked by", name="not_tested"),
    ]
    units: Annotated[
        int,
        Means(
            "the fewest blocks (or sessions) of a platform, without those that have at most half as many as the most"
        ),
    ]
    is_of_sessions: Annotated[bool, Means("whether intervals are from sessions, not from blocks")]
    confidence: Annotated[float, Means("confidence level of intervals")]
    warnings: Annotated[
        tuple[doc.Warning, ...],
        Means("those of the ranking, and those of the run that are about what was weighed"),
    ]
    link_limits_mbit_s: Annotated[
        tuple[float, ...],
        Means("rate limits of the links that the figures were measured through", unit="Mbit/s"),
    ]

    host_cpu: Annotated[
        Mapping[str, Interval],
        Means(
            "platform -> the host CPU that it takes for the same work, as a share of the baseline's: the geometric "
            "mean over the benchmarks; it is in no score unless `host-cpu` has a weight"
        ),
    ] = field(default_factory=dict)

    @property
    def status(self) -> Annotated[str, STATUS]:
        """Figures of a run that is not finished are those so far."""
        return self.analysis.status

    @property
    def blocks(self) -> Annotated[int, Means("whole blocks of the run")]:
        """Those of the whole run."""
        return self.analysis.blocks

    @property
    def unranked_baseline(
        self,
    ) -> Annotated[str | None, Means("the baseline, where it is not ranked", name="reference")]:
        """Its name."""
        return self.reference.name if self.reference else None

    @property
    def complete(self) -> tuple[Standing, ...]:
        """The platforms that lack nothing."""
        return tuple(standing for standing in self.standings if not standing.missing)

    @property
    def judged(self) -> tuple[Standing, ...]:
        """The platforms behind the first that lack nothing; none where none can be told from it."""
        others = self.complete[1:]
        return others if any(standing.to_first is not None for standing in others) else ()

    @property
    def close(self) -> tuple[Standing, ...]:
        """Those of them that are not behind the first beyond noise."""
        return tuple(
            standing
            for standing in self.judged
            if standing.to_first is None or standing.to_first.high >= 1
        )

    @property
    def has_intervals(self) -> bool:
        """Whether there are errors of measurement: not from one block or session."""
        return any(np.isfinite(standing.score.high) for standing in self.complete)
