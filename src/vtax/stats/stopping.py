"""When a run has enough blocks: rules declared before it (`rules.py`), judged on whole blocks, as pure decisions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from vtax.messages import Note, together
from vtax.stats.checks import MINIMUM_BLOCKS, Array, without_missing
from vtax.stats.ratio import ratio_of_logs
from vtax.stats.rules import OVER, Decision, Look, Rule
from vtax.stats.sequential import Looks, sequential_verdicts

LEAST_CHANCE = (
    0.05  # of a word within the time left, below which a contrast leaves the time to others
)
MAX_LOST = 3  # blocks without a value, one after another, after which a contrast keeps no run going
Missed = Callable[[Mapping[str, Array]], Mapping[str, bool]]


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
        further blocks may help each (`judge.missed_of`); those that they do not help keep no run going. None: by plain
        intervals and boundaries.
    """

    def judged() -> Decision:
        return _judged(rule, contrasts, blocks, families, missed_by)

    return rule.after(Look(blocks, tuple(contrasts), judged, missed_by is not None))


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
    judgeable = _judgeable(contrasts)
    if missed_by is not None:
        misses = missed_by(judgeable)
    elif rule.looks is None:
        misses = dict.fromkeys(_imprecise(rule, judgeable), True)
    else:
        misses = dict.fromkeys(_undecided(rule, rule.looks, judgeable, families or {}), True)
    left_out: dict[str, list[str]] = {"refused": [], "lost": [], "withheld": []}
    refused = [name for name in contrasts if name not in judgeable]
    if rule.leaves_early and (blocks < MINIMUM_BLOCKS or not rule.leaves_settled):
        names_left = tuple(name for name in contrasts if name in misses or name in refused)
        return _towards(rule, tuple(contrasts), names_left, left_out, blocks)
    left_out["refused"] += refused
    open_ = []
    for name, may_help in misses.items():
        if _is_lost(judgeable[name]):
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
    misses: tuple[str, ...],
    left_out: Mapping[str, Sequence[str]],
    blocks: int,
) -> Decision:
    """Return the decision of a rule with a target for every contrast.

    rule: of the run.
    contrasts: names of all.
    misses: those that miss the target, and that further blocks may help.
    left_out: reason -> contrasts that further blocks would not help.
    blocks: number of whole blocks.
    """
    total = len(contrasts)
    target = rule.target
    excluded = set(chain.from_iterable(left_out.values()))
    if not (misses or excluded):
        return Decision(True, True, Note("all-have", count=total, what=target, blocks=blocks))
    unjudged = together(
        [_some(code, len(names), total, last=MAX_LOST) for code, names in left_out.items() if names]
    )
    if not misses:
        refused = tuple(name for name in contrasts if name in excluded)
        return Decision(True, False, unjudged, refused, (unjudged,))
    still = _some("misses", len(misses), total, what=target, blocks=blocks)
    further_notes = [unjudged] if unjudged else []
    if blocks < rule.most_blocks:
        return Decision(False, False, together([still, *further_notes]), misses)
    short = tuple(name for name in contrasts if name in excluded.union(misses))
    reason = together([Note("most-allowed", what=still), *further_notes])
    return Decision(True, False, reason, short, (still, *further_notes))


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
    return Decision(True, rule.needs_budget and blocks > 0, reason, goal.open, goal.warnings)


def within_reach(goal: Decision, chances: Mapping[str, float]) -> Decision:
    """Return the decision `goal` without contrasts that the time left hardly decides, as long as it may decide others.

    Where it decides none, all stay, since their intervals still get narrower. Leaving costs no error: levels hold at
    every look of a contrast's own blocks, whatever ends them. One that left may come back.

    chances: name -> that of a word within the time left; absent: not known.
    """
    reached = tuple(name for name in goal.open if chances.get(name, 1.0) >= LEAST_CHANCE)
    return replace(goal, open=reached) if reached and not goal.stop else goal


def half_width(rule: Rule, logs: Array) -> float:
    """Return the relative half-width of a contrast's interval; infinite where it has none."""
    if np.isnan(logs).all():
        return math.inf
    known_logs, _ = without_missing(logs)
    ratio = ratio_of_logs(known_logs, rule.interval_confidence(known_logs.size))
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
    rule: Rule, looks: Looks, contrasts: Mapping[str, Array], families: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the contrasts without a verdict in their family; contrasts without data are in no family (`analyse`)."""
    members: dict[str, dict[str, Array]] = defaultdict(dict)
    for name, logs in contrasts.items():
        if not np.isnan(logs).all():
            members[families.get(name, "")][name] = logs
    words: dict[str, str] = {}
    for family in members.values():
        verdicts = sequential_verdicts(
            list(family.values()), rule.margin, rule.alpha, [looks] * len(family)
        )
        words |= zip(family, verdicts, strict=True)
    return tuple(name for name in contrasts if words.get(name, "undecided") == "undecided")
