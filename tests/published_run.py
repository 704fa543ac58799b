"""Runs in memory of a shipped study in which its published findings are true, or in which their reverse is.

The truth comes from the claims alone: a ratio that a claim compares is what the publication printed, or the middle of
its range, or a quarter beyond its only bound. In the reverse it is a quarter beyond the bound on the other side. As
many findings as can be true together are true in one run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
from drawn_run import PlannedRun, plan_of

from vtax.levels import BENCHMARK, HOST, METRIC, PLATFORM, Levels, number_of
from vtax.question import Selection
from vtax.report.analysis.result import analyse_data
from vtax.report.answers.claims.compute import ClaimedComparison, JudgedClaim, claims
from vtax.store.records import CellRecord, MetricRecord
from vtax.study.claims import ClaimSide
from vtax.study.load import Chosen, load

Word = Literal["reproduced", "contradicted"]
Place: TypeAlias = tuple[str, str, int]
"""(key of a cell, metric, number of a host)."""
Parts: TypeAlias = dict[Place, float]
"""Place -> weight of its logarithm in a sum."""
BEYOND = math.log(1.25)
LOUDER = 30
"""How far a spread is beyond its bound: 27 and 34 times in the only table of these papers that has one."""
NOISE: Mapping[str, float] = {
    "linpack": 0.002,
    "pi": 0.005,
    "pi-flint": 0.005,
    "sysbench-cpu": 0.005,
    "stream": 0.015,
}
"""Benchmark -> standard deviation of the logarithm of a block, on one side of a ratio. STREAM's is that of santos2008."""
STREAM_ON_A_LINK = 0.007
"""Of bulk traffic that the rate of a link limits: ratios of ufla2010 and mauricio2013 in docs/examples have 0.01."""
OTHERS = 0.035
"""Of all others: 0.05 of a ratio, as a plan assumes."""
SCALE = 20.0


@dataclass(frozen=True)
class Sum:
    """A sum of logarithms that lies in a range."""

    parts: Parts
    low: float
    high: float


@dataclass(frozen=True)
class World:
    """What is true in a run. findings: ids of the claims that hold, or whose reverse does."""

    findings: tuple[str, ...]
    logs: Parts
    noise: Mapping[Place, float]


@dataclass(frozen=True)
class Form:
    """A form of a study. blocks: 0 for its own number. hosts: with as many blocks each."""

    study: str
    scale: str = ""
    blocks: int = 0
    hosts: int = 1

    @cached_property
    def planned(self) -> PlannedRun:
        """Its plan on the platforms that claims name, in the boots that its paper needs."""
        changes: dict[str, Any] = {}
        if self.blocks:
            changes["design"] = {"stop": "fixed", "blocks": self.blocks}
        chosen = Chosen(scale=self.scale)
        study = load(self.study, changes, chosen).study
        names = [study.baseline]
        for claim in study.claim:
            names += claim.platforms(study.baseline)
        changes["platforms"] = [*dict.fromkeys(names)]
        changes["boot"] = []
        for name, platforms in study.paper.boots.items() if study.paper else ():
            there = [platform for platform in changes["platforms"] if platform in platforms]
            changes["boot"].append({"name": name, "entry": name, "platforms": there})
        return plan_of(load(self.study, changes, chosen))

    @cached_property
    def metrics(self) -> Mapping[str, list[MetricRecord]]:
        """Key of a cell -> its metrics that are primary or named by a claim."""
        checks = [check for claim in self.planned.study.claim for check in claim.check]
        named = {metric for check in checks for metric in check.metrics}
        found = {}
        for cell in self.planned.cells:
            found[cell.key] = [
                metric
                for metric in self.planned.metrics
                if metric.benchmark == cell.benchmark
                and metric.name in self.planned.metrics_of[cell.key]
                and (metric.is_primary or metric.name in named)
            ]
        return found

    @cached_property
    def places(self) -> Mapping[Place, Levels]:
        """Every place with its levels, those of its platform, benchmark and metric among them."""
        found = {}
        for cell in self.planned.cells:
            for metric in self.metrics[cell.key]:
                for host in range(1, self.hosts + 1):
                    levels = Levels({**cell.place, METRIC: metric.name})
                    found[cell.key, metric.name, host] = levels
        return found

    @cached_property
    def place_at(self) -> Mapping[tuple[Levels, int], Place]:
        """Levels and the number of a host -> the place there."""
        return {(levels.canonical, place[2]): place for place, levels in self.places.items()}

    @cached_property
    def primary(self) -> set[tuple[str, str]]:
        """(key of a cell, metric) of those that are primary."""
        return {
            (key, m.name) for key, metrics in self.metrics.items() for m in metrics if m.is_primary
        }

    @cached_property
    def noise(self) -> dict[Place, float]:
        """Noise of every place: what the publication prints of it, where that is less than is usual."""
        cells = {cell.key: cell for cell in self.planned.cells}
        found = {}
        for place, levels in self.places.items():
            cell = cells[place[0]]
            usual = NOISE.get(cell.benchmark, OTHERS)
            if cell.benchmark == "iperf2" and not cell.parameters.get("length"):
                usual = STREAM_ON_A_LINK
            found[place] = min([usual, *(sd / math.sqrt(2) for sd in self._printed(levels))])
        return found

    def _printed(self, levels: Levels) -> Iterator[float]:
        platform = str(levels[PLATFORM])
        for table in self.planned.study.published:
            of_table = {BENCHMARK: (table.benchmark,), METRIC: (table.metric,)}
            if Selection(of_table).and_also(table.selection).selects(levels):
                if table.statistic == "largest_cv" and platform in table.values:
                    yield table.values[platform]
                if platform in table.plus_minus:
                    yield table.plus_minus[platform] / table.values[platform]

    def judged(self, world: World, seed: int = 1, blocks: int = 0) -> dict[str, JudgedClaim]:
        """What a run in a world says of every claim. blocks: of a host; 0 for those of the form."""
        planned = self.planned
        blocks = (blocks or planned.study.design.blocks) * self.hosts
        host_of = [1 + block * self.hosts // blocks for block in range(blocks)]
        sessions = [str(host) for host in host_of]  # with boots a block is a session
        if not planned.study.boot:
            sessions = [str(host) for host in range(1, self.hosts + 1)]
        random = np.random.default_rng(seed)
        shared = random.normal(size=blocks)
        guests: dict[tuple[str, int], float] = {}

        def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
            guest = guests.setdefault((cell.platform, block), random.normal())
            own = (guest + random.normal()) / math.sqrt(2)
            found = {}
            for metric in self.metrics[cell.key]:
                place = (cell.key, metric.name, host_of[block])
                noise = world.noise[place] * (shared[block] + own)
                sign = 1 if metric.better == "higher" else -1
                found[metric.name] = SCALE * math.exp(world.logs.get(place, 0.0) + sign * noise)
            return found

        run = planned.run().of_hosts(sessions).blocks(blocks).values(values)
        return {judged.claim.id: judged for judged in claims(analyse_data(run.data())).claims}

    @cached_property
    def compared(self) -> dict[str, JudgedClaim]:
        """Claim -> what it compares, of those that this form has values of."""
        judged = self.judged(World((), {}, self.noise), blocks=2)
        return {name: claim for name, claim in judged.items() if claim.judgement}

    def worlds(self, word: Word, findings: Collection[str]) -> list[World]:
        """Return worlds in which findings are true, or contradicted; each in one of them.

        Raises ValueError for those that cannot be true in any.
        """
        left = [name for name in self.compared if name in findings]
        found = []
        while left:
            names: list[str] = []
            sums: list[Sum] = []
            logs: Parts = {}
            noise = dict(self.noise)
            for name in left:
                further = [*sums, *_sums(self, self.compared[name], word)]
                solution = solve(further)
                if solution is not None:
                    names.append(name)
                    sums, logs = further, solution
                    _spread_noise(self, self.compared[name], word, noise)
            if not names:
                raise ValueError(f"{self}: {left} cannot be {word} in any run")
            found.append(World(tuple(names), logs, noise))
            left = [name for name in left if name not in names]
        return found

    def side(self, compared: ClaimedComparison, side: ClaimSide | None) -> list[Place]:
        """Return the places of one side of a comparison, on every host that it is of."""
        if side is None:
            return []
        check = compared.check
        named = {BENCHMARK: check.benchmarks, METRIC: check.metrics}
        wanted = Selection({name: them for name, them in named.items() if them})
        own = ClaimSide(side.platform, side.levels.without((HOST,)))
        wanted = wanted.and_also(own.selection).and_also(check.selection)
        return [
            place
            for place, levels in self.places.items()
            if wanted.selects(levels)
            and (METRIC in wanted.choices or place[:2] in self.primary)
            and set(compared.point) <= set(levels.texts)
            and side.host in (None, place[2])
        ]


def solve(sums: Sequence[Sum]) -> Parts | None:
    """Return logarithms with which all sums lie in their ranges, by projections in turn; None where none are found."""
    places = {place: 0.0 for each in sums for place in each.parts}
    order = {place: number for number, place in enumerate(places)}
    rows = [
        (np.array([order[p] for p in each.parts]), np.array([*each.parts.values()]), each)
        for each in sums
    ]
    logs = np.zeros(len(order))
    for _ in range(1000):
        worst = 0.0
        for at, weights, each in rows:
            total = float(weights @ logs[at])
            missing = max(each.low - total, 0.0) - max(total - each.high, 0.0)
            if missing:
                worst = max(worst, abs(missing))
                logs[at] += 1.2 * missing * weights / float(weights @ weights)
        if worst < 1e-3:
            return dict(zip(order, logs.tolist(), strict=True))
    return None


def _sums(form: Form, claim: JudgedClaim, word: Word) -> list[Sum]:
    """Return what must be so for a finding to be true, or its reverse."""
    found: list[Sum] = []
    pairs = {(compared.of, compared.to, compared.point) for compared in claim.comparisons}
    for compared in claim.comparisons:
        is_both_ways = (compared.to, compared.of, compared.point) in pairs
        if is_both_ways and word == "contradicted":
            pairs.remove((compared.of, compared.to, compared.point))  # one of two is the smaller
            continue
        published = claim.claim.published if compared.check is claim.claim.check[0] else None
        low, high = _range(compared, published, word)
        if is_both_ways and word == "reproduced":
            high = abs(math.log(compared.low or compared.high)) / 2
            low = -high
        for host in range(1, form.hosts + 1):
            found += _on_host(form, compared, host, low, high)
    return found


def _range(compared: ClaimedComparison, published: float | None, word: Word) -> tuple[float, float]:
    """Return the logarithms between which the true ratio lies."""
    low = math.log(compared.low) if compared.low else -math.inf
    high = math.log(compared.high) if compared.high < math.inf else math.inf
    if word == "contradicted":
        return (-math.inf, low - BEYOND) if low > -math.inf else (high + BEYOND, math.inf)
    if published and compared.low < published < compared.high:
        return math.log(published), math.log(published)
    if compared.check.kind == "link_rate" and high == math.inf:
        return low / 2, low / 2  # no link carries more than its rate
    if low > -math.inf and high < math.inf:
        third = (high - low) / 3
        return low + third, high - third
    return (low + BEYOND, math.inf) if low > -math.inf else (-math.inf, high - BEYOND)


def _on_host(
    form: Form, compared: ClaimedComparison, host: int, low: float, high: float
) -> Iterator[Sum]:
    check = compared.check
    of, to = (
        [place for place in form.side(compared, side) if side and (side.host or place[2] == host)]
        for side in (compared.of, compared.to)
    )

    def sum_of(places: Sequence[Place], sign: int = 1) -> Parts:
        """Their mean, divided by the reference."""
        parts: Parts = {}
        for place in places:
            parts[place] = parts.get(place, 0.0) + sign / len(places)
            if check.reference:
                wanted = Levels({**form.places[place], PLATFORM: check.reference})
                there = form.place_at[wanted.canonical, place[2]]
                parts[there] = parts.get(there, 0.0) - sign / len(places)
        return parts

    if check.kind == "monotone":
        assert check.along
        lines: dict[float, Parts] = {}
        number = {place: number_of(form.places[place][check.along]) or 1.0 for place in (*of, *to)}
        for level in sorted({*number.values()}):
            at_level = [place for place in of if number[place] == level]
            others = [place for place in to if number[place] == level]
            lines[level] = _plus(sum_of(at_level), sum_of(others, -1))
        doublings = math.log2(max(lines) / min(lines))
        for lower, higher in pairwise(lines):
            share = math.log2(higher / lower) / doublings
            step = _plus(lines[higher], _minus(lines[lower]))
            yield Sum(step, low * share, high * share)
    elif check.kind == "spread":
        if check.over == "points":
            factor = math.exp(low if low > -math.inf else high)
            for places, size in ((of, 0.3 * factor), (to, 0.3)):
                for turn, (one, other) in enumerate(pairwise(places)):
                    distance = size * (-1) ** turn
                    parts = _plus(sum_of([other]), sum_of([one], -1))
                    yield Sum(parts, distance, distance)
    elif check.kind == "link_rate":
        rates = {cell.key: cell.link["rate_mbit_s"] for cell in form.planned.cells}
        for place in of:
            rate = math.log(rates[place[0]] / SCALE)
            yield Sum({place: 1.0}, low + rate, high + rate)
    else:
        yield Sum(_plus(sum_of(of), sum_of(to, -1)), low, high)


def _plus(one: Parts, other: Parts) -> Parts:
    return {place: one.get(place, 0.0) + other.get(place, 0.0) for place in {**one, **other}}


def _minus(parts: Parts) -> Parts:
    return {place: -weight for place, weight in parts.items()}


def _spread_noise(form: Form, claim: JudgedClaim, word: Word, noise: dict[Place, float]) -> None:
    """Make one side of each spread over blocks louder than the other."""
    for compared in claim.comparisons:
        if compared.check.over == "blocks":
            bound = compared.low or 1 / compared.high
            sides = form.side(compared, compared.of), form.side(compared, compared.to)
            loud, quiet = sides if bool(compared.low) == (word == "reproduced") else sides[::-1]
            noise.update(
                dict.fromkeys(quiet, min(noise[place] for place in loud) / (LOUDER * max(bound, 1)))
            )
