"""`vtax studies`: what can be run by name."""

from __future__ import annotations

import click

from vtax.cli.output import json_option, print_json, print_table
from vtax.study.expand import points
from vtax.study.load import load, shipped


@click.command("studies")
@json_option
def command(as_json: bool) -> None:
    """List the studies that come with vtax."""
    studies = [load(name).study for name in shipped()]
    if as_json:
        print_json([{**study.declared(), "points": len(points(study))} for study in studies])
        return
    print_table(
        ("study", "question", "platforms", "points"),
        [(s.name, s.question or s.title, ", ".join(s.platforms), str(len(points(s)))) for s in studies],
    )
