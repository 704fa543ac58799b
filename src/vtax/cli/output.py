"""Shared by the commands: tables that fit a terminal, JSON for programs, and the store and image of this home."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.commands import COMMANDS
from vtax.cli.language import translate
from vtax.cli.streams import discard, document_stream
from vtax.described import json_default
from vtax.errors import BadInput
from vtax.foreign_text import json_escaped, printable
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.messages import Note
from vtax.units import about_size

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.text import Text

    from vtax.image.recipe import Recipe
    from vtax.store.store import Store


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for programs instead of a table."
)


def notify(text: str) -> None:
    """Print a text on stderr. A closed stderr becomes /dev/null."""
    try:
        click.echo(printable(with_program_path(text)), err=True)
    except OSError:
        discard(2)


def say(text: str = "") -> None:
    """Print a text on stdout."""
    click.echo(with_program_path(text))


def confirmed(question: str, no_answer: BadInput) -> bool:
    """Prompt for confirmation on stderr. Raises `no_answer`, below the prompt, when stdin cannot answer."""
    try:
        return click.confirm(question, default=False, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise KeyboardInterrupt from None
        notify("")
        raise no_answer from None


def with_program_path(text: str) -> str:
    """Return text in which `vtax COMMAND` has the path that vtax was started with, when PATH does not find vtax."""
    program = sys.argv[0]
    if "/" not in program or not program.endswith("/vtax") or shutil.which("vtax"):
        return text
    return re.sub(rf"(?<![\w./-])vtax (?=(?:{'|'.join(COMMANDS)})\b)", f"{program} ", text)


def print_path(path: Path) -> None:
    """Print where a file was written; nothing for `-`, whose content is already on standard output."""
    if str(path) != "-":
        click.echo(path.resolve())


def existing_store() -> Store:
    """Open the store of VTAX_HOME, or that of VTAX_STORE, to read it.

    Raises BadInput where there is none: NotFound where there is no run yet.
    """
    from vtax.store.store import Store

    home = Home.from_environment() if os.environ.get("VTAX_STORE") else Home.existing()
    return Store.existing(home.store_url)


def resume_hint(store: Store, run_name: str, status: str) -> str:
    """Return the command that resumes a run, or why it cannot be resumed; empty for a finished or running one."""
    if status not in ("interrupted", "failed", "paused"):
        return ""
    from vtax.runner.resume import resume_obstacle  # it imports every driver

    reason = resume_obstacle(store, run_name, Home.from_environment())
    hint = f"resume with: sudo vtax resume {run_name}"
    if reason:
        hint = f"it cannot be resumed: {reason}"
    elif store.open_run(run_name).declared.get("boot"):
        hint += ", in the boot that is next"
    elif status == "paused":
        hint = f"start the next session with: sudo vtax resume {run_name} --session"
    return with_program_path(hint)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, in ASCII unless stdout is UTF-8."""
    is_ascii = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    text = json.dumps(value, indent=2, ensure_ascii=is_ascii, default=json_default)
    document_stream().write(json_escaped(text) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a plain table on stdout (vtax.report.renderers.grid), and an empty line: long cells are folded at spaces.

    columns: entries of the catalogue, shown in the language of the locale. rows: notes too; any other text is data,
    and brackets in it are not markup.
    """
    from rich.console import Console

    from vtax.report.renderers.grid import TextGrid

    table = TextGrid("bold")
    for column in columns:
        table.add_column(translate(column))
    for row in rows:
        cells: list[str | Text] = []
        for cell in row:
            cells.append(translate(cell) if isinstance(cell, Note) else cell)
        table.add_row(*cells)
    console = Console(file=document_stream(), highlight=False, width=width())
    with console.capture() as captured:
        console.print(table)
    lines = map(str.rstrip, captured.get().splitlines())
    document_stream().write("\n".join([*lines, "\n"]))


def width() -> int | None:
    """Return the width of tables: None for the terminal's width; without a terminal COLUMNS, else 160."""
    if sys.stdout.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else 160


def print_keys(what: str, model: type[BaseModel]) -> None:
    """Print the keys of a table with defaults and allowed values. what: heading of the first column."""
    from vtax.study.keys import keys

    rows = []
    for key in keys(model):
        rows.append((key.name, key.default_text, key.allowed, translate(key.meaning)))
    if rows:
        print_table((what, "default", "allowed", "meaning"), rows)


def need_root(what: str) -> None:
    """Raise BadInput unless this user is root. what: the action that needs root."""
    if os.geteuid() != 0:
        raise BadInput(f"{what} needs root", hint="run it again with sudo")


def built_image(home: Home, recipe: Recipe | None = None, study: str = "") -> Image:
    """Return the built guest image of a recipe; without one, the base.

    study: that needs it.
    Raises BadInput when it is not built.
    """
    from vtax.image.build import checked
    from vtax.image.recipe import DEFAULT

    recipe = recipe or DEFAULT
    image = checked(home, recipe)
    if image is not None:
        return image
    if hides_images(home):
        raise BadInput(
            "only root can see whether the guest image is built", hint="run it again with sudo"
        )
    what, additions = "the guest image", list(recipe.added if recipe.is_layered else ())
    if recipe.disk_bytes:
        additions.append(f"a disk of {about_size(recipe.disk_bytes)}")
    if additions:
        what += f" with {', '.join(additions)}"
    hint = "sudo vtax image build"
    if recipe.own:
        hint = "vtax run builds it"
    elif recipe.data or recipe.disk_bytes:
        hint += f" {study}"
    else:
        hint += "".join(f" --with {package}" for package in recipe.layer)
    raise BadInput(f"{what} is not built yet", hint=hint)


def missing_image(home: Home) -> str:
    """Return a hint when the guest image of this version is not built; empty when it is, or is not visible."""
    from vtax.image.build import find

    if find(home) is not None or hides_images(home):
        return ""
    return "the guest image of this version is not built: sudo vtax image build"


def hides_images(home: Home) -> bool:
    """Return whether this user may not list the images."""
    return home.images.is_dir() and not os.access(home.images, os.X_OK)
