"""When a run has enough blocks: rules declared before it, judged on whole blocks, as pure decisions.

Looking at the data to decide whether to go on changes what an interval and a test mean, so each rule also says at
which level its results must be computed (`interval_confidence`); `judge.py` uses it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from vtax.messages import Note, together
from vtax.stats import anytime
from vtax.stats.checks import MINIMUM_BLOCKS, Array, StatsError, without_missing
from vtax.stats.margin import check_margin
from vtax.stats.ratio import Ratio, ratio_of_logs
from vtax.stats.sequential import Looks, sequential_verdicts
from vtax.stats.terms import COUNTED, Stop

MAX_LOST = 3  # blocks without a value, one after another, after which a contrast keeps no run going
UNBOUNDED = 10**6  # blocks, where a time ends a run
OVER = "budget-over"  # the reason of a run that its time ended
LOOKS_AGAIN = ("open", "verdict")  # rules whose levels hold over all their looks
Missed = Callable[[Mapping[str, Array]], Mapping[str, bool]]


@dataclass(frozen=True)
class Rule:
    """A stopping rule; names as in the study file.

    stop: when a run ends.
        "fixed": after `blocks`.
        "budget": when the next block would end after budget_s, which bounds the other rules too.
        "precision": when every ratio's relative half-width is at most `precision`.
        "verdict": when every contrast has its verdict within `margin`, at a family-wise error of alpha over the looks
            after every block.
        "open": as "verdict", after `blocks` at the latest, and again whenever more are added.
        The first two hold every contrast in every block; under the others a contrast that is settled is not measured
        again.
    min_blocks, max_blocks: of "precision" and "verdict".
    ended: number of whole blocks after which the time of a finished run of "verdict" was over. Their look spends the
        rest of the error, since the time, not the data, ended the run; `of` says for which contrasts.
    """

    stop: Stop
    blocks: int = 5
    min_blocks: int = 5
    max_blocks: int = 30
    precision: float = 0.02
    margin: float = 0.02
    confidence: float = 0.95
    budget_s: float | None = None
    ended: int | None = None

    def __post_init__(self) -> None:
        """Raise StatsError on a rule that cannot be followed."""
        check_margin(self.margin)
        if self.blocks < 1 or self.min_blocks < 2 or self.max_blocks < self.min_blocks:
            raise StatsError("a rule needs blocks >= 1 and 2 <= min_blocks <= max_blocks")
        if not (self.precision > 0 and 0.5 < self.confidence < 1):
            raise StatsError("a rule needs precision > 0 and a confidence between 0.5 and 1")
        if self.stop == "budget" and self.budget_s is None:
            raise StatsError("the rule 'budget' needs a time")

    @property
    def is_counted(self) -> bool:
        """Whether it ends after `blocks`."""
        return self.stop in COUNTED

    @property
    def takes_more(self) -> bool:
        """Whether blocks or sessions may follow: it looked at no figures, or allows for every look."""
        return self.stop in ("fixed", "open", "budget")

    @property
    def alpha(self) -> float:
        """Error rate of the verdicts."""
        return 1 - self.confidence

    @property
    def looks(self) -> Looks:
        """The looks of "verdict". Fewer blocks than its first never judge."""
        first = max(self.min_blocks, MINIMUM_BLOCKS)
        last, ended = max(self.max_blocks, first), self.ended
        if ended is None or ended < MINIMUM_BLOCKS:
            return Looks(first, last)
        return Looks(min(first, ended), max(last, ended), ended)

    def of(self, logs: Array) -> Rule:
        """Return the rule of one contrast, of which logs has one per block of its sides, NaN where it has none.

        One that stands in the last block was measured until the time was over, whatever it lost before: its last look
        is at its own number of blocks. Any other was left out at a look of its own, or lost: it has no such look.
        """
        present = np.flatnonzero(~np.isnan(logs))
        return self.of_blocks(present.size, int(present[-1]) if present.size else -1)

    def of_blocks(self, count: int, last: int) -> Rule:
        """Return the rule of one contrast, by the count of its blocks and the number of the last of them."""
        if self.ended is None:
            return self
        return replace(self, ended=count if last >= self.ended - 1 else None)

    @property
    def going_on(self) -> Rule:
        """The rule of a run that is not ended by its time, for what further blocks would show."""
        return replace(self, ended=None)


def takes_more_blocks(rule: Rule, order: str, sessions: int) -> bool:
    """Return whether blocks may be added to a finished run.

    That is a run of one session, in an order of blocks, by a rule that looked at no figures or allows for every look.
    """
    return rule.takes_more and order != "sequential" and sessions == 1


def rule_of(design: Mapping[str, Any], because: str = "") -> Rule:
    """Return the rule that a study's `[design]` declares; the defaults where it says nothing. Raises StatsError.

    because: why a finished run ended, the reason of its last `Decision`.
    """
    ended = because.data["count"] if isinstance(because, Note) and because.code == OVER else None
    known = ("blocks", "min_blocks", "max_blocks", "precision", "margin", "confidence")
    given = {name: design[name] for name in known if design.get(name) is not None}
    return Rule(design.get("stop", "fixed"), **given, budget_s=design.get("budget"), ended=ended)


@dataclass(frozen=True)
class Decision:
    """Whether a run goes on.

    stop: make no further block.
    reached: whether the rule reached its target; false is a missed target, for --strict.
    reason: one sentence to store and show.
    open: contrasts that still miss the target, which a further block must hold, in the order given; none means all.
    """

    stop: bool
    reached: bool
    reason: str
    open: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def decide(
    rule: Rule,
    contrasts: Mapping[str, Array],
    blocks: int,
    families: Mapping[str, str] | None = None,
    missed_by: Missed | None = None,
) -> Decision:
    """Return whether to stop after so many whole blocks; `within_budget` adds the time.

    A contrast with an infinite log-ratio has a value without a logarithm. It cannot be judged, and further blocks do
    not help, so only the others keep a run going. A contrast without a value in the last MAX_LOST blocks that were
    made for it keeps no run going either: its platform is lost.

    rule: of the run.
    contrasts: name -> one log-ratio per block, in the order of the blocks, NaN where a block has none. (For a study of
        one platform, without contrasts: the logarithm of each cell's block means; "precision" is then that of means.)
    blocks: number of whole blocks.
    families: name -> the family it is judged in, which must be that of the result; absent, all are one.
    missed_by: returns which of the contrasts that can be judged miss the target, as the result judges, and whether
        further blocks may help each (`judge.missed`); those that they do not help keep no run going. None: by plain
        intervals and boundaries.
    """
    if rule.stop == "budget":
        return Decision(False, False, Note("time-is-left"))
    if rule.is_counted:
        is_done = blocks >= rule.blocks
        code = "one-block-made" if rule.blocks == 1 else "blocks-made"
        counted = Decision(is_done, is_done, Note(code, count=blocks, total=rule.blocks))
        if is_done or rule.stop == "fixed" or missed_by is None or blocks < MINIMUM_BLOCKS:
            return counted
        goal = _judged(rule, contrasts, blocks, families, missed_by)
        return goal if goal.stop else replace(counted, open=goal.open)
    if blocks < rule.min_blocks:
        reason = Note("fewest-blocks-made", count=blocks, minimum=rule.min_blocks)
        return Decision(False, False, reason, tuple(contrasts))
    return _judged(rule, contrasts, blocks, families, missed_by)


def _judged(
    rule: Rule,
    contrasts: Mapping[str, Array],
    blocks: int,
    families: Mapping[str, str] | None,
    missed_by: Missed | None,
) -> Decision:
    """Return the decision by what every contrast shows."""
    if not contrasts:
        return Decision(True, False, Note("nothing-to-compare"), (), (Note("no-data"),))
    judged = _judgeable(contrasts)
    if missed_by is not None:
        missed = missed_by(judged)
    elif rule.stop == "precision":
        missed = dict.fromkeys(_imprecise(rule, judged), True)
    else:
        missed = dict.fromkeys(_undecided(rule, judged, families or {}), True)
    left_out: dict[str, list[str]] = {"refused": [], "lost": [], "withheld": []}
    left_out["refused"] += [name for name in contrasts if name not in judged]
    open_ = []
    for name, may_help in missed.items():
        if _is_lost(judged[name]):
            left_out["lost"].append(name)
        elif not may_help:
            left_out["withheld"].append(name)
        else:
            open_.append(name)
    return _towards(rule, tuple(contrasts), tuple(open_), left_out, blocks)


def _judgeable(contrasts: Mapping[str, Array]) -> dict[str, Array]:
    return {name: logs for name, logs in contrasts.items() if not np.isinf(logs).any()}


def _is_lost(logs: Array) -> bool:
    """Return whether the last blocks that were made for a contrast gave it no value: another is unlikely to."""
    return logs.size >= MAX_LOST and bool(np.isnan(logs[-MAX_LOST:]).all())


def _towards(
    rule: Rule,
    contrasts: tuple[str, ...],
    missed: tuple[str, ...],
    left_out: Mapping[str, Sequence[str]],
    blocks: int,
) -> Decision:
    """Return the decision of a rule with a target for every contrast.

    rule: of the run.
    contrasts: names of all.
    missed: those that miss the target, and that further blocks may help.
    left_out: reason -> contrasts that further blocks would not help.
    blocks: number of whole blocks.
    """
    total = len(contrasts)
    what: str = "a verdict"
    if rule.stop == "precision":
        what = Note("interval-within", precision=f"{rule.precision * 100:g}")
    excluded = set(chain.from_iterable(left_out.values()))
    if not (missed or excluded):
        return Decision(True, True, Note("all-have", count=total, what=what, blocks=blocks))
    unjudged = together(
        [_some(why, len(names), total, last=MAX_LOST) for why, names in left_out.items() if names]
    )
    if not missed:
        refused = tuple(name for name in contrasts if name in excluded)
        return Decision(True, False, unjudged, refused, (unjudged,))
    still = _some("misses", len(missed), total, what=what, blocks=blocks)
    others = [unjudged] if unjudged else []
    if blocks < (rule.blocks if rule.is_counted else rule.max_blocks):
        return Decision(False, False, together([still, *others]), missed)
    short = tuple(name for name in contrasts if name in excluded.union(missed))
    reason = together([Note("most-allowed", what=still), *others])
    return Decision(True, False, reason, short, (still, *others))


def _some(code: str, number: int, total: int, **data: Any) -> Note:
    """Return the note of some of all contrasts, or of the only one."""
    if total == 1:
        return Note(f"contrast-{code}", **data)
    if code == "misses":
        code = "miss"
    return Note(f"contrasts-{code}", count=number, total=total, **data)


def _duration(seconds: float) -> str:
    """Return a duration as in a study, in the largest unit of a whole number: `2 h`, `90 min`, `45 s`."""
    for unit, factor in (("h", 3600), ("min", 60)):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds / factor:.0f} {unit}"
    return f"{seconds:g} s"


def within_budget(
    rule: Rule, goal: Decision, blocks: int, elapsed_s: float, next_block_s: float
) -> Decision:
    """Return the decision `goal`, or that to stop where a further block would end after the budget.

    rule: of the run.
    goal: the decision without the time.
    blocks: number of whole blocks.
    elapsed_s: time since the run began.
    next_block_s: expected length of a further block.
    """
    if goal.stop or rule.budget_s is None or elapsed_s + next_block_s <= rule.budget_s:
        return goal
    budget = _duration(rule.budget_s)
    reason = Note(OVER, budget=budget, count=blocks)
    return Decision(True, rule.stop == "budget" and blocks > 0, reason, goal.open, goal.warnings)


def interval_confidence(rule: Rule, blocks: int) -> float:
    """Return the confidence of a t-interval that holds at rule.confidence under the rule, after so many blocks."""
    if rule.stop == "precision":
        return 1 - width_share(rule.min_blocks) * rule.alpha
    if rule.stop == "open" or (rule.stop == "verdict" and blocks >= rule.looks.first):
        # repeated interval, Jennison & Turnbull 1984
        return 1 - 2 * test_level(rule, rule.alpha / 2, blocks)
    return rule.confidence


def look_level(rule: Rule, blocks: int) -> float:
    """Return the error rate of verdicts after so many blocks; alpha where boundaries or p-values allow for all looks."""
    return rule.alpha if rule.stop in LOOKS_AGAIN else 1 - interval_confidence(rule, blocks)


def test_level(rule: Rule, alpha: float, blocks: int) -> float:
    """Return the one-sided level of Student's t after so many blocks, for an error of alpha.

    Under "open" and "verdict" the error is that over all looks; the first and the last look of "verdict" bound blocks.
    """
    if rule.stop == "open":
        return anytime.level(alpha, blocks)
    if rule.stop != "verdict":
        return alpha
    looks = rule.looks
    return float(looks.levels(alpha)[min(max(blocks, looks.first), looks.final) - looks.first])


def tests_of(rule: Rule) -> Callable[[float, Ratio], float]:
    """Return a function that makes a one-sided p-value of a t-test valid under the rule: for "open" after any block."""
    if rule.stop != "open":
        return lambda p, _: p

    def at_any_time(p: float, ratio: Ratio) -> float:
        numbers = {ratio.df + 1, *(level.count for level in ratio.nesting[1:])}
        return max(anytime.p_value(p, number) for number in numbers)

    return at_any_time


def width_share(min_blocks: int) -> float:
    """Return the share of the error rate at which results must be computed when widths of intervals end measuring.

    A contrast that "precision" leaves out because its interval is narrow is one whose spread came out
    small: a plain 95 % interval then covers 92 % at worst with 5 blocks at least, 93.5 % with 10. For one interval
    min_blocks / (min_blocks + 4) would restore 95 %, but in a family of six, each left out at a time of its own, it
    gave up to 5.8 % false alarms. min_blocks / (min_blocks + 7) keeps them below 5 % in the worst case over all
    ratios of noise to target; it was fitted to simulations (bench/statistics/calibrate.py).
    """
    return min_blocks / (min_blocks + 7)


def half_width(rule: Rule, logs: Array) -> float:
    """Return the relative half-width of a contrast's interval; infinite where it has none."""
    if np.isnan(logs).all():
        return math.inf
    present, _ = without_missing(logs)
    ratio = ratio_of_logs(present, interval_confidence(rule, present.size))
    return ratio.half_width if math.isfinite(ratio.high) else math.inf


def _imprecise(rule: Rule, contrasts: Mapping[str, Array]) -> tuple[str, ...]:
    """Return the contrasts that miss the target, or have too few blocks; a failed trial gives a contrast no block."""
    imprecise = []
    for name, logs in contrasts.items():
        has_blocks = np.count_nonzero(~np.isnan(logs)) >= rule.min_blocks
        if not (has_blocks and half_width(rule, logs) <= rule.precision):
            imprecise.append(name)
    return tuple(imprecise)


def _undecided(
    rule: Rule, contrasts: Mapping[str, Array], families: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the contrasts without a verdict in their family; contrasts without data are in no family (`analyse`)."""
    members: dict[str, dict[str, Array]] = defaultdict(dict)
    for name, logs in contrasts.items():
        if not np.isnan(logs).all():
            members[families.get(name, "")][name] = logs
    words: dict[str, str] = {}
    for family in members.values():
        looks = [rule.looks] * len(family)
        verdicts = sequential_verdicts(list(family.values()), rule.margin, rule.alpha, looks)
        words |= zip(family, verdicts, strict=True)
    return tuple(name for name in contrasts if words.get(name, "undecided") == "undecided")
