"""Program of a neighbour that loads one resource; it is sent there as a file and needs nothing of vtax.

    neighbour_load.py READY cpu|memory WORKERS BYTES      loops of arithmetic; copies between two arrays of BYTES
    neighbour_load.py READY disk DIRECTORY BYTES          writes through a file of BYTES, 4 MiB at a time, to the disk
    neighbour_load.py READY network ADDRESS PORT          sends over TCP as fast as it can
    neighbour_load.py READY sink PORT                     receives what is sent

It makes the file READY when it loads, runs until SIGTERM, and then prints what it did: loops or bytes.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable

CHUNK = 4 << 20
Step = Callable[[], int]
"""Does a part of the work, and returns how much that was."""


class Loading:
    """Steps until SIGTERM. done: what they did."""

    def __init__(self, ready: str, step: Step) -> None:
        self.ready = ready
        self.running = True
        self.done = 0
        signal.signal(signal.SIGTERM, self.end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self.step = step

    def end(self, *_: object) -> None:
        """End after the step that runs."""
        self.running = False

    def run(self) -> int:
        """Run steps until SIGTERM, at least one; returns what they did."""
        self.done += self.step()
        os.close(os.open(self.ready, os.O_CREAT | os.O_WRONLY, 0o600))
        while self.running:
            self.done += self.step()
        return self.done


def in_processes(ready: str, workers: int, make: Callable[[], Step]) -> int:
    """Run steps in so many processes until SIGTERM; returns the sum of what they did."""
    read, write = os.pipe()
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            os.write(write, b"%d\n" % Loading(ready, make()).run())
            os._exit(0)
        children.append(child)
    os.close(write)
    signal.sigwait({signal.SIGTERM})
    for child in children:
        os.kill(child, signal.SIGTERM)
    with os.fdopen(read) as answers:
        return sum(map(int, answers))


def computing() -> Step:
    """Return a step of some milliseconds of arithmetic."""

    def compute() -> int:
        sum(range(100_000))
        return 1

    return compute


def copying(size: int) -> Step:
    """Return a step that copies one array of `size` bytes to another."""
    source, target = bytearray(os.urandom(1 << 16) * (size >> 16)), bytearray(size >> 16 << 16)

    def copy() -> int:
        target[:] = source
        return len(source)

    return copy


def writing(directory: str, size: int) -> Step:
    """Return a step that writes the next part of a file of `size` bytes, which ends with its guest."""
    file = os.open(directory + "/vtax-neighbour", os.O_WRONLY | os.O_CREAT, 0o600)
    data = os.urandom(CHUNK)
    written = 0

    def write() -> int:
        nonlocal written
        os.pwrite(file, data, written % size)
        os.fdatasync(file)
        written += CHUNK
        return CHUNK

    return write


def sending(address: str, port: int) -> Step:
    """Return a step that sends a chunk to the sink."""
    connection = socket.create_connection((address, port), 30)
    connection.settimeout(None)
    data = bytes(CHUNK)

    def send() -> int:
        connection.sendall(data)
        return CHUNK

    return send


def sink(port: int) -> None:
    """Receive from the only client until it is gone."""
    with socket.create_server(("", port)) as listener:
        connection, _ = listener.accept()
    space = bytearray(CHUNK)
    while connection.recv_into(space):
        pass


def main(ready: str, kind: str, *rest: str) -> None:
    """Load until SIGTERM."""
    if kind == "sink":
        sink(int(rest[0]))
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if kind == "cpu":
        print(in_processes(ready, int(rest[0]), computing))
    elif kind == "memory":
        print(in_processes(ready, int(rest[0]), lambda: copying(int(rest[1]))))
    elif kind == "disk":
        print(Loading(ready, writing(rest[0], int(rest[1]))).run())
    else:
        print(Loading(ready, sending(rest[0], int(rest[1]))).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
