"""The targets that a run missed, judged by the stopping rule of the run on its stored trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtax.report import document as doc
from vtax.report.analysis.warnings import place_of
from vtax.report.document import joined, msg, plural, term
from vtax.stats.judge import Comparison, missed_of
from vtax.stats.rules import Decision, Rule
from vtax.stats.stopping import decide, half_width
from vtax.store.query import RunData

_MOST_NAMED = 4


@dataclass(frozen=True)
class Aim:
    """A contrast of a primary metric, or, of a single platform, a cell. logs: as `decide` takes them.

    name: unique in the run. family: what its verdict is judged in. answer: the result's, which decides; None of a
    single platform's cell, and where there is none.
    """

    name: str
    family: str
    place: doc.WarnedPlace
    logs: NDArray[np.float64]
    answer: Comparison | None = None


@dataclass(frozen=True)
class Targets:
    """The rule's judgement on the blocks that are there. missed: names of the aims that miss their target."""

    decision: Decision
    missed: frozenset[str]


def judged(rule: Rule, aims: Sequence[Aim], blocks: int) -> Targets:
    """Return whether a run of so many blocks met the targets of its rule, and which aims did not."""
    families = {a.name: a.family for a in aims}
    answers = {a.name: a.answer for a in aims}

    def missed_by(names: Iterable[str]) -> dict[str, bool]:
        return missed_of(rule, {name: answers[name] for name in names})

    is_plain = not any(answer and answer.ratio.n_sessions == 1 for answer in answers.values())
    logs = {a.name: a.logs for a in aims}
    decision = decide(rule, logs, blocks, families, None if is_plain else missed_by)
    return Targets(decision, frozenset(decision.open if rule.has_targets else ()))


def missed_targets(
    rule: Rule, aims: Sequence[Aim], blocks: int, targets: Targets, because: str
) -> list[doc.Inline]:
    """Return the missed targets of a finished run. because: why it stopped."""
    if targets.decision.reached:
        return []
    if rule.needs_budget:
        return [] if blocks else [because]
    if not targets.missed:
        return [joined([_reason(rule, blocks, targets), because], ": ")]
    missed_aims = [aim for aim in aims if aim.name in targets.missed]
    if rule.target_half_width is None and len(missed_aims) > _MOST_NAMED:
        total = doc.Count(len(aims))
        return [
            plural(
                "no verdict in {count} of {total} comparison",
                "no verdict in {count} of {total} comparisons",
                len(missed_aims),
                total=total,
            )
        ]
    return [joined([_lack(rule, aim), aim.place.inline], ": ") for aim in missed_aims]


def _reason(rule: Rule, blocks: int, targets: Targets) -> doc.Inline:
    """Return why the target of a rule without targets for single contrasts was missed."""
    if rule.is_counted:
        blocks_made, total = doc.Count(blocks), rule.blocks
        if blocks == 1:
            return plural(
                "{made} of {count} block is made",
                "{made} of {count} blocks is made",
                total,
                made=blocks_made,
            )
        return plural(
            "{made} of {count} block are made",
            "{made} of {count} blocks are made",
            total,
            made=blocks_made,
        )
    return targets.decision.reason


def failures(data: RunData) -> list[doc.Inline]:
    """Return a sentence for a run that was not finished, and for every cell with failed trials."""
    sentences: list[doc.Inline] = []
    if data.run.status in ("interrupted", "failed"):
        sentences.append(
            msg(
                "the run was not finished: {reason}",
                reason=data.run.stopped_because or term(data.run.status),
            )
        )
    failures_measured = [failure for failure in data.failures if not failure.is_warmup]
    for cell_index in dict.fromkeys(failure.cell for failure in failures_measured):
        cell = data.run.cells[cell_index]
        times = sum(failure.cell == cell_index for failure in failures_measured)
        sentences.append(
            joined(
                [
                    plural("{count} failed trial", "{count} failed trials", times),
                    place_of(cell).inline,
                ],
                ": ",
            )
        )
    return sentences


def _lack(rule: Rule, aim: Aim) -> doc.Inline:
    blocks_made = int((~np.isnan(aim.logs)).sum())
    if rule.target_half_width is None:
        return msg("no verdict")
    target = doc.Share(rule.target_half_width, "declared")
    if not blocks_made:
        return msg("no interval, requested ±{wanted}", wanted=target)
    if blocks_made < rule.min_blocks:
        return plural(
            "{count} block, at least {minimum} requested",
            "{count} blocks, at least {minimum} requested",
            blocks_made,
            minimum=doc.Count(rule.min_blocks),
        )
    width = doc.Share(
        half_width(rule, aim.logs) if aim.answer is None else aim.answer.ratio.half_width
    )
    return msg("half-width ±{found}, requested ±{wanted}", found=width, wanted=target)
