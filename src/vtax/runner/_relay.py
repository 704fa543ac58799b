"""Relay between ssh's standard streams and a guest on another machine. It travels as text and needs only Python.

The half of the topology there hands over the guest's stream by a socket, so that nothing of vtax lies between.
"""

import os
import select
import socket
import sys


def relay(path: str) -> None:
    """Take the guest's stream from a socket and pass bytes both ways until either side ends."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        _, (guest_out, guest_in), _, _ = socket.recv_fds(connection, 1, 2)
    ways = {0: guest_in, guest_out: 1}
    poll = select.poll()
    for source in ways:
        poll.register(source, select.POLLIN)
    while True:
        for source, _ in poll.poll():
            try:
                data = os.read(source, 1 << 16)
            except BlockingIOError:
                continue
            if not data:
                return
            _write(ways[source], data)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:  # the guest's streams do not block
            select.select([], [target], [])


if __name__ == "__main__":
    try:
        relay(sys.argv[1])
    except OSError as error:
        sys.exit(f"vtax: {error}")
