"""The study: what to measure, as a validated value. `load.py` reads it from TOML, `expand.py` makes its cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from vtax.levels import Level, link_factors
from vtax.stats.rules import RULES, Rule, rule_of
from vtax.stats.terms import MINIMUM_BLOCKS, Stop
from vtax.study import boots, limits
from vtax.study.changes import StudyChange
from vtax.study.claims import ClaimTable, PaperTable, PublishedTable
from vtax.study.fields import (
    Duration,
    Name,
    Scratch,
    Share,
    Size,
    StudyTable,
    disagreement,
)
from vtax.study.figures import FigureTable
from vtax.study.programs import ProgramTable
from vtax.study.variants import Protocols, Scales, find_missing_names

Tuning = Literal["default", "pinned", "hugepages", "pinned+hugepages"]


Neighbour = Literal["none", "cpu", "memory", "disk", "network"]
_LEVELS: JsonDict = {"type": "array", "items": {"type": ["boolean", "number", "string"]}}
_LINK: JsonDict = {"anyOf": [_LEVELS, {"type": "object", "additionalProperties": _LEVELS}]}
"""Schema of what `with_placed_factors` takes among factors: the levels of a link's settings."""


class GuestTable(StudyTable):
    """`[guest]`: what every guest may use, the same on every platform."""

    image: Name | None = Field(
        None,
        description="image of your own that guests under test start from, as vtax image add named it; absent: vtax's",
    )
    vcpus: int = Field(1, ge=1, description="virtual CPUs, each pinned to a host CPU of its own")
    memory: Size = Field(512 * 1024**2, ge=64 * 1024**2, description="memory limit, e.g. '512MiB'")
    disk: Size | None = Field(
        None,
        ge=512 * 1024**2,
        multiple_of=1024**2,
        description="size of the disk of every virtual machine, whole MiB, e.g. '6GiB'; sparse on the host; absent: "
        "2 GiB, and more where the image holds more",
    )


class DesignTable(StudyTable):
    """`[design]`: how often, in what order, and when to stop. Declared before the run and stored with it."""

    stop: Stop = Field(
        "fixed",
        description="rule that ends the run: after 'blocks'; after 'blocks' and whenever more are added, with "
        "results that hold at every look ('open'); when every interval is within 'precision'; when every "
        "contrast has its verdict; or when 'budget' is spent",
    )
    blocks: int = Field(
        5,
        ge=1,
        le=limits.MAX_BLOCKS,
        description="number of blocks of the rules 'fixed' and 'open'",
    )
    sessions: int = Field(
        1,
        ge=1,
        le=limits.MAX_SESSIONS,
        description="number of sessions that the blocks are split over, each begun by a person or after a pause, "
        "such as after a reboot; rules 'fixed', 'open' and 'budget'",
    )
    confidence: Share = Field(0.95, gt=0.5, le=0.9999, description="of every interval")
    min_blocks: int = Field(
        5, ge=2, le=limits.MAX_BLOCKS, description="fewest blocks of an adaptive rule"
    )
    max_blocks: int = Field(
        30, ge=2, le=limits.MAX_BLOCKS, description="most blocks of an adaptive rule"
    )
    precision: Share = Field(
        0.02,
        gt=0,
        lt=1,
        description="target relative half-width of every ratio's interval, rule 'precision'",
    )
    trials: int = Field(
        1,
        ge=1,
        le=limits.MAX_TRIALS_OF_A_CELL,
        description="measured trials of every cell in every block",
    )
    warmup: int = Field(
        0,
        ge=0,
        le=limits.MAX_TRIALS_OF_A_CELL,
        description="trials of every cell before the measured ones; kept, marked, not used",
    )
    order: Literal["randomized", "rounds", "sequential"] = Field(
        "randomized",
        description="of platforms and cells in a block; 'rounds': all guests of a block are alive, and each of a "
        "cell's 'trials' visits all of them; 'sequential': all blocks of one platform, then of the next, as "
        "published studies ran, with the rule 'fixed' only",
    )
    seed: int | None = Field(None, description="of the order; drawn and recorded when absent")
    timeout: Duration = Field(
        600.0, gt=0, le=limits.MAX_TRIAL_S, description="longest one trial may take, e.g. '5min'"
    )
    budget: Duration | None = Field(
        None,
        gt=0,
        le=limits.MAX_RUN_S,
        description="no block starts that would end after this time",
    )
    margin: Share = Field(
        0.02,
        gt=0,
        lt=1,
        description="ratios from 1 / (1 + margin) to 1 + margin count as equivalent",
    )

    @property
    def rule_class(self) -> type[Rule]:
        """The rule that ends the run, without its settings."""
        return RULES[self.stop]

    @property
    def rule(self) -> Rule:
        """The rule that ends the run. Raises StatsError on one that cannot be followed, such as one without its time."""
        return rule_of(self.model_dump())

    @model_validator(mode="after")
    def _blocks_in_order(self) -> DesignTable:
        if self.max_blocks < self.min_blocks:
            raise disagreement(
                f"max_blocks ({self.max_blocks}) is below min_blocks ({self.min_blocks})",
                "max_blocks",
            )
        if self.rule_class.ends_by_verdicts and self.max_blocks < MINIMUM_BLOCKS:
            what = f"max_blocks ({self.max_blocks}) leaves nothing to judge: below {MINIMUM_BLOCKS} blocks"
            raise disagreement(f"{what} there is no verdict", "max_blocks")
        if self.order == "rounds" and self.trials == 1:
            raise disagreement("'rounds' are several: set trials = 5, or leave order out", "trials")
        has_known_end = self.rule_class.has_known_end and self.budget is None
        if self.order == "sequential" and not has_known_end:
            what = "makes all blocks of one platform before the next, so that no rule can judge it block by block"
            raise disagreement(f"'sequential' {what}; use stop = 'fixed' without a budget", "order")
        return self

    @model_validator(mode="after")
    def _sessions_hold_blocks(self) -> DesignTable:
        if self.sessions == 1:
            return self
        if self.rule_class.is_counted and self.sessions > self.blocks:
            raise disagreement(
                f"{self.sessions} sessions are more than {self.blocks} blocks", "sessions"
            )
        if not self.rule_class.takes_more:
            what = "judges the blocks of one session while they are made"
            raise disagreement(
                f"'{self.stop}' {what}; several sessions need 'fixed', 'open' or 'budget'",
                "sessions",
            )
        if self.order == "sequential":
            raise disagreement(
                "'sequential' makes all blocks of one platform before the next", "sessions"
            )
        return self


class PlatformTable(StudyTable):
    """`[[platform]]`: a platform of one's own, made from a driver and its options; every further key is an option."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Level]

    name: Name
    driver: str = Field(description="vtax platforms DRIVER lists its options")

    @property
    def options(self) -> dict[str, Level]:
        """Every key but name and driver."""
        return dict(self.__pydantic_extra__)


class RungTable(StudyTable):
    """`[[rung]]`: a platform of a ladder, which is compared with the one below it."""

    platform: str = Field(description="one of the platforms")
    adds: str = Field(min_length=1, description="what it has and the rung below has not, in words")
    remedy: str = Field("", description="how what it costs is avoided, in words")
    choice: str = Field("", description="how a platform has what it gains, in words")


class OrderTable(StudyTable):
    """`[[both_orders]]`: a mechanism that is added to the baseline first, and left out of a platform that has it last."""

    mechanism: str = Field(description="what is added and left out, in words")
    whole: str = Field(description="one of the platforms, which has it and more")
    alone: str = Field(
        "",
        description="one of the platforms: the baseline with nothing but that; empty: there is none",
    )
    without: str = Field(
        "", description="one of the platforms: `whole` with all but that; empty: there is none"
    )
    taking: str = Field("", description="what else `without` does not have, in words")


class GuestsUntilTable(StudyTable):
    """`[benchmark.guests_until]`: the bound that ends the search for the number of guests that a platform takes."""

    metric: str = Field(description="a metric of the benchmark, in whose unit the bound is")
    at_most: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="the bound of a metric of which less is better"
    )
    at_least: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="the bound of a metric of which more is better"
    )

    def __str__(self) -> str:
        """Return `server_answer_p99 <= 0.5`, which holds while the search goes on."""
        if self.at_most is not None:
            return f"{self.metric} <= {self.at_most:g}"
        return f"{self.metric} >= {self.at_least:g}"

    def holds(self, value: float) -> bool:
        """Whether a value is within the bound."""
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is None or value >= self.at_least

    @model_validator(mode="after")
    def _has_one_bound(self) -> GuestsUntilTable:
        if (self.at_most is None) == (self.at_least is None):
            raise disagreement("guests_until needs at_most or at_least, and one of them", "at_most")
        return self


class BenchmarkTable(StudyTable):
    """`[[benchmark]]`: a tool, fixed parameters, and factors with their levels."""

    name: str = Field(description="see vtax benchmarks, or a [[program]]")
    label: str | None = Field(
        None, description="how tables call it; needed when a tool is used twice"
    )
    topology: str | None = Field(None, description="for network benchmarks; default point-to-point")
    margin: Share | None = Field(
        None, gt=0, lt=1, description="its own margin, in place of that of [design]"
    )
    trial_time: Duration | None = Field(
        None,
        ge=0.02,
        le=limits.MAX_TRIAL_S,
        description="how long a trial is to measure on every platform, e.g. '0.1s', in place of the parameter that "
        "says so: a time, or a count of work that the first block finds out for each platform",
    )
    parameters: dict[str, Level] = Field(default_factory=dict)
    factors: dict[str, list[Level]] = Field(
        default_factory=dict,
        description="parameter -> its levels; guests, neighbour, tuning and link too",
        json_schema_extra={"properties": {"link": _LINK}},
    )
    link: dict[str, Level] = Field(
        default_factory=dict,
        description="fixed link settings, e.g. mtu; peer = 'ssh:HOST/NIC:NIC_THERE' puts the other end on a "
        "second machine; see vtax topologies",
    )
    link_factors: dict[str, list[Level]] = Field(
        default_factory=dict, description="link setting -> its levels"
    )
    guests: list[Annotated[int, Field(ge=1, le=limits.MAX_GUESTS, strict=True)]] = Field(
        default_factory=list,
        max_length=limits.MAX_GUESTS,
        description="levels of a factor: guests of a platform that run the benchmark at once, each with the "
        "limits of [guest]",
    )
    guests_until: GuestsUntilTable | None = Field(
        None,
        description="a bound on a metric: numbers of guests beyond the first that breaks it are not measured",
    )
    neighbour: list[Neighbour] = Field(
        default_factory=list,
        max_length=len(get_args(Neighbour)),
        description="levels of a factor: what one further guest of the same platform and limits loads meanwhile; "
        "'none': it is there and idle",
    )

    @property
    def title(self) -> str:
        """The name that tables, claims and figures have for it."""
        return self.label or self.name

    @property
    def colocated(self) -> dict[str, list[Level]]:
        """Levels of the factors that place further guests on the host, by their names."""
        levels: dict[str, list[Level]] = {}
        if self.guests:
            levels["guests"] = list(self.guests)
        if self.neighbour:
            levels["neighbour"] = list(self.neighbour)
        return levels

    @property
    def varied(self) -> dict[str, list[Level]]:
        """Levels of every factor, by the name in plans, tables and exported columns: `link.mtu` for a link's."""
        return {**self.colocated, **self.factors, **link_factors(self.link_factors)}

    @property
    def points(self) -> int:
        """How many combinations its levels make."""
        return math.prod(map(len, self.varied.values()))

    @model_validator(mode="after")
    def _factors_make_sense(self) -> BenchmarkTable:
        for kind, factors, fixed in (
            ("factors", self.factors, self.parameters),
            ("link_factors", self.link_factors, self.link),
        ):
            for name, levels in factors.items():
                if not levels:
                    raise disagreement(
                        f"{kind}.{name} has no levels; give a list of values", kind, name
                    )
                if len({(type(level), level) for level in levels}) != len(levels):
                    raise disagreement(f"{kind}.{name} names a level twice", kind, name)
                if name in fixed:
                    raise disagreement(
                        f"{name} is both a fixed value and a factor; keep one", kind, name
                    )
        for name, levels in self.colocated.items():
            if len(set(levels)) != len(levels):
                raise disagreement(f"{name} names a level twice", name)
            if name in self.factors:
                raise disagreement(
                    f"a parameter {name} cannot be a factor beside the table's own {name}",
                    "factors",
                )
        if self.guests_until is not None and len(self.guests) < 2:
            raise disagreement("guests_until needs several levels of guests", "guests_until")
        if self.neighbour and "none" not in self.neighbour:
            raise disagreement(
                "neighbour needs the level 'none', which the others are compared with", "neighbour"
            )
        return self


def _first_repeated(names: Sequence[str]) -> int | None:
    """Return the index of the first name that an earlier one equals; None where all differ."""
    for index, name in enumerate(names):
        if name in names[:index]:
            return index
    return None


class Study(StudyTable):
    """A whole study."""

    name: Name
    title: str = ""
    question: str = ""
    baseline: str = Field("native", description="the platform all others are compared with")
    platforms: list[str] = Field(
        min_length=1,
        max_length=limits.MAX_PLATFORMS,
        description="names; see vtax platforms, or [[platform]] below",
    )
    tuning: list[Tuning] = Field(
        default_factory=list,
        max_length=len(get_args(Tuning)),
        description="levels of a factor over everything: vCPUs left to the scheduler (default) or each on a host CPU "
        "of its own (pinned), memory as the host gives it or in huge pages; absent: all is pinned, and no factor",
    )
    scratch: list[Scratch] = Field(
        default=["volume"],
        min_length=1,
        max_length=len(get_args(Scratch)),
        json_schema_extra={"type": ["array", "string"]},
        description="where /scratch lies, in which benchmarks write: a directory of the host (volume), the guest's own "
        "writable layer (layer) or its memory (memory), if its platform can choose; several are levels of a factor",
    )
    guest: GuestTable = GuestTable()
    design: DesignTable = DesignTable()
    must_match: list[str] = Field(
        default_factory=list,
        description="fields of the equivalence audit that must be equal on every platform, or the run is refused; "
        "a name also stands for all that start with it and a dot",
    )
    platform: list[PlatformTable] = Field(default_factory=list, max_length=limits.MAX_PLATFORMS)
    rung: list[RungTable] = Field(
        default_factory=list,
        max_length=limits.MAX_PLATFORMS,
        description="a ladder from the ground up, each rung with one mechanism more, so that the cost of each is seen; "
        "the first is the baseline",
    )
    both_orders: list[OrderTable] = Field(
        default_factory=list,
        max_length=limits.MAX_PLATFORMS,
        description="mechanisms that are measured in both orders, so that it is seen whether they act on others",
    )
    boot: list[boots.BootTable] = Field(
        default_factory=list,
        max_length=limits.MAX_BOOTS,
        description="boots of the host that the platforms need; absent: all are measured in one",
    )
    program: list[ProgramTable] = Field(default_factory=list, max_length=limits.MAX_PROGRAMS)
    benchmark: list[BenchmarkTable] = Field(min_length=1, max_length=limits.MAX_BENCHMARKS)
    paper: PaperTable | None = Field(None, description="the publication that the study repeats")
    claim: list[ClaimTable] = Field(default_factory=list, max_length=limits.MAX_CLAIMS)
    published: list[PublishedTable] = Field(default_factory=list, max_length=limits.MAX_PUBLISHED)
    scale: Scales = Field(
        default_factory=dict,
        description="name -> what vtax run --scale NAME makes smaller",
        max_length=limits.MAX_VARIANTS,
    )
    protocol: Protocols = Field(
        default_factory=dict,
        description="name -> order and repetition of vtax run --protocol NAME, such as the publication's own",
        max_length=limits.MAX_VARIANTS,
    )
    changed_by: list[StudyChange] = Field(
        default_factory=list,
        description="what options of vtax run changed; written by vtax run",
        max_length=limits.MAX_CHANGES,
    )
    figure: list[FigureTable] = Field(default_factory=list, max_length=limits.MAX_FIGURES)

    def margin_of(self, label: str) -> float:
        """Return the margin of a benchmark table: its own, or that of the design."""
        for table in self.benchmark:
            if table.title == label and table.margin is not None:
                return table.margin
        return self.design.margin

    @model_validator(mode="before")
    @classmethod
    def _sessions_of_boots(cls, data: Any) -> Any:
        return boots.with_sessions(data)

    @model_validator(mode="after")
    def _boots_hold_platforms(self) -> Study:
        boots.check(self.boot, self.platforms, self.design, self.must_match)
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Study:
        if self.baseline not in self.platforms:
            names = ", ".join(self.platforms)
            raise disagreement(
                f"baseline {self.baseline!r} is not in platforms ({names})", "baseline"
            )
        repeat_index = _first_repeated(self.platforms)
        if repeat_index is not None:
            raise disagreement(
                f"platforms names {self.platforms[repeat_index]!r} twice", "platforms"
            )
        repeat_index = _first_repeated([table.name for table in self.platform])
        if repeat_index is not None:
            what = f"there are two tables of the name {self.platform[repeat_index].name!r}"
            raise disagreement(what, "platform", repeat_index, "name")
        repeat_index = _first_repeated([table.name for table in self.program])
        if repeat_index is not None:
            what = f"there are two programs of the name {self.program[repeat_index].name!r}"
            raise disagreement(what, "program", repeat_index, "name")
        for number, program in enumerate(self.program):
            if program.timeout is None and self.design.timeout <= program.expected_duration:
                name = program.name
                what = f"the timeout of [design] ({self.design.timeout:g} s) ends a trial of {name} before its expected"
                raise disagreement(
                    f"{what} duration ({program.expected_duration:g} s)",
                    "program",
                    number,
                    "timeout",
                )
        for key, levels in self.start_factors.items():
            repeat_index = _first_repeated(levels)
            if repeat_index is not None:
                raise disagreement(f"{key} names {levels[repeat_index]!r} twice", key)
        for number, table in enumerate(self.benchmark):
            for key in table.factors.keys() & self.start_factors.keys():
                what = f"a parameter {key} cannot be a factor beside the study's own {key}; give it one value"
                raise disagreement(what, "benchmark", number, "factors", key)
        repeat_index = _first_repeated(self.benchmark_titles)
        if repeat_index is not None:
            what = f"benchmark {self.benchmark[repeat_index].title!r} appears twice; give each a label of its own"
            raise disagreement(what, "benchmark", repeat_index, "label")
        return self

    @model_validator(mode="after")
    def _rungs_are_platforms(self) -> Study:
        names = [rung.platform for rung in self.rung]
        for number, name in enumerate(names):
            if name not in self.platforms:
                what = f"the rung {name!r} is not in platforms ({', '.join(self.platforms)})"
                raise disagreement(what, "rung", number, "platform")
        repeat_index = _first_repeated(names)
        if repeat_index is not None:
            what = f"there are two rungs of the platform {names[repeat_index]!r}"
            raise disagreement(what, "rung", repeat_index, "platform")
        mechanisms = [rung.adds for rung in self.rung]
        repeat_index = _first_repeated(mechanisms)
        if repeat_index is not None:
            what = f"two rungs add {mechanisms[repeat_index]!r}"
            raise disagreement(what, "rung", repeat_index, "adds")
        if len(names) == 1:
            raise disagreement("a ladder has two rungs or more", "rung", 0, "platform")
        if names and names[0] != self.baseline:
            what = f"the first rung is {names[0]!r}, and the baseline {self.baseline!r}"
            raise disagreement(what, "rung", 0, "platform")
        return self

    @model_validator(mode="after")
    def _boots_are_not_in_rounds(self) -> Study:
        if self.boot and self.design.order == "rounds":
            what = (
                "'rounds' have the guests of all platforms alive, and these never run in one boot"
            )
            raise disagreement(what, "design", "order")
        return self

    @model_validator(mode="after")
    def _orders_are_of_platforms(self) -> Study:
        for number, order in enumerate(self.both_orders):
            if order.whole in (order.alone, order.without):
                what = f"{order.whole!r} has all mechanisms, and cannot be without one"
                raise disagreement(what, "both_orders", number, "whole")
            for key in ("whole", "alone", "without"):
                name = getattr(order, key)
                if name and name not in self.platforms:
                    what = f"{name!r} is not in platforms ({', '.join(self.platforms)})"
                    raise disagreement(what, "both_orders", number, key)
        return self

    @model_validator(mode="after")
    def _variants_have_what_they_change(self) -> Study:
        for problem in find_missing_names(self.scale, self.protocol, self.benchmark):
            raise disagreement(problem.what, *problem.place)
        return self

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Study:
        points = 0
        for number, table in enumerate(self.benchmark):
            points += table.points * len(self.starts)
            if points > limits.MAX_POINTS:
                what = f"the levels of this study combine to more than {limits.MAX_POINTS} points"
                key = "factors" if table.factors else "link_factors"
                raise disagreement(what, "benchmark", number, key)
        cells = points * len(self.platforms)
        if cells > limits.MAX_CELLS:
            what = f"{points} points on {len(self.platforms)} platforms are {cells} cells; at most {limits.MAX_CELLS}"
            raise disagreement(what, "platforms")
        design = self.design
        blocks = 1 if design.rule_class.needs_budget else design.rule.most_blocks
        trials = cells * blocks * (design.trials + design.warmup)
        if trials > limits.MAX_TRIALS:
            raise disagreement(
                f"the study asks for {trials} trials; at most {limits.MAX_TRIALS}", "design"
            )
        return self

    @property
    def benchmark_titles(self) -> list[str]:
        """The titles of the benchmarks, in order."""
        return [table.title for table in self.benchmark]

    @property
    def start_factors(self) -> dict[str, Sequence[str]]:
        """Factors over everything, each level of which takes fresh guests: name -> levels."""
        factors = {"tuning": self.tuning, "scratch": self.scratch if len(self.scratch) > 1 else ()}
        return {name: levels for name, levels in factors.items() if levels}

    @property
    def starts(self) -> list[dict[str, str]]:
        """Every combination of levels of the factors over everything; one without levels where there are none."""
        names, levels = self.start_factors.keys(), self.start_factors.values()
        return [dict(zip(names, combination, strict=True)) for combination in product(*levels)]

    def declared(self) -> dict[str, Any]:
        """Return the study as plain JSON values, defaults included: what is stored with a run."""
        return self.model_dump(mode="json")
