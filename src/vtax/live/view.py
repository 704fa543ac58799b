"""Document of a live run: where it is, how far its intervals have shrunk, and what happened last, as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.live.events import Event
from vtax.live.state import LiveState
from vtax.messages import restored
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.document import joined, msg, muted, plural, scale_for, styled
from vtax.report.parts import shared
from vtax.report.parts.header import status_word

Widths = Mapping[tuple[str, str, str], float]
"""(section, point, platform) -> relative half-width of the interval of its ratio."""
_SHOWN = 12


def document(
    state: LiveState, analysis: Analysis | None, before: Widths, events: int = _SHOWN
) -> doc.Document:
    """Return all of a live run.

    state: of the run.
    analysis: after its last block; None before the first.
    before: widths after the block before that.
    events: how many of the last ones to show.
    """
    parts: list[doc.Part] = [doc.Paragraph(now(state))]
    if analysis is not None and (table := estimates(analysis, before)) is not None:
        parts.append(
            doc.Titled(msg("Percent of {baseline} so far", baseline=analysis.baseline), (table,))
        )
    if state.events:
        parts.append(doc.Titled(msg("Log"), (log(state, events),)))
    return doc.Document(joined([state.run, progress(state)], ": "), tuple(parts))


def position(state: LiveState) -> doc.Inline:
    """Return the position of a run, `block 2 of 5`; nothing before the first trial."""
    at = state.progress
    if at.block is None:
        return ""
    number = doc.Count(at.block + 1)
    if not state.is_running:
        return plural("{count} block", "{count} blocks", at.block + 1)
    if at.blocks:
        return msg("block {block} of {blocks}", block=number, blocks=doc.Count(at.blocks))
    return msg("block {block}", block=number)


def progress(state: LiveState) -> doc.Inline:
    """Return `running, block 2 of 5, 5 of 336 trials, 1 failed, about 4 min left`."""
    at = state.progress
    done_trials = doc.Count(at.done_trials)
    trials: doc.Inline = plural("{count} trial", "{count} trials", at.done_trials)
    if at.total_trials and state.is_running:
        trials = plural(
            "{done} of {count} trial", "{done} of {count} trials", at.total_trials, done=done_trials
        )
    failed: doc.Inline = ""
    if at.failed_trials:
        failed = styled(msg("{count} failed", count=doc.Count(at.failed_trials)), "error")
    left_text: doc.Inline = ""
    if state.is_running and at.left_s is not None:
        left_text = msg("about {duration} left", duration=doc.Duration(at.left_s))
    return joined([status_word(state.status), position(state), trials, failed, left_text])


def now(state: LiveState) -> doc.Inline:
    """Return what runs at this moment, or why the run ended."""
    at = state.progress
    if not state.is_running:
        return state.because or status_word(state.status)
    if at.trial is not None:
        label, levels = at.trial
        return _trial(at.platform, label, levels)
    if at.guest == "starting":
        return msg("{platform}: a fresh guest starts", platform=at.platform)
    if at.guest == "ready" and at.ready_s is not None:
        return _ready(at.platform, at.ready_s)
    if at.platform:
        return joined([at.platform, msg("between two trials")], ": ")
    return msg("it starts")


def widths(analysis: Analysis) -> Widths:
    """Return the widths of all intervals of an analysis."""
    half_widths = {}
    for section, point, row in _compared(analysis):
        if row.ratio is not None:
            key = (section.name, point.key, row.platform.name)
            half_widths[key] = row.ratio.half_width
    return half_widths


def estimates(analysis: Analysis, before: Widths) -> doc.Table | None:
    """Return a table with a row for every percent: its interval, its half-width and that of the block before.

    It is None where there is no percent yet.
    """
    rows = []
    for section, point, row in _compared(analysis):
        if row.ratio is None:
            continue
        verdict = shared.no_verdict(section)
        if row.verdict:
            verdict = shared.verdict_of(row.verdict, row.ratio, section)
        cells = (
            joined([shared.title_of(section), muted(shared.levels(point))], " "),
            shared.platform_of(row.platform, analysis.colours),
            styled(shared.relative_of(row.ratio, section), "strong"),
            _half_width(row.ratio.half_width),
            muted(_half_width(before.get((section.name, point.key, row.platform.name)))),
            verdict,
        )
        rows.append(doc.TableRow(cells))
    if not rows:
        return None
    interval = msg("{level} interval", level=analysis.level)
    columns = (
        doc.Column("benchmark", msg("benchmark"), wraps=True),
        shared.PLATFORM,
        doc.Column("percent", shared.percent_title(analysis.baseline, interval), is_number=True),
        doc.Column("half_width", msg("half-width"), is_number=True, of="percent"),
        doc.Column("before", msg("a block\nbefore"), is_number=True, room="wide"),
        doc.Column("verdict", msg("verdict")),
    )
    return doc.table_of(
        columns, rows, key="estimates", label=msg("percents so far"), style="result"
    )


def log(state: LiveState, events: int = _SHOWN) -> doc.Table:
    """Return the last events, the newest first; the start of a trial is seen in `now` and at its end."""
    began = state.events[0].at if state.events else 0.0
    past_events = [event for event in reversed(state.events) if event.name != "trial_starting"][
        :events
    ]
    rows = [(muted(_after(event, began)), happened(event)) for event in past_events]
    columns = (
        doc.Column("after", msg("after"), is_number=True),
        doc.Column("event", msg("event"), wraps=True),
    )
    return doc.table_of(columns, rows, key="log", label=msg("Log"))


def happened(event: Event) -> doc.Inline:
    """Return an event as a sentence."""
    data = event.data
    platform, label = str(data.get("platform", "")), str(data.get("label", ""))
    if event.name == "guest_starting":
        return msg("{platform}: a fresh guest starts", platform=platform)
    if event.name == "guest_ready":
        return _ready(platform, float(data.get("ready_s") or 0.0))
    if event.name == "trial_starting":
        return _trial(platform, label, str(data.get("levels", "")))
    if event.name == "trial_ended":
        return joined([_trial(platform, label, str(data.get("levels", ""))), _outcome(data)], ", ")
    if event.name == "ended":
        return joined(
            [status_word(str(data.get("status", ""))), restored(str(data.get("because", "")))], ": "
        )
    return str(data.get("text", ""))


def _compared(analysis: Analysis) -> Sequence[tuple[Section, ResultPoint, Row]]:
    return [
        (section, point, row)
        for section, point, row in every_row(analysis.primary)
        if not row.platform.is_baseline
    ]


def _half_width(value: float | None) -> doc.Inline:
    if value is None:
        return ""
    return msg("±{width}", width=doc.Share(value)) if value < float("inf") else msg("no interval")


def _after(event: Event, began: float) -> doc.Inline:
    return doc.Duration(max(event.at - began, 0.0))


def _trial(platform: str, label: str, levels: str) -> doc.Inline:
    return joined([platform, joined([label, levels], " ")], ": ")


def _ready(platform: str, ready_s: float) -> doc.Inline:
    seconds = doc.Quantity(ready_s, doc.Scale("s"), 3, has_unit=True)
    return msg("{platform}: guest ready in {duration}", platform=platform, duration=seconds)


def _outcome(data: Mapping[str, Any]) -> doc.Inline:
    if data.get("error"):
        return styled(msg("failed: {error}", error=restored(str(data["error"]))), "error")
    value, unit = data.get("value"), str(data.get("unit", ""))
    if not isinstance(value, int | float):
        return ""
    scale = scale_for(unit, [float(value)]) if unit else doc.UNSCALED
    return doc.Quantity(float(value), scale, has_unit=True)
