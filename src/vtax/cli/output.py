"""What the commands share: tables that fit a terminal, JSON for programs, and the store and image of this home."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from vtax.cli.commands import COMMANDS
from vtax.cli.streams import discard, whole_text
from vtax.errors import BadInput
from vtax.foreign_text import json_escaped, printable
from vtax.host.home import Home
from vtax.image.image import Image

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.text import Text

    from vtax.store.store import Store

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of a table.")


def notify(text: str) -> None:
    """A line on stderr. Once nobody reads it any more, stderr is closed for good: that is no reason to stop."""
    try:
        click.echo(printable(as_typed(text)), err=True)
    except OSError:
        discard(2)


def as_typed(text: str) -> str:
    """Text whose `vtax COMMAND` can be copied: with the path vtax was started by, when PATH does not lead to it."""
    program = sys.argv[0]
    if "/" not in program or not program.endswith("/vtax") or shutil.which("vtax"):
        return text
    return re.sub(rf"(?<![\w./-])vtax (?=(?:{'|'.join(COMMANDS)})\b)", f"{program} ", text)


def how_to_resume(store: Store, run_name: str, status: str) -> str:
    """What to type to resume a run, or why it cannot be; empty for one that is finished, or that is being made."""
    if status not in ("interrupted", "failed"):
        return ""
    from vtax.runner.resume import obstacle  # it imports every driver

    if reason := obstacle(store, run_name, Home.from_environment()):
        return as_typed(f"it cannot be resumed: {reason}")
    return as_typed(f"go on with: sudo vtax resume {run_name}")


def print_json(value: Any) -> None:
    """One JSON document on stdout, in ASCII where stdout has not every character."""
    is_ascii = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    whole_text().write(json_escaped(json.dumps(value, indent=2, ensure_ascii=is_ascii, default=str)) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A plain table on stdout, see vtax.report.renderers.grid: names whole, long cells folded at spaces.

    Brackets in a str are no markup.
    """
    from rich.console import Console

    from vtax.report.renderers.grid import Grid

    table = Grid("bold")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*row)
    console = Console(file=whole_text(), highlight=False, width=width())
    with console.capture() as captured:
        console.print(table)
    whole_text().write("\n".join(["", *(line.rstrip() for line in captured.get().splitlines()), "\n"]))


def width() -> int | None:
    """How wide tables are: None, as wide as the terminal; elsewhere COLUMNS, or wide enough for every table."""
    if sys.stdout.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else 160


def print_keys(what: str, model: type[BaseModel]) -> None:
    """The keys of a table with their defaults and what they may hold; what: how the first column is called."""
    from vtax.study.keys import keys

    found = keys(model)
    if found:
        print_table(
            (what, "default", "allowed", "meaning"), [(k.name, k.default_text, k.allowed, k.meaning) for k in found]
        )


def need_root(what: str) -> None:
    """Raise BadInput unless we are root; what: the thing that needs it."""
    if os.geteuid() != 0:
        raise BadInput(f"{what} needs root", hint="run it again with sudo")


def built_image(home: Home, packages: Sequence[str] = ()) -> Image:
    """The image guests run, with more packages if asked, which must have been built. Raises BadInput otherwise."""
    from vtax.image.build import checked
    from vtax.image.recipe import DEFAULT

    image = checked(home, DEFAULT.with_packages(packages))
    if image is None and _hides_images(home):
        raise BadInput("only root can see whether the guest image is built", hint="run it again with sudo")
    if image is None:
        more = "".join(f" --with {package}" for package in packages)
        what = f"the guest image with {', '.join(packages)}" if packages else "the guest image"
        raise BadInput(f"{what} is not built yet", hint=f"sudo vtax image build{more}")
    return image


def missing_image(home: Home) -> str:
    """What to type when the guest image of this version is not built; empty when it is, or cannot be seen."""
    from vtax.image.build import find

    if find(home) is not None or _hides_images(home):
        return ""
    return "the guest image of this version is not built: sudo vtax image build"


def _hides_images(home: Home) -> bool:
    """Whether this user may not see which images there are."""
    return home.images.is_dir() and not os.access(home.images, os.X_OK)
