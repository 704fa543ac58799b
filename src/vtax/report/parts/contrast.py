"""Two sides against each other: their means, ratios and verdicts in the table that results have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtax.described import values_of
from vtax.report.analysis import ResultPoint
from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.analysis.filters import EVERYTHING, Filter
from vtax.report.analysis.warnings import merged, noted
from vtax.report.document import (
    Count,
    Document,
    Inline,
    Paragraph,
    Part,
    Place,
    Share,
    Table,
    Warning,
    joined,
    levels_of,
    listed,
    msg,
    plural,
)
from vtax.report.document import Section as Titled
from vtax.report.parts import across_runs, run_contrast, shared
from vtax.report.parts.result_table import result_table


def document_of(found: Contrasts, only: Filter = EVERYTHING) -> Document:
    """Return a table a metric with both means, their ratio and its verdict; then how it was compared, and the
    warnings.

    only: what is shown of the family, whose verdicts stay as they are.
    """
    table_of = run_contrast.table if found.treatment.is_run else _table
    parts: list[Part] = []
    compared = [each for each in found.compared if only.shows(each.treatment.cell) or only.shows(each.baseline.cell)]
    for section in {id(each.section): each.section for each in compared}.values():
        here = [each for each in compared if each.section is section]
        parts.append(Titled(shared.title_of(section), (table_of(here, found),), subtitle=shared.subtitle_of(section)))
    parts.append(Paragraph(_method(found), "muted"))
    noted_of = shared.equivalent_as_far_as_shown((each.ratio, each.verdict) for each in compared)
    parts += [Paragraph(text, "muted") for text in noted_of]
    parts += across_runs.notes(compared, found)
    parts += across_runs.parts(compared, found)
    if found.treatment.is_run:
        parts += run_contrast.summary(found, compared)
    warnings = _warnings(found, compared)
    parts += shared.warnings_part(warnings)
    nothing = "" if any(each.ratio for each in found.compared) else found.reason_empty()
    data = {
        "schema": "vtax.compare/1", **values_of(replace(found, compared=tuple(compared))), "family": found.family,
        "coded_warnings": warnings,
    }  # fmt: skip
    return Document(msg("Comparison"), tuple(parts), data=data, nothing=nothing)


def _warnings(found: Contrasts, compared: Sequence[Compared]) -> tuple[Warning, ...]:
    """About the runs, then about figures."""
    given = [noted(text, _place(each, found)) for each in compared for text in each.warnings]
    about_runs = [Warning("runs-differ", "warning", {"text": text}, kind="contrast") for text in found.warnings]
    if alone := [each for each in compared if found.is_of_one_session(each.ratio)]:
        is_all = len(alone) == sum(each.ratio is not None for each in compared)
        places = () if is_all else tuple(_place(each, found) for each in alone)
        about_runs.insert(0, Warning("session-effects", "warning", {}, places=places, kind="contrast"))
    return (*about_runs, *merged(given))


def _place(each: Compared, found: Contrasts) -> Place:
    platform = each.treatment.platform.name if found.treatment.is_run else ""
    return Place(platform, each.section.name, levels_of(each.levels))


def _method(found: Contrasts) -> Inline:
    how = msg("paired by block") if found.is_paired else msg("two samples of blocks")
    if any(each.ratio and each.ratio.n_sessions > 1 for each in found.compared):
        how = msg("two samples of sessions") if not found.is_paired else msg("paired by block, over sessions")
    sides = {"treatment": found.treatment.text, "baseline": found.baseline.text}
    if not found.family:
        reason = next((each.reason for each in found.compared if each.ratio), "")
        return joined([msg("{treatment} / {baseline}, {how}", how=how, **sides), reason], "; ")
    if found.is_of_table:
        return msg(
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; verdicts are those of the table of "
            "{run}, Holm-corrected over all comparisons of a metric in it ({families})",
            how=how, margin=Share(found.margin, "declared"), run=found.baseline.name,
            families=listed([Count(each) for each in found.families]), **sides,
        )  # fmt: skip
    if not found.is_paired:
        return plural(
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over {count} contrast",
            "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over {count} contrasts",
            found.family, how=how, margin=Share(found.margin, "declared"), **sides,
        )  # fmt: skip
    return msg(
        "{treatment} / {baseline}, {how}; within ±{margin} is equivalent; Holm-corrected over all comparisons of a "
        "metric between these sides ({families}), for no other sides of {run} that could have been named: name them "
        "before its table is seen",
        how=how, margin=Share(found.margin, "declared"), run=found.baseline.name,
        families=listed([Count(each) for each in found.families]), **sides,
    )  # fmt: skip


def _table(compared: Sequence[Compared], found: Contrasts) -> Table:
    """Return both sides as two rows, the baseline first."""
    points = []
    for each in compared:
        baseline = replace(each.baseline.platform, name=found.baseline.text, is_baseline=True)
        treatment = replace(each.treatment.platform, name=found.treatment.text, is_baseline=False)
        rows = (
            replace(each.baseline, platform=baseline, ratio=None, verdict=None, target_missed=False),
            replace(each.treatment, platform=treatment, ratio=each.ratio, verdict=each.verdict,
                    reason="" if each.ratio else each.reason, target_missed=False),
        )  # fmt: skip
        points.append(ResultPoint(each.name, each.levels, rows))
    section = replace(compared[0].section, points=tuple(points))
    made = result_table(section, Share(found.confidence, "declared"), found.baseline.text, {})
    interval = across_runs.interval_title(found, [each.ratio for each in compared])
    title = shared.percent_title(found.baseline.text, interval)
    columns = (replace(each, title=title) if each.key == "percent" else each for each in made.columns)
    return replace(made, columns=tuple(columns))
