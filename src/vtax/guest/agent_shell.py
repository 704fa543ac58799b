"""A terminal in the guest, for `vtax shell`. Sent to the agent by `extend` when asked for; runs in its module.

The controller asks again and again: each request brings what was typed and takes what the shell wrote, so that the
stream stays one of requests and answers.
"""

from __future__ import annotations

import posix as os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vtax.guest.agent import CHUNK, JOBS, REQUESTS, Job, find_program

TIOCSWINSZ = 0x5414  # tty_ioctl(4)
END_WAIT_S = 5.0  # between the closing of a shell's terminal and its end


class Shell(Job):
    """A program on a pseudo-terminal instead of pipes; it is reaped, and killed at the end, like every other."""

    def __init__(
        self, argv: list[str], environment: dict[str, str], rows: int, columns: int
    ) -> None:
        import fcntl

        self.outputs, self.status = {}, None
        self.master, slave = os.openpty()
        size = b"".join(n.to_bytes(2, "little") for n in (rows, columns, 0, 0))
        fcntl.ioctl(self.master, TIOCSWINSZ, size)
        name = os.ttyname(slave)
        os.close(slave)
        self.started_at = time.monotonic()
        self.pid = os.posix_spawn(
            find_program(argv[0], environment["PATH"]),
            argv,
            environment,
            file_actions=[
                (
                    os.POSIX_SPAWN_OPEN,
                    0,
                    name,
                    os.O_RDWR,
                    0,
                ),  # a session leader's first terminal becomes its own
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
                (os.POSIX_SPAWN_CLOSE, self.master),
            ],
            setsid=True,
        )


SHELLS: list[Shell] = []


def shell_open(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Start a program as the session of a new pseudo-terminal of the given size."""
    shell = Shell(
        requested["argv"], requested["environment"], requested["rows"], requested["columns"]
    )
    JOBS[max(JOBS, default=0) + 1] = shell
    SHELLS[:] = [shell]
    return {}


def shell_talk(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Type the payload, wait up to wait_s for the shell to write, and answer what it wrote.

    `status` is null while it runs, and then its exit status, or minus the signal that ended it.
    """
    (shell,) = SHELLS
    view = memoryview(payload)
    try:
        while view:
            view = view[os.write(shell.master, view) :]
        if not select.select([shell.master], [], [], requested["wait_s"])[0]:
            return {"status": None}, b""
        output = os.read(shell.master, CHUNK)
    except OSError:  # EIO: nobody holds the other end any more
        output = b""
    if output:
        return {"status": None}, output
    os.close(shell.master)
    shell.wait(END_WAIT_S)
    return {"status": os.waitstatus_to_exitcode(shell.status or 0)}, b""


REQUESTS.update(shell_open=shell_open, shell_talk=shell_talk)
