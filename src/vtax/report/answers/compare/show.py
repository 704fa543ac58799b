"""Two sides against each other: their means, ratios and verdicts in the table that results have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from vtax.described import values_of
from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis import ResultPoint, Row
from vtax.report.analysis.compared import CellPair, Contrasts
from vtax.report.analysis.next_step import UndecidedRow, next_step_of
from vtax.report.analysis.warnings import merged, noted
from vtax.report.document import factors, first_of, joined, levels_of, listed, msg, plural, styled
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.report.parts.figures import means_of_sides
from vtax.report.parts.first_screen import next_line
from vtax.report.parts.result_table import result_table
from vtax.report.parts.sentences import SpokenComparison, words_of
from vtax.stats.ratio import Ratio as Estimate
from vtax.store.records import CellRecord

_MAX_NAMED = 3


def document_of(contrasts: Contrasts) -> doc.Document:
    """Return the answer; a table a metric with both means, their ratio and its verdict; how it was compared, and the
    warnings.
    """
    table_of = _table_of_runs if contrasts.treatment.is_run else _table
    pairs = contrasts.pairs
    parts: list[doc.Part] = [_summary(contrasts)]
    for section in {id(pair.section): pair.section for pair in pairs}.values():
        section_pairs = [pair for pair in pairs if pair.section is section]
        parts.append(
            doc.Titled(
                shared.title_of(section),
                (table_of(section_pairs, contrasts), means_of_sides(section_pairs, contrasts)),
                subtitle=shared.subtitle_of(section),
            )
        )
    parts.append(doc.Paragraph(_method(contrasts), "muted"))
    noted_of = shared.absence_as_far_as_shown((pair.ratio, pair.verdict) for pair in pairs)
    parts += [doc.Paragraph(text, "muted") for text in noted_of]
    parts += _notes(contrasts)
    parts += _across_runs(contrasts)
    warnings = _warnings(contrasts)
    parts += shared.warnings_part(warnings)
    reason_empty = "" if any(pair.ratio for pair in pairs) else contrasts.reason_empty()
    data = {
        "schema": "vtax.compare/1",
        **values_of(contrasts),
        "family": contrasts.family,
        "coded_warnings": warnings,
    }
    return doc.Document(msg("Comparison"), tuple(parts), data=data, nothing=reason_empty)


def _warnings(contrasts: Contrasts) -> tuple[doc.Warning, ...]:
    """About the runs, then about figures."""
    pairs = contrasts.pairs
    warnings_of_pairs = [
        noted(text, _place(pair, contrasts)) for pair in pairs for text in pair.warnings
    ]
    about_runs = []
    one_session_pairs = [pair for pair in pairs if contrasts.is_of_one_session(pair.ratio)]
    if one_session_pairs:
        is_all = len(one_session_pairs) == sum(pair.ratio is not None for pair in pairs)
        places = () if is_all else tuple(_place(pair, contrasts) for pair in one_session_pairs)
        warning = doc.Warning("session-effects", "warning", {}, places=places, kind="contrast")
        about_runs.append(warning)
    for text in contrasts.warnings:
        about_runs.append(doc.Warning("runs-differ", "warning", {"text": text}, kind="contrast"))
    return (*about_runs, *merged(warnings_of_pairs))


def _place(pair: CellPair, contrasts: Contrasts) -> doc.WarnedPlace:
    platform = pair.treatment.platform.name if contrasts.treatment.is_run else ""
    return doc.WarnedPlace(platform, pair.section.name, levels_of(pair.levels))


def _method(contrasts: Contrasts) -> doc.Inline:
    pairing = msg("paired by block") if contrasts.is_paired else msg("two samples of blocks")
    if any(pair.ratio and pair.ratio.n_sessions > 1 for pair in contrasts.pairs):
        pairing = msg("two samples of sessions")
        if contrasts.is_paired:
            pairing = msg("paired by block, over sessions")
    sides = {"treatment": contrasts.treatment.text, "baseline": contrasts.baseline.text}
    if not contrasts.family:
        reason = next((pair.reason for pair in contrasts.pairs if pair.ratio), "")
        return joined([msg("{treatment} / {baseline}, {how}", how=pairing, **sides), reason], "; ")
    margin = doc.Share(contrasts.margin, "declared")
    if not contrasts.is_paired:
        return plural(
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over {count} contrast",
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over {count} contrasts",
            contrasts.family,
            how=pairing,
            margin=margin,
            **sides,
        )
    of_run: dict[str, doc.Inline] = {
        "how": pairing,
        "margin": margin,
        "run": contrasts.baseline.name,
        "families": listed(map(doc.Count, contrasts.families)),
    }
    if contrasts.is_of_table:
        return msg(
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; verdicts are those of the table of "
            "{run}, Holm-corrected over all comparisons of a metric in it ({families})",
            **sides,
            **of_run,
        )
    return msg(
        "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over all comparisons of a "
        "metric between these sides ({families}); valid only if you chose this pair before you saw the results of {run}",
        **sides,
        **of_run,
    )


def _table(pairs: Sequence[CellPair], contrasts: Contrasts) -> doc.Table:
    """Return both sides as two rows, the baseline first."""
    points = []
    for pair in pairs:
        baseline = replace(pair.baseline.platform, name=contrasts.baseline.text, is_baseline=True)
        treatment = replace(
            pair.treatment.platform, name=contrasts.treatment.text, is_baseline=False
        )
        rows = (
            replace(
                pair.baseline, platform=baseline, ratio=None, verdict=None, target_missed=False
            ),
            replace(
                pair.treatment,
                platform=treatment,
                ratio=pair.ratio,
                verdict=pair.verdict,
                reason="" if pair.ratio else pair.reason,
                target_missed=False,
            ),
        )
        points.append(ResultPoint(pair.name, pair.levels, rows))
    section = replace(pairs[0].section, points=tuple(points))
    table = result_table(section, contrasts.level, contrasts.baseline.text, {})
    interval = _interval_title(contrasts, [pair.ratio for pair in pairs])
    title = shared.percent_title(contrasts.baseline.text, interval)
    columns = (
        replace(column, title=title) if column.key == "percent" else column
        for column in table.columns
    )
    return replace(table, columns=tuple(columns))


def _table_of_runs(pairs: Sequence[CellPair], contrasts: Contrasts) -> doc.Table:
    """Make the table of a metric: both means, their ratio with its interval, and the verdict on the treatment."""
    section = pairs[0].section
    pairs_of_points = [
        list(of) for _, of in groupby(pairs, key=lambda pair: levels_of(pair.levels))
    ]
    scales = shared.scales_of(replace(section, points=tuple(map(_point_of, pairs_of_points))))
    unit = unit_of(scales[0].unit) if len(set(scales)) == 1 else ""
    half_width = msg("±{level}", level=contrasts.level)
    treatment, baseline = contrasts.treatment.name, contrasts.baseline.name
    interval = _interval_title(contrasts, [pair.ratio for pair in pairs])
    columns = (
        shared.PLATFORM,
        doc.Column("treatment_mean", joined([treatment, unit], ",\n"), is_number=True),
        doc.Column("treatment_half_width", half_width, room="wide", of="treatment_mean"),
        doc.Column("baseline_mean", joined([baseline, unit], ",\n"), is_number=True),
        doc.Column("baseline_half_width", half_width, room="wide", of="baseline_mean"),
        doc.Column("percent", shared.percent_title(baseline, interval), is_number=True),
        doc.Column("verdict", msg("verdict")),
    )
    groups = []
    for of_point, scale in zip(pairs_of_points, scales, strict=True):
        rows = []
        for pair in of_point:
            platform = shared.platform_of(pair.treatment.platform)
            rows.append(doc.TableRow((platform, *_cells_of_runs(pair, scale))))
        levels = levels_of(of_point[0].levels)
        own_unit = unit_of(scale.unit) if unit == "" else ""
        title = joined([doc.Factor(levels) if levels else "", own_unit], ", ")
        groups.append(doc.Group(tuple(rows), title))
    return doc.Table(
        columns, tuple(groups), key=section.name, label=shared.title_of(section), style="result"
    )


def _point_of(pairs: Sequence[CellPair]) -> ResultPoint:
    """Return the rows of both sides at the point of all these pairs."""
    rows = tuple(row for pair in pairs for row in (pair.treatment, pair.baseline))
    return ResultPoint(pairs[0].name, pairs[0].levels, rows)


def _cells_of_runs(pair: CellPair, scale: doc.Scale) -> list[doc.Inline]:
    of, to = shared.mean_cells(pair.treatment, scale), shared.mean_cells(pair.baseline, scale)
    cells = [*of, *to]
    if pair.ratio is None:
        return [*cells, "", styled(pair.reason, "error")]
    verdict = shared.no_verdict(pair.section)
    if pair.verdict:
        verdict = shared.verdict_of(pair.verdict, pair.ratio, pair.section)
    return [*cells, styled(shared.relative_of(pair.ratio, pair.section), "strong"), verdict]


def _summary(contrasts: Contrasts) -> doc.Titled:
    """Return the answer, what was not compared, and what to do next."""
    left_out = list(_left_out(contrasts)) if contrasts.treatment.is_run else []
    parts = [*answer_of(contrasts), *left_out, *next_of(contrasts)]
    return doc.Titled(msg("Summary"), tuple(parts), key="answer", role="summary")


def _left_out(contrasts: Contrasts) -> Iterator[doc.Part]:
    """Yield how many cells of whole runs are not compared, and why."""
    reasons: dict[str, list[doc.Inline]] = by_key(
        (repr(reason), reason) for mismatch in contrasts.mismatched for reason in mismatch.reasons
    )
    items: list[doc.Inline] = []
    if count := len(contrasts.mismatched):
        named_reasons = first_of([reason for reason, *_ in reasons.values()], _MAX_NAMED)
        items.append(
            plural(
                "{count} cell, whose settings differ ({names})",
                "{count} cells, whose settings differ ({names})",
                count,
                names=joined(named_reasons, "; "),
            )
        )
    for side, cells in (
        (contrasts.treatment, contrasts.unmatched.treatment),
        (contrasts.baseline, contrasts.unmatched.baseline),
    ):
        if cells:
            items.append(
                plural(
                    "{count} cell only in {run} ({names})",
                    "{count} cells only in {run} ({names})",
                    len(cells),
                    run=side.name,
                    names=joined(_kinds_of(cells)),
                )
            )
    if items:
        yield doc.Paragraph(msg("Not compared: {parts}.", parts=joined(items, "; ")), "muted")


def _kinds_of(cells: Sequence[CellRecord]) -> list[doc.Inline]:
    """Return the benchmarks or platforms that they are of, whichever are fewer."""
    names = [
        list(dict.fromkeys(getattr(cell, kind) for cell in cells)) for kind in ("label", "platform")
    ]
    return first_of(min(names, key=len), _MAX_NAMED)


def _interval_title(contrasts: Contrasts, ratios: Sequence[Estimate | None]) -> doc.Inline:
    """Return the head of a column of intervals; it names those that say nothing of another session."""
    known_ratios = [ratio for ratio in ratios if ratio is not None]
    if known_ratios and all(map(contrasts.is_of_one_session, known_ratios)):
        return msg("{level} interval of these sessions", level=contrasts.level)
    return msg("{level} interval", level=contrasts.level)


def _notes(contrasts: Contrasts) -> Iterator[doc.Part]:
    """Yield a sentence where an interval of a mean is over sessions and that of its ratio over blocks."""
    repeated_sides = [
        side
        for side in (contrasts.treatment, contrasts.baseline)
        if sum(len(run.analysis.sessions) for run in side.runs) > 1
    ]
    if repeated_sides and any(contrasts.is_of_one_session(pair.ratio) for pair in contrasts.pairs):
        text = msg(
            "± of {run} is over sessions, the interval of the percent over blocks",
            run=repeated_sides[0].name,
        )
        yield doc.Paragraph(text, "muted")


def _across_runs(contrasts: Contrasts) -> Iterator[doc.Part]:
    """Yield what further sessions may show, and ratios of ratios; none where there is nothing for it."""
    pairs = contrasts.pairs
    if contrasts.is_paired:
        return
    if rows := list(_next_rows(pairs)):
        columns: tuple[doc.Column, ...] = (
            shared.PLATFORM,
            doc.Column("metric", msg("metric"), wraps=True),
            doc.Column("sessions", msg("sessions\nper side"), is_number=True),
            doc.Column(
                "percent",
                msg("percent of {baseline}", baseline=contrasts.baseline.name),
                is_number=True,
            ),
            doc.Column(
                "next",
                msg("the next sessions,\n{level}", level=contrasts.level),
            ),
        )
        yield _titled_table(msg("Next sessions"), "next-sessions", columns, rows)
    if rows := list(_relative_rows(pairs)):
        interval = _interval_title(contrasts, [pair.relative for pair in pairs])
        title = msg(
            "percent of {run}, both relative\nto {baseline} [{interval}]",
            run=contrasts.baseline.name,
            baseline=contrasts.common_baseline,
            interval=interval,
        )
        columns = (
            shared.PLATFORM,
            doc.Column("metric", msg("metric"), wraps=True),
            doc.Column("ratio_of_ratios", title, is_number=True),
        )
        note = msg(
            "Effects common to a platform and to {baseline} cancel.",
            baseline=contrasts.common_baseline,
        )
        title = msg("Relative to {baseline}", baseline=contrasts.common_baseline)
        yield _titled_table(title, "ratio-of-ratios", columns, rows, doc.Paragraph(note, "muted"))


def _titled_table(
    title: doc.Inline,
    key: str,
    columns: tuple[doc.Column, ...],
    rows: Sequence[doc.TableRow],
    *further_parts: doc.Part,
) -> doc.Titled:
    table = doc.table_of(columns, rows, key=key, label=title, style="result")
    return doc.Titled(title, (table, *further_parts), key=key)


def _next_rows(pairs: Sequence[CellPair]) -> Iterator[doc.TableRow]:
    for pair in pairs:
        ratio = pair.ratio
        if ratio is None or ratio.predicted_low is None or ratio.predicted_high is None:
            continue
        relative = replace(shared.relative_of(ratio, pair.section), shows="estimate")
        yield doc.TableRow(
            (
                *_platform_and_metric(pair),
                doc.Count(ratio.n_sessions),
                relative,
                shared.predicted_of(ratio, pair.section),
            )
        )


def _relative_rows(pairs: Sequence[CellPair]) -> Iterator[doc.TableRow]:
    for pair in pairs:
        if pair.relative is not None:
            share = shared.relative_of(pair.relative, pair.section)
            yield doc.TableRow((*_platform_and_metric(pair), share))


def _platform_and_metric(pair: CellPair) -> tuple[doc.Inline, doc.Inline]:
    name = joined([pair.section.name, factors(pair.levels)])
    return shared.platform_of(pair.treatment.platform), name


def answer_of(contrasts: Contrasts) -> Iterator[doc.Part]:
    """Yield the sentence about the pairs."""
    if contrasts.pairs:
        comparisons = [_judged(pair, contrasts) for pair in contrasts.pairs]
        words = words_of(comparisons, contrasts.baseline.text)
        answer = msg(
            "{treatment} against {baseline}: {parts}.",
            parts=words,
            treatment=contrasts.treatment.text,
            baseline=contrasts.baseline.text,
        )
        yield doc.Paragraph(styled(answer, "strong"))


def _judged(pair: CellPair, contrasts: Contrasts) -> SpokenComparison:
    """`iperf3 direction=send`; of runs `podman on iperf3`."""
    section = pair.section
    name: doc.Inline = section.label
    if section.metric.role != "cost":
        sections = [other_pair.section for other_pair in contrasts.pairs]
        speeds = [candidate for candidate in sections if candidate.metric.role != "cost"]
        name = shared.name_of(section, speeds)
    name = joined([name, factors(pair.levels)], " ")
    if contrasts.treatment.is_run:
        name = msg(
            "{platforms} on {name}",
            platforms=shared.platform_of(pair.treatment.platform),
            name=name,
        )
    return SpokenComparison(name, pair.section, _row(pair))


def _row(pair: CellPair) -> Row:
    """Return the treatment with the ratio of these two sides."""
    return replace(pair.treatment, ratio=pair.ratio, verdict=pair.verdict, reason=pair.reason)


def next_of(contrasts: Contrasts) -> Iterator[doc.Part]:
    """Yield what would decide: blocks within a run, sessions across runs."""
    undecided_pairs = [
        pair
        for pair in contrasts.pairs
        if pair.ratio and (not pair.verdict or pair.verdict.kind == "undecided")
    ]
    if not undecided_pairs:
        return
    if not contrasts.is_paired:
        text = msg("Next: only more sessions would decide.")
        if any(pair.verdict is None for pair in undecided_pairs):
            text = msg(
                "Next: measure both sides in several sessions, by further runs or vtax resume --session."
            )
        yield doc.Paragraph(text)
        return
    analysis = contrasts.treatment.analysis
    rows = [
        UndecidedRow(pair.section, pair.section.point_of(pair.treatment), _row(pair))
        for pair in undecided_pairs
        if pair.verdict
    ]
    yield from next_line(analysis, next_step_of(analysis, rows))
