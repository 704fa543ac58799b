"""What a reader sees first: the overhead per resource with its interval, what to distrust, and the next step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from vtax.report.analysis import Analysis
from vtax.report.analysis.next_step import Comparison, NextStep, next_step_of
from vtax.report.analysis.resources import Cost, ResourceCosts, costs_of
from vtax.report.analysis.sessions import scope
from vtax.report.analysis.warnings import STATISTICS
from vtax.report.document import (
    Bullets,
    Count,
    Duration,
    Inline,
    Interval,
    Link,
    Paragraph,
    Part,
    Platform,
    Share,
    joined,
    listed,
    msg,
    muted,
    plural,
    styled,
)
from vtax.report.document.notes import sentence
from vtax.report.document.warnings import Warning
from vtax.report.parts import shared

_MOST_PLATFORMS = 8
_MOST_NAMED = 4
_MOST_WARNINGS = 2
_MOST_PLACES = 2


def first_lines(analysis: Analysis) -> Iterator[Part]:
    """Yield the answer per resource, what to distrust, and what to do about what is undecided."""
    yield from answer_lines(analysis)
    if step := next_step_of(analysis):
        yield Paragraph(joined([_next_step(step), *_soon(step)], " "))


def answer_lines(analysis: Analysis, chapter: str = "") -> Iterator[Part]:
    """Yield the answer per resource, and what to distrust. chapter: key of the run's chapter on a page of several
    runs."""
    if found := costs_of(analysis):
        yield Paragraph(
            msg(
                "Overhead against {baseline}, with its {level} interval: the share of performance that is lost, "
                "negative where a platform is faster.",
                baseline=analysis.baseline, level=analysis.level,
            ),
            "muted",
        )  # fmt: skip
        yield Bullets(tuple(map(_resource, found)), key="resources")
    if doubts := list(_doubts(analysis, f"{chapter}-warnings" if chapter else "warnings")):
        yield Paragraph(joined([msg("Distrust:"), joined(doubts, "; ")], " "), "caution")


def _resource(found: ResourceCosts) -> Inline:
    """`network (iperf3): docker 0.3 % [−0.2, 0.8], podman ...`."""
    labels = list(found.labels[:_MOST_NAMED])
    if len(found.labels) > _MOST_NAMED:
        labels = [*labels[: _MOST_NAMED - 1], "…"]
    counts = {cost.comparisons for cost in found.costs}
    detail: Inline = "" if list(map(str.lower, labels)) == [found.resource] else ", ".join(labels)
    if (many := max(counts)) > 1:
        detail = joined([detail, plural("mean of {count} comparison", "mean of {count} comparisons", many)])
    named = styled(shared.resource(found.resource), "strong")
    head = joined([named, muted(joined([" (", detail, "):"], "") if detail != "" else ":")], "")
    if len(found.costs) <= _MOST_PLATFORMS:
        return joined([head, joined([_cost(cost) for cost in found.costs])], " ")
    ordered = sorted(found.costs, key=lambda cost: cost.overhead.estimate)
    ends = {"low": _cost(ordered[0]), "high": _cost(ordered[-1])}
    text = msg("{count} platforms, from {low} to {high}", count=Count(len(ordered)), **ends)
    return joined([head, text], " ")


def _cost(cost: Cost) -> Inline:
    shown: list[Inline] = [shared.platform_of(cost.platform), Share(cost.overhead.estimate, "overhead")]
    if math.isfinite(cost.overhead.low) and math.isfinite(cost.overhead.high):
        shown.append(Interval(cost.overhead.low, cost.overhead.high, "overhead"))
    else:
        shown.append(msg("[no interval from one block]"))
    if cost.missing:
        shown.append(plural("({count} without a value)", "({count} without a value)", cost.missing))
    return joined(shown, " ")


def _doubts(analysis: Analysis, warnings: str) -> Iterator[Inline]:
    """Yield what bears on all figures: the gravest warnings, those of measuring before those of statistics; the
    scope.

    warnings: key of the chapter of warnings.
    """
    kept = [w for w in analysis.warnings if w.severity != "note" and w.is_primary]
    order = sorted(kept, key=lambda w: (w.severity != "error", w.kind == STATISTICS, -w.times))
    yield from map(_doubt, order[:_MOST_WARNINGS])
    if len(analysis.sessions) == 1:
        yield msg("one session: another boot or hour of the host may give other figures")
    elif analysis.sessions:
        yield scope(analysis.sessions)
    if (more := len(kept) - _MOST_WARNINGS) > 0:
        yield Link(plural("{count} more warning", "{count} more warnings", more), warnings)


def _doubt(warning: Warning) -> Inline:
    if 0 < len(warning.places) <= _MOST_PLACES:
        where = joined([place.inline for place in warning.places], "; ")
        return joined([sentence(warning), joined([" (", where, ")"], "")], "")
    times = plural(" ({count} times)", " ({count} times)", warning.times) if warning.times > 1 else ""
    return joined([sentence(warning), times], "")


def _next_step(step: NextStep) -> Inline:
    """`Next: COMMAND (2 to 5 more blocks, about 9 min) would probably decide lxc on iperf3.`"""
    if step.blocks:
        return _further_blocks(step)
    command, undecided = styled(step.command, "code"), _named(step.left)
    if step.is_new_run:
        return _new_session(step)
    if not step.command:
        return msg(
            "Next: longer trials or a quieter host; noise from block to block leaves open how many more blocks would "
            "decide {comparisons}.",
            comparisons=undecided,
        )
    if step.duration_s is None:
        return msg(
            "Next: {command} completes the run; undecided so far: {comparisons}.",
            command=command, comparisons=undecided,
        )  # fmt: skip
    return msg(
        "Next: {command} (about {duration}) makes another session, beyond which intervals hold; undecided so far: "
        "{comparisons}.",
        command=command, duration=Duration(step.duration_s), comparisons=undecided,
    )  # fmt: skip


def _soon(step: NextStep) -> Iterator[Inline]:
    """`10 minutes more (18 blocks) would decide about 3 of 20 undecided comparisons.`"""
    if step.soon is None:
        return
    blocks = plural("{count} block", "{count} blocks", step.soon.blocks)
    yield msg(
        "10 minutes more ({blocks}) would decide about {decides} of {undecided} undecided comparisons.",
        blocks=blocks, decides=Count(round(step.soon.decides)),
        undecided=Count(step.soon.undecided),
    )  # fmt: skip


def _new_session(step: NextStep) -> Inline:
    """Of a run that cannot go on: a further run, merged with it."""
    run = msg("a further run of the study")
    return msg(
        "Next: {run}, merged with this one by vtax merge, is another session, beyond which intervals hold; undecided "
        "so far: {comparisons}.",
        run=_timed(run, step),
        comparisons=_named(step.left),
    )


def _further_blocks(step: NextStep) -> Inline:
    do = _new_run(step) if step.is_new_run else _resumed(step)
    decides = _named(step.decides)
    if step.is_first_verdict:
        return msg(
            "Next: {step} reaches the fewest blocks of a verdict on {comparisons}.", step=do, comparisons=decides
        )
    text = msg("Next: {step} would probably decide {comparisons}.", step=do, comparisons=decides)
    if not step.left:
        return text
    rest = msg(
        "Many more blocks, longer trials or a quieter host would decide {comparisons}.", comparisons=_named(step.left)
    )
    return joined([text, rest], " ")


def _resumed(step: NextStep) -> Inline:
    """`COMMAND (2 to 5 more blocks, about 9 min)`; without a command, what nobody knows the duration of."""
    blocks: Inline = plural("{count} more block", "{count} more blocks", step.blocks)
    if step.blocks_low < step.blocks:
        low = Count(step.blocks_low)
        blocks = plural("{low} to {count} more block", "{low} to {count} more blocks", step.blocks, low=low)
    if not step.command or step.duration_s is None:
        return blocks
    blocks = joined([blocks, _about(step.duration_s)])
    return joined([styled(step.command, "code"), joined(["(", blocks, ")"], "")], " ")


def _new_run(step: NextStep) -> Inline:
    """Return `a new run of 7 to 10 blocks (about 9 min)`."""
    run: Inline = plural("a new run of {count} block", "a new run of {count} blocks", step.blocks)
    if step.blocks_low < step.blocks:
        low = Count(step.blocks_low)
        run = plural(
            "a new run of {low} to {count} block", "a new run of {low} to {count} blocks", step.blocks, low=low
        )
    return _timed(run, step)


def _timed(run: Inline, step: NextStep) -> Inline:
    """`RUN (about 9 min)`."""
    if step.duration_s is None:
        return run
    return joined([run, joined(["(", _about(step.duration_s), ")"], "")], " ")


def _about(seconds: float) -> Inline:
    return msg("about {duration}", duration=Duration(seconds))


def _named(comparisons: Sequence[Comparison]) -> Inline:
    """`lxc and podman on iperf3`: by benchmark; how many where they are many."""
    of: dict[str, list[Platform]] = {}
    for each in comparisons:
        of.setdefault(each.section.label, []).append(shared.platform_of(each.row.platform))
    if sum(len(set(names)) for names in of.values()) > _MOST_NAMED:
        return plural("{count} comparison", "{count} comparisons", len(comparisons))
    return listed(
        msg("{platforms} on {name}", platforms=_platforms(names), name=label) for label, names in of.items()
    )


def _platforms(found: Sequence[Platform]) -> Inline:
    """Return each once; with the number of its comparisons where it has several."""
    return listed(
        each if found.count(each) == 1 else joined([each, f"({found.count(each)}×)"], " ")
        for each in dict.fromkeys(found)
    )


def plain(analysis: Analysis) -> dict[str, Any]:
    """Return the same for programs: `resources` and `next_step`."""
    return {
        "resources": [
            {
                "resource": each.resource, "labels": each.labels,
                "platforms": [
                    {
                        "platform": cost.platform.name, "marks": list(cost.platform.marks),
                        "overhead": {name: getattr(cost.overhead, name) for name in ("estimate", "low", "high")},
                        "comparisons": cost.comparisons, "missing": cost.missing,
                    }
                    for cost in each.costs
                ],
            }
            for each in costs_of(analysis)
        ],
        "next_step": _plain_step(next_step_of(analysis)),
    }  # fmt: skip


def _plain_step(step: NextStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "command": step.command, "duration_s": step.duration_s, "is_new_run": step.is_new_run,
        "blocks_low": step.blocks_low, "blocks": step.blocks,
        "decides": [_plain_comparison(each) for each in step.decides],
        "left": [_plain_comparison(each) for each in step.left],
        "soon_blocks": step.soon.blocks if step.soon else None,
        "soon_decides": step.soon.decides if step.soon else None,
    }  # fmt: skip


def _plain_comparison(each: Comparison) -> dict[str, Any]:
    return {
        "platform": each.row.platform.name, "label": each.section.label, "metric": each.section.metric.name,
        "levels": each.point.levels,
    }  # fmt: skip
