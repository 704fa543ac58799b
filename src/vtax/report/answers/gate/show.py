"""Whether anything became slower or costs more by more than a margin: the table, the summary, the cases of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from vtax.described import values_of
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.values import place_of
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.gate.compute import (
    STATUS_OF,
    Checked,
    CheckedHost,
    Checks,
    Kind,
    NotTested,
)
from vtax.report.document import (
    factors,
    first_of,
    joined,
    listed,
    more_blocks,
    msg,
    plural,
    range_of,
    styled,
)
from vtax.report.document.text import Role
from vtax.report.parts import shared
from vtax.stats.margin import edges
from vtax.stats.terms import CONDITIONS, Quantity

_MAX_NAMED = 6
_OUTCOMES: Mapping[str, doc.Message] = {
    "passed": msg("passed"),
    "slower": msg("slower"),
    "costs-more": msg("costs more"),
    "undecided": msg("undecided"),
    "no-result": msg("no result"),
    "not-tested": msg("not tested"),
}
_ROLES: Mapping[str, Any] = {
    "slower": "error",
    "costs-more": "error",
    "no-result": "error",
    "undecided": "caution",
}
_SHORT: Mapping[str, doc.Message] = {
    "withheld-likely-dependent": msg("slow blocks may come in a row"),
    "withheld-dependent": msg("neighbouring blocks are alike"),
    "withheld-noisier": msg("noisier side"),
    "withheld-failures": msg("more trials failed"),
    "withheld-clock-check": msg("wrong clock"),
    "withheld-resolution": msg("coarse figures"),
    "withheld-timer": msg("the client's timer"),
    "withheld-zeros": msg("blocks of zero"),
    "withheld-other-quantity": msg("another quantity"),
}
"""Code of a reason for which statistics withhold a word -> how a row of the table says it; warnings say it whole."""
_CASES: Mapping[Kind, Any] = {
    "passed": "passed",
    "slower": "failed",
    "costs-more": "failed",
    "odd-host": "failed",
}
"""Kind of a comparison -> outcome of its case; of others an error where they end the command, else skipped."""


def document_of(checks: Checks, seconds: Mapping[str, float] | None = None) -> doc.Document:
    """Return the summary, the table and the warnings. seconds: key of a cell -> duration of its trials, for test
    reports."""
    parts: list[doc.Part] = [_summary(checks)]
    if checks.comparisons:
        title = msg("Comparisons")
        parts.append(doc.Titled(title, (_table(checks), *_below(checks)), key="comparisons"))
    warnings = _warnings(checks)
    parts += shared.warnings_part(warnings)
    names = checks.against.names if checks.against else (checks.analysis.name,)
    suite = doc.Suite(
        f"vtax compare {' '.join(names)}",
        checks.analysis.started_at,
        tuple(_cases(checks, seconds or {})),
        _properties(checks),
    )
    return doc.Document(
        msg("Check"),
        tuple(parts),
        (_lead(checks),),
        data={**values_of(checks), "warnings": warnings},
        suite=suite,
    )


def _lead(checks: Checks) -> doc.Inline:
    if not checks.margins:
        return msg("{run}: fails where a host lies apart", run=checks.analysis.name)
    data: dict[str, doc.Inline] = {
        "families": listed(map(doc.Count, checks.families)),
        "run": checks.analysis.name,
        "treatments": joined(checks.treatments),
        "limits": _limits(checks),
    }
    if checks.change:
        return msg(
            "{run}: {treatments} after {change}, against before; fails {limits}; Holm-corrected over all "
            "comparisons of a metric ({families})",
            **data,
            change=checks.change.title,
        )
    data["baseline"] = checks.baseline
    if checks.against:
        data["run"], data["other"] = checks.against.names
        return msg(
            "{run} against {other}: {treatments}, each relative to {baseline}; fails {limits}; Holm-corrected "
            "over all comparisons of a metric ({families})",
            **data,
        )
    return msg(
        "{run}: {treatments} against {baseline}; fails {limits}; Holm-corrected over all comparisons of a "
        "metric ({families})",
        **data,
    )


def _limits(checks: Checks) -> doc.Inline:
    """`above a loss of 5 % or above 5 % more in cost`: where the check fails."""
    limits = [_beyond(quantity, checks) for quantity in checks.margins]
    return (
        limits[0] if len(limits) == 1 else msg("{one} or {other}", one=limits[0], other=limits[1])
    )


def _beyond(quantity: Quantity, checks: Checks) -> doc.Inline:
    """Return where comparisons of a quantity fail."""
    limit = _limit(quantity, checks)
    if quantity == "speed":
        return msg("above a loss of {limit}", limit=limit)
    return msg("above {limit} more in cost", limit=limit)


def _limit(quantity: Quantity, checks: Checks) -> doc.Inline:
    """Return the loss above which comparisons of a quantity fail; a range where benchmarks differ."""
    margins = [
        comparison.margin
        for comparison in checks.comparisons
        if comparison.margin and comparison.quantity == quantity
    ]
    declared_margin = checks.margins[quantity]
    low = doc.Share(min(margins, default=declared_margin), "declared")
    high = doc.Share(max(margins, default=declared_margin), "declared")
    return range_of(low, high)


def _summary(checks: Checks) -> doc.Titled:
    """Return how many comparisons have which outcome, what was not tested, and last whether the check failed, with
    the reasons."""
    status = checks.status
    reasons: list[doc.Inline] = []
    other_outcomes: list[doc.Inline] = []
    for outcome, its_status in STATUS_OF.items():
        if its_status == status:
            reasons += _said(outcome, checks)
        elif outcome != "not-tested":
            other_outcomes += _said(outcome, checks)
    ending = {
        "failed": msg("The check failed: {reasons}.", reasons=joined(reasons, "; ")),
        "blind": msg("The check is too noisy: {reasons}.", reasons=joined(reasons, "; ")),
        "undecided": msg("The check is undecided: {reasons}.", reasons=joined(reasons, "; ")),
        "passed": msg("The check passed: {reasons}.", reasons=joined(reasons, "; ")),
    }[status]
    parts: list[doc.Part] = [doc.Bullets(tuple(other_outcomes))] if other_outcomes else []
    untested = tuple(_untested(checks))
    if untested:
        parts.append(doc.Titled(msg("Not tested"), (doc.Bullets(untested),)))
    parts += [doc.Paragraph(text, "caution") for text in _could_have_shown(checks)]
    role: Role = ""
    if status != "passed":
        role = "error" if checks.exit_status else "caution"
    parts.append(doc.Paragraph(styled(ending, "strong"), role))
    return doc.Titled(msg("Summary"), tuple(parts), key="answer", role="summary")


def _could_have_shown(checks: Checks) -> Iterator[doc.Inline]:
    """Yield the smallest slowdowns that undecided comparisons could have shown, where no --detect asks for one."""
    undecided_comparisons = [
        comparison for comparison in checks.comparisons if comparison.outcome == "undecided"
    ]
    if checks.detect is not None or not undecided_comparisons:
        return
    slowdowns = sorted(
        comparison.detectable
        for comparison in undecided_comparisons
        if comparison.detectable is not None
    )
    if not slowdowns:
        yield plural(
            "the undecided comparison could not have shown a slowdown of any size",
            "the undecided comparisons could not have shown a slowdown of any size",
            len(undecided_comparisons),
        )
    elif len(slowdowns) < len(undecided_comparisons):
        yield msg(
            "smallest slowdown that the undecided comparisons could have shown: {low}; some could have shown none",
            low=doc.Share(slowdowns[0]),
        )
    elif slowdowns[0] == slowdowns[-1]:
        yield plural(
            "smallest slowdown that the undecided comparison could have shown: {low}",
            "smallest slowdown that the undecided comparisons could have shown: {low}",
            len(slowdowns),
            low=doc.Share(slowdowns[0]),
        )
    else:
        yield msg(
            "smallest slowdown that the undecided comparisons could have shown: {low} to {high}",
            low=doc.Share(slowdowns[0]),
            high=doc.Share(slowdowns[-1]),
        )


def _said(outcome: str, checks: Checks) -> Iterator[doc.Inline]:
    """Yield how many comparisons have an outcome, and where the worst of them is."""
    if outcome == "not-tested":
        if checks.not_tested:
            untested = plural(
                "{count} was not tested", "{count} were not tested", len(checks.not_tested)
            )
            yield joined([untested, _counts(point.platform for point in checks.not_tested)], ": ")
        return
    if outcome in ("odd-host", "passed") and checks.hosts:
        names = [host.host for host in checks.hosts if host.outcome == outcome]
        if outcome == "odd-host" and names:
            sentence = plural("{count} host lies apart", "{count} hosts lie apart", len(names))
            yield joined([sentence, joined(first_of(names, _MAX_NAMED))], ": ")
        elif outcome == "passed" and names:
            yield plural(
                "{count} host lies with the others", "{count} hosts lie with the others", len(names)
            )
    comparisons: Sequence[Checked] = [
        comparison for comparison in checks.comparisons if comparison.outcome == outcome
    ]
    if outcome == "blind":
        comparisons = checks.blind
    for quantity in checks.margins:
        group = [comparison for comparison in comparisons if comparison.quantity == quantity]
        if group:
            text = _counted(outcome, quantity, len(group), checks)
            place = "" if outcome == "passed" else _where(group, checks)
            yield joined([text, place], ": ")


def _untested(checks: Checks) -> Iterator[doc.Inline]:
    """`kvm-virtio: REASON; hint`: platforms and benchmarks, each reason once."""
    reasons: dict[str, tuple[doc.Inline, list[doc.Inline]]] = {}
    for point in checks.not_tested:
        reason = _why(point)
        reasons.setdefault(repr(reason), (reason, []))[1].append(
            joined([point.platform, point.label], " ")
        )
    for reason, names in reasons.values():
        yield joined([joined(first_of(names, _MAX_NAMED)), reason], ": ")


def _where(comparisons: Sequence[Checked], checks: Checks) -> doc.Inline:
    """`iperf3 (2), dd; worst qemu-tcg (emulated) on dd: 36 % [32, 41]`; of a single one where and how much."""
    worst = min(
        comparisons,
        key=lambda comparison: comparison.efficiency.low if comparison.efficiency else 0.0,
    )
    pair = worst.pair
    sections = [
        comparison.pair.section
        for comparison in checks.comparisons
        if comparison.quantity == worst.quantity
    ]
    name = shared.name_of(pair.section, sections)
    place = joined([name, factors(pair.levels)], " ")
    of_worst: doc.Inline = msg(
        "{platforms} on {name}", platforms=shared.platform_of(pair.treatment.platform), name=place
    )
    if worst.ratio:
        of_worst = joined([of_worst, _share(worst)], ": ")
    if len(comparisons) == 1:
        return of_worst
    return joined(
        [
            _counts(comparison.pair.section.label for comparison in comparisons),
            msg("worst {name}", name=of_worst),
        ],
        "; ",
    )


def _counts(names: Iterable[str]) -> doc.Inline:
    """`iperf3 (2) and dd`: each name with how often it is there; at most _MAX_NAMED of them."""
    counter = Counter(names)
    texts = [f"{name} ({n})" if n > 1 else name for name, n in counter.most_common()]
    return joined(first_of(texts, _MAX_NAMED))


def _counted(outcome: str, quantity: Quantity, count: int, checks: Checks) -> doc.Inline:
    """Return how many comparisons of a quantity have an outcome."""
    of_cost = quantity == "cost"
    beyond = _beyond(quantity, checks)
    if outcome == "slower":
        return plural(
            "{count} comparison is slower, {beyond}",
            "{count} comparisons are slower, {beyond}",
            count,
            beyond=beyond,
        )
    if outcome == "costs-more":
        return plural(
            "{count} comparison costs more, {beyond}",
            "{count} comparisons cost more, {beyond}",
            count,
            beyond=beyond,
        )
    if outcome == "no-result":
        return plural(
            "{count} comparison has no result", "{count} comparisons have no result", count
        )
    if outcome == "blind":
        if of_cost:
            return plural(
                "{count} comparison could not have shown a rise of its cost to {share}",
                "{count} comparisons could not have shown a rise of their cost to {share}",
                count,
                share=doc.Relative(1 + (checks.detect or 0.0), is_of="amount"),
            )
        return plural(
            "{count} comparison could not have shown a fall to {share}",
            "{count} comparisons could not have shown a fall to {share}",
            count,
            share=doc.Relative(1 - (checks.detect or 0.0), is_of="amount"),
        )
    if outcome == "undecided":
        if of_cost:
            return plural(
                "{count} comparison of cost is undecided",
                "{count} comparisons of cost are undecided",
                count,
            )
        return plural("{count} comparison is undecided", "{count} comparisons are undecided", count)
    limit = _limit(quantity, checks)
    if of_cost:
        return plural(
            "{count} comparison costs at most {limit} more",
            "{count} comparisons cost at most {limit} more",
            count,
            limit=limit,
        )
    return plural(
        "{count} comparison has a loss of at most {limit}",
        "{count} comparisons have a loss of at most {limit}",
        count,
        limit=limit,
    )


def _what(comparison: Checked) -> doc.Inline:
    pair = comparison.pair
    return joined([shared.title_of(pair.section), factors(pair.levels)])


def _table(checks: Checks) -> doc.Table:
    columns = (
        shared.PLATFORM,
        doc.Column("comparison", msg("comparison"), wraps=True),
        doc.Column(
            "percent",
            shared.percent_title(_hundred(checks), _interval_title(checks)),
            is_number=True,
        ),
        doc.Column("detectable", msg("detectable\nfrom"), is_number=True),
        doc.Column("outcome", msg("outcome"), wraps=True),
    )
    rows = [_row(comparison) for comparison in checks.comparisons]
    return doc.table_of(columns, rows, key="comparisons", label=msg("comparisons of the check"))


def _hundred(checks: Checks) -> doc.Inline:
    """Return what is 100 % in the table."""
    return checks.against.names[1] if checks.against else checks.baseline


def _interval_title(checks: Checks) -> doc.Inline:
    """Name intervals that say nothing of another session."""
    if checks.against and checks.against.is_of_one_session:
        return msg("{level} interval of these sessions", level=checks.analysis.level)
    return msg("{level} interval", level=checks.analysis.level)


def _row(comparison: Checked) -> doc.TableRow:
    detectable: doc.Inline = doc.Nothing()
    if comparison.detectable is not None:
        detectable = _seen(comparison, comparison.detectable)
    platform = shared.platform_of(comparison.pair.treatment.platform)
    word = styled(_OUTCOMES[comparison.outcome], _ROLES.get(comparison.outcome, ""))
    outcome = joined([word, *_reason(comparison), *_needed(comparison)])
    return doc.TableRow(
        (platform, _what(comparison), styled(_share(comparison), "strong"), detectable, outcome)
    )


def _reason(comparison: Checked) -> Iterator[doc.Inline]:
    """Yield why there is no result, or, in short, no word that the interval supports."""
    for reason in comparison.reasons[:1]:
        if comparison.outcome == "no-result":
            yield reason
        elif isinstance(reason, Note) and reason.code in _SHORT:
            yield _SHORT[reason.code]


def _needed(comparison: Checked) -> Iterator[doc.Inline]:
    """Yield how many further blocks decide an undecided comparison, or that noise hides it."""
    if (
        comparison.outcome != "undecided"
        or comparison.ratio is None
        or comparison.ratio.n_sessions > 1
    ):
        return
    if comparison.blocks_needed_low is not None and comparison.blocks_needed:
        yield more_blocks(comparison.blocks_needed_low, comparison.blocks_needed)
    elif comparison.noise is not None and not comparison.reasons:
        yield msg("too noisy")


def _share(comparison: Checked) -> doc.Inline:
    return (
        shared.relative_of(comparison.ratio, comparison.pair.section)
        if comparison.ratio
        else doc.Nothing()
    )


def _seen(comparison: Checked, difference: float) -> doc.Relative:
    """Return what share of the baseline a comparison has with a slowdown, or with an extra cost."""
    change = difference if comparison.quantity == "cost" else -difference
    return doc.Relative(1 + change, is_of="amount")


def _why(item: NotTested) -> doc.Inline:
    return joined([item.reason, item.hint], "; ")


def _details(comparison: Checked, checks: Checks) -> Iterator[doc.Inline]:
    """Yield why it is undecided or has no result, and what would decide it."""
    yield from (*comparison.reasons, *comparison.assumptions, *_needed(comparison))
    if comparison.outcome != "undecided" or comparison.ratio is None:
        return
    share = comparison.efficiency
    if not comparison.reasons and share is not None and share.high < edges(comparison.margin)[0]:
        yield plural(
            "its interval alone lies {beyond}, corrected for {count} comparison it does not",
            "its interval alone lies {beyond}, corrected for {count} comparisons it does not",
            comparison.family,
            beyond=_beyond(comparison.quantity, replace(checks, comparisons=(comparison,))),
        )
    if checks.change:
        yield msg("only more hosts would decide")
    elif comparison.ratio.n_sessions > 1:
        yield msg("only more sessions would decide")
    elif checks.against is not None:
        yield msg(
            "two sessions a side or more would decide: further runs, or vtax resume --session"
        )


def _below(checks: Checks) -> Iterator[doc.Part]:
    passed = [e.ratio.n_blocks for e in checks.comparisons if e.ratio and e.outcome == "passed"]
    for text in shared.as_far_as_shown(_OUTCOMES["passed"], passed):
        yield doc.Paragraph(text, "muted")
    if checks.against:
        run, other_run = checks.against.names
        yield doc.Paragraph(
            msg(
                "percent: what {run} reaches of {baseline}, relative to what {other} reaches; effects common to both "
                "platforms cancel. Slower, or costs more: the interval, corrected for all comparisons of a metric, "
                "lies {limits}; passed: it lies on the other side; over sessions, of which each side needs two",
                baseline=checks.baseline,
                limits=_limits(checks),
                run=run,
                other=other_run,
            ),
            "muted",
        )
        return
    yield doc.Paragraph(
        msg(
            "Slower, or costs more: the interval, corrected for all comparisons of a metric, lies {limits}; passed: "
            "it lies on the other side. Detectable from: what this comparison finds with a probability of 80 %",
            limits=_limits(checks),
        ),
        "muted",
    )
    if not checks.change:  # why words of the same comparisons are others in `vtax show`
        text = msg(
            "families are those of vtax show: all comparisons of a metric in the run, whichever are shown; verdicts "
            "there are of 100 %, here of the limit",
        )
        yield doc.Paragraph(text, "muted")


def _warnings(checks: Checks) -> tuple[doc.Warning, ...]:
    """About the run, then about figures."""
    about_run = [warning for warning in checks.analysis.warnings if not warning.places]
    if checks.against:
        for run in (*checks.against.runs[1:], *checks.against.others):
            for warning in run.warnings:
                if not warning.places and warning not in about_run:
                    about_run.append(warning)
        for text in checks.against.differences:
            about_run.append(doc.Warning("runs-differ", "warning", {"text": text}, kind="check"))
        if checks.against.is_of_one_session:
            about_run.insert(0, doc.Warning("session-effects", "warning", {}, kind="check"))
    warnings = []
    for comparison in checks.comparisons:
        if comparison.ratio is not None:
            notes = (*comparison.ratio.warnings, *comparison.reasons, *comparison.assumptions)
            warnings += [noted(note, _place(comparison)) for note in notes]
    return (*about_run, *merged(warnings))


def _place(comparison: Checked) -> doc.WarnedPlace:
    pair = comparison.pair
    return place_of(pair.section, pair.section.point_of(pair.treatment), pair.treatment)


def _cases(checks: Checks, seconds: Mapping[str, float]) -> Iterator[doc.Case]:
    for comparison in checks.comparisons:
        duration = seconds.get(comparison.pair.treatment.cell.key, 0.0)
        kind = checks.kind_of(comparison)
        yield doc.Case(
            shared.platform_of(comparison.pair.treatment.platform),
            _what(comparison),
            _case(kind, checks),
            kind,
            "" if comparison.outcome == "passed" else _finding(comparison, checks),
            duration,
        )
    for host in checks.hosts:
        yield doc.Case(
            host.host,
            msg("lies with the others"),
            _case(host.outcome, checks),
            host.outcome,
            _apart(host),
        )
    for untested in checks.not_tested:
        name: doc.Inline = untested.label or msg("all comparisons")
        outcome = _case("not-tested", checks)
        yield doc.Case(untested.platform, name, outcome, "not-tested", _why(untested))


def _apart(host: CheckedHost) -> doc.Inline:
    """`native on sysbench-cpu: 74.2 % [71.2, 77.4]`: where a host lies apart, in percent of the other hosts."""
    places = []
    for finding in host.findings:
        place = joined([shared.title_of(finding.section), shared.levels(finding.point)])
        name = msg("{platforms} on {name}", platforms=finding.platform, name=place)
        places.append(joined([name, shared.amount_of(finding.share)], ": "))
    return joined(places, "; ")


def _case(kind: Kind, checks: Checks) -> Any:
    """Return the outcome of a case: failures and errors are in the file where the command does not end with 0."""
    return _CASES.get(kind, "error" if checks.status_of(STATUS_OF[kind]) else "skipped")


def _finding(comparison: Checked, checks: Checks) -> doc.Inline:
    """`91.2 % of native [89.0, 93.5], fails above a loss of 5 %` as in the table, what it could see, and what would decide."""
    parts: list[doc.Inline] = []
    if comparison.ratio is not None:
        baseline = "" if checks.against else checks.baseline
        share = shared.relative_of(comparison.ratio, comparison.pair.section, baseline)
        limit = _beyond(comparison.quantity, checks)
        parts.append(msg("{share}, fails {limit}", share=share, limit=limit))
    if comparison.detectable is not None:
        parts.append(msg("detectable from {share}", share=_seen(comparison, comparison.detectable)))
    if checks.detect is not None and comparison.outcome == "undecided":
        parts.append(msg("{share} has to be", share=_seen(comparison, checks.detect)))
    return joined([*parts, *_details(comparison, checks)], "; ")


def _properties(checks: Checks) -> dict[str, doc.Inline]:
    return {
        "run": checks.analysis.name,
        "study": checks.analysis.study,
        "baseline": checks.baseline,
        **{
            condition: doc.Share(checks.margins[quantity], "declared")
            for condition, quantity in CONDITIONS.items()
            if quantity in checks.margins
        },
        "confidence": checks.analysis.level,
        "status": checks.status,
        "exit_status": doc.Count(checks.exit_status),
    }
