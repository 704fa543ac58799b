"""The byte stream to a guest of User Mode Linux: a virtual serial line that must never be filled.

A serial line of its kernel that was once throttled, which happens when more than 4 kB wait to be read, receives no
more (7.2: `line_throttle` takes the descriptor off the interrupt and nothing puts it back). So what is sent into
the guest is sent in pieces; a process beside the agent takes each off the line, hands it on through a pipe, and says
on a second line how many bytes it took. Out of the guest the agent writes to the line itself.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from contextlib import ExitStack

from vtax.guest import bootstrap
from vtax.guest.channel import Channel

LINES = ("/dev/ttyS0", "/dev/ttyS1")
_PIECE = 3072
_COUNT_BYTES = 2

_CODE = (
    "import os,sys,tty\n"
    "line,counts=(os.open(p,os.O_RDWR|os.O_NOCTTY) for p in sys.argv[1:3])\n"
    "tty.setraw(line)\n"
    "tty.setraw(counts)\n"
    "r,w=os.pipe()\n"
    "if os.fork()==0:\n"
    " os.setsid()\n"
    " os.close(r)\n"
    " try:\n"
    "  while b:=os.read(line,4096):\n"
    f"   os.write(counts,len(b).to_bytes({_COUNT_BYTES},'little'))\n"
    "   while b:b=b[os.write(w,b):]\n"
    " finally:os._exit(0)\n"
    "for a,b in (r,0),(line,1):os.dup2(a,b)\n"
    "for fd in r,w,line,counts:os.close(fd)\n"
    "del sys.argv[1:3]\n"
    "exec(sys.argv.pop(1))"
)
"""Run in the guest with the two lines, the agent's bootstrap and its stream (standard input and output)."""


def argv() -> list[str]:
    """The command that becomes the agent in the guest."""
    *interpreter, code, stream = bootstrap.argv("-")
    return [*interpreter, _CODE, *LINES, code, stream]


class Stream:
    """The host's side of both lines. child_fds: descriptors that the kernel inherits, one for each line."""

    def __init__(self, fds: ExitStack) -> None:
        pairs = [socket.socketpair() for _ in LINES]
        self._parent_ends = [fds.enter_context(parent_end) for parent_end, _ in pairs]
        self.child_fds = tuple(fds.enter_context(child_fds).fileno() for _, child_fds in pairs)

    def channel(self, diagnose: Callable[[], str]) -> Channel:
        """The channel, which owns our descriptors from now on."""
        line, counts = (parent_end.detach() for parent_end in self._parent_ends)
        return _PacedChannel(line, counts, diagnose)


class _PacedChannel(Channel):
    """A channel that sends a piece only when the one before it was taken."""

    def __init__(self, line: int, counts: int, diagnose: Callable[[], str]) -> None:
        super().__init__(line, line, diagnose)
        os.set_blocking(counts, False)
        self._counts = counts

    def write(self, data: bytes, deadline: float) -> None:
        """See Channel.write."""
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            super().write(piece, deadline)
            self._await_taken(len(piece), deadline)

    def close(self) -> None:
        """See Channel.close."""
        if not self._closed:
            os.close(self._counts)
        super().close()

    def _await_taken(self, size: int, deadline: float) -> None:
        count = b""
        while size > 0:
            try:
                part = os.read(self._counts, _COUNT_BYTES - len(count))
            except BlockingIOError:
                self._wait(self._counts, select.POLLIN, deadline)
                continue
            except OSError:
                part = b""
            if not part:
                raise self.broken("the guest closed its channel")
            count += part
            if len(count) == _COUNT_BYTES:
                size -= int.from_bytes(count, "little")
                count = b""
