"""`vtax anatomy`: measures what the cost of a platform is made of, mechanism by mechanism."""

from __future__ import annotations

from typing import Any

import click

from vtax.cli.arguments import listed
from vtax.cli.completion import platform_names
from vtax.cli.own_image import load_option, port_option, serve_option
from vtax.cli.run import run_study
from vtax.cli.run_options import RunOptions

_STUDY = "anatomy"


@click.command("anatomy")
@click.argument("benchmarks", metavar="[BENCHMARK]...", nargs=-1)
@click.option(
    "--of",
    "ladder",
    required=True,
    metavar="PLATFORM",
    shell_complete=platform_names,
    help="Take this platform apart, such as podman, qemu-tcg or podman:scratch=layer.",
)
@click.option(
    "--alone",
    multiple=True,
    callback=listed,
    metavar="RUNG,...",
    help="Measure what these rungs add on the ground alone, too (repeatable).",
)
@click.option("--image", metavar="NAME", help="Start guests from an image of your own.")
@load_option
@serve_option
@port_option
@click.option(
    "--budget",
    metavar="TIME",
    default="10min",
    show_default=True,
    help="Run as many blocks as fit into this time.",
)
@click.option("--dry-run", "only_plan", is_flag=True, help="Print the plan; needs no root.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the plan, as JSON.")
def command(load_of: str | None, **options: Any) -> None:
    """Measure what the cost of PLATFORM is made of, on BENCHMARK (default: all of the study anatomy).

    A ladder leads from native to the platform, and each rung has one mechanism more: namespaces,
    capabilities, the filter of system calls, an overlay, the runtime itself; or of a machine virtio,
    the cache, huge pages and so on. Each rung is compared with the one below in the same blocks. An
    option of the platform is a rung of its own above it.

    \b
      vtax anatomy --of podman nginx
      vtax anatomy --of podman:scratch=layer nginx redis
      vtax anatomy --of docker --image shop --load 'wrk {url}'
    """
    study = None if load_of is not None else _STUDY
    run_study(RunOptions(study=study, load_of=load_of, **options))
