"""`vtax topologies`: lists the topologies of network benchmarks and their link settings."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import click

from vtax.cli.completion import topology_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, print_json, print_keys, print_table, say
from vtax.network.registry import get, topologies
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology
from vtax.study.keys import Key, keys


@click.command("topologies")
@click.argument("name", metavar="[NAME]", required=False, shell_complete=topology_names)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List network topologies and link settings.

    With NAME: print that topology with all settings of its links.
    """
    if name:
        _explain(get(name), as_json=as_json)
        return
    by_name = sorted(topologies().values(), key=lambda topology: topology.name)
    if as_json:
        link = [key.as_json() for key in keys(LinkSettings)]
        print_json({"topologies": list(map(_describe, by_name)), "link": link})
        return
    rows = []
    settings = [_setting_row(translate("all"), key) for key in keys(LinkSettings)]
    for topology in by_name:
        attachments, packages = ", ".join(topology.attachments), ", ".join(topology.packages)
        rows.append((topology.name, translate(topology.summary), attachments, packages))
        settings += [_setting_row(topology.name, key) for key in _own_settings(topology)]
    print_table(("topology", "description", "attachments", "extra packages"), rows)
    print_table(("link setting", "topology", "default", "allowed", "meaning"), settings)


def _setting_row(topology: str, key: Key) -> tuple[str, ...]:
    return key.name, topology, key.default_text, key.allowed, translate(key.meaning)


def _explain(topology: Topology[LinkSettings], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {**_describe(topology), "link": [key.as_json() for key in keys(topology.Settings)]}
        )
        return
    say(f"{topology.name}: {translate(topology.summary)}")
    if topology.attachments:
        say(f"  {translate('attachments')}: {', '.join(topology.attachments)}")
    if topology.packages:
        say(f"  {translate('packages')}: {', '.join(topology.packages)}")
    say(indent(f"\n{topology.drawing.strip()}\n", "  "))
    print_keys("link setting", topology.Settings)


def _own_settings(topology: Topology[LinkSettings]) -> list[Key]:
    return [key for key in keys(topology.Settings) if key.name not in LinkSettings.model_fields]


def _describe(topology: Topology[LinkSettings]) -> dict[str, Any]:
    return {
        "name": topology.name,
        "summary": topology.summary,
        "drawing": topology.drawing,
        "attachments": topology.attachments,
        "packages": topology.packages,
        "native_ends": topology.natives,
        "link": [key.as_json() for key in _own_settings(topology)],
    }
