"""Why platforms differ: facts that differ with the command that tests each, then the counters that moved.

Counters are per unit of work, as ratios to the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtax.counters.table import Counter
from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.explain.compute import ComparedCounter, Explained, explainable, explained
from vtax.report.answers.explain.suspects import Suspect, anatomies, suspects
from vtax.report.answers.explain.work import GIGABYTE, SECOND, TRIAL, operations_of
from vtax.report.answers.ladder import view as ladder
from vtax.report.answers.ladder.compute import ladders
from vtax.report.document import first_of, joined, listed, msg, plural, scale_for, styled, term
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.report.parts.first_screen import difference_of
from vtax.report.views.base import Options, View, register_view

_BRIEF, _OF_REPORT, _NAMED = 10, 3, 8  # counters of a comparison
_PER: Mapping[str, doc.Inline] = {
    "events": msg("per event"), "transactions": msg("per transaction"), "requests": msg("per request"),
    "queries": msg("per query"), "rows": msg("per row"), "seeks": msg("per seek"), "files": msg("per file"),
    "operation": msg("per operation"), "load": msg("per load"),
}  # fmt: skip
_LARGEST_FACTOR = 1000.0  # that is shown
_FEWEST = 2  # blocks of an interval


def document(source: Source, options: Options) -> doc.Document:
    """Return a table for every contrast that is not `equivalent`; counters are read from the store for these alone.

    They are judged over the whole run, whatever of it is shown.
    """
    analysis, whole = source.analysis, source.whole
    sections = whole.analysis.sections
    numbers = {cell.key: number for number, cell in enumerate(whole.data.run.cells)}
    cell_numbers = {numbers[row.cell.key] for _, _, *rows in explainable(sections) for row in rows}
    block_counters = source.block_counters(cell_numbers)
    settings = whole.effective if any(operations_of(section.metric) for section in sections) else {}
    explanations = []
    if block_counters:
        explanations = explained(
            whole.data, sections, block_counters, analysis.rule.confidence, settings
        )
    shown_explanations = [
        explanation
        for explanation in explanations
        if analysis.shown_cells.selects(explanation.row.cell.place)
    ]
    has_contrasts = any(True for _ in explainable(analysis.sections))
    answer = document_of(
        shown_explanations,
        suspects(analysis),
        analysis,
        is_full=options.depth == "all",
        has_contrasts=has_contrasts,
        is_report=options.depth == "report",
    )
    return shared.of_blocks(answer, analysis)


def document_of(
    explanations: Sequence[Explained],
    differences: Sequence[Suspect],
    analysis: Analysis,
    *,
    is_full: bool,
    has_contrasts: bool,
    is_report: bool = False,
) -> doc.Document:
    """Return the document of the contrasts.

    differences: facts that differ where platforms do.
    is_full: list all that moved.
    has_contrasts: some are not equivalent.
    is_report: contrasts without a finding are named alone.
    """
    missing_counters = _missing(analysis)
    anatomy_commands = anatomies(analysis)
    data = {
        "not_counted": missing_counters,
        "facts": list(differences),
        "anatomies": list(anatomy_commands),
        "contrasts": list(explanations),
    }
    facts = _facts(differences, analysis, is_full=is_full)
    if not is_report:  # which has it before
        facts = [*_ladder(analysis), *facts]
    if anatomy_commands:
        commands = joined(
            [styled(command, "code") for command in anatomy_commands[: None if is_full else 1]]
        )
        facts.append(doc.Paragraph(msg("Mechanism by mechanism: {commands}", commands=commands)))
    if not explanations and facts:
        text = msg("nothing was counted around the trials that differ")
        return doc.Document(VIEW.title, (*facts, doc.Paragraph(text, "muted")), data=data)
    if not explanations:
        text = msg(
            "every contrast that has a verdict is equivalent: there is no difference to explain"
        )
        if has_contrasts:
            text = msg("nothing was counted around the trials that differ")
        return doc.empty_document(VIEW.title, text, data)
    if not is_full and all(_blocks(explanation) < _FEWEST for explanation in explanations):
        text = msg("One block has no interval: which counters differ is not known.")
        nothing: doc.Inline = "" if facts else text
        return doc.Document(VIEW.title, (*facts, doc.Paragraph(text)), data=data, nothing=nothing)
    parts: list[doc.Part] = [*facts]
    explained_contrasts = [explanation for explanation in explanations if explanation.moved]
    if is_report and explained_contrasts:
        parts.append(_likeliest(explained_contrasts, analysis.baseline))
    elif not is_report:
        parts += [
            _section(explanation, analysis.baseline, is_full=is_full)
            for explanation in explained_contrasts
        ]
    parts += _grown_with_time(explanations, is_full=is_full)
    unexplained_contrasts = [explanation for explanation in explanations if not explanation.moved]
    parts += _without_finding(
        unexplained_contrasts, analysis.baseline, is_full=is_full, is_report=is_report
    )
    ending: list[doc.Part] = [
        doc.Paragraph(
            msg(
                "Percents of counters are formed within blocks, per unit of work. A counter moved when its interval "
                "excludes 100 %; intervals hold at {level} for all counters of a table at once. What moved together "
                "with a difference is associated with it and need not be its cause.",
                level=analysis.level,
            ),
            "muted",
        ),
    ]
    if not is_report:  # which has them with the facts of the host
        ending += _not_counted(missing_counters)
    return doc.Document(VIEW.title, (*parts, *ending), data=data)


def _ladder(analysis: Analysis) -> list[doc.Part]:
    """Return what the ladder of the run says that costs are made of; nothing without one."""
    items = tuple(ladder.sentences(ladders(analysis), analysis))
    if not items:
        return []
    title = msg("What the cost is made of, rung by rung")
    return [doc.Titled(title, (doc.Bullets(items),))]


def _blocks(explanation: Explained) -> int:
    return explanation.row.ratio.n_blocks if explanation.row.ratio else 0


def _facts(differences: Sequence[Suspect], analysis: Analysis, *, is_full: bool) -> list[doc.Part]:
    """Return what differs beside the layer, then what of the layer differs, with the runs that test each."""
    parts: list[doc.Part] = []
    for is_layer, title in (
        (False, msg("Facts that differ beside the layer, the likeliest cause first")),
        (True, msg("Facts that are the layer itself")),
    ):
        items: list[doc.Inline] = []
        for suspect in differences:
            if suspect.is_layer == is_layer:
                items += _fact(suspect, analysis, is_full=is_full)
        if items:
            parts.append(doc.Titled(title, (doc.Bullets(tuple(items)),)))
    return parts


def _fact(suspect: Suspect, analysis: Analysis, *, is_full: bool) -> list[doc.Inline]:
    """Return the fact with the command that tests it on the first platform, then those of others on demand."""
    items = [difference_of(suspect, analysis)]
    commands = suspect.commands if is_full else suspect.commands[:1]
    for command in commands:
        items.append(msg("to test it: {command}", command=styled(command, "code")))
    return [joined(items[:2], "; "), *items[2:]]


def _grown_with_time(explanations: Sequence[Explained], *, is_full: bool) -> list[doc.Part]:
    """Return one line for what grew with the running time in any comparison: it has no cause of its own."""
    names = dict.fromkeys(
        counter.words for contrast in explanations for counter in contrast.with_time
    )
    if not names:
        return []
    text = plural(
        "{count} counter only grew with the running time: {names}",
        "{count} counters only grew with the running time: {names}",
        len(names),
        names=listed(first_of(list(names), len(names) if is_full else _NAMED)),
    )
    return [doc.Paragraph(text, "muted")]


def _without_finding(
    explanations: Sequence[Explained], baseline: str, *, is_full: bool, is_report: bool
) -> list[doc.Part]:
    """All contrasts without a finding on demand, so that they hide none that has one; in a report their names."""
    if not explanations:
        return []
    if any(explanation.with_time for explanation in explanations):
        title = plural(
            "{count} comparison in which no counter moved but with the running time",
            "{count} comparisons in which no counter moved but with the running time",
            len(explanations),
        )
    else:
        title = plural(
            "{count} comparison in which no counter moved",
            "{count} comparisons in which no counter moved",
            len(explanations),
        )
    if is_report:
        names = listed(first_of([_title(explanation) for explanation in explanations], _NAMED))
        return [doc.Bullets((joined([title, names], ": "),), "unmoved")]
    plain_explanations = [
        explanation
        for explanation in explanations
        if not (explanation.one_sided or explanation.silent)
    ]
    items = tuple(
        joined([_title(explanation), _nothing_moved(explanation)], ": ")
        for explanation in plain_explanations
    )
    sections = [
        _section(explanation, baseline, is_full=is_full)
        for explanation in explanations
        if explanation.one_sided or explanation.silent
    ]
    return [
        doc.Titled(
            title, (*((doc.Bullets(items, "unmoved"),) if items else ()), *sections), is_folded=True
        )
    ]


def _section(explanation: Explained, baseline: str, *, is_full: bool) -> doc.Titled:
    parts = tuple(_parts(explanation, baseline, is_full=is_full))
    return doc.Titled(_title(explanation), parts, subtitle=_difference(explanation, baseline))


def _likeliest(explanations: Sequence[Explained], baseline: str) -> doc.Table:
    """Return the counters that moved most in each comparison, below its name; the rest is counted."""
    columns = (
        doc.Column("counter", msg("counter")),
        doc.Column("unit", msg("unit")),
        doc.Column("baseline", baseline, is_number=True),
        doc.Column("treatment", msg("platform"), is_number=True),
        doc.Column("percent", shared.percent_title(baseline, msg("interval")), is_number=True),
        doc.Column("per_second", msg("the same\nper second"), is_number=True),
    )
    groups = []
    for explanation in explanations:
        counters = explanation.moved[:_OF_REPORT]
        title = joined([_title(explanation), joined(_found(explanation), " ")], ": ")
        remainder = [part.text for part in _more_moved(explanation, len(counters))]
        title = joined([title, _unit(explanation.work), *remainder], "; ")
        rows = [doc.TableRow((*_cells(counter), _seconds(counter))) for counter in counters]
        groups.append(doc.Group(tuple(rows), title))
    return doc.Table(columns, tuple(groups), key="moved", label=msg("counters"))


def _title(explanation: Explained) -> doc.Inline:
    return joined(
        [
            shared.title_of(explanation.section),
            shared.platform_of(explanation.row.platform),
            shared.levels(explanation.point),
        ],
        " · ",
    )


def _parts(explanation: Explained, baseline: str, *, is_full: bool) -> list[doc.Part]:
    all_counters = explanation.moved
    counters = all_counters if is_full else all_counters[:_BRIEF]
    parts: list[doc.Part] = []
    if not (all_counters or explanation.silent):
        parts.append(doc.Paragraph(_nothing_moved(explanation)))
    if counters:
        parts.append(_table(counters, explanation, baseline))
    return [
        *parts,
        *_more_moved(explanation, len(counters)),
        *_set_apart(explanation, is_full=is_full),
    ]


def _more_moved(explanation: Explained, shown_count: int) -> list[doc.Paragraph]:
    """Return how many counters moved beside those that are shown."""
    further_count = len(explanation.moved) - shown_count
    if further_count <= 0:
        return []
    text = plural("{count} more counter moved.", "{count} more counters moved.", further_count)
    return [doc.Paragraph(text, "muted")]


def _nothing_moved(explanation: Explained) -> doc.Inline:
    if explanation.with_time:
        return plural(
            "{count} counter only grew with the running time.",
            "{count} counters only grew with the running time.",
            len(explanation.with_time),
        )
    blocks = _blocks(explanation)
    if blocks < _FEWEST:
        return msg(
            "One block has no interval: which of {family} counters differ is not known.",
            family=doc.Count(len(explanation.comparisons)),
        )
    family = doc.Count(len(explanation.comparisons))
    if explanation.is_narrow and not explanation.one_sided:
        return plural(
            "Nothing that was counted differs: after {count} block no interval of {family} counters excludes 100 %.",
            "Nothing that was counted differs: after {count} blocks no interval of {family} counters excludes 100 %.",
            blocks,
            family=family,
        )
    if not explanation.comparisons:
        return msg("No counter exists on both platforms in every block.")
    return plural(
        "No difference was found among {family} counters after {count} block. To be found, half of them would have "
        "had to change by a factor above {factor}.",
        "No difference was found among {family} counters after {count} blocks. To be found, half of them would have "
        "had to change by a factor above {factor}.",
        blocks,
        family=family,
        factor=doc.Number(min(explanation.detectable, _LARGEST_FACTOR), 3),
    )


def _set_apart(explanation: Explained, *, is_full: bool) -> list[doc.Part]:
    """Counters that are only named, since they may not be counted. Then those of one side."""
    parts: list[doc.Part] = []
    if explanation.silent:
        names = [counter.words for counter in explanation.silent]
        text = plural(
            "{count} counter stays at zero in the guests of one platform, which may not count it: {names}",
            "{count} counters stay at zero in the guests of one platform, which may not count them: {names}",
            len(names),
            names=listed(first_of(names, len(names) if is_full else _NAMED)),
        )
        parts.append(doc.Paragraph(text, "muted"))
    return parts + (_alone(explanation, is_full=is_full) if explanation.one_sided else [])


def _alone(explanation: Explained, *, is_full: bool) -> list[doc.Part]:
    """Counters that one platform alone has, such as those of the parts of its layer, with their values."""
    count = len(explanation.one_sided)
    counters = explanation.one_sided if is_full else explanation.one_sided[:_NAMED]
    sides = {explanation.row.platform.name: shared.platform_of(explanation.row.platform)}
    columns = (
        doc.Column("counter", msg("counter")),
        doc.Column("unit", msg("unit")),
        doc.Column("platform", msg("platform")),
        doc.Column("value", _unit(explanation.work), is_number=True),
    )
    rows = [
        (
            counter.words,
            unit_of(scale.unit),
            sides.get(counter.platform, counter.platform),
            doc.Quantity(counter.value, scale, 3),
        )
        for counter in counters
        for scale in [_scale_of(counter.counter, counter.value)]
    ]
    key = f"{explanation.section.name} {explanation.row.cell.key} one_sided"
    parts: list[doc.Part] = [
        doc.Paragraph(
            plural(
                "{count} counter exists only on one platform:",
                "{count} counters exist only on one platform:",
                count,
            ),
            "muted",
        ),
        doc.table_of(columns, rows, key=key, label=msg("counters of one platform")),
    ]
    if count > len(counters):
        parts.append(
            doc.Paragraph(
                plural("{count} more counter.", "{count} more counters.", count - len(counters)),
                "muted",
            )
        )
    return parts


def _difference(explanation: Explained, baseline: str) -> doc.Inline:
    """Say what is to be explained: the verdict with the ratio of the metric."""
    verdict, share = _found(explanation, baseline)
    metric = shared.metric_of(explanation.section)
    return msg("{verdict}, {metric}: {share}", verdict=verdict, metric=metric, share=share)


def _found(explanation: Explained, baseline: str = "") -> tuple[doc.Inline, doc.Inline]:
    """Return the verdict and the ratio that are to be explained."""
    row, section = explanation.row, explanation.section
    assert row.ratio is not None
    assert row.verdict is not None
    verdict = shared.verdict_of(row.verdict, row.ratio, section)
    return verdict, shared.relative_of(row.ratio, section, baseline)


def _table(counters: Sequence[ComparedCounter], explanation: Explained, baseline: str) -> doc.Table:
    has_seconds = any(counter.per_second is not None for counter in counters)
    work_unit, treatment = _unit(explanation.work), shared.platform_of(explanation.row.platform)
    of_baseline = msg("{platform}\n{per}", platform=baseline, per=work_unit)
    of_treatment = msg("{platform}\n{per}", platform=treatment, per=work_unit)
    columns = [
        doc.Column("counter", msg("counter")),
        doc.Column("unit", msg("unit")),
        doc.Column("baseline", of_baseline, is_number=True),
        doc.Column("treatment", of_treatment, is_number=True),
        doc.Column("percent", shared.percent_title(baseline, msg("interval")), is_number=True),
    ]
    if has_seconds:
        title = msg("the same\nper second")
        columns.append(doc.Column("per_second", title, is_number=True, room="wide", of="percent"))
    rows = [
        (*_cells(counter), *((_seconds(counter),) if has_seconds else ())) for counter in counters
    ]
    return doc.table_of(
        columns,
        rows,
        key=f"{explanation.section.name} {explanation.row.cell.key}",
        label=msg("counters"),
    )


def _cells(counter: ComparedCounter) -> tuple[doc.Inline, ...]:
    """Return the name, the unit, both values and the ratio of a counter."""
    scale = _scale_of(counter.counter, counter.baseline, counter.treatment)
    return (
        counter.words,
        unit_of(scale.unit),
        doc.Quantity(counter.baseline, scale, 3),
        doc.Quantity(counter.treatment, scale, 3),
        shared.amount_of(counter.ratio),
    )


def _scale_of(counter: Counter, *values: float) -> doc.Scale:
    """Return in which unit a counter's values are short: `MB`, `µs`; small numbers of bytes and others as counted."""
    scale = scale_for("B" if counter.unit == "bytes" else counter.unit, values)
    return scale if scale.divisor != 1.0 else doc.Scale(counter.unit)


def _seconds(counter: ComparedCounter) -> doc.Inline:
    if counter.per_second is None:
        return doc.Nothing()
    return doc.Relative(counter.per_second.estimate, is_of="amount")


def _unit(work: str) -> doc.Inline:
    """Return the work that values of a table are per; a gauge is as it is."""
    if work == TRIAL:
        return msg("per trial")
    if work == SECOND:
        return msg("per second")
    if work == GIGABYTE:
        return msg("per GB")
    return _PER.get(work) or msg("per {unit}", unit=work)


def _missing(analysis: Analysis) -> Mapping[str, str]:
    """Return what the host of the run could not count, with the reason."""
    not_counted = analysis.host.get("not_counted")
    return not_counted if isinstance(not_counted, Mapping) else {}


def _not_counted(missing_counters: Mapping[str, str]) -> list[doc.Part]:
    if not missing_counters:
        return []
    reasons = by_key((reason, counter) for counter, reason in missing_counters.items())
    items = [
        msg("{what}: {reason}", what=joined(map(term, counters), ", "), reason=reason)
        for reason, counters in reasons.items()
    ]
    return [doc.Paragraph(msg("Not available on this host:"), "muted"), doc.Bullets(tuple(items))]


VIEW = register_view(
    View(
        "explain",
        msg("What may explain the differences"),
        msg("Facts that differ with the runs that test them, and counters that moved."),
        document,
        place=27,
        command="explain",
    )
)
