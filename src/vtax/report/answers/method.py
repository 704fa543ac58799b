"""The method of a run in sentences, with the run's own numbers."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.benchmarks.length import found_count
from vtax.benchmarks.registry import find_benchmark
from vtax.levels import Levels
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.drivers import drivers_of
from vtax.report.analysis.sessions import blocks_of, of_hosts
from vtax.report.analysis.source import Source
from vtax.report.answers.host import package_of
from vtax.report.document import joined, msg, plural
from vtax.report.views.base import Options, View, register_view
from vtax.stats.assumptions import FEWEST_TO_TEST
from vtax.store.records import PluginRecord

_ORDER_SHOWN = 3  # blocks
_HASH_SHOWN = 12  # digits; all are in the table of the host


def document(source: Source, _: Options) -> doc.Document:
    """Return how the run was made and how its figures were computed, a paragraph each."""
    analysis = source.whole.analysis
    paragraphs = tuple(doc.Paragraph(text) for text in method(analysis))
    data = {"order": analysis.order, "plugins": analysis.plugins}
    return doc.Document(VIEW.title, paragraphs, data=data)


def method(analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield how the run was made and how its figures were computed, a paragraph each."""
    yield joined(list(_blocks(analysis)), " ")
    if analysis.order:
        yield _order(analysis)
    counts = "; ".join(_counts(analysis))
    if counts:
        yield msg(
            "Trials of equal time do as much work as lasts so long on each platform, which the first block found out: "
            "{counts}.",
            counts=counts,
        )
    if analysis.plugins:
        yield msg("Not part of vtax: {plugins}.", plugins="; ".join(map(_plugin, analysis.plugins)))
    yield joined([*_rule(analysis)], " ")
    yield joined([_unit(analysis), _spread()], " ")
    ratios: doc.Inline = joined([_ratio(analysis), _averaged(analysis)], " ")
    if any(section.better == "lower" for section in analysis.sections):
        inverse_note = msg(
            "Where lower is better, percent of {baseline} is of the inverse ratio, so that higher is better for each "
            "metric: twice the time is 50 %.",
            baseline=analysis.baseline,
        )
        ratios = joined([ratios, inverse_note], " ")
    if analysis.declared.get("design", {}).get("trials", 1) != 1:
        averaged = msg(
            "With several trials in a block the ratio is that of the blocks' averages: a platform that is slow in "
            "few of its trials is slower by their share."
        )
        ratios = joined([ratios, averaged], " ")
    yield ratios
    yield from _nesting(analysis)
    yield _analysis(analysis)
    yield msg(
        "A verdict is equivalent, when two one-sided tests (TOST) place the ratio inside ±{margin}; slower or faster, "
        "when a ratio of 1 is rejected; costs at most {margin}, when a one-sided test at half the level excludes a "
        "larger loss; else undecided. Every kind of p-value is adjusted by Holm's method over the comparisons of one "
        "table, so that the chance of any false word of a kind in a table is at most {alpha}.",
        margin=doc.Share(analysis.rule.margin, "declared"),
        alpha=doc.Share(analysis.rule.alpha, "declared"),
    )


def _counts(analysis: Analysis) -> Iterator[str]:
    """Yield how much a trial did on each platform: `sysbench-cpu events: native 163, podman 161`.

    Nothing of a run over several hosts, each of which has counts of its own.
    """
    if len(of_hosts(analysis.sessions)) > 1:
        return
    counts: dict[str, list[str]] = {}
    for cell in analysis.cells:
        benchmark = find_benchmark(cell.benchmark)
        work_count = found_count(benchmark, cell.parameters) if benchmark else None
        if work_count:
            parameter, count = work_count
            place = " ".join(filter(None, (cell.label, str(Levels(cell.levels)), parameter)))
            counts.setdefault(place, []).append(f"{cell.platform} {count}")
    for place, platforms in counts.items():
        yield f"{place}: {', '.join(platforms)}"


def _unit(analysis: Analysis) -> doc.Inline:
    """Return what a mean and its interval are of."""
    if len(of_hosts(analysis.sessions)) > 1:
        return msg(
            "The host is the unit of replication. Trials are averaged within a block; the mean is that of the block "
            "means, and its interval is over hosts."
        )
    if len(analysis.sessions) > 1:
        return msg(
            "The session is the unit of replication. Trials are averaged within a block; the mean is that of the "
            "block means, and its interval is over sessions."
        )
    return msg(
        "The block is the unit of replication. Trials are averaged within a block; the mean and its interval "
        "(Student's t) are those of the block means."
    )


def _spread() -> doc.Inline:
    return msg(
        "SD and CV are of all trials. The median is the median of the block medians; its interval ends at two of "
        "them and states its own confidence level. Outliers (modified z above 3.5) are flagged and never removed."
    )


def _ratio(analysis: Analysis) -> doc.Inline:
    return msg(
        "Ratios to {baseline} are formed within a block, so that effects common to a block (time of day, "
        "temperature, other tenants) cancel.",
        baseline=analysis.baseline,
    )


def _averaged(analysis: Analysis) -> doc.Inline:
    """Return how the ratios of blocks become one."""
    if len(of_hosts(analysis.sessions)) > 1:
        return msg(
            "They are averaged as logarithms: within each session, over each host's sessions, and over hosts."
        )
    if len(analysis.sessions) > 1:
        return msg("They are averaged as logarithms, within each session and then over sessions.")
    return msg("Their geometric mean has a Student's t-interval on the log-ratios.")


def _nesting(analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield how the sessions of a run that has several enter its figures."""
    if (hosts := len(of_hosts(analysis.sessions))) > 1:
        yield msg(
            "Blocks are nested in {count} sessions, these in {hosts} hosts, and the host is the unit: every host "
            "counts alike, by the mean of its sessions, and intervals of ratios and means are Student's t of these, "
            "never narrower than those over sessions or blocks. They hold for hosts like these; the interval of the "
            "measured ones alone is over sessions. The range of the next host holds the ratio of one more host of as "
            "many sessions.",
            count=doc.Count(len(analysis.sessions)),
            hosts=doc.Count(hosts),
        )
    elif len(analysis.sessions) > 1:
        yield msg(
            "Blocks are nested in {count} sessions, and the session is the unit: every session counts alike, by the "
            "mean of its blocks, and intervals of ratios and means are Student's t of these, never narrower than the "
            "blocks' own. The range of the next session holds the ratio of one more session of as many blocks.",
            count=doc.Count(len(analysis.sessions)),
        )


def _plugin(plugin: PluginRecord) -> str:
    """`platform unshare (my-package 1.0)`, and for a module without a package its file and the start of its hash."""
    file = f"{plugin.file}, SHA-256 {plugin.sha256[:_HASH_SHOWN]}"
    return f"{plugin.kind} {plugin.name} ({package_of(plugin) or file})"


def _blocks(analysis: Analysis) -> Iterator[doc.Inline]:
    design = analysis.declared.get("design", {})
    is_sequential = design.get("order", "randomized") == "sequential"
    yield plural(
        "The run is made of {count} block.", "The run is made of {count} blocks.", analysis.blocks
    )
    order = msg("the order of the study") if is_sequential else msg("seeded random order")
    yield msg(
        "A complete block runs every cell once in {order}, each platform in a freshly started guest{equal}.",
        order=order,
        equal=_equal(analysis),
    )
    if is_sequential:
        yield msg(
            "The order is sequential: all blocks of one platform ran before those of the next."
        )
    if design.get("order") == "rounds":
        yield msg(
            "All guests of a block were alive: each round of a cell's trials visited them in fresh random order."
        )
    trials, warmup = design.get("trials", 1), design.get("warmup", 0)
    yield plural(
        "A cell has {count} measured trial in a block{warmup}",
        "A cell has {count} measured trials in a block{warmup}",
        trials,
        warmup=_warmup(warmup),
    )


def _analysis(analysis: Analysis) -> doc.Inline:
    """Return what an interval and a verdict allow for."""
    noisier = msg(
        "No verdict favours a side that is far noisier, unless slow blocks that did not happen could not undo it."
    )
    if len(analysis.sessions) > 1:
        return joined(
            [msg("Over sessions no interval is widened for autocorrelated blocks."), noisier], " "
        )
    autocorrelation_note = msg(
        "From {fewest} blocks on, autocorrelated blocks widen an interval, and so does skewness where variances are "
        "unequal.",
        fewest=doc.Count(FEWEST_TO_TEST),
    )
    equivalence_note = msg(
        "Equivalent must hold under the correlation of neighbouring blocks that they leave plausible; a verdict that "
        "a stronger one would undo names it."
    )
    return joined([autocorrelation_note, equivalence_note, noisier], " ")


def _equal(analysis: Analysis) -> doc.Inline:
    """Return what all guests have in common; machines of the user have nothing in common."""
    own_platforms = [name for name, driver in drivers_of(analysis).items() if not driver.uses_image]
    if analysis.declared.get("tuning"):
        equal = msg(" from the same image and with the same limits")
    else:
        equal = msg(" from the same image, on the same pinned CPUs and with the same limits")
    if not own_platforms:
        return equal
    own_note = msg(
        "; {platforms}: with its own files, CPUs and limits (see the audit)",
        platforms=", ".join(own_platforms),
    )
    return joined([equal, own_note], "")


def _order(analysis: Analysis) -> doc.Inline:
    texts = [
        f"{block_order.block}: {', '.join(block_order.platforms)}" for block_order in analysis.order
    ]
    first: doc.Inline = "; ".join(texts[:_ORDER_SHOWN])
    if len(texts) > _ORDER_SHOWN:
        further_count = doc.Count(len(texts) - _ORDER_SHOWN)
        remainder = msg("{count} more blocks: see `position` in the CSV file", count=further_count)
        first = joined([first, remainder], "; ")
    return msg(
        "Guests started in this order (seed {seed}), block by block: {order}.",
        seed=str(analysis.seed),
        order=first,
    )


def _rule(analysis: Analysis) -> Iterator[doc.Inline]:
    rule = analysis.rule
    yield from rule.declared()
    if not rule.allows_for_looks:
        yield from _added_sessions(analysis)
    if rule.budget_s:
        yield msg("The time budget is {budget}.", budget=doc.Duration(rule.budget_s))
    if analysis.stopped_because:
        yield msg("The run stopped: {reason}.", reason=analysis.stopped_because)


def _added_sessions(analysis: Analysis) -> Iterator[doc.Inline]:
    """Sessions beyond those of the study, whose blocks are none that were declared."""
    added_sessions = [
        session for session in analysis.sessions if session.number > analysis.planned_sessions
    ]
    if added_sessions:
        yield plural(
            "{count} session of {blocks} blocks was added after a result was known; no interval allows for that "
            "look.",
            "{count} sessions of {blocks} blocks in all were added after results were known; no interval allows for "
            "these looks.",
            len(added_sessions),
            blocks=doc.Count(len(blocks_of(added_sessions))),
        )


def _warmup(warmup: int) -> doc.Inline:
    if not warmup:
        return "."
    return plural(
        " after {count} warm-up trial, which is stored and not used.",
        " after {count} warm-up trials, which are stored and not used.",
        warmup,
    )


VIEW = register_view(
    View(
        "method",
        msg("Method"),
        msg("How the run was made and how its figures were computed."),
        document,
        60,
    )
)
