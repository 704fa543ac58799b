"""`vtax schema`: prints the JSON Schema of a study file."""

from __future__ import annotations

import click

from vtax.cli.output import print_json
from vtax.study.model import Study


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of a study file, with a description of each key."""
    print_json(Study.model_json_schema())
