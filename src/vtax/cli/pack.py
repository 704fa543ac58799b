"""`vtax pack`: writes what another host needs to measure a study to one file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from vtax.cli.arguments import listed
from vtax.cli.completion import study_names
from vtax.cli.needed_image import recipe_for
from vtax.cli.output import built_image, json_option, need_root, notify, print_json, say
from vtax.cli.outputs import OutputFile
from vtax.described import values_of
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.report.replacing import replacing
from vtax.study.load import load
from vtax.units import about_size


@click.command("pack")
@click.argument("study", shell_complete=study_names)
@click.option(
    "-o",
    "--output",
    type=OutputFile(),
    metavar="FILE",
    help="File to write. [STUDY.vtax-pack]",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    callback=listed,
    metavar="3.N,...",
    help="Take the wheels for these Pythons only (repeatable). [3.11,3.12,3.13]",
)
@json_option
def command(study: str, output: Path | None, pythons: tuple[str, ...], as_json: bool) -> None:
    """Write vtax, STUDY and its image to one file, from which another host is prepared without a network.

    On that host, run: sudo python3 FILE. Python wheels come from the index that pip is configured
    for, in the versions that are installed here.
    """
    from vtax.campaign.pack import write_pack
    from vtax.campaign.wheelhouse import PYTHONS

    need_root("exporting an image")
    loaded_study = load(study)
    image = built_image(Home.from_environment(), recipe_for(loaded_study), loaded_study.source)
    target = output or Path(f"{loaded_study.study.name}.vtax-pack")
    with measuring_lock("vtax pack"), replacing(target, "-o") as file:
        pack = replace(
            write_pack(Path(loaded_study.source), image, file, pythons or PYTHONS, notify),
            file=str(target),
        )
    if as_json:
        print_json({"schema": "vtax.pack/1", **values_of(pack)})
        return
    say(f"pack {target} written: {about_size(pack.bytes)}, digest {pack.digest}")
