"""A change of hosts, before and after, against hosts that did not change: what is known of it, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.answers.hosts.fleet import Fleet
from vtax.report.answers.hosts.host_change import ChangeEffect, ChangeOfHosts
from vtax.report.answers.hosts.odd_hosts import name_of, shown_value
from vtax.report.answers.hosts.show_summary import exceptions
from vtax.report.document import joined, msg, styled
from vtax.report.parts import shared


def part_of(
    change: ChangeOfHosts, effects: Sequence[ChangeEffect], analysis: Analysis, fleet: Fleet
) -> doc.Titled:
    """Return the section of one change: what is known of it, the facts that changed, and what that did."""
    parts: list[doc.Part] = [doc.Bullets(tuple(_about(change, fleet))), *_facts(change)]
    for baseline in dict.fromkeys(effect.baseline for effect in effects):
        of = [effect for effect in effects if effect.baseline == baseline]
        parts += [
            _table(list(section_effects), change, baseline, analysis)
            for _, section_effects in groupby(of, lambda e: e.section.name)
        ]
    parts.append(doc.Paragraph(_legend(change), "muted"))
    return doc.Titled(
        msg("Before and after: {what}", what=change.title), tuple(parts), key="change"
    )


def _offer(change: ChangeOfHosts) -> doc.Inline:
    """Say what changed where, and what it can be compared with."""
    data: dict[str, doc.Inline] = {
        "what": change.title,
        "changed": doc.Count(len(change.changed)),
        "controls": doc.Count(len(change.controls)),
        "hosts": doc.Count(len(change.changed) + len(change.controls)),
    }
    if change.is_declared:
        return msg(
            "{what} changed on {changed} of {hosts} hosts, and the other {controls} are controls",
            **data,
        )
    if not change.controls:
        return msg(
            "{what} became another between sessions on all {changed} hosts: whatever else changed meanwhile is in "
            "the difference",
            **data,
        )
    return msg(
        "{what} became another between sessions on {changed} of {hosts} hosts: the other {controls} are taken as "
        "controls, as in a campaign of a change",
        **data,
    )


def _about(change: ChangeOfHosts, fleet: Fleet) -> Iterator[doc.Inline]:
    yield _offer(change)
    yield joined([msg("changed"), shared.few_of(fleet.names(change.changed))], ": ")
    controls = shared.few_of(fleet.names(change.controls)) if change.controls else msg("none")
    yield joined([msg("controls"), controls], ": ")
    if not change.is_random:
        yield styled(
            msg("which hosts changed was not drawn: whatever chose them may be what differs"),
            "caution",
        )
    yield from exceptions(change, fleet)
    if change.overlap:
        yield styled(
            msg(
                "some hosts changed after others were measured again: the windows of the controls are rough"
            ),
            "caution",
        )


def _facts(change: ChangeOfHosts) -> Iterator[doc.Table]:
    if not change.facts:
        return
    columns = (
        doc.Column("fact", msg("fact")),
        doc.Column("before", msg("before"), wraps=True),
        doc.Column("after", msg("after"), wraps=True),
        doc.Column("changed", msg("hosts that\nchanged"), is_number=True),
        doc.Column("controls", msg("controls"), is_number=True),
    )
    rows = [
        (
            name_of(fact.key),
            shown_value(fact.key, fact.before),
            shown_value(fact.key, fact.after),
            doc.Count(fact.changed),
            doc.Count(fact.controls),
        )
        for fact in change.facts
    ]
    yield doc.table_of(
        columns, rows, key="changed-facts", label=msg("Facts that changed"), style="facts"
    )


def _table(
    effects: Sequence[ChangeEffect], change: ChangeOfHosts, baseline: str, analysis: Analysis
) -> doc.Titled:
    interval = msg("{level} interval", level=analysis.level)
    columns = [
        shared.PLATFORM,
        doc.Column("changed", msg("after, percent of before:\nhosts that changed"), is_number=True),
    ]
    if change.controls:
        columns += [
            doc.Column("controls", msg("controls"), is_number=True),
            doc.Column(
                "effect",
                msg("changed, percent of\ncontrols [{interval}]", interval=interval),
                is_number=True,
            ),
        ]
    columns.append(doc.Column("p", msg("p,\nadjusted"), is_number=True))

    def cells(effect: ChangeEffect) -> list[doc.Inline]:
        cells_of_row: list[doc.Inline] = [shared.relative_of(effect.alone, effect.section)]
        if change.controls:
            controls: doc.Inline = doc.Nothing()
            if effect.of_controls:
                controls = shared.relative_of(effect.of_controls, effect.section)
            cells_of_row.append(controls)
            cells_of_row.append(styled(shared.relative_of(effect.effect, effect.section), "strong"))
        return [*cells_of_row, doc.PValue(effect.p_adjusted)]

    section = effects[0].section
    rows = [(effect.point, effect.row.platform, cells(effect)) for effect in effects]
    title = shared.title_of(section)
    label = msg("{title}: performance", title=title)
    if baseline:
        label = msg("{title}: ratio to {baseline}", title=title, baseline=baseline)
    table = doc.Table(
        tuple(columns),
        shared.by_point(rows),
        key=f"change {baseline} {section.name}",
        label=label,
        style="result",
    )
    return doc.Titled(label, (table,))


def _legend(change: ChangeOfHosts) -> doc.Inline:
    if change.controls:
        return msg(
            "Each host is one value, after relative to before; the mean of those that changed, relative to that of "
            "the controls, by t over hosts. What the windows have in common cancels."
        )
    return msg(
        "Each host is one value, after relative to before; the mean of all, by t over hosts."
    )
