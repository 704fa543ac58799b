"""`vtax image`: builds and lists the root file system of all guests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from vtax.cli.arguments import listed
from vtax.cli.completion import study_names
from vtax.cli.language import translate
from vtax.cli.needed_image import all_recipes, recipe_for
from vtax.cli.output import (
    json_option,
    missing_image,
    need_root,
    notify,
    print_json,
    print_table,
    say,
)
from vtax.cli.outputs import OutputFile
from vtax.described import values_of
from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.image import build as images
from vtax.image import carrying, contents
from vtax.image.own import FileSource
from vtax.image.recipe import DEFAULT
from vtax.platforms.oci import docker_daemon
from vtax.report.replacing import replacing
from vtax.study.load import load
from vtax.units import about_size, format_size


@click.group("image")
def command() -> None:
    """Build, list, remove, export and import guest images: the base, and layers over it."""


@command.command("build", short_help="Build an image unless it exists.")
@click.argument("study", required=False, shell_complete=study_names)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Build the images of all shipped studies, benchmarks and topologies.",
)
@click.option(
    "--with",
    "packages",
    multiple=True,
    callback=listed,
    metavar="PACKAGE,...",
    help="Add Debian packages (repeatable).",
)
def build(study: str | None, everything: bool, packages: tuple[str, ...]) -> None:
    """Build the base image, or with STUDY the image with what its benchmarks and topologies need.

    An image that exists is not built again. An interrupted build leaves no files. Refused while a run measures on
    this host, since a build would disturb it.
    """
    need_root("building the image")
    if everything and (study or packages):
        raise BadInput("--all does not go with a study or --with", hint="give one of them")
    of_study = recipe_for(load(study)) if study else DEFAULT
    recipes = all_recipes() if everything else [of_study.with_packages(packages)]
    home = Home.from_environment().ensure()
    for recipe in recipes:
        image = images.checked(home, recipe)
        if image is not None:
            say(f"image {image.key} ({recipe.summary}) exists: {image.directory}")
            continue
        with measuring_lock("vtax image build"), Journal(home.journal) as journal:
            image = images.build(home, recipe, journal, notify)
        say(f"image {image.key} ({recipe.summary}) built: {image.directory}")


@command.command("add", short_help="Add your own root file system as an image.")
@click.argument("name")
@click.option(
    "--from", "source", required=True, metavar="KIND:PLACE", help="Take the files from here."
)
def add(name: str, source: str) -> None:
    """Take a root file system of your own as the image NAME, for `[guest] image` of a study and vtax run --image.

    It runs on every platform: containers, sandboxes, and virtual machines with vtax's kernel. KIND is dir, tar,
    docker-archive, oci, oci-archive, podman or docker: vtax image add shop --from docker-archive:shop.tar

    None of its programs run while it is added. The agent in its guests brings its own Python.
    """
    need_root("adding an image")
    source_files = FileSource.of(name, source)
    home = Home.from_environment().ensure()
    with measuring_lock("vtax image add"), Journal(home.journal) as journal:
        image = images.add(home, name, source_files, journal, notify)
    say(f"image {name} is {image.key}: {image.directory}")


@command.command("export", short_help="Write an image to a file.")
@click.argument("key")
@click.option(
    "-o",
    "--output",
    "output",
    type=OutputFile(),
    metavar="FILE",
    help="File to write. [KEY.tar.zst]",
)
def export(key: str, output: Path | None) -> None:
    """Write the image KEY (see vtax image list) to a file, for vtax image import on another host."""
    need_root("exporting an image")
    home = Home.existing()
    image = images.checked_key(home, images.known(home, key)[0].key)
    assert image is not None
    target = output or Path(f"{key}.tar.zst")
    with measuring_lock("vtax image export"), replacing(target, "-o") as file:
        carrying.export_image(image, file)
    say(f"image {key} written: {target}, digest {contents.digest(image)}")


@command.command("import", short_help="Add an image that another host exported.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--digest", default="", metavar="SHA256", help="Refuse an image with another digest.")
@json_option
def import_(file: Path, digest: str, as_json: bool) -> None:
    """Add the image in FILE, which vtax image export wrote. Its programs run as root: you must
    trust who built it.

    Its archive and its disk are created here, and must be identical to those of the other host. An
    image that exists is not imported again. A failed or interrupted import leaves no files.
    """
    need_root("importing an image")
    home = Home.from_environment().ensure()
    with measuring_lock("vtax image import"), Journal(home.journal) as journal:
        imported = carrying.import_image(home, file, journal, digest, notify)
    if as_json:
        print_json({"schema": "vtax.image-import/1", **values_of(imported)})
    elif imported.is_new:
        say(f"image {imported.key} imported, digest {imported.digest}")
    else:
        say(f"image {imported.key} exists, digest {imported.digest}")


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the built images."""
    home = Home.existing()
    rows = []
    for image in images.list_images(home):
        manifest = parse_json(image.manifest.read_text())
        rows.append(
            {
                "key": image.key,
                "directory": str(image.directory),
                "current": DEFAULT.like(manifest["recipe"]).key == image.key,
                "digest": contents.digest(image),
                **manifest,
            }
        )
    if as_json:
        print_json(rows)
    hint = missing_image(home)
    if hint:
        notify(hint)
    if not as_json and rows:
        _print_images(rows)


def _print_images(manifests: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for manifest in manifests:
        row = (
            manifest["key"],
            manifest["recipe"]["suite"],
            manifest["kernel"],
            str(len(manifest["packages"])),
            _added(manifest),
            format_size(manifest["disk_bytes"]),
            translate("yes") if manifest["current"] else translate("no"),
        )
        rows.append(row)
    print_table(
        ("image", "suite", "kernel", "packages", "adds to the base", "disk", "for this version"),
        rows,
    )


def _added(manifest: Mapping[str, Any]) -> str:
    """Return what is in a layer and the size it adds to the base: `pi (+1.6 MiB)`; empty for a base.

    Of a layer in the place of the base it is the whole size.
    """
    recipe = manifest["recipe"]
    contents = [
        *recipe.get("layer", ()),
        *(f"data {data['name']}" for data in recipe.get("data", ())),
    ]
    own_files = recipe.get("own")
    if not (own_files or contents):
        return ""
    size = about_size(manifest["added_bytes"])
    if own_files:
        text = f"your own: {own_files['name']}, {size}"
        return f"{text}; in guests that only serve: {', '.join(contents)}" if contents else text
    return f"{', '.join(contents)} (+{size})"


@command.command("remove", short_help="Remove an image and its copies in Docker.")
@click.argument("key", metavar="KEY|NAME")
def remove(key: str) -> None:
    """Remove the image KEY, or all of your own NAME (see vtax image list), and copies in Docker."""
    need_root("removing an image")
    home = Home.existing()
    removable = images.removable(home, key)
    lines = [f"image {image.key} removed" for image in removable]
    with measuring_lock("vtax image remove"):
        with Journal(home.journal) as journal:
            for image in removable:
                copies = docker_daemon.remove_copies(home, image.key, journal)
                lines += [f"removed {copy}" for copy in copies]
        images.remove(home, key)
    say("\n".join(lines))
