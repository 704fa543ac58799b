"""`vtax topologies`: lists the topologies of network benchmarks and their link settings."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.output import json_option, print_json, print_table
from vtax.network.registry import topologies
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology
from vtax.study.keys import Key, keys


@click.command("topologies")
@json_option
def command(as_json: bool) -> None:
    """List network topologies and link settings."""
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
        ("topology", "description", "attachments", "extra packages"),
        [(t.name, t.summary, ", ".join(t.attachments), ", ".join(t.packages)) for t in found],
    )
    settings = [("all", key) for key in keys(LinkSettings)]
    settings += [(topology.name, key) for topology in found for key in _own_settings(topology)]
    print_table(
        ("link setting", "topology", "default", "allowed", "meaning"),
        [(key.name, where, key.default_text, key.allowed, key.meaning) for where, key in settings],
    )


def _own_settings(topology: Topology[LinkSettings]) -> list[Key]:
    return [key for key in keys(topology.Settings) if key.name not in LinkSettings.model_fields]


def _describe(topology: Topology[LinkSettings]) -> dict[str, Any]:
    return {
        "name": topology.name,
        "summary": topology.summary,
        "attachments": topology.attachments,
        "packages": topology.packages,
        "native_ends": topology.native_platforms,
        "link": [key.as_json() for key in _own_settings(topology)],
    }
