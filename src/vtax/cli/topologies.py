"""`vtax topologies`: where the ends of a network benchmark can stand, and the settings of the links between them."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.output import json_option, print_json, print_keys, print_table
from vtax.network.registry import topologies
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology
from vtax.study.keys import keys


@click.command("topologies")
@json_option
def command(as_json: bool) -> None:
    """List the topologies and the settings of their links."""
    found = sorted(topologies().values(), key=lambda topology: topology.name)
    if as_json:
        print_json(
            {
                "topologies": [_describe(topology) for topology in found],
                "link": [k.as_json() for k in keys(LinkSettings)],
            }
        )
        return
    print_table(
        ("topology", "what it is", "attachments", "also in the image"),
        [(t.name, t.summary, ", ".join(t.attachments), ", ".join(t.packages)) for t in found],
    )
    print_keys("link setting", LinkSettings)


def _describe(topology: Topology) -> dict[str, Any]:
    return {
        "name": topology.name,
        "summary": topology.summary,
        "attachments": topology.attachments,
        "packages": topology.packages,
        "native_ends": topology.natives,
    }
