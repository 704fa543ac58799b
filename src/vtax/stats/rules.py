"""Rules that end a run: one class for each, with all that a rule decides and what its results are computed at.

Looking at the data to decide whether to go on changes what an interval and a test mean, so each rule also says at
which level its results must be computed. `RULES` is the only place that knows a rule by its name in a study file.
Reading a study needs no numpy, so what does is imported where it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from vtax.messages import Note
from vtax.stats.margin import check_margin
from vtax.stats.terms import EARLY_BLOCKS, MINIMUM_BLOCKS, StatsError, Stop
from vtax.units import format_count

if TYPE_CHECKING:
    from vtax.stats.checks import Array
    from vtax.stats.ratio import Ratio
    from vtax.stats.sequential import Looks

UNBOUNDED = 10**6  # blocks, where a time ends a run
OVER = "budget-over"  # the reason of a run that its time ended


@dataclass(frozen=True)
class Decision:
    """Whether a run goes on.

    stop: make no further block.
    reached: whether the rule reached its target; false is a missed target.
    reason: one sentence to store and show.
    open: contrasts that still miss the target, which a further block must hold, in the order given; none means all.
    """

    stop: bool
    reached: bool
    reason: str
    open: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """A look at a run after a whole block.

    blocks: how many are whole.
    names: of all contrasts.
    judged: returns the decision by what every contrast shows.
    has_answers: whether that is as the result judges, and not by plain intervals and boundaries.
    """

    blocks: int
    names: tuple[str, ...]
    judged: Callable[[], Decision]
    has_answers: bool

    @property
    def can_settle(self) -> bool:
        """Whether a contrast may have its word already."""
        return self.has_answers and self.blocks >= EARLY_BLOCKS

    def without_settled(self, going_on: Decision) -> Decision:
        """Return the decision to go on without the contrasts that are settled; to stop where all are."""
        if not self.can_settle:
            return going_on
        goal = self.judged()
        return goal if goal.stop else replace(going_on, open=goal.open)


@dataclass(frozen=True)
class Rule(ABC):
    """A stopping rule, with the settings of a study's `[design]`; `keys` are those that the rule reads.

    min_blocks, max_blocks: of rules that look at figures to end a run.
    budget_s: the time after which no block may end. Raises StatsError on a rule that cannot be followed.
    """

    blocks: int = 5
    min_blocks: int = 5
    max_blocks: int = 30
    precision: float = 0.02
    margin: float = 0.02
    confidence: float = 0.95
    budget_s: float | None = None

    name: ClassVar[Stop]
    """In a study file."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Keys of `[design]` that only some rules read, and this one does."""
    counted_as: ClassVar[Stop] = "fixed"
    """The rule that a number of blocks, given on the command line, makes of it."""
    timed_as: ClassVar[Stop]
    """The rule that a time makes of it; by default the same."""
    is_counted: ClassVar[bool] = False
    """Whether it ends after `blocks`."""
    has_known_end: ClassVar[bool] = False
    """Whether nothing but its number of blocks, or a time, ends a run."""
    takes_more: ClassVar[bool] = False
    """Whether blocks or sessions may follow: it looked at no figures, or allows for every look."""
    allows_for_looks: ClassVar[bool] = False
    """Whether its levels hold over all looks: a result may be looked at, and added to, at any time."""
    leaves_settled: ClassVar[bool] = True
    """Whether a contrast that is settled is not measured again."""
    leaves_early: ClassVar[bool] = False
    """Whether one that is beyond doubt is decided after EARLY_BLOCKS, and not measured again (`stats.early`)."""
    has_targets: ClassVar[bool] = False
    """Whether it asks something of every contrast."""
    ends_by_verdicts: ClassVar[bool] = False
    """Whether verdicts end it, so that it needs another platform than the baseline, and blocks enough for them."""
    needs_budget: ClassVar[bool] = False
    """Whether it needs a time."""

    def __init_subclass__(cls) -> None:
        """Let a rule stay what it is when a time is given, unless it says otherwise."""
        super().__init_subclass__()
        if hasattr(cls, "name") and "timed_as" not in cls.__dict__:
            cls.timed_as = cls.name

    def __post_init__(self) -> None:
        """Raise StatsError on a rule that cannot be followed."""
        check_margin(self.margin)
        if self.blocks < 1 or self.min_blocks < 2 or self.max_blocks < self.min_blocks:
            raise StatsError("a rule needs blocks >= 1 and 2 <= min_blocks <= max_blocks")
        if not (self.precision > 0 and 0.5 < self.confidence < 1):
            raise StatsError("a rule needs precision > 0 and a confidence between 0.5 and 1")
        if self.needs_budget and self.budget_s is None:
            raise StatsError(f"the rule {self.name!r} needs a time")

    @property
    def alpha(self) -> float:
        """Error rate of the verdicts."""
        return 1 - self.confidence

    @property
    def fewest_blocks(self) -> int:
        """The number of blocks that are made whatever their outcome, unless a time ends the run."""
        return self.min_blocks

    @property
    def most_blocks(self) -> int:
        """The number of blocks after which a run ends at the latest."""
        return self.max_blocks

    @property
    def fewest_planned(self) -> int:
        """The fewest blocks that a plan for a precision under this rule may have."""
        return MINIMUM_BLOCKS

    @property
    def target(self) -> str:
        """The target of every contrast, in words."""
        return "a verdict"

    @property
    def target_half_width(self) -> float | None:
        """The relative half-width that every interval must have; None where the target is a verdict."""
        return None

    @property
    def looks(self) -> Looks | None:
        """The looks of group-sequential boundaries; None of a rule without boundaries."""
        return None

    @property
    def going_on(self) -> Rule:
        """The rule of a run that is not ended by its time, for what further blocks would show."""
        return self

    @property
    def of_findings(self) -> Rule:
        """The rule by which findings of claims are judged: once, at a level for all looks, or valid at any of them."""
        return self.judged_once

    def within(self, margin: float | None) -> Rule:
        """Return the rule with the margin of a benchmark; itself where that has none of its own."""
        return self if margin is None else replace(self, margin=margin)

    @property
    def judged_once(self) -> FixedRule:
        """The rule of one look with the same settings."""
        settings = {field.name: getattr(self, field.name) for field in fields(FixedRule)}
        return FixedRule(**settings)

    def ended_after(self, blocks: int) -> Rule:
        """Return the rule of a finished run whose time was over after so many whole blocks."""
        return self

    def of(self, logs: Array) -> Rule:
        """Return the rule of one contrast, of which logs has one per block of its sides, NaN where it has none."""
        import numpy as np

        positions = np.flatnonzero(~np.isnan(logs))
        return self.of_blocks(positions.size, int(positions[-1]) if positions.size else -1)

    def of_blocks(self, count: int, last: int) -> Rule:
        """Return the rule of one contrast, by the count of its blocks and the number of the last of them.

        One that stands in the last block was measured until the time was over, whatever it lost before: its last look
        is at its own number of blocks. Any other was left out at a look of its own, or lost: it has no such look.
        """
        return self

    @abstractmethod
    def after(self, look: Look) -> Decision:
        """Return whether a run goes on, the time apart."""

    def interval_confidence(self, blocks: int) -> float:
        """Return the confidence of a t-interval that holds at `confidence` under the rule, after so many blocks."""
        return self.confidence

    def plain_level(self, blocks: int) -> float:
        """Return the error rate of p-values that `valid_p` returns, after so many blocks."""
        return 1 - self.interval_confidence(blocks)

    def look_level(self, blocks: int) -> float:
        """Return the error rate of verdicts after so many blocks; alpha where boundaries or p-values allow for all
        looks."""
        return self.plain_level(blocks)

    def test_level(self, alpha: float, blocks: int) -> float:
        """Return the one-sided level of Student's t after so many blocks, for an error of alpha over all looks."""
        return alpha

    def has_look(self, blocks: int) -> bool:
        """Return whether a verdict may fall after so many blocks."""
        return True

    def valid_p(self, p: float, ratio: Ratio) -> float:
        """Return the one-sided p-value of a t-test as it is valid under the rule: for `OpenRule` after any block."""
        return p

    def planned(self, sessions: str) -> str:
        """Return how many blocks the rule makes, as a plan says it. sessions: how they are split over sessions."""
        return f"{self.min_blocks}-{self.max_blocks} blocks"

    @abstractmethod
    def declared(self) -> tuple[Note, ...]:
        """Return the sentences that say what was declared before the run."""


class _Counted(Rule):
    """A rule that ends after `blocks`."""

    keys = ("blocks",)
    is_counted = True
    takes_more = True

    @property
    def fewest_blocks(self) -> int:
        """The same as the most."""
        return self.blocks

    @property
    def most_blocks(self) -> int:
        """As declared."""
        return self.blocks

    def counted(self, blocks: int) -> Decision:
        """Return the decision by the number of blocks alone."""
        is_done = blocks >= self.blocks
        code = "one-block-made" if self.blocks == 1 else "blocks-made"
        return Decision(is_done, is_done, Note(code, count=blocks, total=self.blocks))

    def planned(self, sessions: str) -> str:
        """Return `5 blocks in 5 sessions, 1 block each`."""
        return f"{format_count(self.blocks, 'block')}{sessions}"


class FixedRule(_Counted):
    """After `blocks`, whatever they show: every contrast stands in every block."""

    name = "fixed"
    timed_as = "budget"
    has_known_end = True
    leaves_settled = False

    def after(self, look: Look) -> Decision:
        """Return the decision by the number of blocks."""
        return self.counted(look.blocks)

    def declared(self) -> tuple[Note, ...]:
        """Return the number of blocks."""
        return (Note("rule-fixed", blocks=self.blocks),)


class OpenRule(_Counted):
    """As `VerdictRule`, after `blocks` at the latest, and again whenever more are added: levels hold at any look."""

    name = "open"
    counted_as = "open"
    allows_for_looks = True
    leaves_early = True

    @property
    def of_findings(self) -> Rule:
        """The rule itself, whose p-values are valid at any look."""
        return self

    def after(self, look: Look) -> Decision:
        """Return the decision by the number of blocks; and by figures, once all contrasts are settled."""
        blocks_counted = self.counted(look.blocks)
        return blocks_counted if blocks_counted.stop else look.without_settled(blocks_counted)

    def interval_confidence(self, blocks: int) -> float:
        """Return that of a repeated interval (Jennison & Turnbull 1984); of EARLY_BLOCKS, the plain one."""
        if blocks == EARLY_BLOCKS:
            return self.confidence
        return 1 - 2 * self.test_level(self.alpha / 2, blocks)

    def plain_level(self, blocks: int) -> float:
        """Return alpha: p-values hold at every look."""
        return self.alpha

    def test_level(self, alpha: float, blocks: int) -> float:
        """Return that of the test that may be looked at for ever."""
        from vtax.stats import anytime

        return anytime.level(alpha, blocks)

    def valid_p(self, p: float, ratio: Ratio) -> float:
        """Return the p-value that holds after any block; the plain one of EARLY_BLOCKS, see `stats.early`."""
        if ratio.n_blocks == EARLY_BLOCKS and ratio.n_sessions == 1:
            return p
        from vtax.stats import anytime

        numbers = {ratio.df + 1, *(level.count for level in ratio.nesting[1:])}
        return max(anytime.p_value(p, number) for number in numbers)

    def planned(self, sessions: str) -> str:
        """Return `5 blocks, and more whenever wanted`."""
        return f"{super().planned(sessions)}, and more whenever wanted"

    def declared(self) -> tuple[Note, ...]:
        """Return that more may be added."""
        return Note("rule-open"), Note("rule-early")


class _Adaptive(Rule):
    """A rule that ends when every contrast has its target, after `min_blocks` to `max_blocks`."""

    keys: ClassVar[tuple[str, ...]] = ("min_blocks", "max_blocks")
    has_targets = True

    def after(self, look: Look) -> Decision:
        """Return the decision by figures, once the fewest blocks are made, and of those beyond doubt before."""
        if look.blocks >= self.min_blocks:
            return look.judged()
        reason = Note("fewest-blocks-made", count=look.blocks, minimum=self.min_blocks)
        leaves_early = self.leaves_early and self.min_blocks <= MINIMUM_BLOCKS
        if not (leaves_early and look.can_settle):
            return Decision(False, False, reason, look.names)
        goal = look.judged()
        return goal if goal.reached else Decision(False, False, reason, goal.open or look.names)


class PrecisionRule(_Adaptive):
    """When every ratio's relative half-width is at most `precision`."""

    name = "precision"
    keys = (*_Adaptive.keys, "precision")

    @property
    def fewest_planned(self) -> int:
        """As declared."""
        return self.min_blocks

    @property
    def target(self) -> str:
        """An interval of that width."""
        return Note("interval-within", precision=f"{self.precision * 100:g}")

    @property
    def target_half_width(self) -> float:
        """As declared."""
        return self.precision

    def interval_confidence(self, blocks: int) -> float:
        """Return that of a contrast which leaves when its interval is narrow."""
        return 1 - width_share(self.min_blocks) * self.alpha

    def planned(self, sessions: str) -> str:
        """Return `5-30 blocks until every interval is within ±2%`."""
        percent = f"{self.precision * 100:g}"
        return f"{super().planned(sessions)} until every interval is within ±{percent}\N{NO-BREAK SPACE}%"

    def declared(self) -> tuple[Note, ...]:
        """Return the precision and the numbers of blocks."""
        data = {"minimum": self.min_blocks, "maximum": self.max_blocks}
        return (Note("rule-precision", precision=f"{self.precision * 100:g}", **data),)


@dataclass(frozen=True)
class VerdictRule(_Adaptive):
    """When every contrast has its verdict within `margin`, at a family-wise error of alpha over the looks after every
    block.

    ended: number of whole blocks after which the time of a finished run was over. Their look spends the rest of the
        error, since the time, not the data, ended the run; `of_blocks` says for which contrasts.
    """

    ended: int | None = None

    name = "verdict"
    allows_for_looks = True
    leaves_early = True
    ends_by_verdicts = True

    @property
    def fewest_blocks(self) -> int:
        """Up to the first look."""
        return self.looks.first

    @property
    def fewest_planned(self) -> int:
        """The same."""
        return self.looks.first

    @property
    def looks(self) -> Looks:
        """The looks after every block. Fewer blocks than the first never judge."""
        from vtax.stats.sequential import Looks

        first = max(self.min_blocks, MINIMUM_BLOCKS)
        last_look, ended = max(self.max_blocks, first), self.ended
        if ended is None or ended < MINIMUM_BLOCKS:
            return Looks(first, last_look)
        return Looks(min(first, ended), max(last_look, ended), ended)

    @property
    def going_on(self) -> Rule:
        """The rule without that end."""
        return replace(self, ended=None)

    def ended_after(self, blocks: int) -> Rule:
        """Return the rule with that end."""
        return replace(self, ended=blocks)

    def of_blocks(self, count: int, last: int) -> Rule:
        """Return the rule with that end where the contrast stood in the last block."""
        if self.ended is None:
            return self
        return replace(self, ended=count if last >= self.ended - 1 else None)

    def interval_confidence(self, blocks: int) -> float:
        """Return that of a repeated interval (Jennison & Turnbull 1984), from the first look on."""
        if not self.looks.first <= blocks:
            return self.confidence
        return 1 - 2 * self.test_level(self.alpha / 2, blocks)

    def look_level(self, blocks: int) -> float:
        """Return alpha: boundaries hold over all looks."""
        return self.alpha

    def test_level(self, alpha: float, blocks: int) -> float:
        """Return that of the boundary; the first and the last look bound blocks."""
        looks = self.looks
        return float(looks.levels(alpha)[min(max(blocks, looks.first), looks.final) - looks.first])

    def has_look(self, blocks: int) -> bool:
        """Return whether the boundary has a look there."""
        return self.looks.first <= blocks <= self.looks.last

    def planned(self, sessions: str) -> str:
        """Return `5-30 blocks until every comparison is decided`."""
        return f"{super().planned(sessions)} until every comparison is decided"

    def declared(self) -> tuple[Note, ...]:
        """Return the numbers of blocks, and what it means that a time ended the run."""
        rule = Note("rule-verdict", minimum=self.looks.first, maximum=self.looks.last)
        notes = [rule, Note("rule-early")]
        if self.looks.ended is not None:
            notes.append(Note("rule-verdict-ended"))
        return tuple(notes)


class BudgetRule(Rule):
    """When the next block would end after `budget_s`, which bounds the other rules too.

    Every contrast stands in every block, save those that lie beyond doubt (`stats.early`): a platform that is ten times
    slower would take the time of all others. Whether one leaves depends on its own blocks alone, and what is left of
    the time goes to all others alike, so the number of their blocks depends on none of their own figures, and their
    single look at the end is that of a number fixed before. A platform shares its baseline with others, but the factor
    of two is far beyond what the baseline's noise moves. The family keeps the size it was declared with.
    """

    name = "budget"
    takes_more = True
    leaves_settled = False
    leaves_early = True
    needs_budget = True

    @property
    def most_blocks(self) -> int:
        """Those that fit."""
        return UNBOUNDED

    def after(self, look: Look) -> Decision:
        """Return that a block may follow, until all contrasts are beyond doubt."""
        going_on = Decision(False, False, Note("time-is-left"))
        return look.without_settled(going_on) if look.names else going_on

    def planned(self, sessions: str) -> str:
        """Return `as many blocks as the budget allows`."""
        return f"as many blocks as the budget allows{sessions}"

    def declared(self) -> tuple[Note, ...]:
        """Return that a time was declared."""
        return Note("rule-budget"), Note("rule-early"), Note("rule-early-again")


RULES: Mapping[str, type[Rule]] = {
    rule.name: rule for rule in (FixedRule, OpenRule, PrecisionRule, VerdictRule, BudgetRule)
}
"""Name in a study file -> the rule."""


def rule_of(design: Mapping[str, Any], because: str = "") -> Rule:
    """Return the rule that a study's `[design]` declares; the defaults where it says nothing. Raises StatsError.

    because: why a finished run ended, the reason of its last `Decision`.
    """
    keys = ("blocks", "min_blocks", "max_blocks", "precision", "margin", "confidence")
    parameters = {name: design[name] for name in keys if design.get(name) is not None}
    rule = rule_class(design)(**parameters, budget_s=design.get("budget"))
    if isinstance(because, Note) and because.code == OVER:
        return rule.ended_after(because.data["count"])
    return rule


def margins_of(declared: Mapping[str, Any]) -> dict[str, float]:
    """Return the margins of a study's `[[benchmark]]` tables that declare their own, by the labels of the tables."""
    margins = {}
    for table in declared.get("benchmark") or ():
        if table.get("margin") is not None:
            margins[str(table.get("label") or table["name"])] = float(table["margin"])
    return margins


def rule_class(design: Mapping[str, Any]) -> type[Rule]:
    """Return the class of the rule that a study's `[design]` declares."""
    return RULES[design.get("stop") or "fixed"]


def readers_of(key: str) -> tuple[str, ...]:
    """Return the names of the rules that read a key of `[design]`; all where every rule does."""
    readers = tuple(name for name, rule in RULES.items() if key in rule.keys)
    return readers or tuple(RULES)


def width_share(min_blocks: int) -> float:
    """Return the share of the error rate at which results must be computed when widths of intervals end measuring.

    A contrast that `PrecisionRule` leaves out because its interval is narrow is one whose spread came out
    small: a plain 95 % interval then covers 92 % at worst with 5 blocks at least, 93.5 % with 10. For one interval
    min_blocks / (min_blocks + 4) would restore 95 %, but in a family of six, each left out at a time of its own, it
    gave up to 5.8 % false alarms. min_blocks / (min_blocks + 7) keeps them below 5 % in the worst case over all
    ratios of noise to target; it was fitted to simulations (bench/statistics/calibrate.py).
    """
    return min_blocks / (min_blocks + 7)


def takes_more_blocks(rule: Rule, order: str, sessions: int) -> bool:
    """Return whether blocks may be added to a finished run.

    That is a run of one session, in an order of blocks, by a rule that looked at no figures or allows for every look.
    """
    return rule.takes_more and order != "sequential" and sessions == 1
