"""A terminal in the guest, for `vtax shell`. Sent to the agent by `extend` when asked for; runs in its module.

The controller asks again and again: each request brings what was typed and takes what the shell wrote, so that the
stream stays one of requests and answers.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vtax.guest.agent import CHUNK, REQUESTS, find_program

TIOCSWINSZ = 0x5414  # tty_ioctl(4)
TERMINAL: list[int] = []


def shell_open(asked: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Start a program as the session of a new pseudo-terminal of the given size."""
    import fcntl

    master, slave = os.openpty()
    size = b"".join(n.to_bytes(2, "little") for n in (asked["rows"], asked["columns"], 0, 0))
    fcntl.ioctl(master, TIOCSWINSZ, size)
    name = os.ttyname(slave)
    os.close(slave)
    os.posix_spawn(
        find_program(asked["argv"][0], asked["environment"]["PATH"]),
        asked["argv"],
        asked["environment"],
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, name, os.O_RDWR, 0),  # a session leader's first terminal becomes its own
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
            (os.POSIX_SPAWN_CLOSE, master),
        ],
        setsid=True,
    )
    TERMINAL[:] = [master]
    return {}


def shell_talk(asked: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Type the payload, wait up to wait_s for the shell to write, and answer what it wrote."""
    (master,) = TERMINAL
    view = memoryview(payload)
    try:
        while view:
            view = view[os.write(master, view) :]
        if not select.select([master], [], [], asked["wait_s"])[0]:
            return {"running": True}, b""
        written = os.read(master, CHUNK)
    except OSError:  # EIO: nobody holds the other end any more
        written = b""
    if not written:
        os.close(master)
    return {"running": bool(written)}, written


REQUESTS.update(shell_open=shell_open, shell_talk=shell_talk)
