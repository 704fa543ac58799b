"""Whether nothing became slower, or costs more, by more than a margin: each comparison of a run with its outcome.

A comparison is judged as a published finding is (`stats.claims`), with one bound: the finding is that the ratio lies
on the better side of the margin. It passes when its interval lies there; it is slower, or costs more, when the
interval lies beyond the margin. Families are those of the result: all comparisons of a metric of a benchmark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from vtax.described import Means, Only
from vtax.errors import BadInput
from vtax.levels import NO_LEVELS
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.compared import CellPair, Side, by_table
from vtax.report.analysis.values import Analysis, every_row
from vtax.report.answers.compare.compute import check_names, paired, pairs_of, side_of
from vtax.report.answers.hosts.host_change import ChangeOfHosts
from vtax.report.answers.hosts.odd_hosts import OddHosts
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.claims import Judgement, RangeTest, judge_claims
from vtax.stats.intervals import Interval
from vtax.stats.margin import log_margin
from vtax.stats.planning import detectable_log
from vtax.stats.ranges import Claimed, Tested, at_most
from vtax.stats.ratio import LARGEST_LOG, OfLoss, Ratio
from vtax.stats.rules import Rule
from vtax.stats.terms import CONDITIONS, Conditions, Margins, Quantity
from vtax.store.store import Store
from vtax.units import format_percent

Outcome = Literal["passed", "slower", "costs-more", "undecided", "no-result", "not-tested"]
Kind = Literal[
    "passed", "slower", "costs-more", "odd-host", "undecided", "no-result", "not-tested", "blind"
]
"""An outcome, of an undecided comparison that it could not have shown `detect`, or of a host that lies apart."""
Status = Literal["failed", "blind", "undecided", "passed"]
STATUS_OF: Mapping[Kind, Status] = {
    "slower": "failed",
    "costs-more": "failed",
    "odd-host": "failed",
    "no-result": "failed",
    "blind": "blind",
    "undecided": "undecided",
    "not-tested": "undecided",
    "passed": "passed",
}
"""Kind of a comparison -> the status that it gives to the whole, which has the first one of `Status`."""
_EXIT_STATUS: Mapping[Status, int] = {"failed": 1, "blind": 3, "undecided": 0, "passed": 0}
_EXIT_STATUS_STRICT: Mapping[Status, int] = {**_EXIT_STATUS, "undecided": 3}
_WORDS: dict[str, Outcome] = {
    "reproduced": "passed",
    "contradicted": "slower",
    "inconclusive": "undecided",
}


@dataclass(frozen=True)
class Checked:
    """A comparison with its outcome. noise: standard deviation of the log-ratio from block to block."""

    pair: Annotated[
        CellPair,
        Only(
            "levels",
            "treatment.platform.name",
            "marks",
            "label",
            "benchmark",
            "metric.name",
            "metric.title",
            "metric.unit",
            "metric.better",
            "metric.is_primary",
            "metric.role",
        ),
    ]
    outcome: Annotated[
        Outcome, Means("`passed`, `slower`, `costs-more`, `undecided` or `no-result`")
    ]
    ratio: Annotated[
        Ratio | None,
        Means("treatment / baseline, for this comparison alone; null without a result"),
    ] = None
    p_beyond: Annotated[
        float | None, Means("p-value of being beyond the margin, Holm-adjusted over its family")
    ] = None
    p_passed: Annotated[float | None, Means("the same of being on its other side")] = None
    detectable: Annotated[
        float | None,
        Means(
            "the smallest slowdown, as a share of the time of the baseline, or the smallest extra cost, that it would "
            "have found with a probability of 0.8, in its family; null below five blocks",
        ),
    ] = None
    blocks_needed_low: Annotated[
        int | None,
        Means(
            "smallest number of further blocks that decides it; 0 when decided, null when not known"
        ),
    ] = None
    blocks_needed: Annotated[int | None, Means("largest number of them")] = None
    reasons: Annotated[
        tuple[str, ...],
        Means("why it is undecided or has no result, where that is not noise alone"),
    ] = ()
    noise: float | None = None
    assumptions: Annotated[
        tuple[str, ...],
        Means(
            "what `passed`, `slower` or `costs-more` rests on beside the blocks, one sentence each"
        ),
    ] = ()
    family: Annotated[
        int,
        Means(
            "comparisons that it is corrected for: those of its metric and benchmark; 0 without a result"
        ),
    ] = 0
    margin: Annotated[
        float,
        Means("largest slowdown or extra cost that passes here, as a share; 0 without a result"),
    ] = 0.0

    @property
    def loss(self) -> OfLoss:
        """The bounds of what it costs, which hold without any margin."""
        return self.ratio.loss(self.pair.section.better) if self.ratio else None

    @property
    def quantity(self) -> Quantity:
        """Whether a speed or a cost is judged."""
        return "cost" if self.pair.section.metric.role == "cost" else "speed"

    @property
    def efficiency(
        self,
    ) -> Annotated[Interval | None, Means("the ratio as a share of the baseline's performance")]:
        """The efficiency by its ratio; the interval is unbounded from a single block."""
        return self.ratio.efficiency(self.pair.section.better) if self.ratio else None


@dataclass(frozen=True)
class NotTested:
    """A thing that was not compared at all: a platform, or a point of it."""

    platform: Annotated[str, Means("platform")]
    reason: Annotated[doc.Inline, Means("why not")]
    hint: Annotated[str, Means("how it could")] = ""
    label: Annotated[str, Means("name of the benchmark table; empty for all")] = ""


@dataclass(frozen=True)
class CheckedHost:
    """A host of a campaign, which lies apart from the others or not. findings: where it does."""

    host: Annotated[str, Means("its name, as reports show it")]
    outcome: Annotated[Literal["passed", "odd-host"], Means("`passed` or `odd-host`")]
    findings: tuple[OddHosts, ...] = ()


@dataclass(frozen=True)
class Against:
    """Reference of runs that share no block with it: other runs, by the ratios of both to a baseline.

    runs: of the treatment. others: of the baseline. Each difference is in every ratio.
    """

    runs: tuple[Analysis, ...]
    others: tuple[Analysis, ...]
    differences: Annotated[
        tuple[doc.Inline, ...],
        Means("what differs between the runs besides what is compared, one text each"),
    ]

    @property
    def treatment_runs(
        self,
    ) -> Annotated[tuple[str, ...], Means("names of the runs of the treatment")]:
        """In their order."""
        return tuple(run.name for run in self.runs)

    @property
    def baseline_runs(
        self,
    ) -> Annotated[tuple[str, ...], Means("names of the runs of the baseline")]:
        """In their order."""
        return tuple(run.name for run in self.others)

    @property
    def names(self) -> tuple[str, str]:
        """The runs of either side: `tour-3, tour-4`."""
        return ", ".join(self.treatment_runs), ", ".join(self.baseline_runs)

    @property
    def sessions(
        self,
    ) -> Annotated[
        tuple[int, int],
        Means("sessions of treatment and baseline; with one on a side nothing is decided"),
    ]:
        """The sessions of all runs of either side."""
        return (
            sum(len(run.sessions) for run in self.runs),
            sum(len(run.sessions) for run in self.others),
        )

    @property
    def is_of_one_session(self) -> bool:
        """Whether a side has one only, so that nothing is decided."""
        return min(self.sessions) < 2


_STATUS = Means(
    "`failed`: a comparison is slower or costs more, or has no result, or a host lies apart; `blind`: one could not "
    "have shown `detect`; `undecided`: one is undecided or not tested; `passed`; the first that holds"
)


@dataclass(frozen=True)
class Checks:
    """All comparisons of a check."""

    analysis: Analysis
    treatments: Annotated[tuple[str, ...], Means("the treatments as they were written")]
    baseline: Annotated[str, Means("the baseline as it was written")]
    margins: Annotated[
        Mapping[Quantity, float],
        Means(
            "`speed`: the largest slowdown that passes, as a share of the time of the baseline; `cost`: the largest "
            "extra cost, as a share of that of the baseline; of benchmarks that declare their own the largest; what "
            "is not judged has none"
        ),
    ]
    comparisons: Annotated[
        tuple[Checked, ...], Means("one object for every metric, point and treatment")
    ]
    not_tested: Annotated[tuple[NotTested, ...], Means("what was not compared at all")]
    alpha: Annotated[float, Means("error rate of the words of a family")]
    against: Annotated[
        Against | None,
        Means(
            "of runs that share no block with the others: the ratio of a comparison is that of two to `baseline`"
        ),
    ] = None
    detect: Annotated[
        float | None, Means("the slowdown that every comparison has to be able to find, or null")
    ] = None
    strict: Annotated[bool, Means("whether what is undecided ends the command with 3, too")] = False
    hosts: Annotated[
        tuple[CheckedHost, ...],
        Means("hosts of a campaign, where one that lies apart fails the gate; else empty"),
    ] = ()
    change: ChangeOfHosts | None = None

    @property
    def confidence(self) -> Annotated[float, Means("confidence level of each interval")]:
        """The confidence of the run."""
        return self.analysis.rule.confidence

    @property
    def blind_count(
        self,
    ) -> Annotated[int, Means("undecided comparisons that could not have shown it", name="blind")]:
        """How many are blind."""
        return len(self.blind)

    @property
    def families(
        self,
    ) -> Annotated[tuple[int, ...], Means("sizes of the families, which are those of the result")]:
        """How many comparisons the words are corrected for, ascending."""
        return tuple(
            sorted({comparison.family for comparison in self.comparisons if comparison.family})
        ) or (0,)

    @property
    def blind(self) -> tuple[Checked, ...]:
        """The undecided comparisons in which a slowdown of size `detect` could not have been seen."""
        if self.detect is None:
            return ()
        comparisons = []
        for comparison in self.comparisons:
            detectable = comparison.detectable
            if comparison.outcome == "undecided" and (
                detectable is None or detectable > self.detect
            ):
                comparisons.append(comparison)
        return tuple(comparisons)

    def kind_of(self, comparison: Checked) -> Kind:
        """Return the outcome of a comparison; `blind` in place of undecided."""
        return "blind" if any(blind is comparison for blind in self.blind) else comparison.outcome

    @property
    def status(self) -> Annotated[Status, _STATUS]:
        """The first of `Status` that a comparison gives; `passed` without any."""
        kinds: list[Kind] = [self.kind_of(comparison) for comparison in self.comparisons]
        kinds += [host.outcome for host in self.hosts]
        if self.not_tested:
            kinds.append("not-tested")
        statuses = {STATUS_OF[kind] for kind in kinds}
        return next((status for status in _EXIT_STATUS if status in statuses), "passed")

    @property
    def exit_status(
        self,
    ) -> Annotated[
        int,
        Means(
            "of the command: 0 for `passed`, 1 for `failed`, 3 for `blind`; of `undecided` 0, or 3 with `strict`"
        ),
    ]:
        """The one rule of `vtax compare` and `vtax run --check`."""
        return self.status_of(self.status)

    def status_of(self, status: Status) -> int:
        """Return the exit status that a status gives."""
        return (_EXIT_STATUS_STRICT if self.strict else _EXIT_STATUS)[status]


def check(
    store: Store | None,
    analysis: Analysis,
    conditions: Conditions,
    treatment: str = "",
    baseline: str = "",
    metric: str = "",
    label: str = "",
) -> Checks:
    """Every metric that answers, or the one named, at every point of a run: treatments against a baseline.

    treatment: `PLATFORM[@factor=level,...]`; every other platform by default. baseline: likewise; the run's by
    default. store: needed where either is named. label: of the one benchmark. Raises BadInput for names that do not
    exist, a run without a finished block, where nothing can be compared, and as `refuse_within_margins`.
    """
    name, margins = analysis.name, conditions.margins
    limits = known_margins(margins, [analysis])
    refuse_within_margins(conditions.detect, limits)
    require_block(analysis)
    if len(analysis.platforms) < 2 and not (treatment and baseline):
        hint = "vtax run STUDY --ab PLATFORM:OPTION=OLD,PLATFORM:OPTION=NEW runs two that differ in an option"
        raise BadInput(f"{name} has one platform, so there is nothing to compare", hint=hint)
    to = (
        _side(store, analysis, baseline)
        if baseline
        else _platform_side(analysis.baseline, analysis)
    )
    check_names((to, to), metric, label)
    refuse_other_role([analysis], metric, limits)
    if treatment:
        sides = [_side(store, analysis, treatment)]
        not_tested = untested(analysis, sides[0].platform, to.platform)
    else:
        sides = [side for side in _platform_sides(analysis) if side.platform != to.platform]
        not_tested = untested(analysis, "", to.platform)
    pairs = list(_pairs(sides, to, metric, label))
    pairs = [pair for pair in pairs if pair.section.metric.role in limits]
    if not pairs:
        treatments = ", ".join(side.text for side in sides) or "no other platform"
        sentence = f"{treatments} and {to.text} have nothing in common that was measured in {name}"
        raise BadInput(sentence, hint=f"vtax show {name} prints what was measured")
    limits = of_pairs(limits, pairs)
    family = _family(analysis, to, pairs)
    comparisons, alpha = judged(
        analysis.rule, family, margins, lambda pair, margin: at_most(paired(pair, analysis), margin)
    )
    pair_keys = {_cells(pair) for pair in pairs}
    comparisons = [comparison for comparison in comparisons if _cells(comparison.pair) in pair_keys]
    return Checks(
        analysis,
        tuple(side.text for side in sides),
        to.text,
        limits,
        tuple(comparisons),
        tuple(not_tested),
        alpha,
        detect=conditions.detect,
        strict=conditions.strict,
    )


def known_margins(margins: Margins, runs: Sequence[Analysis]) -> dict[Quantity, float]:
    """Return margins with the largest that the runs declared in place of None."""
    declared_margins = [section.margin for run in runs for section in run.answered]
    largest = max(declared_margins, default=min(run.rule.margin for run in runs))
    limits: dict[Quantity, float] = {}
    for quantity, margin in margins.items():
        limits[quantity] = largest if margin is None else margin
    return limits


def of_pairs(margins: Mapping[Quantity, float], pairs: Sequence[CellPair]) -> dict[Quantity, float]:
    """Return the margins of what pairs are of: nothing is judged of a cost that was not counted."""
    roles = {pair.section.metric.role for pair in pairs}
    return {quantity: margin for quantity, margin in margins.items() if quantity in roles}


def margin_of(pair: CellPair, margins: Margins) -> float:
    """Return the margin of what a pair is of; that which its benchmark declared in place of None."""
    margin = margins["cost" if pair.section.metric.role == "cost" else "speed"]
    return pair.margin if margin is None else margin


def refuse_other_role(
    runs: Sequence[Analysis], metric: str, margins: Mapping[Quantity, float]
) -> None:
    """Raise BadInput for a metric that the conditions of a gate say nothing of, and for costs that no run counted."""
    roles = set()
    for run in runs:
        for section in run.sections:
            is_judged = section.metric.name == metric if metric else section.is_answer
            if is_judged:
                roles.add(section.metric.role)
    if not roles or roles & margins.keys():
        return
    if not metric:
        sentence = f"{runs[0].name} counted no host CPU, so nothing in it can cost more"
        raise BadInput(sentence, hint="write slower-by 5%, or name a cost with --metric")
    role = roles.pop()
    words = [word for word, quantity in CONDITIONS.items() if quantity == role]
    hint = f"write {words[0]} 5%" if words else "a gate judges rates, times and costs"
    raise BadInput(f"{metric} is a {role}", where="--metric", hint=hint)


def refuse_within_margins(detect: float | None, margins: Mapping[Quantity, float]) -> None:
    """Raise BadInput for a slowdown to be seen that a margin lets pass: no measurement could show it."""
    margin = max(margins.values())
    if detect is not None and detect <= margin:
        raise BadInput(
            f"a slowdown of {format_percent(detect, 'g')} passes within the margin of {format_percent(margin, 'g')}, "
            "so no run can show it",
            where="--detect",
            hint="give --detect above the margin",
        )


def _family(analysis: Analysis, to: Side, pairs: Sequence[CellPair]) -> Sequence[CellPair]:
    """Return what is judged together: every platform in these metrics, so that no word depends on what is
    named beside it. Levels that are compared with others are families of their own.
    """
    sides = _platform_sides(analysis)
    tables = dict.fromkeys((pair.section.metric.name, pair.section.label) for pair in pairs)
    all_pairs = [pair for table in tables for pair in _pairs(sides, to, *table)]
    has_all = {_cells(pair) for pair in pairs} <= {_cells(pair) for pair in all_pairs}
    return all_pairs if has_all else pairs


def _platform_side(platform: str, analysis: Analysis) -> Side:
    """Return the side of a platform at all levels."""
    return Side(platform, analysis, platform, NO_LEVELS)


def _platform_sides(analysis: Analysis) -> list[Side]:
    """Return a side for every platform that was measured."""
    return [_platform_side(p.name, analysis) for p in analysis.platforms if p.available]


def _pairs(sides: Iterable[Side], to: Side, metric: str, label: str) -> Iterator[CellPair]:
    """Yield what each side is compared in with another one, but not with itself."""
    for side in sides:
        for pair in pairs_of(side, to, metric, label):
            if pair.treatment is not pair.baseline:
                yield pair


def _cells(pair: CellPair) -> tuple[int, int]:
    return id(pair.treatment), id(pair.baseline)


def require_block(analysis: Analysis) -> None:
    """Raise BadInput for a run without a finished block."""
    has_value = any(row.summary for *_, row in every_row(analysis.primary))
    if analysis.blocks < 1 or not has_value:
        raise BadInput(
            f"{analysis.name} has no finished block", hint="vtax list shows the blocks of every run"
        )


def untested(analysis: Analysis, platform: str, baseline: str) -> list[NotTested]:
    """Return the platforms of a run that did not run, and points that they could not carry. platform: of which alone;
    empty for all."""
    not_tested = []
    if not platform:
        for record in analysis.platforms:
            if record.name != baseline and not record.available:
                not_tested.append(NotTested(record.name, record.reason, record.hint))
    for point in analysis.untested:
        if point.platform != baseline and platform in ("", point.platform):
            not_tested.append(NotTested(point.platform, point.reason, point.hint, point.label))
    return not_tested


def _side(store: Store | None, analysis: Analysis, text: str) -> Side:
    """Return a side of the run itself. Raises BadInput for one of another run, and for a whole run."""
    if store is None:
        raise BadInput("a run without a store cannot be asked for a side by name")
    side = side_of(store, text, {analysis.name: analysis}, analysis.name)
    if side.analysis.name != analysis.name or side.is_run:
        hint = f"name one of {', '.join(p.name for p in analysis.platforms)}"
        raise BadInput(f"{text} is not a platform of {analysis.name}", hint=hint)
    return side


def judged(
    rule: Rule,
    pairs: Sequence[CellPair],
    margins: Margins,
    claim_of: Callable[[CellPair, float], Claimed],
) -> tuple[list[Checked], float]:
    """(every comparison with its outcome, the error rate of the words of each family).

    claim_of: what is claimed of a pair and its margin: `passed` confirms it, `slower` or `costs-more` does not; raises
        StatsError for a pair without a result.
    """
    alpha, result = rule.alpha, dict[int, Checked]()
    for family in by_table(pairs):
        claims: dict[str, list[RangeTest]] = {}
        for number in family:
            try:
                claimed = claim_of(pairs[number], margin_of(pairs[number], margins))
                claims[str(number)] = [RangeTest((claimed,))]
            except StatsError as error:
                result[number] = Checked(pairs[number], "no-result", reasons=(error.note,))
        margin = margin_of(pairs[family[0]], margins)
        for key, judgement in judge_claims(replace(rule, margin=margin), claims).items():
            checked = _checked(pairs[int(key)], judgement, margin)
            result[int(key)] = replace(checked, family=judgement.family, margin=margin)
            alpha = min(alpha, judgement.alpha)
    return [result[number] for number in range(len(pairs))], alpha


def _checked(pair: CellPair, judgement: Judgement, margin: float) -> Checked:
    ((answer,),) = judgement.answers
    if isinstance(answer, StatsError):
        return Checked(pair, "no-result", reasons=(answer.note,))
    outcome, reasons = _WORDS[judgement.kind], list(_reasons(judgement.warnings))
    if outcome == "slower" and pair.section.metric.role == "cost":
        outcome = "costs-more"
    blocks = judgement.blocks_low, judgement.blocks_needed
    if outcome == "passed" and pair.clock_is_wrong:
        outcome, blocks, judgement = "undecided", (None, None), replace(judgement, assumptions=())
        reasons.append(Note("withheld-clock-check"))
    return Checked(
        pair,
        outcome,
        answer.ratio,
        judgement.p_contradicted,
        judgement.p_reproduced,
        _detectable(answer, judgement, margin),
        *blocks,
        tuple(reasons),
        _noise(answer),
        judgement.assumptions,
    )


def _reasons(notes: Sequence[str]) -> Iterator[str]:
    """Yield what is said of findings as said of a comparison."""
    for note in notes:
        if isinstance(note, Note) and note.code == "few-blocks-for-claim":
            yield Note("few-blocks", **note.data)
        else:
            yield note


def _detectable(answer: Tested, judgement: Judgement, margin: float) -> float | None:
    """Return the smallest slowdown found with probability 0.8: the margin, and what a test detects beyond it."""
    ratio = answer.ratio
    if ratio.n_blocks < MINIMUM_BLOCKS or (answer.claimed.apart and ratio.n_sessions == 1):
        return None
    slowdown = log_margin(margin) + detectable_log(ratio, judgement.alpha, judgement.family)
    return math.expm1(slowdown) if slowdown < LARGEST_LOG else None


def _noise(answer: Tested) -> float | None:
    """Return the standard deviation of the log-ratio from block to block; None across runs, over sessions and of one
    block."""
    ratio = answer.ratio
    is_known = ratio.n_blocks > 1 and ratio.n_sessions == 1 and not answer.claimed.apart
    return ratio.se_log * math.sqrt(ratio.n_blocks) if is_known else None
