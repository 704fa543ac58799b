"""`vtax studies`: lists the shipped studies."""

from __future__ import annotations

from collections.abc import Sequence

import click

from vtax.cli.completion import study_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, print_json, print_table, say
from vtax.cli.plan import format_factors
from vtax.errors import BadInput
from vtax.levels import Level, Levels, link_factors
from vtax.study.changes import StudyChange
from vtax.study.claims import ClaimTable
from vtax.study.expand import count_points
from vtax.study.load import Chosen, find, load, shipped
from vtax.study.model import BenchmarkTable, Study
from vtax.study.text import read
from vtax.units import about_size, format_count, format_duration


@click.command("studies")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=study_names)
@click.option(
    "--toml", "as_toml", is_flag=True, help="Print the file of NAME, to change a copy of it."
)
@json_option
def command(name: str | None, as_toml: bool, as_json: bool) -> None:
    """List the shipped studies.

    With NAME of a study, or a TOML file: print its question, platforms, design and benchmarks, what its scales
    and protocols change, where it differs from its publication, its claims and its figures.
    """
    if as_toml and (not name or as_json):
        raise BadInput(
            "--toml prints the file of one study",
            where="--toml",
            hint="vtax studies NAME --toml > mine.toml",
        )
    if name and as_toml:
        click.echo(read(find(name)).decode(), nl=False)
        return
    if name:
        _explain(load(name).study, name, as_json=as_json)
        return
    studies = [load(name).study for name in shipped()]
    if as_json:
        print_json([{**study.declared(), "cells": _cells(study)} for study in studies])
        return
    rows = []
    for study in studies:
        question, platforms = translate(study.question or study.title), ", ".join(study.platforms)
        rows.append((study.name, question, platforms, str(_cells(study))))
    print_table(("study", "question", "platforms", "cells"), rows)
    say(
        translate(
            "a cell is one combination of levels on one platform; a block runs every cell once"
        )
    )


def _explain(study: Study, reference: str, *, as_json: bool) -> None:
    variants = _variants(study, reference)
    if as_json:
        changes = [change.model_dump() for change in variants]
        print_json({**study.declared(), "cells": _cells(study), "changes": changes})
        return
    say(": ".join(filter(None, (study.name, translate(study.title)))))
    for name, text in _facts(study):
        if text:
            say(f"  {name}: {text}")
    say()
    rows = []
    for table in study.benchmark:
        topology = table.topology or ""
        rows.append((table.title, topology, _settings(table), format_factors(table)))
    print_table(("benchmark", "topology", "parameters", "factors"), rows)
    _print_list(translate("scales and protocols"), list(map(str, variants)))
    if study.paper:
        say(f"{translate('publication')}: {study.paper.citation}")
        for boot, platforms in study.paper.boots.items():
            say(f"boot of the host for {', '.join(platforms)}: --boot {boot}=ENTRY")
        if study.paper.platforms:
            print_table(("platform", "in the publication"), list(study.paper.platforms.items()))
        differences = [(entry.what, entry.paper, entry.here) for entry in study.paper.differences]
        print_table(("what differs", "in the publication", "here"), differences)
    if study.claim:
        claims = [(claim.id, _finding(claim), translate(claim.source)) for claim in study.claim]
        print_table(("claim", "finding", "source"), claims)
    if study.figure:
        figures = [(figure.id, figure.title, figure.kind) for figure in study.figure]
        print_table(("figure", "shows", "kind"), figures)
    say(f"vtax run {reference} --dry-run prints its plan on this host")


def _facts(study: Study) -> list[tuple[str, str]]:
    """Return what a study is, as (name, text); some texts are empty."""
    design = study.design
    blocks = f"min_blocks = {design.min_blocks}"
    if design.rule_class.is_counted:
        blocks = f"blocks = {design.blocks}"
    if design.budget is not None:
        blocks += f", budget = {format_duration(design.budget)}"
    trials = f"trials = {design.trials}, warmup = {design.warmup}, order = {design.order}"
    guest = f"{format_count(study.guest.vcpus, 'vCPU')}, {about_size(study.guest.memory)}"
    cells = translate("{cells}, when all platforms run here", cells=str(_cells(study)))
    return [
        (translate("question"), translate(study.question)),
        (translate("platforms"), ", ".join(study.platforms)),
        (translate("baseline"), study.baseline),
        (translate("guest"), guest),
        (translate("tuning"), ", ".join(study.tuning)),
        (translate("scratch"), ", ".join(study.scratch)),
        (translate("design"), f"stop = {design.stop}, {blocks}, {trials}"),
        (translate("cells"), cells),
    ]


def _variants(study: Study, reference: str) -> list[StudyChange]:
    """Return what each scale and each protocol of the study changes, by the option that chooses it."""
    variants = [Chosen(scale=name) for name in study.scale]
    variants += [Chosen(protocol=name) for name in study.protocol]
    changes: list[StudyChange] = []
    for variant in variants:
        changes += load(reference, chosen=variant).study.changed_by
    return changes


def _print_list(heading: str, lines: Sequence[str]) -> None:
    """Print a heading and its lines, and an empty line; nothing without lines."""
    if lines:
        say("\n".join([f"{heading}:", *(f"  {line}" for line in lines), ""]))


def _finding(claim: ClaimTable) -> str:
    if not claim.not_tested:
        return claim.statement
    return f"{claim.statement} ({translate('not tested')}: {translate(claim.not_tested)})"


def _settings(table: BenchmarkTable) -> str:
    settings: dict[str, Level] = {**table.parameters, **link_factors(table.link)}
    if table.trial_time is not None:
        settings["trial_time"] = f"{table.trial_time:g} s"
    return str(Levels(settings))


def _cells(study: Study) -> int:
    """Return the cells of a block when all platforms of the study run here."""
    return count_points(study) * len(study.platforms)
