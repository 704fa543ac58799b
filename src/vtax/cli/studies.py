"""`vtax studies`: lists the shipped studies."""

from __future__ import annotations

from collections.abc import Sequence

import click

from vtax.cli.completion import study_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, print_json, print_table, say
from vtax.errors import BadInput
from vtax.levels import Levels, link_factors
from vtax.study.changes import StudyChange
from vtax.study.claims import ClaimTable
from vtax.study.expand import count_points
from vtax.study.load import Chosen, find, load, shipped
from vtax.study.model import BenchmarkTable, Study
from vtax.study.text import read
from vtax.units import about_size, format_count


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
    print_table(
        ("study", "question", "platforms", "cells"),
        [
            (s.name, translate(s.question or s.title), ", ".join(s.platforms), str(_cells(s)))
            for s in studies
        ],
    )
    say(
        translate(
            "a cell is one combination of levels on one platform; a block runs every cell once"
        )
    )


def _explain(study: Study, reference: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                **study.declared(),
                "cells": _cells(study),
                "changes": [each.model_dump() for each in _variants(study, reference)],
            }
        )
        return
    say(": ".join(filter(None, (study.name, translate(study.title)))))
    design, rule = study.design, study.design.stop
    blocks = (
        f"blocks = {design.blocks}" if design.is_counted else f"min_blocks = {design.min_blocks}"
    )
    facts = {
        translate("question"): translate(study.question),
        translate("platforms"): ", ".join(study.platforms),
        translate("baseline"): study.baseline,
        translate(
            "guest"
        ): f"{format_count(study.guest.vcpus, 'vCPU')}, {about_size(study.guest.memory)}",
        translate("tuning"): ", ".join(study.tuning),
        translate("scratch"): ", ".join(study.scratch),
        translate(
            "design"
        ): f"stop = {rule}, {blocks}, trials = {design.trials}, warmup = {design.warmup}, "
        f"order = {design.order}",
        translate("cells"): translate(
            "{cells}, when all platforms run here", cells=str(_cells(study))
        ),
    }
    for what, text in facts.items():
        if text:
            say(f"  {what}: {text}")
    say()
    print_table(
        ("benchmark", "topology", "parameters", "factors"),
        [(t.label or t.name, t.topology or "", _settings(t), _factors(t)) for t in study.benchmark],
    )
    _list(translate("scales and protocols"), [str(each) for each in _variants(study, reference)])
    if study.paper:
        say(f"{translate('publication')}: {study.paper.citation}")
        for boot, platforms in study.paper.boots.items():
            say(f"boot of the host for {', '.join(platforms)}: --boot {boot}=ENTRY")
        print_table(
            ("what differs", "in the publication", "here"),
            [(each.what, each.paper, each.here) for each in study.paper.differences],
        )
    if study.claim:
        print_table(
            ("claim", "finding", "source"),
            [(each.id, _finding(each), translate(each.source)) for each in study.claim],
        )
    if study.figure:
        print_table(
            ("figure", "shows", "kind"), [(each.id, each.title, each.kind) for each in study.figure]
        )
    say(f"vtax run {reference} --dry-run prints its plan on this host")


def _variants(study: Study, reference: str) -> list[StudyChange]:
    """Return what each scale and each protocol of the study changes, by the option that chooses it."""
    chosen = [Chosen(scale=name) for name in study.scale] + [
        Chosen(protocol=name) for name in study.protocol
    ]
    return [change for each in chosen for change in load(reference, chosen=each).study.changed_by]


def _list(heading: str, lines: Sequence[str]) -> None:
    """Print a heading and its lines, and an empty line; nothing without lines."""
    if lines:
        say("\n".join([f"{heading}:", *(f"  {line}" for line in lines), ""]))


def _finding(claim: ClaimTable) -> str:
    return (
        f"{claim.statement} ({translate('not tested')}: {translate(claim.not_tested)})"
        if claim.not_tested
        else claim.statement
    )


def _settings(table: BenchmarkTable) -> str:
    return str(Levels({**table.parameters, **link_factors(table.link)}))


def _factors(table: BenchmarkTable) -> str:
    return "; ".join(
        f"{name} = {', '.join(map(str, levels))}" for name, levels in table.varied.items()
    )


def _cells(study: Study) -> int:
    """Cells of a block when all platforms of the study run here."""
    return count_points(study) * len(study.platforms)
