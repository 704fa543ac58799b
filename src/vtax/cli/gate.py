"""The gate of `vtax compare --fail-if` and `vtax run --check`: whether anything became slower or costs more.

Both options take a condition: `slower-by SHARE`, `costs-more-by SHARE`, or a share alone, which stands for both.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.arguments import share_of_option
from vtax.cli.outputs import OutputFile
from vtax.errors import BadInput
from vtax.stats.terms import BOTH, CONDITIONS, Conditions, Quantity

if TYPE_CHECKING:
    from vtax.report.analysis.source import Source
    from vtax.report.analysis.values import Analysis
    from vtax.report.answers.gate.compute import Checks
    from vtax.report.document import Document
    from vtax.store.store import Store

_MOST_NAMED = 4  # differences of runs in an error
_OPTIONS = ("--fail-if", "--check")
_CONDITION = re.compile(r"(?:([a-z][a-z-]*)(?:[ =]|$))?(.*)", re.DOTALL)


def detect_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --detect (parameter `detect`)."""
    text = "Exit with 3 if a slowdown of this size, such as 10%, could not have been detected."
    return click.option("--detect", metavar="SHARE", help=text)(command)


def junit_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --junit (parameter `junit`)."""
    text = "Write what the gate found as a JUnit file."
    return click.option("--junit", type=OutputFile(), metavar="FILE", help=text)(command)


class ConditionCommand(click.Command):
    """Takes the two words of `--fail-if slower-by 5%` as one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Join the words, unless another option follows the first."""
        words = list(args)
        for at in range(len(words) - 3, -1, -1):
            option, word, share = words[at : at + 3]
            if option in _OPTIONS and word in CONDITIONS and not share.startswith("--"):
                words[at + 1 : at + 3] = [f"{word} {share}"]
        if words and words[-1] in _OPTIONS:
            words.append("")
        return super().parse_args(ctx, words)


def margins_of(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[Quantity, float] | None:
    """Return what the conditions of an option say; None without one. Raises BadInput.

    A callback of click. `slower-by 5%` is `slower-by=5%`; `5%` stands for both conditions, and several stand
    between commas.
    """
    option = parameter.opts[0]
    margins: dict[Quantity, float] = {}
    for text in [part.strip() for condition in texts for part in condition.split(",")]:
        word, share = _CONDITION.fullmatch(text).groups()  # type: ignore[union-attr]
        if word is not None and word not in CONDITIONS:
            raise BadInput(f"unknown condition {word!r}", where=option, hint=_hint(option))
        if not share:
            what = f"{word or option} has no share"
            raise BadInput(what, where=option, hint=_hint(option))
        margin = share_of_option(share, " ".join(filter(None, (option, word))))
        for quantity in (CONDITIONS[word],) if word else BOTH:
            if quantity in margins:
                what = f"{option} says twice by how much"
                raise BadInput(what, where=f"{option} {text}", hint=_hint(option))
            margins[quantity] = margin
    return margins or None


def _hint(option: str) -> str:
    return f"write {option} 5%, {option} slower-by 5% or {option} costs-more-by 5%"


def strict_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --strict (parameter `strict`)."""
    text = "Exit with 3 if a comparison is undecided or not tested."
    return click.option("--strict", is_flag=True, help=text)(command)


def conditions_of(
    margins: Mapping[Quantity, float] | None, detect: str | None, *, strict: bool
) -> Conditions:
    """Return the conditions. margins: of `margins_of`; None for those of the study. detect: as written.

    Raises BadInput for what is no share, or within a margin.
    """
    slowdown = None if detect is None else share_of_option(detect, "--detect")
    if slowdown is not None and margins is not None:
        from vtax.report.answers.gate.compute import refuse_within_margins

        refuse_within_margins(slowdown, margins)
    return Conditions(BOTH if margins is None else margins, slowdown, strict)


def run_gate(
    store: Store,
    sides: tuple[str, str],
    run_name: str,
    conditions: Conditions,
    cell: tuple[str, str],
    files: tuple[Path | None, Path | None],
) -> tuple[Document, Checks]:
    """Return the gate's document and what it found, after its files are written.

    store: of the runs.
    sides: what is judged, and what it is compared with.
    run_name: where platforms of the sides are looked up.
    conditions: for which it fails.
    cell: metric and label to judge alone; empty for all.
    files: JUnit and Markdown.
    """
    checks, source = check_sides(store, sides, run_name, conditions, *cell)
    return document_of_gate(checks, source, files), checks


def document_of_gate(
    checks: Checks, source: Source, files: tuple[Path | None, Path | None]
) -> Document:
    """Return the document of what a gate found, after its files are written.

    source: the run that it is of.
    files: JUnit and Markdown.
    """
    from vtax.report.answers.gate.show import document_of
    from vtax.report.renderers.junit import junit as as_junit
    from vtax.report.renderers.language import of_reader
    from vtax.report.renderers.markdown import markdown as as_markdown
    from vtax.report.replacing import replacing

    document = document_of(checks, _seconds(source))
    renderers = ((files[0], as_junit, "--junit"), (files[1], as_markdown, "--markdown"))
    for path, text_of, option in renderers:
        if path is not None:
            with replacing(path, option) as new:
                new.write_text(text_of(document, of_reader()), encoding="utf-8")
    return document


def judge(
    store: Store, run_name: str, conditions: Conditions, junit: Path | None, *, quiet: bool
) -> int:
    """Return the exit status of the gate over a run that was just made, after printing what it found.

    Nothing is printed where it is to be quiet.
    """
    from vtax.cli.show import print_document

    document, checks = run_gate(
        store, (run_name, ""), run_name, conditions, ("", ""), (junit, None)
    )
    if not quiet:
        print_document(document, as_json=False)
    return checks.exit_status


def check_sides(
    store: Store,
    sides: tuple[str, str],
    run_name: str,
    conditions: Conditions,
    metric: str,
    label: str,
) -> tuple[Checks, Source]:
    """Return all comparisons of two sides, and the first run. An empty side: every platform; the baseline of the run.

    Raises BadInput for names that do not exist, and for sides that no gate can judge.
    """
    from vtax.report.analysis.source import source_of
    from vtax.report.answers.compare.compute import home_run, run_of
    from vtax.report.answers.gate.compute import check

    treatment, baseline = sides
    if _is_file(store, treatment):
        raise BadInput(
            f"{treatment} is a bundle, and the run to judge is one of the store",
            hint="vtax import adds it",
        )
    home = home_run(store, sides, run_name)
    if baseline and not _is_same_run(store, treatment, baseline, home):
        return _against(store, treatment or home, baseline, home, conditions, metric, label)
    name, platform = store.open_run(home).name, ""
    if treatment:
        name, platform = run_of(store, treatment, home)
    base = ""
    if baseline:
        _, base = run_of(store, baseline, name)
        if not base:
            raise BadInput(
                f"{baseline} is the run itself", hint="name another run, or a platform of it"
            )
    source = source_of(store, name)
    return check(store, source.analysis, conditions, platform, base, metric, label), source


def _is_same_run(store: Store, treatment: str, baseline: str, home: str) -> bool:
    """Return whether both sides are of the same runs of the store."""
    if _is_file(store, baseline):
        return False
    return _runs(store, baseline, home) == _runs(store, treatment, home)


def _runs(store: Store, side: str, home: str) -> list[str]:
    """Return the runs that a side names, or its home."""
    from vtax.report.answers.compare.compute import run_of, texts_of

    if not side:
        return [store.open_run(home).name]
    return [run_of(store, text, home)[0] for text in texts_of(store, side)]


def _is_file(store: Store, side: str) -> bool:
    """Return whether a side is one or several bundles rather than runs."""
    first = side.split(",")[0].strip()
    is_path = "/" in first or first.endswith(".gz") or Path(first).is_file()
    return bool(first) and first not in store.run_names() and is_path


def _against(
    store: Store,
    treatment: str,
    baseline: str,
    home: str,
    conditions: Conditions,
    metric: str,
    label: str,
) -> tuple[Checks, Source]:
    """Return runs against others. Raises BadInput where they do not measure the same."""
    from vtax.report.analysis.source import source_of
    from vtax.report.answers.compare.compute import run_of, texts_of
    from vtax.report.answers.gate.against import check_against

    runs = [run_of(store, text, home) for text in texts_of(store, treatment)]
    others = []
    for name in baseline.split(",") if _is_file(store, baseline) else [baseline]:
        if _is_file(store, name.strip()):
            others.append((name.strip(), ""))
        else:
            others += [run_of(store, text, home) for text in texts_of(store, name)]
    platforms = {platform for _, platform in (*runs, *others)} - {""}
    if len(platforms) > 1:
        what = f"across runs a gate compares a platform with itself, and not {treatment} with {baseline}"
        raise BadInput(what, hint="vtax run STUDY --ab OLD,NEW --check 5% measures both in one run")
    sources = [source_of(store, name) for name, _ in runs]
    checks = check_against(
        [source.analysis for source in sources],
        [_analysis_of(store, name) for name, _ in others],
        conditions,
        "".join(platforms),
        metric,
        label,
    )
    if not checks.comparisons:
        raise BadInput(
            f"{treatment} and {baseline} do not measure the same: {_difference(checks)}",
            hint="compare runs of the same study with the same settings",
        )
    return checks, sources[0]


def _difference(checks: Checks) -> str:
    """Return why runs have no comparison in common: other benchmarks, or how the points that they share differ."""
    from vtax.report.renderers.format import english

    assert checks.against is not None
    runs, others = checks.against.runs, checks.against.others
    labels, other_labels = _labels(runs), _labels(others)
    common_labels = set(labels) & set(other_labels)
    if not common_labels:
        sides = []
        for side, side_labels in ((runs, labels), (others, other_labels)):
            sides.append(f"{side[0].name} (study {side[0].study}) has {', '.join(side_labels)}")
        return "; ".join(sides)
    reasons: dict[str, None] = {}
    for point in checks.not_tested:
        if point.label in common_labels:
            reasons[f"{point.label}: {english(point.reason)}"] = None
    parts = list(reasons)[:_MOST_NAMED]
    for side, side_labels in ((runs, labels), (others, other_labels)):
        own_labels = [label for label in side_labels if label not in common_labels]
        if own_labels:
            parts.append(f"{', '.join(own_labels)} only in {side[0].name}")
    return "; ".join(parts) or "nothing in common"


def _labels(runs: Sequence[Analysis]) -> list[str]:
    """Return the benchmarks of runs, each once."""
    labels: dict[str, None] = {}
    for run in runs:
        labels.update(dict.fromkeys(cell.label for cell in run.cells))
    return list(labels)


def _analysis_of(store: Store, name: str) -> Analysis:
    """Return a run of the store, or of a bundle. Raises BadInput for neither."""
    from vtax.cli.row_progress import row_progress
    from vtax.report.analysis.result import analyse, analyse_data
    from vtax.store.importing import opened_bundle
    from vtax.store.query import load

    path = Path(name)
    if name in store.run_names() or not _is_file(store, name):
        return analyse(store, name)
    if not path.is_file():
        raise BadInput(f"there is no file {name}", hint="vtax export RUN writes one")
    with opened_bundle(path, row_progress(f"reading {path.name}")) as run:
        return analyse_data(load(run.engine, run))


def _seconds(source: Source) -> Mapping[str, float]:
    """Return the duration of the trials of each cell, by its key."""
    durations: dict[str, float] = defaultdict(float)
    trials, cells = source.data.trials, source.data.run.cells
    for cell, seconds in zip(trials.cell.tolist(), trials.outside_s.tolist(), strict=True):
        if not math.isnan(seconds):
            durations[cells[cell].key] += seconds
    return durations
