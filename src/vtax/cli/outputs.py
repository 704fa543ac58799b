"""Types of options that name what a command writes: a wrong place is refused before the command does anything."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, cast

import click

from vtax.report.replacing import check_directory, check_file


class OutputPath(click.Path):
    """A place to write to. Converting raises BadInput where nothing can be written, but where a shell completes."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, checked."""
        path = cast(Path, super().convert(value, param, ctx))
        if ctx is None or not ctx.resilient_parsing:
            self.check(path, max(param.opts, key=len) if param else "--output")
        return path

    @abstractmethod
    def check(self, path: Path, option: str) -> None:
        """Raise BadInput where nothing can be written. option: that names the path, for hints."""


class OutputFile(OutputPath):
    """A file, whose place a new one takes; - is standard output."""

    def check(self, path: Path, option: str) -> None:
        """Raise BadInput where no file can be written."""
        check_file(path, option)


class OutputDirectory(OutputPath):
    """A directory to write into, which may have to be made."""

    def check(self, path: Path, option: str) -> None:
        """Raise BadInput where no directory can be written into."""
        check_directory(path, option)
