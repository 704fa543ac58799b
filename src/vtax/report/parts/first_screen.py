"""What a reader sees first: the sentence that answers, the cautions, and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vtax.report.analysis import Analysis
from vtax.report.analysis.answers import blocks_text
from vtax.report.analysis.next_step import Comparison, NextStep
from vtax.report.analysis.sessions import scope
from vtax.report.analysis.warnings import STATISTICS
from vtax.report.document import (
    Count,
    Duration,
    Inline,
    Link,
    Paragraph,
    Part,
    Platform,
    Share,
    joined,
    listed,
    more_blocks,
    msg,
    plural,
    styled,
)
from vtax.report.document.warnings import Warning
from vtax.report.parts import shared
from vtax.report.parts.answer import sentence_of

_MOST_NAMED = 4
_MOST_WARNINGS = 2
_MOST_PLACES = 2
_OVERTURNING = frozenset({"assumes-independence", "failures-differ", "timed-out"})
_FLAGGED = frozenset({"outliers"})  # which stay in the figures
_BY_REQUEST = frozenset({"study-changed", "trusted", "trusted-file"})  # codes of what the user asked for


def next_line(analysis: Analysis, step: NextStep | None) -> Iterator[Part]:
    """Yield what to do about what is undecided in a run."""
    if step:
        yield Paragraph(joined([_next_step(step, analysis.blocks), *_quieter(step), *_soon(step)], " "))


def answer_lines(analysis: Analysis, chapter: str = "", matrix: Iterable[Part] = ()) -> Iterator[Part]:
    """Yield the sentence that answers, the matrix that it stands for, and the cautions. chapter: key of the run's
    chapter among several."""
    if (found := sentence_of(analysis)) != "":
        yield Paragraph(found)
    yield from matrix
    yield from caution_lines(analysis, chapter)


def caution_lines(analysis: Analysis, chapter: str = "") -> Iterator[Part]:
    """Yield what bears on all figures. chapter: see answer_lines."""
    if doubts := list(_doubts(analysis, f"{chapter}-warnings" if chapter else "warnings")):
        yield Paragraph(joined([msg("Caution:"), joined(doubts, "; ")], " "), "caution")


def _doubts(analysis: Analysis, warnings: str) -> Iterator[Inline]:
    """Yield the gravest warnings in the order of harm (see `_harm`), and the scope. That a study was changed or
    trusted by request is no reason to doubt a figure.

    warnings: key of the chapter of warnings.
    """
    kept = [w for w in analysis.warnings if w.severity != "note" and w.is_primary and w.code not in _BY_REQUEST]
    order = sorted(kept, key=lambda w: (_harm(w), -w.times))
    yield from map(_doubt, order[:_MOST_WARNINGS])
    if analysis.sessions:
        yield scope(analysis.sessions)
    if (more := len(kept) - _MOST_WARNINGS) > 0:
        yield Link(plural("{count} more warning", "{count} more warnings", more), warnings)


def _harm(warning: Warning) -> int:
    """The place of a warning: what makes figures false, what would overturn a word shown, what else statistics say
    of words, then the host; last what they flag and keep."""
    if warning.severity == "error":
        return 0
    if warning.code in _OVERTURNING:
        return 1
    if warning.code == "client-saturated":
        return 2
    if warning.code in _FLAGGED:
        return 5
    return 3 if warning.kind == STATISTICS else 4


def _doubt(warning: Warning) -> Inline:
    if 0 < len(warning.places) <= _MOST_PLACES:
        where = joined([place.inline for place in warning.places], "; ")
        return joined([warning.text, joined([" (", where, ")"], "")], "")
    times: list[Inline] = [plural("{count} time", "{count} times", warning.times)] if warning.times > 1 else []
    platforms = list(dict.fromkeys(place.platform for place in warning.places if place.platform))
    shown = joined(platforms) if 0 < len(platforms) <= _MOST_NAMED else ""
    where = joined([*times, shown], "; ")
    return warning.text if where == "" else joined([warning.text, joined([" (", where, ")"], "")], "")


def _next_step(step: NextStep, made: int) -> Inline:
    """`Next: COMMAND (2 to 5 more blocks, about 9 min) would probably decide lxc on iperf3.`"""
    if step.blocks:
        return _further_blocks(step, made)
    command, undecided = styled(step.command, "code"), _named(step.left)
    if step.is_new_run:
        return _new_session(step)
    if not step.command:
        return _without_range(step)
    if step.duration_s is None:
        return msg(
            "Next: {command} completes the run; undecided so far: {comparisons}.",
            command=command, comparisons=undecided,
        )  # fmt: skip
    return msg(
        "Next: {command} (about {duration}) measures another session; undecided so far: {comparisons}.",
        command=command, duration=Duration(step.duration_s), comparisons=undecided,
    )  # fmt: skip


def _without_range(step: NextStep) -> Inline:
    """Where no range of further blocks decides: what the least noisy takes in all."""
    known = [(c.row.verdict.needed, c) for c in step.left if c.row.verdict and c.row.verdict.needed]
    text = msg(
        "Next: stop other programs, or use longer trials; noise hides how many more blocks would decide "
        "{comparisons}.",
        comparisons=_named(step.left),
    )
    if not known:
        return text
    found, least = min(known, key=lambda each: each[0].equal[0])
    name = msg("the least noisy, {comparison},", comparison=_named([least])) if len(step.left) > 1 else msg("it")
    return joined([text, msg(
        "After {equal} blocks in all {name} would be decided if equal, after {different} if {size} apart.",
        name=name, equal=blocks_text(found.equal), different=blocks_text(found.different),
        size=Share(found.size, "declared"),
    )], " ")  # fmt: skip


def _quieter(step: NextStep) -> Iterator[Inline]:
    """`Host CPU per unit of work has at most half the noise of the speed in 12 of these.`"""
    if step.quieter:
        yield msg(
            "Host CPU per unit of work has at most half the noise in {count} of these.", count=Count(step.quieter)
        )


def _soon(step: NextStep) -> Iterator[Inline]:
    """`10 minutes more (18 blocks) would decide about 3 of 20 undecided comparisons.`"""
    if step.soon is None:
        return
    blocks = plural("{count} block", "{count} blocks", step.soon.blocks)
    if round(step.soon.decides) == 0:
        yield msg("10 minutes more ({blocks}) would hardly decide any.", blocks=blocks)
        return
    yield plural(
        "10 minutes more ({blocks}) would decide about {decides} of {count} undecided comparison.",
        "10 minutes more ({blocks}) would decide about {decides} of {count} undecided comparisons.",
        step.soon.undecided, blocks=blocks, decides=Count(round(step.soon.decides)),
    )  # fmt: skip


def _new_session(step: NextStep) -> Inline:
    """Of a run that cannot go on: a further run, merged with it."""
    run = msg("a further run of the study")
    return msg(
        "Next: {run}, merged with this one by vtax merge, is another session; undecided so far: {comparisons}.",
        run=_timed(run, step),
        comparisons=_named(step.left),
    )


def _further_blocks(step: NextStep, made: int) -> Inline:
    """What further blocks would decide: as many as the table says, in this run or in a new one. made: blocks."""
    do = _new_run(step) if step.is_new_run else _resumed(step)
    decides = _named(step.decides)
    if step.is_first_verdict:
        return msg("Next: {step}, enough blocks for a verdict on {comparisons}.", step=do, comparisons=decides)
    text = msg("Next: {step} would probably decide {comparisons}.", step=do, comparisons=decides)
    if step.is_new_run:
        text = msg(
            "Next: {blocks} would probably decide {comparisons}; this run takes no more, so make {step}.",
            blocks=more_blocks(step.blocks_low - made, step.blocks - made), comparisons=decides, step=do,
        )  # fmt: skip
    if not step.left:
        return text
    left = _named(step.left)
    if _are_counted(step.left):
        count, total = len(step.left), Count(len(step.left) + len(step.decides))
        left = plural(
            "the other {count} of {total} comparisons", "the other {count} of {total} comparisons", count, total=total
        )
    return joined(
        [text, msg("To decide {comparisons}, stop other programs or use longer trials.", comparisons=left)], " "
    )


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


def _are_counted(comparisons: Sequence[Comparison]) -> bool:
    """Whether they are too many for names."""
    return len({(each.section.label, each.row.platform.name) for each in comparisons}) > _MOST_NAMED


def _named(comparisons: Sequence[Comparison]) -> Inline:
    """`lxc and podman on iperf3`: by benchmark; how many where they are many."""
    of: dict[str, list[Platform]] = {}
    for each in comparisons:
        of.setdefault(each.section.label, []).append(shared.platform_of(each.row.platform))
    if _are_counted(comparisons):
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
