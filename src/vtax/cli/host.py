"""`vtax host`: what a controller of many hosts asks one of them."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.language import said
from vtax.cli.output import json_option, print_json, print_table, say
from vtax.described import values_of
from vtax.doctor.readiness import Readiness, readiness
from vtax.host.home import Home
from vtax.study.units import about_size


@click.group("host")
def command() -> None:
    """Tell a controller of many hosts about this one."""


@command.command("check", short_help="Check whether this host can measure now.")
@json_option
def check(as_json: bool) -> None:
    """Check whether this host can measure now: its identity, space, lock, images, resident agents, disturbances.

    Changes nothing and starts no guest. Without root its identity is that of its machine-id alone.
    """
    found = readiness(Home.from_environment())
    if as_json:
        print_json({"schema": "vtax.host-check/1", **_plain(found)})
        return
    rows = [
        ("identity of the host", found.identity),
        ("version of vtax", found.vtax_version),
        ("free space", f"{about_size(found.free_bytes)} in {found.home}"),
        ("run that measures", found.measures),
        ("images that are here", ", ".join(f"{image.key} {image.digest[:12]}" for image in found.images)),
        ("resident agents", ", ".join(agent.name for agent in found.agents)),
        ("what disturbs", ", ".join(found.disturbances)),
    ]
    print_table(("check", "observed"), [(said(name), value) for name, value in rows])
    if found.is_ready:
        say("this host can measure now")
    else:
        listed = ", ".join(" ".join(filter(None, (each.code, each.detail))) for each in found.obstacles)
        say(f"this host cannot measure now: {listed}")


def _plain(value: Readiness) -> dict[str, Any]:
    """Return it, with all that it holds, as JSON takes it."""
    found = values_of(value)
    return {
        name: [values_of(each) for each in held] if name in ("images", "agents", "obstacles") else held
        for name, held in found.items()
    }
