"""`vtax`: the command line. This module imports almost nothing, so that help and errors are fast."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vtax import __version__
from vtax.cli.commands import COMMANDS, SUBJECTS
from vtax.cli.completion import COMPLETE_VARIABLE, complete
from vtax.cli.language import HelpContext, translate, with_help
from vtax.cli.streams import discard, drain, standard_streams
from vtax.errors import RunInterrupted, VtaxError
from vtax.host.interrupts import stop_requests

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _add_plugins(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> None:
    for path in paths:
        from vtax.host.plugins import add_file

        add_file(Path(path))


class LazyGroup(click.Group):
    """Loads a command's module only when that command is used."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all commands in the order of first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, loaded; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"vtax.cli.{cmd_name}")
        command: click.Command = module.command
        return with_help(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by subject for --help, without loading any of them."""
        longest = max(map(len, COMMANDS))
        for subject, commands in SUBJECTS.items():
            with formatter.section(subject):
                formatter.write_dl([(name.ljust(longest), text) for name, text in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, without loading any of them, and the options."""
        from click.shell_completion import CompletionItem

        items = []
        for name, text in COMMANDS.items():
            if name.startswith(incomplete):
                items.append(CompletionItem(name, help=translate(text)))
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Ctrl-C, SIGTERM and SIGHUP unwind it and set the exit status."""
        with stop_requests(_print_message):
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise RunInterrupted("stopped on request (SIGINT)") from None


EXIT_STATUSES = (
    "Exit status: 0 success; 1 failure; 2 the request is refused (bad input, no root, no such "
    "run); 75 another command uses the host, so try again later; 70 a bug in vtax; 130 stopped by "
    "Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. vtax shell returns the status of its shell. A gate "
    "(vtax run --check, vtax compare --fail-if) exits with 1 if something is slower or costs more, "
    "and with 3 if noise hides what --detect asks for, or if something is undecided with --strict."
)
BUG = os.EX_SOFTWARE
_STOPPED = [128 + number for number in (SIGHUP, SIGINT, SIGTERM)]
_HOST_ERRORS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space on that disk"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), "run it again with sudo, or as the owner of that file"
    ),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN),
        "stop other programs, or raise that limit",
    ),
    **dict.fromkeys((errno.EIO, errno.EROFS, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP), ""),
}
_DRAIN_TIMEOUT_S = 1.0  # after a request to stop: how long the last lines may wait for their reader


@click.group(
    cls=LazyGroup,
    epilog=EXIT_STATUSES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="vtax")
@click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_add_plugins,
    help="Use the platform, benchmark, topology or view in this Python file too (repeatable).",
)
def group() -> None:
    """Measure what a virtualization layer costs, on this machine.

    Start with `vtax doctor`, then `vtax run tour`.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Entry point: run a command and exit with its status.

    Errors that a user can fix are printed without a traceback. A bug of vtax is written to a report file.
    """
    gc.set_threshold(
        100_000, 50, 100
    )  # results are many small objects that stay; saves 3 % of `show`
    _open_standard_streams()
    if COMPLETE_VARIABLE in os.environ:
        complete(group)
    with standard_streams(), _thread_exceptions() as bugs:
        status = _status(arguments)
        if bugs and status in (0, None):
            status = BUG
        try:
            drain(_DRAIN_TIMEOUT_S if status in _STOPPED else None)
        except KeyboardInterrupt:
            status = 128 + SIGINT
    sys.exit(status)


def _status(arguments: list[str] | None) -> Any:
    """Run a command and return its exit status."""
    try:
        returned = group.main(args=arguments, prog_name="vtax", standalone_mode=False)
        return returned if isinstance(returned, int) else 0
    except SystemExit as end:
        return end.code
    except (VtaxError, RunInterrupted) as error:
        return _print_error(error, error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show(sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        from vtax.cli.usage import usage_error

        return _print_error(usage_error(error), error.exit_code)
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            return 128 + SIGINT
        _print_message("")  # the prompt's line ends
        return _print_error("stdin ended before the prompt was answered", 1)
    except KeyboardInterrupt:
        return 128 + SIGINT
    except BrokenPipeError:
        discard(1)
        return 1
    except OSError as error:
        if error.errno not in _HOST_ERRORS:
            return _report_bug(error)
        return _print_error(
            VtaxError(
                os.strerror(error.errno),
                where=str(error.filename or ""),
                hint=_HOST_ERRORS[error.errno],
            ),
            1,
        )
    except BaseException as error:  # an extension's panic is no Exception
        if isinstance(error, ModuleNotFoundError):
            from vtax.extras import missing_extra

            missing = missing_extra(error)
            if missing:
                return _print_error(missing, missing.exit_status)
        return _report_bug(error)


def _print_error(error: object, status: int) -> int:
    from vtax.cli.output import notify

    notify(f"vtax: {error}")
    return status


def _report_bug(error: BaseException) -> int:
    from vtax.cli.bugs import report

    return _print_error(report(error), BUG)


@contextmanager
def _thread_exceptions() -> Iterator[list[int]]:
    """Within the block, uncaught exceptions of threads and finalizers are reported as bugs."""
    bugs: list[int] = []

    def failed(what: Any) -> None:
        if what.exc_value is not None and not isinstance(what.exc_value, SystemExit):
            bugs.append(_report_bug(what.exc_value))

    before = threading.excepthook, sys.unraisablehook
    threading.excepthook = sys.unraisablehook = failed
    try:
        yield bugs
    finally:
        threading.excepthook, sys.unraisablehook = before


def _print_message(text: str) -> None:
    with suppress(
        OSError, RuntimeError
    ):  # RuntimeError: a request to stop came in the middle of a write
        click.echo(text, err=True)


def _open_standard_streams() -> None:
    """Open /dev/null for a closed stdin, stdout or stderr, so that no other file gets its number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r"))


if __name__ == "__main__":
    main()
