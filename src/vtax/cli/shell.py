"""`vtax shell`: opens a shell in a fresh guest."""

from __future__ import annotations

import os
import secrets
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from vtax.cli.completion import platform_names
from vtax.cli.measure import prepare_host
from vtax.cli.output import built_image, need_root
from vtax.cli.shared_options import trust_option
from vtax.cli.trust import consented
from vtax.errors import BadInput
from vtax.guest.guest import Guest
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.platforms.registry import get
from vtax.runner.check import check_host
from vtax.runner.plan import split_cpus
from vtax.units import size_bytes

_READY_S = 120.0
ANSWER_WAIT_S = 0.03  # how long one exchange waits for output of the shell
END_OF_INPUT = b"\x04"
SIGNAL_STATUS_BASE = (
    128  # added to the signal number: the exit status of a shell killed by a signal
)


@click.command("shell")
@click.argument("platform", shell_complete=platform_names)
@trust_option
@click.option(
    "--vcpus",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Give the guest this many virtual CPUs.",
)
@click.option(
    "--memory",
    default="512MiB",
    show_default=True,
    metavar="SIZE",
    help="Limit the memory of the guest to this, e.g. 2GiB.",
)
def command(platform: str, trust: bool, vcpus: int, memory: str) -> None:
    """Open a shell in a fresh guest of PLATFORM. Exit with the shell's status; the guest is stopped."""
    need_root("starting a guest")
    platform_ = get(platform)
    try:
        memory_bytes = size_bytes(memory)
    except ValueError as error:
        raise BadInput(str(error), where="--memory") from error
    home = Home.from_environment().ensure()
    consented(home, platform_.host_programs, platform, trust=trust)
    check_host(vcpus, memory_bytes, "--vcpus, --memory", [platform_])
    with measuring_lock(f"vtax shell {platform}"):
        prepare_host(home)
        image = built_image(home)
        probe = platform_.probe(image)
        if not probe.available:
            raise BadInput(f"{platform} does not run here: {probe.reason}", hint=probe.hint)
        status = _in_guest(platform_, image, home, vcpus, memory_bytes)
    sys.exit(status if status >= 0 else SIGNAL_STATUS_BASE - status)


def _in_guest(platform: Platform, image: Image, home: Home, vcpus: int, memory_bytes: int) -> int:
    """Start a guest, run an interactive shell in it, stop it; the shell's exit status, or minus its signal."""
    name = f"vtax-{secrets.token_hex(3)}"
    directory = Path(home.guests, name)
    with Journal(home.journal) as journal:
        journal.register(Tree(str(directory)))
        directory.mkdir(parents=True)
        resources = Resources(vcpus, memory_bytes, split_cpus(vcpus)[0])
        running_guest = platform.start(GuestSpec(name, image, resources, directory, journal))
        try:
            guest = Guest(running_guest.channel)
            guest.hello(timeout_s=_READY_S * timeout_factor())
            return _relay_terminal(guest, platform.name)
        finally:
            running_guest.stop()


def _relay_terminal(guest: Guest, platform: str) -> int:
    """Relay the terminal to a shell in the guest until the shell ends; its exit status, or minus its signal."""
    rows, columns = 24, 80
    if sys.stdin.isatty():
        columns, rows = os.get_terminal_size(sys.stdin.fileno())
    environment = {"PS1": f"{platform}# ", "TERM": os.environ.get("TERM", "dumb"), "HOME": "/root"}
    guest.open_shell(["/bin/sh", "-i"], environment=environment, rows=rows, columns=columns)
    with _raw_terminal():
        status, listening = None, True
        while status is None:
            keystrokes = b""
            if listening and select.select([sys.stdin], [], [], 0)[0]:
                keystrokes = os.read(sys.stdin.fileno(), 4096)
                listening = bool(keystrokes)
                keystrokes = keystrokes or END_OF_INPUT
            output, status = guest.talk(keystrokes, wait_s=ANSWER_WAIT_S)
            os.write(sys.stdout.fileno(), output)
    return status


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Yield the terminal in raw mode while the block runs, when stdin is one."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin.fileno())
    try:
        tty.setraw(sys.stdin.fileno())
        yield
    finally:
        with suppress(termios.error):  # a terminal that has hung up
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
