"""First screen of a reader: the sentence that answers, the cautions, and the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis import Analysis, every_row
from vtax.report.analysis.also_differs import AlsoDiffers, also_differs
from vtax.report.analysis.next_step import NextStep, UndecidedRow
from vtax.report.analysis.sessions import scope
from vtax.report.analysis.warnings import STATISTICS
from vtax.report.document import in_brackets, joined, listed, msg, plural, range_of, styled
from vtax.report.parts import shared
from vtax.report.parts.sentences import sentence_of
from vtax.stats.early import FACTOR, LATER_FACTOR
from vtax.stats.terms import EARLY_BLOCKS

_MOST_NAMED = 4
_MOST_WARNINGS = 2
_MOST_DIFFERENCES = 6
_OVERTURNING = frozenset({"emulated-host", "failures-differ", "timed-out"})
_KEPT = frozenset({"assumes-independence", "outliers"})  # figures and verdicts stay
_NO_DOUBTS = frozenset(
    {"study-changed", "trusted", "trusted-file", "few-blocks"}
)  # asked for, or said before


def next_line(analysis: Analysis, step: NextStep | None) -> Iterator[doc.Part]:
    """Yield what to do about what is undecided in a run."""
    if step:
        yield doc.Paragraph(_next_step(step))


def answer_line(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the sentence that answers."""
    if (sentence := sentence_of(analysis)) != "":
        yield doc.Paragraph(styled(sentence, "strong"))


def also_differs_line(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield what differs beside the layer, which may be why a platform is faster or slower."""
    differences = also_differs(analysis)
    sentences = [
        difference_of(difference, analysis) for difference in differences[:_MOST_DIFFERENCES]
    ]
    if (further_count := len(differences) - _MOST_DIFFERENCES) > 0:
        text = plural("{count} more difference", "{count} more differences", further_count)
        sentences.append(joined([text, styled(f"vtax show {analysis.name} --audit", "code")], ": "))
    if sentences:
        yield doc.Paragraph(joined([msg("Also differs:"), joined(sentences, "; ")], " "), "caution")


def left_early_line(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield which platforms left comparisons because they lay beyond doubt, and after how many blocks (`stats.early`).

    Under a rule that lets go of whatever is decided that is no news, and it is not said.
    """
    rule = analysis.rule
    if rule.leaves_settled or not rule.leaves_early:
        return
    rows = [row for *_, row in every_row(analysis.primary)]
    not_whole = set()  # what it lacks was not measured yet
    if analysis.status != "finished":
        not_whole = {max((int(row.blocks[-1]) for row in rows if row.blocks.size), default=-1)}
    platforms_by_blocks = by_key(
        (row.platform.name, row.ratio.n_blocks)
        for row in rows
        if row.ratio is not None and row.settled - not_whole
    )
    platforms = []
    for name, blocks in platforms_by_blocks.items():
        fewest, most_blocks = doc.Count(min(blocks)), doc.Count(max(blocks))
        factor = doc.Number(LATER_FACTOR, 2)
        if max(blocks) == EARLY_BLOCKS:
            factor = doc.Number(FACTOR, 1)
        platforms_left = plural(
            "{platform} after {blocks} of {all} blocks ({count} comparison beyond a factor of {factor})",
            "{platform} after {blocks} of {all} blocks ({count} comparisons beyond a factor of {factor})",
            len(blocks),
            platform=analysis.platform_of(name),
            blocks=range_of(fewest, most_blocks),
            all=doc.Count(analysis.blocks),
            factor=factor,
        )
        platforms.append(platforms_left)
    if platforms:
        yield doc.Paragraph(joined([msg("Left early:"), joined(platforms, "; ")], " "))


def difference_of(difference: AlsoDiffers, analysis: Analysis) -> doc.Inline:
    """Return `podman, docker: /scratch is overlay, native's is ext4 (fio)`: where it matters, if not everywhere."""
    platforms = listed(analysis.platform_of(name) for name in difference.platforms)
    labels = {section.label for section in analysis.sections}
    place = "" if labels <= set(difference.labels) else joined(difference.labels)
    return joined([joined([platforms, difference.text], ": "), in_brackets(place)], " ")


def caution_line(analysis: Analysis, chapter: str = "") -> Iterator[doc.Part]:
    """Yield what bears on all figures. chapter: key of the run's chapter among several."""
    if doubts := list(_doubts(analysis, f"{chapter}-warnings" if chapter else "warnings")):
        yield doc.Paragraph(joined([msg("Caution:"), joined(doubts, "; ")], " "), "caution")


def _doubts(analysis: Analysis, warnings: str) -> Iterator[doc.Inline]:
    """Yield the gravest warnings in the order of harm (see `_harm`), and the scope. That a study was changed or
    trusted by request is no reason to doubt a figure.

    warnings: key of the chapter of warnings.
    """
    doubts = [
        w
        for w in analysis.warnings
        if w.severity != "note" and w.is_primary and w.code not in _NO_DOUBTS
    ]
    order = sorted(doubts, key=lambda w: (_harm(w), -w.times))
    yield from (_doubt(warning, analysis) for warning in order[:_MOST_WARNINGS])
    if analysis.sessions:
        yield scope(analysis.sessions)
    if (further_count := len(doubts) - _MOST_WARNINGS) > 0:
        yield doc.Link(
            plural("{count} more warning", "{count} more warnings", further_count), warnings
        )


def _harm(warning: doc.Warning) -> int:
    """Return the place of a warning: what makes figures false, what would overturn a word shown, what else statistics
    say of words, then the host; last what leaves figures and words as they are."""
    if warning.severity == "error":
        return 0
    if warning.code in _OVERTURNING:
        return 1
    if warning.code == "client-saturated":
        return 2
    if warning.code in _KEPT:
        return 5
    return 3 if warning.kind == STATISTICS else 4


def _doubt(warning: doc.Warning, analysis: Analysis) -> doc.Inline:
    """`other programs used 0.36 CPUs (46 times, all platforms)`."""
    times: doc.Inline = ""
    if warning.times > 1:
        times = plural("{count} time", "{count} times", warning.times)
    names = list(dict.fromkeys(place.platform for place in warning.places if place.platform))
    of_run = [platform.name for platform in analysis.platforms if platform.available]
    places: doc.Inline = joined(names)
    if len(names) > _MOST_NAMED:
        places = plural("{count} platform", "{count} platforms", len(names))
    if len(names) > 1 and set(names) >= set(of_run):
        places = msg("all platforms")
    if len(warning.places) == 1:
        places = warning.places[0].inline
    return joined([warning.text, in_brackets(joined([times, places]))], " ")


def _next_step(step: NextStep) -> doc.Inline:
    """`Next: COMMAND (5 more blocks, about 9 min) would probably decide lxc on iperf3.`"""
    names = _named(step.left)
    if step.is_new_session and step.is_new_run:
        return _new_session(step)
    if step.blocks:
        return _further_blocks(step)
    if not step.command:
        return msg(
            "Next: no number of blocks within an hour would decide {comparisons}; stop other programs.",
            comparisons=names,
        )
    command = _timed(styled(step.command, "code"), step)
    if step.is_new_session:
        return msg(
            "Next: {command} measures another session; undecided so far: {comparisons}.",
            command=command,
            comparisons=names,
        )
    return msg(
        "Next: {command} completes the run; undecided so far: {comparisons}.",
        command=command,
        comparisons=names,
    )


def _new_session(step: NextStep) -> doc.Inline:
    """Return the step of a run that cannot go on: a further run, merged with it."""
    run = msg("a further run of the study")
    return msg(
        "Next: {run}, merged with this one by vtax merge, is another session; undecided so far: {comparisons}.",
        run=_timed(run, step),
        comparisons=_named(step.left),
    )


def _further_blocks(step: NextStep) -> doc.Inline:
    """Say what further blocks would decide, in this run or in a new one."""
    do = _of_blocks(step)
    if not step.decides:
        count = len(step.left)
        undecided = plural("{count} undecided comparison", "{count} undecided comparisons", count)
        return msg(
            "Next: {step} would decide about {decides} of {comparisons}.",
            step=do,
            decides=doc.Count(round(step.chances)),
            comparisons=_noting_host_cpu(undecided, step.left),
        )
    decides = _named(step.decides)
    if step.is_first_verdict:
        return msg(
            "Next: {step}, enough blocks for a verdict on {comparisons}.",
            step=do,
            comparisons=decides,
        )
    if not step.left:
        return msg(
            "Next: {step} would probably decide {comparisons}.", step=do, comparisons=decides
        )
    return plural(
        "Next: {step} would probably decide {comparisons}; {count} other needs a quieter host or a longer run.",
        "Next: {step} would probably decide {comparisons}; {count} others need a quieter host or a longer run.",
        len(step.left),
        step=do,
        comparisons=decides,
    )


def _of_blocks(step: NextStep) -> doc.Inline:
    """`COMMAND (5 more blocks, about 9 min)`, `a new run of 10 blocks (about 9 min)`."""
    if step.is_new_run:
        return _timed(
            plural("a new run of {count} block", "a new run of {count} blocks", step.blocks), step
        )
    blocks = plural("{count} more block", "{count} more blocks", step.blocks)
    if not step.command or step.duration_s is None:
        return blocks
    inside = joined([blocks, _about(step.duration_s)])
    return joined([styled(step.command, "code"), in_brackets(inside)], " ")


def _timed(run: doc.Inline, step: NextStep) -> doc.Inline:
    """`RUN (about 9 min)`."""
    if step.duration_s is None:
        return run
    return joined([run, in_brackets(_about(step.duration_s))], " ")


def _about(seconds: float) -> doc.Inline:
    return msg("about {duration}", duration=doc.Duration(seconds))


def _are_counted(comparisons: Sequence[UndecidedRow]) -> bool:
    """Whether they are too many for names."""
    return (
        len(
            {(comparison.section.label, comparison.row.platform.name) for comparison in comparisons}
        )
        > _MOST_NAMED
    )


def _noting_host_cpu(count: doc.Inline, comparisons: Sequence[UndecidedRow]) -> doc.Inline:
    """Return the number of comparisons; with a note where some are of costs, which the answer counts apart."""
    if all(comparison.section.metric.is_primary for comparison in comparisons):
        return count
    return msg("{comparisons}, host CPU included", comparisons=count)


def _named(comparisons: Sequence[UndecidedRow]) -> doc.Inline:
    """`lxc and podman on iperf3`: by benchmark; how many where they are many."""
    of = by_key(
        (comparison.section.label, shared.platform_of(comparison.row.platform))
        for comparison in comparisons
    )
    if _are_counted(comparisons):
        count = plural("{count} comparison", "{count} comparisons", len(comparisons))
        return _noting_host_cpu(count, comparisons)
    return listed(
        msg("{platforms} on {name}", platforms=_platforms(names), name=label)
        for label, names in of.items()
    )


def _platforms(platforms: Sequence[doc.PlatformCell]) -> doc.Inline:
    """Return each once; with the number of its comparisons where it has several."""
    names: list[doc.Inline] = []
    for platform, times in Counter(platforms).items():
        count: doc.Inline = ""
        if times > 1:
            count = plural("{count} comparison", "{count} comparisons", times)
        names.append(joined([platform, in_brackets(count)], " "))
    return listed(names)
