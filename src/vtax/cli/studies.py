"""`vtax studies`: lists the shipped studies."""

from __future__ import annotations

import click

from vtax.cli.output import json_option, print_json, print_table
from vtax.study.expand import count_points
from vtax.study.load import load, shipped
from vtax.study.model import Study


@click.command("studies")
@json_option
def command(as_json: bool) -> None:
    """List the shipped studies."""
    studies = [load(name).study for name in shipped()]
    if as_json:
        print_json([{**study.declared(), "cells": _cells(study)} for study in studies])
        return
    print_table(
        ("study", "question", "platforms", "cells"),
        [(s.name, s.question or s.title, ", ".join(s.platforms), str(_cells(s))) for s in studies],
    )
    click.echo("a cell is one combination of levels on one platform; a block runs every cell once")


def _cells(study: Study) -> int:
    """Cells of a block when all platforms of the study run here."""
    return count_points(study) * len(study.platforms)
