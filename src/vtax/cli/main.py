"""`vtax`: the command line. This module imports almost nothing, so that help and errors come at once."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import click

from vtax import __version__
from vtax.cli.commands import COMMANDS
from vtax.errors import RunInterrupted, VtaxError
from vtax.runner.interrupt import stop_requests


class LazyGroup(click.Group):
    """Loads a command's module only when that command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"vtax.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands for --help, without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """The command; Ctrl-C, SIGTERM and SIGHUP unwind any of them, and its status tells which."""
        with stop_requests(_say):
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise RunInterrupted("stopped on request (SIGINT)") from None


EXIT_STATUSES = (
    "Exit status: 0 done; 1 something failed; 2 what was asked for cannot be done (bad input, no root, no such run, "
    "another run measures); 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. "
    "vtax shell ends with the status of its shell."
)


@click.group(
    cls=LazyGroup,
    epilog=EXIT_STATUSES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="vtax")
def group() -> None:
    """Measure what a virtualization layer costs, on this machine, with answers that hold.

    Begin with `vtax doctor`, then `vtax run tour`.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Entry point. Errors a person can mend are printed without a traceback, with their own exit status."""
    _open_standard_streams()
    try:
        return group.main(args=arguments, prog_name="vtax")
    except (VtaxError, RunInterrupted) as error:
        from vtax.cli.output import tell

        tell(f"vtax: {error}")
        sys.exit(error.exit_status)
    except BrokenPipeError:
        _discard(sys.stdout)
        sys.exit(1)


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(text, err=True)


def _open_standard_streams() -> None:
    """Give a closed stdin, stdout or stderr a null device, lest the next file opened takes its number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))


def _discard(stream: Any) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
