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
    first_of,
    joined,
    levels_of,
    listed,
    more_blocks,
    msg,
    plural,
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


def document_of(found: Checks, seconds: Mapping[str, float] | None = None) -> doc.Document:
    """Return the summary, the table and the warnings. seconds: key of a cell -> duration of its trials, for test
    reports."""
    parts: list[doc.Part] = [_summary(found)]
    if found.compared:
        title = msg("Comparisons")
        parts.append(doc.Titled(title, (_table(found), *_below(found)), key="comparisons"))
    warnings = _warnings(found)
    parts += shared.warnings_part(warnings)
    names = found.against.names if found.against else (found.analysis.name,)
    suite = doc.Suite(
        f"vtax compare {' '.join(names)}",
        found.analysis.started_at,
        tuple(_cases(found, seconds or {})),
        _properties(found),
    )
    return doc.Document(
        msg("Check"),
        tuple(parts),
        (_lead(found),),
        data={**values_of(found), "warnings": warnings},
        suite=suite,
    )


def _lead(found: Checks) -> doc.Inline:
    if not found.margins:
        return msg("{run}: fails where a host lies apart", run=found.analysis.name)
    data: dict[str, doc.Inline] = {
        "families": listed(map(doc.Count, found.families)),
        "run": found.analysis.name,
        "treatments": joined(found.treatments),
        "limits": _limits(found),
    }
    if found.change:
        return msg(
            "{run}: {treatments} after {change}, against before; fails {limits}; Holm-corrected over all "
            "comparisons of a metric ({families})",
            **data,
            change=found.change.title,
        )
    data["baseline"] = found.baseline
    if found.against:
        data["run"], data["other"] = found.against.names
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


def _limits(found: Checks) -> doc.Inline:
    """`above a loss of 5 % or above 5 % more in cost`: where the check fails."""
    limits = [_beyond(quantity, found) for quantity in found.margins]
    return (
        limits[0] if len(limits) == 1 else msg("{one} or {other}", one=limits[0], other=limits[1])
    )


def _beyond(quantity: Quantity, found: Checks) -> doc.Inline:
    """Return where comparisons of a quantity fail."""
    limit = _limit(quantity, found)
    if quantity == "speed":
        return msg("above a loss of {limit}", limit=limit)
    return msg("above {limit} more in cost", limit=limit)


def _limit(quantity: Quantity, found: Checks) -> doc.Inline:
    """Return the loss above which comparisons of a quantity fail; a range where benchmarks differ."""
    margins = [each.margin for each in found.compared if each.margin and each.quantity == quantity]
    given = found.margins[quantity]
    low = doc.Share(min(margins, default=given), "declared")
    high = doc.Share(max(margins, default=given), "declared")
    return low if low == high else doc.Range(low, high)


def _summary(found: Checks) -> doc.Titled:
    """Return how many comparisons have which outcome, what was not tested, and last whether the check failed, with
    the reasons."""
    status = found.status
    reasons: list[doc.Inline] = []
    others: list[doc.Inline] = []
    for outcome, its_status in STATUS_OF.items():
        if its_status == status:
            reasons += _said(outcome, found)
        elif outcome != "not-tested":
            others += _said(outcome, found)
    ending = {
        "failed": msg("The check failed: {reasons}.", reasons=joined(reasons, "; ")),
        "blind": msg("The check is too noisy: {reasons}.", reasons=joined(reasons, "; ")),
        "undecided": msg("The check is undecided: {reasons}.", reasons=joined(reasons, "; ")),
        "passed": msg("The check passed: {reasons}.", reasons=joined(reasons, "; ")),
    }[status]
    parts: list[doc.Part] = [doc.Bullets(tuple(others))] if others else []
    untested = tuple(_untested(found))
    if untested:
        parts.append(doc.Titled(msg("Not tested"), (doc.Bullets(untested),)))
    for each in found.below_sight:
        text = plural(
            "a margin of {margin} is below what this host can see with {count} block of {benchmark}: it sees {sees} "
            "({run}, the baseline against itself)",
            "a margin of {margin} is below what this host can see with {count} blocks of {benchmark}: it sees {sees} "
            "({run}, the baseline against itself)",
            each.blocks,
            margin=doc.Share(found.margins["speed"], "declared"),
            benchmark=each.benchmark,
            sees=doc.Share(each.sees),
            run=each.run,
        )
        parts.append(doc.Paragraph(text, "caution"))
    parts += [doc.Paragraph(text, "caution") for text in _could_have_shown(found)]
    role: Role = ""
    if status != "passed":
        role = "error" if found.exit_status else "caution"
    parts.append(doc.Paragraph(styled(ending, "strong"), role))
    return doc.Titled(msg("Summary"), tuple(parts), key="answer", role="summary")


def _could_have_shown(found: Checks) -> Iterator[doc.Inline]:
    """Yield the smallest slowdowns that undecided comparisons could have shown, where no --detect asks for one."""
    undecided = [each for each in found.compared if each.outcome == "undecided"]
    if found.detect is not None or not undecided:
        return
    seen = sorted(each.detectable for each in undecided if each.detectable is not None)
    if not seen:
        yield plural(
            "the undecided comparison could not have shown a slowdown of any size",
            "the undecided comparisons could not have shown a slowdown of any size",
            len(undecided),
        )
    elif len(seen) < len(undecided):
        yield msg(
            "smallest slowdown that the undecided comparisons could have shown: {low}; some could have shown none",
            low=doc.Share(seen[0]),
        )
    elif seen[0] == seen[-1]:
        yield plural(
            "smallest slowdown that the undecided comparison could have shown: {low}",
            "smallest slowdown that the undecided comparisons could have shown: {low}",
            len(seen),
            low=doc.Share(seen[0]),
        )
    else:
        yield msg(
            "smallest slowdown that the undecided comparisons could have shown: {low} to {high}",
            low=doc.Share(seen[0]),
            high=doc.Share(seen[-1]),
        )


def _said(outcome: str, found: Checks) -> Iterator[doc.Inline]:
    """Yield how many comparisons have an outcome, and where the worst of them is."""
    if outcome == "not-tested":
        if found.not_tested:
            untested = plural(
                "{count} was not tested", "{count} were not tested", len(found.not_tested)
            )
            yield joined([untested, _counts(each.platform for each in found.not_tested)], ": ")
        return
    if outcome in ("odd-host", "passed") and found.hosts:
        names = [each.host for each in found.hosts if each.outcome == outcome]
        if outcome == "odd-host" and names:
            apart = plural("{count} host lies apart", "{count} hosts lie apart", len(names))
            yield joined([apart, joined(first_of(names, _MAX_NAMED))], ": ")
        elif outcome == "passed" and names:
            yield plural(
                "{count} host lies with the others", "{count} hosts lie with the others", len(names)
            )
    these: Sequence[Checked] = [each for each in found.compared if each.outcome == outcome]
    if outcome == "blind":
        these = found.blind
    for quantity in found.margins:
        of_quantity = [each for each in these if each.quantity == quantity]
        if of_quantity:
            text = _counted(outcome, quantity, len(of_quantity), found)
            where = "" if outcome == "passed" else _where(of_quantity, found)
            yield joined([text, where], ": ")


def _untested(found: Checks) -> Iterator[doc.Inline]:
    """`kvm-virtio: REASON; hint`: platforms and benchmarks, each reason once."""
    reasons: dict[str, tuple[doc.Inline, list[doc.Inline]]] = {}
    for each in found.not_tested:
        why = _why(each)
        reasons.setdefault(repr(why), (why, []))[1].append(joined([each.platform, each.label], " "))
    for why, names in reasons.values():
        yield joined([joined(first_of(names, _MAX_NAMED)), why], ": ")


def _where(these: Sequence[Checked], found: Checks) -> doc.Inline:
    """`iperf3 (2), dd; worst qemu-tcg (emulated) on dd: 36 % [32, 41]`; of a single one where and how much."""
    worst = min(these, key=lambda each: each.efficiency.low if each.efficiency else 0.0)
    pair = worst.pair
    alike = [each.pair.section for each in found.compared if each.quantity == worst.quantity]
    name = shared.name_of(pair.section, alike)
    place = joined([name, doc.Factor(levels_of(pair.levels)) if pair.levels else ""], " ")
    of_worst: doc.Inline = msg(
        "{platforms} on {name}", platforms=shared.platform_of(pair.treatment.platform), name=place
    )
    if worst.ratio:
        of_worst = joined([of_worst, _share(worst)], ": ")
    if len(these) == 1:
        return of_worst
    return joined(
        [_counts(each.pair.section.label for each in these), msg("worst {name}", name=of_worst)],
        "; ",
    )


def _counts(names: Iterable[str]) -> doc.Inline:
    """`iperf3 (2) and dd`: each name with how often it is there; at most _MAX_NAMED of them."""
    found = Counter(names)
    texts = [f"{name} ({n})" if n > 1 else name for name, n in found.most_common()]
    return joined(first_of(texts, _MAX_NAMED))


def _counted(outcome: str, quantity: Quantity, count: int, found: Checks) -> doc.Inline:
    """Return how many comparisons of a quantity have an outcome."""
    of_cost = quantity == "cost"
    beyond = _beyond(quantity, found)
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
                share=doc.Relative(1 + (found.detect or 0.0), is_of="amount"),
            )
        return plural(
            "{count} comparison could not have shown a fall to {share}",
            "{count} comparisons could not have shown a fall to {share}",
            count,
            share=doc.Relative(1 - (found.detect or 0.0), is_of="amount"),
        )
    if outcome == "undecided":
        if of_cost:
            return plural(
                "{count} comparison of cost is undecided",
                "{count} comparisons of cost are undecided",
                count,
            )
        return plural("{count} comparison is undecided", "{count} comparisons are undecided", count)
    limit = _limit(quantity, found)
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


def _what(each: Checked) -> doc.Inline:
    levels = each.pair.levels
    return joined(
        [shared.title_of(each.pair.section), doc.Factor(levels_of(levels)) if levels else ""]
    )


def _table(found: Checks) -> doc.Table:
    columns = (
        shared.PLATFORM,
        doc.Column("comparison", msg("comparison"), wraps=True),
        doc.Column(
            "percent", shared.percent_title(_hundred(found), _interval_title(found)), is_number=True
        ),
        doc.Column("detectable", msg("detectable\nfrom"), is_number=True),
        doc.Column("outcome", msg("outcome"), wraps=True),
    )
    rows = [_row(each) for each in found.compared]
    return doc.table_of(columns, rows, key="comparisons", label=msg("comparisons of the check"))


def _hundred(found: Checks) -> doc.Inline:
    """Return what is 100 % in the table."""
    return found.against.names[1] if found.against else found.baseline


def _interval_title(found: Checks) -> doc.Inline:
    """Name intervals that say nothing of another session."""
    if found.against and found.against.is_of_one_session:
        return msg("{level} interval of these sessions", level=found.analysis.level)
    return msg("{level} interval", level=found.analysis.level)


def _row(each: Checked) -> doc.TableRow:
    detectable: doc.Inline = doc.Nothing()
    if each.detectable is not None:
        detectable = _seen(each, each.detectable)
    platform = shared.platform_of(each.pair.treatment.platform)
    word = styled(_OUTCOMES[each.outcome], _ROLES.get(each.outcome, ""))
    outcome = joined([word, *_reason(each), *_needed(each)])
    return doc.TableRow(
        (platform, _what(each), styled(_share(each), "strong"), detectable, outcome)
    )


def _reason(each: Checked) -> Iterator[doc.Inline]:
    """Yield why there is no result, or, in short, no word that the interval supports."""
    for reason in each.reasons[:1]:
        if each.outcome == "no-result":
            yield reason
        elif isinstance(reason, Note) and reason.code in _SHORT:
            yield _SHORT[reason.code]


def _needed(each: Checked) -> Iterator[doc.Inline]:
    """Yield how many further blocks decide an undecided comparison, or that noise hides it."""
    if each.outcome != "undecided" or each.ratio is None or each.ratio.n_sessions > 1:
        return
    if each.blocks_needed_low is not None and each.blocks_needed:
        yield more_blocks(each.blocks_needed_low, each.blocks_needed)
    elif each.noise is not None and not each.reasons:
        yield msg("too noisy")


def _share(each: Checked) -> doc.Inline:
    return shared.relative_of(each.ratio, each.pair.section) if each.ratio else doc.Nothing()


def _seen(each: Checked, difference: float) -> doc.Relative:
    """Return what share of the baseline a comparison has with a slowdown, or with an extra cost."""
    change = difference if each.quantity == "cost" else -difference
    return doc.Relative(1 + change, is_of="amount")


def _why(each: NotTested) -> doc.Inline:
    return joined([each.reason, each.hint], "; ")


def _details(each: Checked, found: Checks) -> Iterator[doc.Inline]:
    """Yield why it is undecided or has no result, and what would decide it."""
    yield from (*each.reasons, *each.assumptions, *_needed(each))
    if each.outcome != "undecided" or each.ratio is None:
        return
    share = each.efficiency
    if not each.reasons and share is not None and share.high < edges(each.margin)[0]:
        yield plural(
            "its interval alone lies {beyond}, corrected for {count} comparison it does not",
            "its interval alone lies {beyond}, corrected for {count} comparisons it does not",
            each.family,
            beyond=_beyond(each.quantity, replace(found, compared=(each,))),
        )
    if found.change:
        yield msg("only more hosts would decide")
    elif each.ratio.n_sessions > 1:
        yield msg("only more sessions would decide")
    elif found.against is not None:
        yield msg(
            "two sessions a side or more would decide: further runs, or vtax resume --session"
        )


def _below(found: Checks) -> Iterator[doc.Part]:
    passed = [e.ratio.n_blocks for e in found.compared if e.ratio and e.outcome == "passed"]
    for text in shared.as_far_as_shown(_OUTCOMES["passed"], passed):
        yield doc.Paragraph(text, "muted")
    if found.against:
        run, other = found.against.names
        yield doc.Paragraph(
            msg(
                "percent: what {run} reaches of {baseline}, relative to what {other} reaches; effects common to both "
                "platforms cancel. Slower, or costs more: the interval, corrected for all comparisons of a metric, "
                "lies {limits}; passed: it lies on the other side; over sessions, of which each side needs two",
                baseline=found.baseline,
                limits=_limits(found),
                run=run,
                other=other,
            ),
            "muted",
        )
        return
    yield doc.Paragraph(
        msg(
            "Slower, or costs more: the interval, corrected for all comparisons of a metric, lies {limits}; passed: "
            "it lies on the other side. Detectable from: what this comparison finds with a probability of 80 %",
            limits=_limits(found),
        ),
        "muted",
    )
    if not found.change:  # why words of the same comparisons are others in `vtax show`
        text = msg(
            "families are those of vtax show: all comparisons of a metric in the run, whichever are shown; verdicts "
            "there are of 100 %, here of the limit",
        )
        yield doc.Paragraph(text, "muted")


def _warnings(found: Checks) -> tuple[doc.Warning, ...]:
    """About the run, then about figures."""
    about_run = [each for each in found.analysis.warnings if not each.places]
    if found.against:
        for run in (*found.against.runs[1:], *found.against.others):
            for warning in run.warnings:
                if not warning.places and warning not in about_run:
                    about_run.append(warning)
        for text in found.against.differences:
            about_run.append(doc.Warning("runs-differ", "warning", {"text": text}, kind="check"))
        if found.against.is_of_one_session:
            about_run.insert(0, doc.Warning("session-effects", "warning", {}, kind="check"))
    given = []
    for each in found.compared:
        if each.ratio is not None:
            notes = (*each.ratio.warnings, *each.reasons, *each.assumptions)
            given += [noted(note, _place(each)) for note in notes]
    return (*about_run, *merged(given))


def _place(each: Checked) -> doc.WarnedPlace:
    pair = each.pair
    return place_of(pair.section, pair.section.point_of(pair.treatment), pair.treatment)


def _cases(found: Checks, seconds: Mapping[str, float]) -> Iterator[doc.Case]:
    for each in found.compared:
        duration = seconds.get(each.pair.treatment.cell.key, 0.0)
        kind = found.kind_of(each)
        yield doc.Case(
            shared.platform_of(each.pair.treatment.platform),
            _what(each),
            _case(kind, found),
            kind,
            "" if each.outcome == "passed" else _finding(each, found),
            duration,
        )
    for host in found.hosts:
        yield doc.Case(
            host.host,
            msg("lies with the others"),
            _case(host.outcome, found),
            host.outcome,
            _apart(host),
        )
    for untested in found.not_tested:
        name: doc.Inline = untested.label or msg("all comparisons")
        outcome = _case("not-tested", found)
        yield doc.Case(untested.platform, name, outcome, "not-tested", _why(untested))


def _apart(host: CheckedHost) -> doc.Inline:
    """`native on sysbench-cpu: 74.2 % [71.2, 77.4]`: where a host lies apart, in percent of the other hosts."""
    places = []
    for each in host.findings:
        share = doc.Relative(each.share.estimate, each.share.low, each.share.high, is_of="amount")
        place = joined([shared.title_of(each.section), shared.levels(each.point)])
        name = msg("{platforms} on {name}", platforms=each.platform, name=place)
        places.append(joined([name, share], ": "))
    return joined(places, "; ")


def _case(kind: Kind, found: Checks) -> Any:
    """Return the outcome of a case: failures and errors are in the file where the command does not end with 0."""
    return _CASES.get(kind, "error" if found.status_of(STATUS_OF[kind]) else "skipped")


def _finding(each: Checked, found: Checks) -> doc.Inline:
    """`91.2 % of native [89.0, 93.5], fails above a loss of 5 %` as in the table, what it could see, and what would decide."""
    parts: list[doc.Inline] = []
    if each.ratio is not None:
        baseline = "" if found.against else found.baseline
        share = shared.relative_of(each.ratio, each.pair.section, baseline)
        limit = _beyond(each.quantity, found)
        parts.append(msg("{share}, fails {limit}", share=share, limit=limit))
    if each.detectable is not None:
        parts.append(msg("detectable from {share}", share=_seen(each, each.detectable)))
    if found.detect is not None and each.outcome == "undecided":
        parts.append(msg("{share} has to be", share=_seen(each, found.detect)))
    return joined([*parts, *_details(each, found)], "; ")


def _properties(found: Checks) -> dict[str, doc.Inline]:
    return {
        "run": found.analysis.name,
        "study": found.analysis.study,
        "baseline": found.baseline,
        **{
            condition: doc.Share(found.margins[quantity], "declared")
            for condition, quantity in CONDITIONS.items()
            if quantity in found.margins
        },
        "confidence": found.analysis.level,
        "status": found.status,
        "exit_status": doc.Count(found.exit_status),
    }
